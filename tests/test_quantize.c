/* Quantized weights: the kernels have the bits of gemv on the same numbers, rounding is to the nearest, and a model
 * computes the same whichever way a token takes. */
#include "guard.h"
#include "models.h"

static void test_products(void **state) {
    (void)state;
    static const int cols[] = {1, 7, 8, 15, 16, 17, 64, 100, 257}, rows[] = {0, 1, 2, 3, 4, 5, 31, 256};
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                const int N = cols[c], K = rows[r];
                const size_t ld = (size_t)N + 3, n = ld * (size_t)K;
                uint64_t seed = 100 * c + r + 1;
                guarded x = guard_random((size_t)K, c % 4, &seed), y = guard_random((size_t)N, r % 4, &seed);
                guarded z = guard_random((size_t)N, 1, &seed), scale = guard_random((size_t)N, 2, &seed);
                uint16_t *bf16 = calloc(n + 1, sizeof *bf16);
                int8_t *int8 = calloc(n + 1, 1);
                float *w = calloc(n + 1, sizeof *w);
                for (size_t i = 0; i < n; i++) {
                    bf16[i] = (uint16_t)(0x3f00 + next64(&seed) % 256 + (next64(&seed) % 2 << 15));
                    int8[i] = (int8_t)(next64(&seed) % 255 - 127);
                    w[i] = ll_bf16_to_float(bf16[i]);
                }
                k->gemv(N, K, x.p, w, ld, z.p, 0);
                k->gemv_bf16(N, K, x.p, bf16, ld, y.p);
                assert_memory_equal(y.p, z.p, (size_t)N * sizeof(float));
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < N; j++)
                        w[(size_t)i * ld + (size_t)j] = (float)int8[(size_t)i * ld + (size_t)j] * scale.p[j];
                k->gemv(N, K, x.p, w, ld, z.p, 0);
                k->gemv_int8(N, K, x.p, int8, ld, scale.p, y.p);
                assert_memory_equal(y.p, z.p, (size_t)N * sizeof(float));
                guard_end(x, "x", k->name), guard_end(y, "gemv_bf16", k->name);
                guard_end(z, "gemv", k->name), guard_end(scale, "scale", k->name);
                free(bf16), free(int8), free(w);
            }
}

/* The nearest of the two neighbours that bfloat16 has, in double. */
static void check_bf16(float before, float after) {
    uint32_t bits;
    memcpy(&bits, &before, sizeof bits);
    const double below = ll_bf16_to_float((uint16_t)(bits >> 16)),
                 above = ll_bf16_to_float((uint16_t)((bits >> 16) + 1));
    const double nearest = fabs(before - below) <= fabs(above - before) ? below : above;
    assert_true(fabs(after - (double)before) <= fabs(nearest - (double)before));
    assert_true((double)after == below || (double)after == above);
}

static void test_rounding(void **state) {
    (void)state;
    for (int kind = LL_BFLOAT16; kind <= LL_INT8; kind++) {
        ll_model *model = tiny_model("model.tied-embedding=off position.type=learned position.max-length=9");
        float *before = calloc(model->size, sizeof *before);
        int rounded = 0;
        memcpy(before, model->data, model->size * sizeof *before);
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            const int matrix = strstr(p->name, "weight") && strncmp(p->name, "embedding", 9) && p->cols > 1;
            rounded += matrix;
            for (int c = 0; c < p->cols; c++) {
                double most = 0;
                for (int r = 0; r < p->rows; r++)
                    most = fmax(most, fabs(before[p->offset + (size_t)(r * p->cols + c)]));
                for (int r = 0; r < p->rows; r++) {
                    const size_t at = p->offset + (size_t)(r * p->cols + c);
                    if (!matrix)
                        assert_true(before[at] == model->data[at]);
                    else if (kind == LL_BFLOAT16)
                        check_bf16(before[at], model->data[at]);
                    else
                        assert_true(fabs((double)model->data[at] - before[at]) <= 0.50001 * most / 127);
                }
            }
        }
        assert_int_equal(rounded, 2 * 6 + 1); /* of two blocks, and the output layer */
        CHECK_FAILS(ll_model_quantize(model, LL_BFLOAT16), LL_EINVAL, "rounded before");
        free(before);
        ll_model_free(model);
    }
}

/* A column whose scale would be no normal number has nothing in 8 bits. */
static void test_smallest(void **state) {
    (void)state;
    ll_model *model = tiny_model("train.seed=1");
    const ll_param *p = NULL;
    for (int i = 0; i < model->count && !p; i++)
        if (strstr(model->param[i].name, "query.weight")) p = &model->param[i];
    assert_non_null(p);
    for (int r = 0; r < p->rows; r++) p->value[(size_t)r * (size_t)p->cols] = (r % 2 ? -189 : 100) * 0x1p-149f;
    CHECK_OK(ll_model_quantize(model, LL_INT8));
    for (int r = 0; r < p->rows; r++) assert_true(p->value[(size_t)r * (size_t)p->cols] == 0);
    ll_model_free(model);
}

/* One token after the other takes the quantized weights, a block the rounded floats. */
static void test_same_bits(void **state) {
    (void)state;
    enum { TOKENS = 40 };
    for (int kind = LL_FLOAT32; kind <= LL_INT8; kind++) {
        ll_model *model =
            tiny_model("attention.kernel=favor model.tied-embedding=off model.width=300 model.heads=3 model.ff=520");
        ll_stream *whole = NULL, *single = NULL;
        int tokens[TOKENS];
        float a[11], b[11];
        random_ints(tokens, TOKENS, model->c->vocab, 0, 3);
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        CHECK_OK(ll_stream_create(&whole, model));
        CHECK_OK(ll_stream_create(&single, model));
        CHECK_OK(ll_stream_feed(whole, tokens, TOKENS, a));
        for (int t = 0; t < TOKENS; t++) CHECK_OK(ll_stream_feed(single, tokens + t, 1, b));
        assert_memory_equal(a, b, sizeof a);
        ll_stream_free(whole);
        ll_stream_free(single);
        ll_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
