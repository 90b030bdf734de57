/* Quantized weights. Their kernels give the bits of gemv on the same numbers, rounding is to the nearest, and a model
 * gives the same bits whichever kernel computes a token. */
#include <float.h>

#include "folder.h"
#include "guard.h"
#include "models.h"

#include "model/network.h"

typedef struct {
    ll_matrix x;
    float *f; /* the same numbers as floats, with rows ld apart */
} quantized;

/* A random matrix of one precision. It ends where its memory ends, so that a sanitizer notices reading beyond. */
static quantized random_matrix(ll_precision kind, int K, int N, size_t ld, uint64_t *seed) {
    const size_t rows = (size_t)K, groups = (rows + LL_GROUP - 1) / LL_GROUP, cols = (size_t)N;
    const size_t last = rows ? (rows - 1) * ld + cols : 0, scales = rows ? (groups - 1) * ld + cols : 0;
    const size_t bytes = rows ? ((rows + 1) / 2 - 1) * ld + cols : 0;
    quantized q = {.x = {.ld = ld}, .f = calloc(last + 1, sizeof(float))};
    uint16_t *scale = malloc(scales * sizeof *scale + 1), *bf16 = malloc(last * sizeof *bf16 + 1);
    uint8_t *byte = malloc((kind == LL_INT8 ? last : bytes) + 1);
    for (size_t i = 0; i < scales; i++) scale[i] = (uint16_t)(0x3f00 + next64(seed) % 256 + (next64(seed) % 2 << 15));
    for (size_t i = 0; i < last; i++) bf16[i] = (uint16_t)(0x3f00 + next64(seed) % 256 + (next64(seed) % 2 << 15));
    for (size_t i = 0; i < (kind == LL_INT8 ? last : bytes); i++) byte[i] = (uint8_t)next64(seed);
    for (size_t k = 0; k < rows; k++)
        for (size_t j = 0; j < cols; j++) {
            const float unit = ll_bf16_to_float(scale[k / LL_GROUP * ld + j]);
            const int four = byte[k / 2 * ld + j] >> (k % 2 ? 4 : 0) & 15;
            q.f[k * ld + j] = kind == LL_BFLOAT16 ? ll_bf16_to_float(bf16[k * ld + j])
                              : kind == LL_INT8   ? (float)(int8_t)byte[k * ld + j] * unit
                                                  : (float)(four - 8) * unit;
        }
    q.x.bf16 = kind == LL_BFLOAT16 ? bf16 : NULL;
    q.x.int8 = kind == LL_INT8 ? (int8_t *)byte : NULL;
    q.x.int4 = kind == LL_INT4 ? byte : NULL;
    q.x.scale = kind == LL_BFLOAT16 ? NULL : scale;
    if (kind == LL_BFLOAT16) free(scale), free(byte);
    if (kind != LL_BFLOAT16) free(bf16);
    return q;
}

static void free_matrix(quantized *q) {
    free((void *)q->x.bf16), free((void *)q->x.int8), free((void *)q->x.int4), free((void *)q->x.scale), free(q->f);
}

/* The rows of `linear` have the bits of gemv, and it writes nothing between them. */
static void check_linear(const ll_kernels *k, int M, int K, int N, const ll_matrix *B, const float *floats,
                         uint64_t seed) {
    const size_t ldx = (size_t)K + 1, ldy = (size_t)N + 2;
    guarded x = guard_random((size_t)M * ldx, N % 4, &seed), y = guard_random((size_t)M * ldy, K % 4, &seed);
    guarded z = guard_random((size_t)N, 1, &seed), gap = guard_random((size_t)M * 2, 0, &seed);
    for (int i = 0; i < 2 * M; i++) gap.p[i] = y.p[(size_t)(i / 2) * ldy + (size_t)(N + i % 2)];
    k->linear(M, N, K, x.p, ldx, B, y.p, ldy);
    for (int i = 0; i < M; i++) {
        k->gemv(N, K, x.p + (size_t)i * ldx, floats, B->ld, z.p, 0);
        assert_memory_equal(y.p + (size_t)i * ldy, z.p, (size_t)N * sizeof(float));
        assert_memory_equal(y.p + (size_t)i * ldy + N, gap.p + 2 * i, 2 * sizeof(float));
    }
    guard_end(x, "x", k->name), guard_end(y, "linear", k->name);
    guard_end(z, "gemv", k->name), guard_end(gap, "gap", k->name);
}

