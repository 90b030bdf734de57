/* Public structs of callers that know fewer fields than this library, none of a size, or too many. */
#include "inputs.h"
#include "models.h"

#include "base/versioned.h"

enum { T = 6, D = 4 };

static ll_view view(float *x) { return (ll_view){x, T * D, T * D, D}; }

static ll_attention_config linear(void) {
    return (ll_attention_config){
        .kernel = LL_KERNEL_ELU1, .causal = 1, .H = 1, .D = D, .E = D, .input_scale = 1, .den = LL_DEN_SUM};
}

/* A forward pass with these structs. */
static ll_status forward(float *y, const ll_attention_config *config, ll_attention_call call) {
    static float x[T * D];
    ll_attention *op = NULL;
    for (int i = 0; i < T * D; i++) x[i] = (float)(i % 7) / 7;
    call.B = 1, call.T = call.S = T;
    call.q = call.k = call.v = view(x), call.y = view(y);
    ll_status status = ll_attention_create(&op, config);
    if (!status) status = ll_attention_forward(op, &call);
    ll_attention_free(op);
    return status;
}

static void attention_config(void **state) {
    (void)state;
    float whole[T * D], y[T * D];
    ll_attention_config c = linear();
    CHECK_OK(forward(whole, &c, (ll_attention_call){0}));
    c.struct_size = sizeof c;
    CHECK_OK(forward(y, &c, (ll_attention_call){0}));
    assert_memory_equal(y, whole, sizeof y);
    c.struct_size = offsetof(ll_attention_config, decay); /* and what follows is not the library's */
    c.decay = (const float *)(uintptr_t)16;
    CHECK_OK(forward(y, &c, (ll_attention_call){0}));
    assert_memory_equal(y, whole, sizeof y);
    c.struct_size = sizeof c + 8;
    CHECK_FAILS(forward(y, &c, (ll_attention_call){0}), LL_EINVAL, "set it to sizeof(ll_attention_config)");
    c.struct_size = 3;
    CHECK_FAILS(forward(y, &c, (ll_attention_call){0}), LL_EINVAL, "struct_size of ll_attention_config is 3");
    c.struct_size = sizeof(ll_attention_config *);
    CHECK_FAILS(forward(y, &c, (ll_attention_call){0}), LL_EINVAL, "struct_size of ll_attention_config is 8");
}

static void attention_call(void **state) {
    (void)state;
    float whole[T * D], y[T * D];
    const ll_attention_config c = linear();
    CHECK_OK(forward(whole, &c, (ll_attention_call){0}));
    ll_attention_call call = {.struct_size = sizeof call};
    CHECK_OK(forward(y, &c, call));
    assert_memory_equal(y, whole, sizeof y);
    call.struct_size = offsetof(ll_attention_call, scratch);
    call.scratch = (float *)(uintptr_t)16, call.scratch_floats = 1, call.threads = -5;
    CHECK_OK(forward(y, &c, call));
    assert_memory_equal(y, whole, sizeof y);
    call.struct_size = sizeof call + 1;
    CHECK_FAILS(forward(y, &c, call), LL_EINVAL, "set it to sizeof(ll_attention_call)");
    ll_attention *op = NULL;
    CHECK_OK(ll_attention_create(&op, &c));
    assert_int_equal(ll_attention_scratch(op, &call, 0), 0);
    assert_int_equal(ll_attention_saved(op, &call), 0);
    call = (ll_attention_call){.B = 1, .T = T, .S = T};
    const size_t saved = ll_attention_saved(op, &call), scratch = ll_attention_scratch(op, &call, 1);
    call.struct_size = offsetof(ll_attention_call, dposition);
    assert_int_equal(ll_attention_saved(op, &call), saved);
    assert_int_equal(ll_attention_scratch(op, &call, 1), scratch);
    ll_attention_free(op);
}

/* What the library sets in its copy of an older call or config reaches operators that are made of others. rope-linear
 * sets where the states of its parts lie, and the divisor of its parts. */
