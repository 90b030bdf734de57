/* Attention matrices: multiplied with the values they give the output, for every operator; and small ones equal the
 * definition. */
#include "base/memory.h"
#include "model/network.h"
#include "models.h"

enum { T = 7 }; /* T is less than the size of a value, so y = A v has one solution A */

static const char *const variants[] = {
    "attention.kernel=softmax position.type=rope",
    "attention.kernel=relu position.type=permute position.decay=fixed attention.query-multiple=2",
    "attention.kernel=favor position.type=permute model.norm=post",
    "attention.kernel=favor attention.features=hyperbolic attention.feature-eps=0 position.type=sinusoidal",
    "attention.kernel=favor position.type=rope-linear",
    "attention.kernel=relu position.type=sine-spe position.realizations=8",
    "attention.kernel=exp position.type=conv-spe position.realizations=8 position.taps=3",
    "attention.kernel=relu position.type=relative-s1 position.scales=3",
    "attention.kernel=relu attention.normalise=off position.decay=fixed",
    "attention.kernel=relu model.task=classify position.type=permute2d position.width=7 position.height=1",
    "attention.kernel=softmax model.task=classify model.pool=first",
    "attention.kernel=softmax model.task=mlm position.type=rope",
    "attention.kernel=value",
    "attention.kernel=local attention.window=3 position.type=rope",
    "attention.kernel=linformer attention.max-length=8 attention.projected-length=3 model.task=classify",
    "attention.kernel=nystrom attention.landmarks=3 model.task=classify position.type=rope",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=3 attention.rounds=2",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=3 model.task=classify",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Checks y = A v with the q, k, v and y that a training pass keeps of each layer. A is (layers, H, N, N). */
static void check_products(const ll_model *m, const float *weights, int *tokens) {
    const int N = T + m->cls_tokens, H = m->c->model.heads, E = m->values / H;
    const size_t row = ll_row_width(m), at = row - (size_t)m->values;
    ll_workspace *ws = NULL;
    CHECK_OK(ll_workspace_create(&ws, m, 1, T, 1));
    const ll_batch in = {.B = 1, .T = T, .tokens = tokens};
    const ll_batch_run run = ll_network_begin(m, ws, &in);
    CHECK_OK(ll_network_forward(&run));
    for (int l = 0; l < m->c->model.layers; l++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < N; i++) {
                const float *A = weights + ((size_t)(l * H + h) * (size_t)N + (size_t)i) * (size_t)N;
                const float *y = ws->mixed[l] + (size_t)i * (size_t)m->values + (size_t)(h * E);
                double expected[64] = {0};
                for (int j = 0; j < N; j++)
                    for (int e = 0; e < E; e++)
                        expected[e] +=
                            (double)A[j] * (double)ws->project[l][(size_t)j * row + at + (size_t)(h * E + e)];
                check_close("y", (size_t)E, y, expected, 2e-5);
            }
    ll_workspace_free(ws);
}

/* The matrix found by columns (one-hot values) equals the one found by rows (derivatives). */
static void check_both_ways(const ll_model *m, const float *weights, const int *tokens) {
    const int N = T + m->cls_tokens, H = m->c->model.heads, few[3] = {5, 0, 5};
    float *part = calloc((size_t)(H * 3 * N), sizeof *part);
    double *expected = calloc((size_t)(H * 3 * N), sizeof *expected);
    for (int l = 0; l < m->c->model.layers; l++) {
        CHECK_OK(ll_model_attention_rows(m, tokens, T, l, few, 3, part));
        for (int i = 0; i < H * 3 * N; i++) {
            const int h = i / (3 * N), query = few[i / N % 3];
            expected[i] = (double)weights[((l * H + h) * N + query) * N + i % N];
        }
        check_close("rows", (size_t)(H * 3 * N), part, expected, 2e-5);
    }
    free(part);
    free(expected);
}

static void matrices_are_attention(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        char keys[300];
        snprintf(keys, sizeof keys, "train.length=7 %s", variants[i]);
        ll_model *m = tiny_model(keys);
        const int N = T + m->cls_tokens, causal = m->c->model.task == LL_TASK_LM, layer = m->c->model.heads * N * N;
        const int rows = m->c->model.layers * m->c->model.heads * N;
        int tokens[T];
        float *weights = calloc((size_t)(rows * N), sizeof *weights);
        random_ints(tokens, T, m->c->model.vocab, 0, 6);
        for (int l = 0; l < m->c->model.layers; l++)
            CHECK_OK(ll_model_attention(m, tokens, T, l, 0, weights + l * layer));
        check_products(m, weights, tokens);
        check_both_ways(m, weights, tokens);
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (int j = 0; j < N; j++) {
                sum += weights[r * N + j];
                if (causal && j > r % N) assert_true(weights[r * N + j] == 0);
            }
            /* Nystroem's inverse is not exact, and Linformer's weights of values do not sum to 1. */
            const int sums =
                m->c->attention.kernel != LL_KERNEL_NYSTROM && m->c->attention.kernel != LL_KERNEL_LINFORMER;
            if (sums && m->c->attention.normalise && m->c->position.type != LL_POSITION_ROPE_LINEAR)
                assert_true(fabs(sum - 1) < 1e-5);
        }
        free(weights);
        ll_model_free(m);
    }
}

