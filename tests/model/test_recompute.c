/* train.recompute: computing blocks again in backward gives the same bits as keeping them, in less memory. Also,
 * backward reports block by block that gradients are complete. */
#include "seq2seq.h"

#include "model/network.h"

static const char *const single[] = {
    "model.layers=3 attention.kernel=softmax",
    "model.layers=3 attention.kernel=softmax position.type=t5 model.norm=post model.dropout=0.2",
    "model.layers=3 attention.kernel=favor position.type=permute position.decay=fixed model.norm=parallel "
    "model.dropout=0.2",
    "model.layers=3 attention.kernel=favor position.type=sine-spe position.realizations=6 position.sines=2",
    "model.layers=3 attention.kernel=gla model.activation=swiglu",
    "model.layers=3 attention.kernel=relu position.type=rope model.separator=3",
    "model.layers=3 attention.kernel=softmax model.kv-heads=1 model.norm-kind=rms",
    "model.layers=3 attention.kernel=relu position.type=relative-s2 position.clip=3",
    "model.layers=3 attention.kernel=reformer model.task=mlm attention.buckets=4 attention.chunk=4",
    "model.layers=3 attention.kernel=linformer model.task=classify model.classes=11 attention.projected-length=3 "
    "attention.max-length=12 model.pool=first",
    "model.layers=3 attention.kernel=elu1 model.task=mlm model.norm=post model.dropout=0.3",
};
enum { SINGLE = sizeof single / sizeof *single };

typedef struct {
    float *grad;
    double loss;
    size_t bytes, size;
} outcome;

/* The gradient of one batch. It is the second of two, so everything in the workspace comes from the first. */
static outcome step(const char *keys, int recompute) {
    char all[500];
    ll_tally tally = {0};
    snprintf(all, sizeof all, "%s train.recompute=%s", keys, recompute ? "on" : "off");
    batch *x = batch_of(all);
    if (x->model->stacks == 1) x->in.source = NULL, x->in.source_lengths = NULL;
    outcome o = {.grad = calloc(x->model->size, sizeof *o.grad), .size = x->model->size};
    CHECK_OK(ll_model_run(x->model, x->ws, &x->in, x->grad, 1, 4, &tally));
    tally.loss = 0;
    CHECK_OK(ll_model_run(x->model, x->ws, &x->in, o.grad, 0.5f, 5, &tally));
    o.loss = tally.loss, o.bytes = ll_workspace_bytes(x->ws);
    batch_free(x);
    return o;
}

static void check_same(const char *keys) {
    const outcome kept = step(keys, 0), again = step(keys, 1);
    assert_true(kept.loss == again.loss && kept.loss > 0);
    for (size_t i = 0; i < kept.size; i++)
        if (memcmp(&kept.grad[i], &again.grad[i], sizeof(float)))
            fail_msg("{%s}: gradient %zu is %.9g, and was %.9g", keys, i, (double)again.grad[i], (double)kept.grad[i]);
    if (again.bytes > kept.bytes) fail_msg("{%s}: %zu bytes, and %zu without", keys, again.bytes, kept.bytes);
    free(kept.grad), free(again.grad);
}

static void test_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < SINGLE; i++) check_same(single[i]);
    for (int i = 0; i < VARIANTS; i++) check_same(variants[i]);
}

/* A further layer keeps only its input for each token. */
static void test_bytes(void **state) {
    (void)state;
    enum { LONG = 4096, LAYERS = 5 };
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        char keys[200];
        ll_workspace *ws = NULL;
        snprintf(keys, sizeof keys, "attention.kernel=relu train.recompute=on model.layers=%d", i ? LAYERS : 1);
        ll_model *m = tiny_model(keys);
        CHECK_OK(ll_workspace_create(&ws, m, 1, LONG, 1));
        bytes[i] = ll_workspace_bytes(ws);
        ll_workspace_free(ws);
        ll_model_free(m);
    }
    assert_int_equal(bytes[1] - bytes[0], (LAYERS - 1) * sizeof(float) * LONG * 16);
}

/* ---- Gradients that are whole before backward ends ---- */

typedef struct {
    const ll_model *model;
    const float *grad;
    float *then;         /* the gradients of each block when it was reported complete */
    size_t last;         /* where the block reported before begins */
    int reported, zeros; /* blocks reported; blocks below which all gradients were still zero */
} ready;

static void on_ready(void *arg, size_t from, size_t to) {
    ready *r = arg;
    const size_t first = r->model->param[ll_block_tensor(&r->model->stack[0], 0, 0)].offset;
    int zero = 1;
    assert_true(from < to && to <= r->last);
    for (size_t i = first; i < from; i++) zero &= !(fabs((double)r->grad[i]) > 0);
    memcpy(r->then + from, r->grad + from, (to - from) * sizeof *r->grad);
    r->last = from;
    r->reported++;
    r->zeros += zero;
}

/* Each block, from the last to the first, is reported as soon as its gradients are complete, before the next one
 * begins. So ranks can send them while backward goes on. */
static void test_ready(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        char keys[200];
        snprintf(keys, sizeof keys, "model.layers=3 attention.kernel=relu train.recompute=%s",
                 recompute ? "on" : "off");
        batch *x = batch_of(keys);
        x->in.source = NULL, x->in.source_lengths = NULL;
        ready r = {.model = x->model, .grad = x->grad, .then = calloc(x->model->size, sizeof(float))};
        r.last = x->model->size;
        ll_workspace_on_gradient(x->ws, on_ready, &r);
        batch_run(x, x->grad, 1);
        assert_int_equal(r.reported, 3);
        assert_int_equal(r.zeros, 3);
        for (int l = 0; l < 3; l++) {
            const ll_param *p = &x->model->param[ll_block_tensor(&x->model->stack[0], l, 0)];
            assert_memory_equal(r.then + p->offset, x->grad + p->offset, (size_t)p->rows * sizeof(float));
        }
        free(r.then);
        batch_free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_ready)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
