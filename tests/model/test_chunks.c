/* train.chunk: a sequence in chunks has the loss and the gradient of the whole sequence, in memory that grows with the
 * length only by states of constant size. */
#include "models.h"

#include "base/memory.h"
#include "model/network.h"

enum { B = 2, T = 23, CHUNK = 6, WINDOWS = 2 };

static const char *const kinds[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed model.dropout=0.2",
    "attention.kernel=gla position.type=rope model.activation=swiglu",
    "attention.kernel=favor position.type=rope-linear model.norm=post model.dropout=0.1",
    "attention.kernel=favor position.type=sine-spe position.realizations=6 position.sines=2",
    "attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3",
    "attention.kernel=elu1 position.type=sinusoidal model.norm=parallel",
    "attention.kernel=value position.type=sinusoidal",
    "attention.kernel=local attention.window=5 position.type=rope",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=4 attention.rounds=2 position.type=none",
    "attention.kernel=relu position.type=relative-s2 position.clip=3",
    "attention.kernel=relu train.recompute=on model.layers=3",
    /* documents within a row: token 10 begins one */
    "model.separator=10 attention.kernel=gla position.type=rope model.dropout=0.2",
    "model.separator=10 attention.kernel=favor position.type=rope-linear",
    "model.separator=10 attention.kernel=elu1 position.type=sinusoidal",
    "model.separator=10 attention.kernel=local attention.window=5 position.type=rope",
    "model.separator=10 attention.kernel=relu position.type=relative-s2 position.clip=3",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct {
    int tokens[WINDOWS][B * T], targets[WINDOWS][B * T], lengths[B];
} text;

/* Row 1 is shorter. It ends in its last chunk but one. */
static void make_text(text *x) {
    const int length[B] = {T, T - CHUNK - 2};
    for (int w = 0; w < WINDOWS; w++) {
        random_ints(x->tokens[w], B * T, 11, 0, 4 + (uint64_t)w);
        random_ints(x->targets[w], B * T, 11, 0, 40 + (uint64_t)w);
        x->targets[w][3] = -1;
        for (int t = length[1]; t < T; t++) x->targets[w][T + t] = -1;
        x->tokens[w][CHUNK] = 10; /* begins a chunk */
    }
    memcpy(x->lengths, length, sizeof length);
}

typedef struct {
    float *grad;
    float each[B * T];
    double loss;
    size_t size;
} outcome;

/* The second of two windows. carried: its states come from the first one. */
static outcome step(const char *keys, int chunk, int carried, int training) {
    char all[400];
    text x;
    ll_workspace *ws = NULL;
    ll_carry *carry = NULL;
    snprintf(all, sizeof all, "%s train.chunk=%d%s", keys, chunk, carried ? " train.carry-state=on" : "");
    ll_model *m = tiny_model(all);
    outcome o = {.grad = calloc(m->size, sizeof *o.grad), .size = m->size};
    make_text(&x);
    CHECK_OK(ll_workspace_create(&ws, m, B, T, training));
    if (carried) CHECK_OK(ll_carry_create(&carry, m, B, T, 1));
    for (int w = 0; w < WINDOWS; w++) {
        const int64_t before[B] = {w * x.lengths[0], w * x.lengths[1]};
        const ll_batch in = {.B = B, .T = T, .tokens = x.tokens[w], .targets = x.targets[w], .lengths = x.lengths};
        ll_tally tally = {.each = o.each};
        memset(o.grad, 0, m->size * sizeof *o.grad);
        if (carry) ll_carry_begin(carry, &in, before);
        ll_workspace_carry(ws, carry);
        CHECK_OK(ll_model_run(m, ws, &in, training ? o.grad : NULL, 0.5f, 5 + w, &tally));
        ll_workspace_carry(ws, NULL);
        if (carry) ll_carry_advance(carry, &in);
        o.loss = tally.loss;
    }
    ll_carry_free(carry);
    ll_workspace_free(ws);
    ll_model_free(m);
    return o;
}

static void check_equal(const char *keys, int chunk, int carried, int training) {
    const outcome whole = step(keys, 0, carried, training), parts = step(keys, chunk, carried, training);
    double most = 0;
    if (!(fabs(parts.loss - whole.loss) <= 1e-5 * whole.loss))
        fail_msg("{%s} chunks of %d: loss %.9g, and %.9g of the whole", keys, chunk, parts.loss, whole.loss);
    for (size_t i = 0; i < whole.size; i++) most = fmax(most, fabs((double)whole.grad[i]));
    assert_true(!training || most > 1e-3);
    for (size_t i = 0; i < whole.size; i++)
        if (!(fabs((double)parts.grad[i] - (double)whole.grad[i]) <= 3e-5 * most))
            fail_msg("{%s} chunks of %d: gradient %zu is %.9g, and %.9g of the whole; the largest is %g", keys, chunk,
                     i, (double)parts.grad[i], (double)whole.grad[i], most);
    for (int i = 0; i < B * T; i++)
        if (!(fabs((double)parts.each[i] - (double)whole.each[i]) <= 1e-4))
            fail_msg("{%s} chunks of %d: loss %d is %.9g, and %.9g", keys, chunk, i, (double)parts.each[i],
                     (double)whole.each[i]);
    free(whole.grad), free(parts.grad);
}

static void test_gradient_of_the_whole(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        check_equal(kinds[i], CHUNK, 0, 1);
        check_equal(kinds[i], 1, 0, 1);
        check_equal(kinds[i], T, 0, 1);
    }
}

