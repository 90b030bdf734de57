/* Attention matrices by one-hot values: those of a call and of a stream are the definition's, and those of a model
 * describe its layers. */
#include "attention/operator.h"
#include "base/memory.h"
#include "drawn.h"
#include "model/network.h"
#include "models.h"

/* Column j of the definition's matrix is the output for values that are 1 at j. */
static void definition(const oracle_case *o, double *A) {
    oracle_case one = *o;
    const int H = o->c.H, T = o->T, S = o->S;
    one.c.E = 1;
    double *v = calloc((size_t)(H * S), sizeof *v), *y = calloc((size_t)(H * T), sizeof *y);
    one.v = v;
    for (int j = 0; j < S; j++) {
        for (int i = 0; i < H * S; i++) v[i] = i % S == j;
        oracle_forward(&one, NULL, NULL, y);
        for (int i = 0; i < H * T; i++) A[i * S + j] = y[i];
    }
    free(v), free(y);
}

/* Some rows, in any order, found by derivatives. */
static void check_rows(const drawn *d, const ll_attention *op, const double *expected, uint64_t *seed) {
    const int H = d->config.H, T = d->o.T, S = d->o.S, count = draw_int(seed, 1, 12);
    int query[12];
    double *want = calloc((size_t)(H * count * S), sizeof *want);
    float *A = calloc((size_t)(H * count * S), sizeof *A);
    for (int i = 0; i < count; i++) query[i] = draw_int(seed, 0, T - 1);
    for (int r = 0; r < H * count; r++)
        memcpy(want + r * S, expected + (r / count * T + query[r % count]) * S, (size_t)S * sizeof *want);
    CHECK_OK(ll_attention_rows(op, d->call.q, d->call.k, (ll_view){0}, T, S, query, count, A));
    check_close(drawn_name(d), (size_t)(H * count * S), A, want, 3e-5);
    free(want), free(A);
}

static void test_operators(void **state) {
    (void)state;
    uint64_t seed = 71;
    int streamed = 0;
    for (int n = 0; n < rounds(200); n++) {
        ll_attention_config c = draw_config(&seed);
        const int T = draw_int(&seed, 1, 30), S = c.causal ? T : draw_int(&seed, 1, 30);
        drawn *d = drawn_create(c, 1, T, S, 0.8, draw_int(&seed, 0, 1) ? DRAW_TOKEN_MAJOR : 0, &seed);
        const size_t size = (size_t)(c.H * T * S);
        double *expected = calloc(size, sizeof *expected);
        float *A = calloc(size, sizeof *A);
        ll_attention *op;
        CHECK_OK(ll_attention_create(&op, &d->config));
        definition(&d->o, expected);
        CHECK_OK(ll_attention_matrix(op, d->call.q, d->call.k, (ll_view){0}, T, S, 0, A));
        check_close(drawn_name(d), size, A, expected, 3e-5);
        check_rows(d, op, expected, &seed);
        if (!ll_attention_can_stream(op)) {
            memset(A, 0, size * sizeof *A);
            CHECK_OK(ll_attention_matrix(op, d->call.q, d->call.k, (ll_view){0}, T, S, 1, A));
            check_close(drawn_name(d), size, A, expected, 3e-5);
            streamed++;
        } else {
            CHECK_FAILS(ll_attention_matrix(op, d->call.q, d->call.k, (ll_view){0}, T, S, 1, A), LL_EINVAL,
                        "attention");
        }
        ll_attention_free(op);
        free(A), free(expected);
        drawn_free(d);
    }
    assert_true(streamed > 0);
}

/* The matrix of a layer times its values is the output of its attention. */
static void check_model(const char *keys, int T) {
    ll_model *model = tiny_model(keys);
    const int H = model->c->model.heads, n = T + ll_model_cls_tokens(model), layer = model->c->model.layers - 1;
    const int E = model->values / H, wide = 2 * model->queries + model->values;
    int tokens[64];
    random_ints(tokens, T, 11, 0, 3);
    float *A = calloc((size_t)(H * n * n), sizeof *A), *S = calloc((size_t)(H * n * n), sizeof *S);
    ll_workspace *ws = NULL;
    CHECK_OK(ll_workspace_create(&ws, model, 1, T, 1));
    const ll_batch in = {.B = 1, .T = T, .tokens = tokens};
    const ll_batch_run run = ll_network_begin(model, ws, &in);
    CHECK_OK(ll_network_forward(&run));
    CHECK_OK(ll_model_attention(model, tokens, T, layer, 0, A));
    for (int h = 0; h < H; h++)
        for (int i = 0; i < n; i++)
            for (int e = 0; e < E; e++) {
                double y = 0;
                for (int j = 0; j < n; j++)
                    y += (double)A[(h * n + i) * n + j] *
                         (double)ws->project[layer][(size_t)(j * wide + 2 * model->queries + h * E + e)];
                const double got = (double)ws->mixed[layer][(size_t)((i * H + h) * E + e)];
                if (fabs(y - got) > 1e-4) fail_msg("%s: the matrix gives %g, the layer %g", keys, y, got);
            }
    if (model->c->model.task == LL_TASK_LM) {
        CHECK_OK(ll_model_attention(model, tokens, T, layer, 1, S));
        for (int i = 0; i < H * n * n; i++) assert_true(fabs((double)A[i] - (double)S[i]) < 1e-5);
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) assert_true(A[i * n + j] == 0);
    } else {
        CHECK_FAILS(ll_model_attention(model, tokens, T, layer, 1, S), LL_EINVAL, "classifier");
    }
    ll_workspace_free(ws);
    free(A), free(S);
    ll_model_free(model);
}

static void test_models(void **state) {
    (void)state;
    check_model("attention.kernel=relu position.type=permute position.decay=fixed", 21);
    check_model("attention.kernel=softmax position.type=rope", 21);
    check_model("attention.kernel=favor position.type=sine-spe position.realizations=8", 21);
    check_model("attention.kernel=relu position.type=rope-linear attention.query-multiple=2", 21);
    check_model("attention.kernel=relu model.task=classify model.pool=first position.type=learned", 21);
}

static void test_refusals(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=relu position.type=learned position.max-length=4");
    float A[2 * 25];
    const int tokens[6] = {1, 2, 3, 4, 5, 11};
    CHECK_FAILS(ll_model_attention(model, tokens, 2, 2, 0, A), LL_EINVAL, "layer 2 is not in 0..1");
    CHECK_FAILS(ll_model_attention(model, tokens, 0, 0, 0, A), LL_EINVAL, "at least 1");
    CHECK_FAILS(ll_model_attention(model, tokens, 5, 0, 0, A), LL_EINVAL, "max-length");
    CHECK_FAILS(ll_model_attention(model, tokens + 3, 3, 0, 0, A), LL_EINVAL, "token 11 at position 2");
    for (long n = 1;; n++) {
        ll_memory_fail_at(n);
        const ll_status status = ll_model_attention(model, tokens, 4, 1, 1, A);
        ll_memory_fail_at(0);
        if (!status) break;
        assert_int_equal(status, LL_ENOMEM);
    }
    ll_model_free(model);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