static void inner_calls(void **state) {
    (void)state;
    enum { B = 2, FLOATS = 200 };
    float x[B * T * D], y[3][B * T * D], states[3][B * FLOATS] = {0};
    const size_t older[3] = {0, offsetof(ll_attention_call, state_row), 0};
    for (int i = 0; i < B * T * D; i++) x[i] = (float)(i % 7) / 7;
    for (int i = 0; i < 3; i++) {
        ll_attention_config c = linear();
        ll_attention *op = NULL;
        size_t floats;
        c.position = LL_POSITION_ROPE_LINEAR;
        c.struct_size = i == 2 ? offsetof(ll_attention_config, query_max) : 0;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_state_floats(op, &floats));
        assert_true(floats <= FLOATS);
        ll_attention_call call = {.struct_size = older[i], .B = B, .T = T, .S = T, .state_out = states[i]};
        call.q = call.k = call.v = view(x), call.y = view(y[i]);
        CHECK_OK(ll_attention_forward(op, &call));
        ll_attention_free(op);
    }
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(states[i], states[0], sizeof states[0]);
        assert_memory_equal(y[i], y[0], sizeof y[0]);
    }
}

static void input_options(void **state) {
    (void)state;
    const char *path = put("lines", "one\ntwo\n", 8);
    ll_input *in = NULL;
    ll_input_options how = {.struct_size = offsetof(ll_input_options, grid), .grid = 77, .channels = 2};
    CHECK_OK(ll_input_open(&in, &path, 1, &how));
    ll_input_close(in);
    how.struct_size = sizeof how;
    CHECK_FAILS(ll_input_open(&in, &path, 1, &how), LL_EINVAL, "positions, not 77");
    how.struct_size = 1000;
    CHECK_FAILS(ll_input_open(&in, &path, 1, &how), LL_EINVAL, "struct_size of ll_input_options is 1000");
}

static void sampling(void **state) {
    (void)state;
    ll_sampling how = ll_sampling_default();
    assert_int_equal(how.struct_size, sizeof how);
    int tokens[3][20];
    for (int kind = 0; kind < 3; kind++) {
        how.struct_size = (const size_t[]){sizeof how, 0, offsetof(ll_sampling, seed)}[kind];
        how.seed = kind == 2 ? 99 : 0; /* not among the fields of the last kind: 0 */
        for (int i = 0; i < 20; i++) {
            float logits[5] = {0.1f, 0.4f, 0.2f, 0, 0.3f};
            tokens[kind][i] = ll_sample(logits, 5, &how, i);
        }
        assert_memory_equal(tokens[kind], tokens[0], sizeof tokens[0]);
    }
}

static void batch_and_loss(void **state) {
    (void)state;
    ll_model *model = tiny_model("model.vocab=11 train.length=8");
    const int tokens[] = {1, 2, 3, 4}, targets[] = {2, 3, 4, 5};
    ll_memory_batch batch = {.B = 1, .T = 4, .tokens = tokens, .targets = targets};
    ll_loss whole = {0}, part;
    memset(&part, 0x5a, sizeof part);
    part.struct_size = offsetof(ll_loss, count);
    CHECK_OK(ll_model_loss(model, &batch, NULL, &whole));
    assert_int_equal(whole.struct_size, 0);
    assert_int_equal(whole.count, 4);
    batch.struct_size = offsetof(ll_memory_batch, S);
    CHECK_OK(ll_model_loss(model, &batch, NULL, &part));
    assert_true(part.loss == whole.loss && part.accuracy == whole.accuracy);
    for (size_t i = part.struct_size; i < sizeof part; i++) assert_int_equal(((unsigned char *)&part)[i], 0x5a);
    part.struct_size = sizeof part + 8;
    CHECK_FAILS(ll_model_loss(model, &batch, NULL, &part), LL_EINVAL, "struct_size of ll_loss");
    ll_model_free(model);
}

static void evaluation(void **state) {
    (void)state;
    ll_model *model = tiny_model("model.vocab=256 train.length=16 train.batch=2 data.format=demo");
    ll_evaluation whole = {0}, part;
    memset(&part, 0x5a, sizeof part);
    part.struct_size = offsetof(ll_evaluation, seconds);
    CHECK_OK(ll_evaluate(model, "valid", 2, &whole));
    assert_int_equal(whole.struct_size, 0);
    assert_true(whole.count > 0 && whole.loss > 0);
    CHECK_OK(ll_evaluate(model, "valid", 2, &part));
    assert_true(part.loss == whole.loss && part.count == whole.count);
    for (size_t i = part.struct_size; i < sizeof part; i++) assert_int_equal(((unsigned char *)&part)[i], 0x5a);
    part.struct_size = (size_t)-1;
    CHECK_FAILS(ll_evaluate(model, "valid", 2, &part), LL_EINVAL, "or clear the struct");
    ll_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_config), cmocka_unit_test(attention_call), cmocka_unit_test(input_options),
        cmocka_unit_test(inner_calls),      cmocka_unit_test(sampling),       cmocka_unit_test(batch_and_loss),
        cmocka_unit_test(evaluation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