/* A layer with zero queries and keys gives all earlier tokens the same weight, except for decay. */
static void known_matrices(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu position.decay=fixed model.layers=1");
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        if (!strstr(p->name, "query") && !strstr(p->name, "key")) continue;
        for (int j = 0; j < p->rows * p->cols; j++) m->data[p->offset + (size_t)j] = 0;
    }
    int tokens[T] = {0};
    const int last = T - 1;
    float weights[2 * T];
    CHECK_OK(ll_model_attention_rows(m, tokens, T, 0, &last, 1, weights));
    for (int h = 0; h < 2; h++) {
        const double r = 1 / (1 + exp(-(2 + 3.0 * h / 2)));
        double expected[T], sum = 0;
        for (int j = 0; j < T; j++) sum += expected[j] = pow(r, T - 1 - j);
        for (int j = 0; j < T; j++) expected[j] /= sum;
        check_close("r^(i-j)", T, weights + h * T, expected, 1e-5);
    }
    ll_model_free(m);
}

static void losses_one_by_one(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu");
    ll_workspace *ws = NULL;
    const int V = m->c->model.vocab;
    int tokens[2 * T], targets[2 * T];
    const int lengths[2] = {T, 4};
    float each[2 * T];
    float *logp = calloc((size_t)(2 * T * V), sizeof *logp);
    random_ints(tokens, 2 * T, V, 0, 1);
    random_ints(targets, 2 * T, V, 1, 2);
    for (int i = 0; i < 2 * T; i++) each[i] = -1;
    ll_tally tally = {.each = each};
    CHECK_OK(ll_workspace_create(&ws, m, 2, T, 0));
    const ll_batch in = {2, T, tokens, targets, (int *)lengths, 0, NULL, NULL};
    CHECK_OK(ll_model_run(m, ws, &in, NULL, 0, 0, &tally));
    CHECK_OK(ll_model_logp(m, logp, tokens, lengths, 2, T));
    double sum = 0;
    for (int i = 0; i < 2 * T; i++) {
        const int counted = targets[i] >= 0 && i % T < lengths[i / T];
        if (counted) sum += each[i];
        if (counted) assert_true(fabs(each[i] + logp[i * V + targets[i]]) < 1e-5);
        if (!counted) assert_true(each[i] == -1); /* not written */
    }
    assert_true(fabs(sum - tally.loss) < 1e-4);
    free(logp);
    ll_workspace_free(ws);
    ll_model_free(m);
}

/* Finite weights whose attention is not finite. */
static void diverged(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu");
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        if (!strstr(p->name, "blocks.1") || !strstr(p->name, "query.weight")) continue;
        for (int j = 0; j < p->rows * p->cols; j++) m->data[p->offset + (size_t)j] = 3e38f;
    }
    const int tokens[T] = {1, 2, 3}, query = 1;
    float weights[2 * T * T];
    CHECK_OK(ll_model_attention(m, tokens, T, 0, 0, weights));
    for (int streaming = 0; streaming < 2; streaming++)
        CHECK_FAILS(ll_model_attention(m, tokens, T, 1, streaming, weights), LL_EDIVERGED, "not a number in head 0 of");
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 1, &query, 1, weights), LL_EDIVERGED,
                "of layer 1, in the row of token 1:");
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 1, &query, -1, weights), LL_EINVAL, "-1 queries");
    ll_model_free(m);
}

static void wrong_questions(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu");
    int tokens[T] = {0}, query[2] = {0, T};
    float weights[2 * 2 * T];
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 1, query, 2, weights), LL_EINVAL, "query 1 is token 7");
    query[1] = -1;
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 1, query, 2, weights), LL_EINVAL, "query 1 is token -1");
    tokens[3] = 99;
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 1, query, 1, weights), LL_EINVAL, "token 99 at position 3");
    tokens[3] = 0;
    CHECK_FAILS(ll_model_attention_rows(m, tokens, 0, 1, query, 1, weights), LL_EINVAL, "at least 1");
    CHECK_FAILS(ll_model_attention_rows(m, tokens, T, 2, query, 1, weights), LL_EINVAL, "layer 2 is not in 0..1");
    long n = 1;
    for (ll_status status = LL_ENOMEM; status; n++) {
        ll_memory_fail_at(n);
        status = ll_model_attention_rows(m, tokens, T, 1, query, 1, weights);
        ll_memory_fail_at(0);
        assert_true(status == LL_OK || status == LL_ENOMEM);
    }
    assert_true(n > 3);
    ll_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_attention), cmocka_unit_test(known_matrices),
        cmocka_unit_test(losses_one_by_one),      cmocka_unit_test(diverged),
        cmocka_unit_test(wrong_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