static void check_product(const ll_kernels *k, ll_precision kind, int K, int N, uint64_t seed) {
    const size_t ld = (size_t)N + 3;
    guarded row = guard_random((size_t)N, 2, &seed);
    quantized q = random_matrix(kind, K, N, ld, &seed);
    const ll_matrix floats = {.f = q.f, .ld = ld};
    const int M = 1 + (int)(seed / 7 % 20);
    k->linear(0, N, K, NULL, (size_t)K, &q.x, NULL, (size_t)N); /* no rows: nothing is read or written */
    check_linear(k, 1, K, N, &q.x, q.f, seed);
    check_linear(k, M, K, N, &q.x, q.f, seed);
    check_linear(k, M, K, N, &floats, q.f, seed);
    for (int r = 0; r < K; r++) { /* from column 1 on, so that no row begins on a cache line */
        k->dequantize(N - 1, &q.x, r, 1, row.p);
        assert_memory_equal(row.p, q.f + (size_t)r * ld + 1, (size_t)(N - 1) * sizeof(float));
    }
    guard_end(row, "dequantize", k->name);
    free_matrix(&q);
}

static void test_products(void **state) {
    (void)state;
    static const int cols[] = {1, 7, 8, 15, 16, 17, 64, 100, 257}, rows[] = {0, 1, 2, 3, 4, 5, 31, 33, 256};
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                for (int kind = LL_BFLOAT16; kind <= LL_INT4; kind++)
                    check_product(k, (ll_precision)kind, rows[r], cols[c], 100 * c + r + 1);
}

/* Products of matrices have the bits of those on floats, with few and many rows, and with sums longer than a slice. */
static void test_gemm(void **state) {
    (void)state;
    static const int sizes[][3] = {{1, 5, 3}, {2, 40, 70}, {17, 130, 300}, {300, 65, 520}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = LL_BFLOAT16; kind <= LL_INT4; kind++) {
            const int M = sizes[s][0], N = sizes[s][1], K = sizes[s][2];
            const size_t ld = (size_t)N + 2, mn = (size_t)M * (size_t)N;
            uint64_t seed = 7 * s + 1;
            quantized q = random_matrix((ll_precision)kind, K, N, ld, &seed);
            guarded a = guard_random((size_t)M * (size_t)K, 0, &seed), b = guard_random((size_t)N, 1, &seed);
            const float *A = a.p, *bias = b.p;
            float *C = calloc(mn, sizeof *C), *D = calloc(mn, sizeof *D);
            float *scratch = calloc(ll_gemm_scratch(M, N, K), sizeof *scratch);
            ll_gemm(0, 0, M, N, K, A, (size_t)K, q.f, ld, C, (size_t)N, 0, bias, scratch);
            ll_gemm_quantized(M, N, K, A, (size_t)K, &q.x, D, (size_t)N, bias, scratch);
            assert_memory_equal(C, D, mn * sizeof *C);
            guard_end(a, "A", "gemm"), guard_end(b, "bias", "gemm");
            free(C), free(D), free(scratch);
            free_matrix(&q);
        }
}

/* The nearest of the two neighbouring bfloat16 numbers, in double. */
static void check_bf16(float before, float after) {
    uint32_t bits;
    memcpy(&bits, &before, sizeof bits);
    const double below = ll_bf16_to_float((uint16_t)(bits >> 16)),
                 above = ll_bf16_to_float((uint16_t)((bits >> 16) + 1));
    const double nearest = fabs(before - below) <= fabs(above - before) ? below : above;
    assert_true(fabs(after - (double)before) <= fabs(nearest - (double)before));
    assert_true((double)after == below || (double)after == above);
}