static void test_evaluation(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) check_equal(kinds[i], CHUNK, 0, 0);
}

static void test_with_states_of_windows(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) check_equal(kinds[i], CHUNK, 1, 1);
}

/* Twice the length needs the states of twice as many chunks, where each begins, and nothing else. */
static void test_bytes(void **state) {
    (void)state;
    enum { LONG = 1 << 16, PART = 1 << 10 };
    size_t bytes[3], floats = 0;
    int layers = 0;
    for (int i = 0; i < 3; i++) {
        ll_workspace *ws = NULL;
        size_t measured = 0;
        ll_model *m = tiny_model("attention.kernel=relu train.chunk=1024");
        CHECK_OK(ll_workspace_create(&ws, m, 1, LONG << i, 1));
        CHECK_OK(ll_workspace_measure(&measured, m, 1, LONG << i, 1, 1));
        CHECK_OK(ll_attention_state_floats(m->attention[0], &floats));
        bytes[i] = ll_workspace_bytes(ws);
        assert_int_equal(measured, bytes[i]);
        layers = m->operators;
        ll_workspace_free(ws);
        CHECK_OK(ll_workspace_create(&ws, m, 1, LONG << i, 0));
        CHECK_OK(ll_workspace_measure(&measured, m, 1, LONG << i, 0, 1));
        assert_int_equal(measured, ll_workspace_bytes(ws));
        ll_workspace_free(ws);
        ll_model_free(m);
    }
    const size_t chunk_bytes = (size_t)layers * floats * sizeof(float) + sizeof(int64_t);
    assert_int_equal(bytes[1] - bytes[0], LONG / PART * chunk_bytes);
    assert_int_equal(bytes[2] - bytes[1], 2 * LONG / PART * chunk_bytes);
}

/* Whichever allocation is refused, nothing is half made. */
static ll_model *refused_model;
static ll_status make(void) {
    ll_workspace *ws = NULL;
    const ll_status status = ll_workspace_create(&ws, refused_model, B, T, 1);
    assert_true(!status == !!ws);
    ll_workspace_free(ws);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    refused_model = tiny_model("attention.kernel=relu train.chunk=6");
    assert_in_range(check_refused_memory(make), 5, 98);
    ll_model_free(refused_model);
}

static void check_refused(const char *keys, const char *sentence) {
    char all[200];
    ll_model *m = NULL;
    snprintf(all, sizeof all, "%s train.chunk=4", keys);
    ll_recipe *recipe = tiny_recipe(all);
    assert_int_equal(ll_model_create(&m, recipe), LL_EINVAL);
    if (!strstr(ll_error(), sentence)) fail_msg("{%s}: %s", keys, ll_error());
    ll_recipe_free(recipe);
}

static void test_refused(void **state) {
    (void)state;
    check_refused("attention.kernel=softmax", "train.chunk = 4 needs a state of constant size");
    check_refused("model.task=mlm attention.kernel=relu", "only model.task = lm has; set it to 0");
    check_refused("attention.kernel=relu position.type=learned", "train.chunk = 4 has no limit of length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_of_the_whole),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_with_states_of_windows),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