/* The sum of squared errors of 4 bits with one scale. */
static double error_with(double scale, int n, size_t ld, const float *before) {
    const double unit = (double)ll_bf16_to_float(ll_bf16_from_float((float)scale));
    double error = 0;
    for (int r = 0; r < n; r++) {
        const double x = before[(size_t)r * ld], q = fmin(fmax(nearbyint(x / unit), -8), 7);
        error += (q * unit - x) * (q * unit - x);
    }
    return error;
}

/* The numbers of one group in a column. With 8 bits each is off by at most half a step of a scale that fits the
 * largest. With 4 bits the largest may be cut off if the others gain: the sum of errors is no larger than with any of
 * seven scales. */
static void check_group(int kind, int n, size_t ld, const float *before, const float *after) {
    double most = 0, error = 0;
    for (int r = 0; r < n; r++)
        if (fabs((double)before[(size_t)r * ld]) > fabs(most)) most = before[(size_t)r * ld];
    for (int r = 0; r < n; r++) {
        const double d = after[(size_t)r * ld] - (double)before[(size_t)r * ld];
        error += d * d;
        if (kind == LL_INT8)
            assert_true(fabs(d) <=
                        0.51 * fabs(most) / 127); /* half a step, and the rounding of the scale to bfloat16 */
    }
    for (double level = 6.5; level <= 9.5 && kind == LL_INT4; level += 0.5)
        assert_true(error <= (1 + 1e-5) * error_with(-most / level, n, ld, before));
}

static void check_rounded(const ll_model *model, int i, int kind, const float *before) {
    const ll_param *p = &model->param[i];
    const size_t cols = (size_t)p->cols, size = (size_t)p->rows * cols;
    float *after = calloc(size, sizeof *after);
    ll_param_floats(model, i, 0, p->rows, after);
    for (size_t n = 0; n < size && kind == LL_BFLOAT16; n++) check_bf16(before[n], after[n]);
    for (int k = 0; k < p->rows && kind != LL_BFLOAT16; k += LL_GROUP)
        for (size_t c = 0; c < cols; c++) {
            const int left = p->rows - k, n = left < LL_GROUP ? left : LL_GROUP;
            check_group(kind, n, cols, before + (size_t)k * cols + c, after + (size_t)k * cols + c);
        }
    free(after);
}

static const char *const SMALL = "model.tied-embedding=off position.type=learned position.max-length=9 model.width=72";

static void test_rounding(void **state) {
    (void)state;
    for (int kind = LL_BFLOAT16; kind <= LL_INT4; kind++) {
        ll_model *model = tiny_model(SMALL);
        float *before = calloc(model->size, sizeof *before);
        int rounded = 0;
        memcpy(before, model->data, model->size * sizeof *before);
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            const int matrix = strstr(p->name, "weight") && strncmp(p->name, "embedding", 9) && p->cols > 1;
            rounded += matrix;
            assert_int_equal(ll_model_tensor(model, i).data == NULL, matrix);
            if (matrix)
                check_rounded(model, i, kind, before + p->offset);
            else
                assert_memory_equal(before + p->offset, p->value, (size_t)(p->rows * p->cols) * sizeof *before);
        }
        assert_int_equal(rounded, 2 * 6 + 1); /* two blocks, and the output layer */
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        CHECK_FAILS(ll_model_quantize(model, kind == LL_INT8 ? LL_INT4 : LL_INT8), LL_EINVAL, "already");
        CHECK_FAILS(ll_model_quantize(model, LL_FLOAT32), LL_EINVAL, "already");
        free(before);
        ll_model_free(model);
    }
}

/* A group whose scale would be denormal becomes 0. */
static void test_smallest(void **state) {
    (void)state;
    for (int kind = LL_INT8; kind <= LL_INT4; kind++) {
        ll_model *model = tiny_model("train.seed=1");
        int i = 0;
        while (!strstr(model->param[i].name, "query.weight")) i++;
        const ll_param *p = &model->param[i];
        const size_t cols = (size_t)p->cols;
        for (int r = 0; r < p->rows; r++) p->value[(size_t)r * cols] = (r % 2 ? -189 : 100) * 0x1p-149f;
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        float *after = calloc((size_t)p->rows * cols, sizeof *after);
        ll_param_floats(model, i, 0, p->rows, after);
        for (int r = 0; r < p->rows; r++) assert_true(after[(size_t)r * cols] == 0);
        free(after);
        ll_model_free(model);
    }
}

/* The largest floats are above all bfloat16: weights stay finite, and near. Eighths of the largest have a level of int4
 * each. */
static void test_largest(void **state) {
    (void)state;
    for (int kind = LL_BFLOAT16; kind <= LL_INT4; kind++) {
        ll_model *model = tiny_model("train.seed=1"), *back = NULL;
        int i = 0;
        while (!strstr(model->param[i].name, "query.weight")) i++;
        const ll_param *p = &model->param[i];
        const size_t cols = (size_t)p->cols;
        for (int r = 0; r < p->rows; r++) {
            p->value[(size_t)r * cols] = r % 2 ? -FLT_MAX : FLT_MAX;
            p->value[(size_t)r * cols + 1] = FLT_MAX / 8 * (float)(r % 9);
        }
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        float *after = calloc((size_t)p->rows * cols, sizeof *after);
        ll_param_floats(model, i, 0, p->rows, after);
        for (int r = 0; r < p->rows; r++) {
            const float x = after[(size_t)r * cols] * (r % 2 ? -1 : 1);
            assert_true(isfinite(x) && x > FLT_MAX * 0.8F);
            assert_true(fabsf(after[(size_t)r * cols + 1] - FLT_MAX / 8 * (float)(r % 9)) < FLT_MAX / 100);
        }
        CHECK_OK(ll_model_save(model, at("largest.safetensors")));
        CHECK_OK(ll_model_load(&back, at("largest.safetensors")));
        free(after);
        ll_model_free(model), ll_model_free(back);
    }
}

/* A file of a quantized model gives the same numbers, mapped or from memory, and has the expected size. Saving it again
 * gives the same file. */
static void test_file(void **state) {
    (void)state;
    enum { TOKENS = 20 };
    static const double bits[] = {[LL_BFLOAT16] = 16, [LL_INT8] = 8.5, [LL_INT4] = 4.5};
    for (int kind = LL_BFLOAT16; kind <= LL_INT4; kind++) {
        ll_model *model = tiny_model("model.width=128 model.heads=2 model.ff=512"), *mapped = NULL, *copied = NULL;
        int tokens[TOKENS];
        float a[TOKENS * 11], b[TOKENS * 11], c[TOKENS * 11];
        char *bytes = NULL, *again = NULL;
        size_t size = 0, second = 0, weights = 0;
        random_ints(tokens, TOKENS, model->c->model.vocab, 0, 3);
        CHECK_OK(ll_model_save_bytes(model, &bytes, &size));
        const size_t whole = size;
        ll_text_free(bytes);
        CHECK_OK(ll_model_keep_origin(model, "config.json", "{}", 2));
        CHECK_OK(ll_model_quantize(model, (ll_precision)kind));
        for (int i = 0; i < model->count; i++)
            if (!model->param[i].value) weights += (size_t)model->param[i].rows * (size_t)model->param[i].cols;
        CHECK_OK(ll_model_save(model, at("quantized.safetensors")));
        CHECK_OK(ll_model_load(&mapped, at("quantized.safetensors")));
        CHECK_OK(ll_model_save_bytes(mapped, &bytes, &size));
        CHECK_OK(ll_model_load_bytes(&copied, bytes, size, "memory"));
        CHECK_OK(ll_model_save_bytes(copied, &again, &second));
        assert_null(mapped->data);
        assert_null(ll_model_origin(mapped, "config.json")); /* for exports alone, which it has not */
        assert_true(size == second && !memcmp(bytes, again, size));
        assert_true(fabs((double)(whole - size) - (double)weights * (32 - bits[kind]) / 8) < 4096); /* headers */
        CHECK_OK(ll_model_logp(model, a, tokens, NULL, 1, TOKENS));
        CHECK_OK(ll_model_logp(mapped, b, tokens, NULL, 1, TOKENS));
        CHECK_OK(ll_model_logp(copied, c, tokens, NULL, 1, TOKENS));
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(a, c, sizeof a);
        CHECK_FAILS(ll_model_quantize(mapped, kind == LL_INT4 ? LL_INT8 : LL_INT4), LL_EINVAL, "already");
        ll_text_free(bytes), ll_text_free(again);
        ll_model_free(model), ll_model_free(mapped), ll_model_free(copied);
    }
}

/* A weight that is no number is refused where it is read. */
static void test_not_finite(void **state) {
    (void)state;
    ll_model *model = tiny_model("train.seed=1"), *back = NULL;
    uint16_t *weights = NULL;
    CHECK_OK(ll_model_quantize(model, LL_BFLOAT16));
    for (int i = 0; i < model->count && !weights; i++) {
        const ll_matrix m = ll_param_matrix(model, i);
        if (!model->param[i].value) memcpy(&weights, &m.bf16, sizeof weights);
    }
    assert_non_null(weights);
    weights[13] = 0x7fc0;
    CHECK_OK(ll_model_save(model, at("wrong.safetensors")));
    CHECK_FAILS(ll_model_load(&back, at("wrong.safetensors")), LL_EFORMAT, "is not finite at element 13");
    weights[13] = 0x7f7f; /* the largest number */
    CHECK_OK(ll_model_save(model, at("wrong.safetensors")));
    CHECK_OK(ll_model_load(&back, at("wrong.safetensors")));
    ll_model_free(model), ll_model_free(back);
}

/* What cannot be done with quantized weights is refused. */
static void test_refused(void **state) {
    (void)state;
    ll_model *model = tiny_model("train.seed=1"), *next = NULL;
    ll_adam *adam = NULL;
    ll_loss loss = {.struct_size = sizeof loss};
    float *gradients = calloc(model->size, sizeof *gradients);
    char *summary = NULL;
    int tokens[4] = {1, 2, 3, 4}, targets[4] = {2, 3, 4, 5};
    const ll_memory_batch batch = {.struct_size = sizeof batch, .B = 1, .T = 4, .tokens = tokens, .targets = targets};
    CHECK_OK(ll_model_quantize(model, LL_INT8));
    CHECK_FAILS(ll_adam_create(&adam, model), LL_EINVAL, "weights are int8 and cannot be trained");
    CHECK_FAILS(ll_model_loss(model, &batch, gradients, &loss), LL_EINVAL, "cannot be trained");
    CHECK_OK(ll_model_loss(model, &batch, NULL, &loss));
    CHECK_OK(ll_model_create_from(&next, ll_model_recipe(model), model, &summary));
    for (int i = 0; i < next->count; i++) {
        ll_param_floats(model, i, 0, next->param[i].rows, gradients);
        assert_memory_equal(gradients, next->param[i].value,
                            (size_t)next->param[i].rows * (size_t)next->param[i].cols * sizeof *gradients);
    }
    ll_text_free(summary);
    free(gradients);
    ll_model_free(model), ll_model_free(next);
}

/* Token by token the quantized weights are read, in a block the rounded floats. */
static void test_same_bits(void **state) {
    (void)state;
    enum { TOKENS = 40 };
    for (int kind = LL_FLOAT32; kind <= LL_INT4; kind++) {
        ll_model *model =
            tiny_model("attention.kernel=favor model.tied-embedding=off model.width=300 model.heads=3 model.ff=520");
        ll_stream *whole = NULL, *single = NULL;
        int tokens[TOKENS];
        float a[11], b[11];
        random_ints(tokens, TOKENS, model->c->model.vocab, 0, 3);
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
        cmocka_unit_test(test_products),   cmocka_unit_test(test_gemm),    cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_smallest),   cmocka_unit_test(test_largest), cmocka_unit_test(test_file),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_refused), cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
