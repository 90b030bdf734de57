/* Cases as files with the approximate kernels: what the file says is computed, and wrong files are refused. */
#include "base/safetensors.h"
#include "cases.h"
#include "oracle/oracle.h"

enum { B = 2, H = 2, L = 23, D = 5, E = 4, LENGTH = 30, RANK = 6, CHUNK = 3, ROUNDS = 2, HALF = 3 };

static const struct {
    const char *name, *key, *value; /* a size in the metadata, or NULL */
    ll_attention_config c;
} kernels[] = {
    {"value", NULL, NULL, {.kernel = LL_KERNEL_VALUE, .causal = 1}},
    {"local", "window", "4", {.kernel = LL_KERNEL_LOCAL, .causal = 1, .approximate.window = 4}},
    {"linformer", NULL, NULL, {.kernel = LL_KERNEL_LINFORMER, .approximate = {.length = LENGTH, .rank = RANK}}},
    {"nystrom", "landmarks", "7", {.kernel = LL_KERNEL_NYSTROM, .approximate = {.landmarks = 7, .iterations = 6}}},
    {"reformer",
     "chunk",
     "3",
     {.kernel = LL_KERNEL_REFORMER,
      .causal = 1,
      .approximate = {.chunk = CHUNK, .rounds = ROUNDS, .buckets = 2 * HALF}}},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static float q[B * H * L * D], k[B * H * L * D], v[B * H * L * E], g[B * H * L * E];
static float weight[2][LENGTH * RANK], rotations[ROUNDS * H * D * HALF];

static void fill(float *x, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) x[i] = (float)draw_normal(&seed);
}

/* Writes a case of kernel i, without the tensor or key of this name. */
static void write_case(int i, const char *without) {
    static const size_t queries[] = {B, H, L, D}, values[] = {B, H, L, E}, weights[] = {LENGTH, RANK},
                        turns[] = {ROUNDS, H, D, HALF};
    ll_st_writer *w;
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_meta(w, "kernel", kernels[i].name));
    CHECK_OK(ll_st_meta(w, "position", "none"));
    CHECK_OK(ll_st_meta(w, "causal", kernels[i].c.causal ? "1" : "0"));
    CHECK_OK(ll_st_meta(w, "logit_scale", "0.5"));
    if (kernels[i].key && strcmp(kernels[i].key, without)) CHECK_OK(ll_st_meta(w, kernels[i].key, kernels[i].value));
    const struct {
        const char *name;
        int rank, there;
        const size_t *shape;
        const float *data;
    } tensors[] = {{"q", 4, 1, queries, q},
                   {"k", 4, 1, queries, k},
                   {"v", 4, 1, values, v},
                   {"g", 4, 1, values, g},
                   {"linformer_k", 2, kernels[i].c.kernel == LL_KERNEL_LINFORMER, weights, weight[0]},
                   {"linformer_v", 2, kernels[i].c.kernel == LL_KERNEL_LINFORMER, weights, weight[1]},
                   {"rotations", 4, kernels[i].c.kernel == LL_KERNEL_REFORMER, turns, rotations}};
    for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++)
        if (tensors[t].there && strcmp(tensors[t].name, without))
            CHECK_OK(ll_st_add(w, tensors[t].name, LL_F32, tensors[t].rank, tensors[t].shape, tensors[t].data));
    CHECK_OK(ll_st_save(w, in));
    ll_st_writer_free(w);
}

static double *wide(const float *x, size_t n) {
    double *to = calloc(n, sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < n; i++) to[i] = (double)x[i];
    return to;
}

/* Compares the named tensor of the result with the definition, or some of its elements with differences of `at`. */
static void check_result(const char *kernel, const char *name, size_t n, const double *expected, const oracle_case *o,
                         double *at) {
    ll_safetensors *file;
    CHECK_OK(ll_safetensors_open(&file, out));
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    if (!t) fail_msg("%s: the result has no %s", kernel, name);
    assert_int_equal(t->count, n);
    float *x = calloc(n, sizeof *x);
    ll_st_floats(x, t);
    if (expected) check_close(kernel, n, x, expected, 1e-4);
    for (size_t i = 3; i < n && !expected; i += n / 8) {
        const double difference = oracle_difference(o, at + i);
        if (!(fabs((double)x[i] - difference) < 1e-3))
            fail_msg("%s: %s[%zu] is %g, expected %g", kernel, name, i, (double)x[i], difference);
    }
    free(x);
    ll_safetensors_free(file);
}

static void test_cases(void **state) {
    (void)state;
    for (int i = 0; i < KERNELS; i++) {
        oracle_case o = {.c = kernels[i].c, .B = B, .T = L, .S = L};
        double y[B * H * L * E], *weights[2] = {wide(weight[0], LENGTH * RANK), wide(weight[1], LENGTH * RANK)}, r[H];
        o.c.H = H, o.c.D = D, o.c.E = E, o.c.input_scale = 0.5f, o.c.approximate.rotations = rotations;
        o.q = wide(q, B * H * L * D), o.k = wide(k, B * H * L * D), o.v = wide(v, B * H * L * E);
        o.g = wide(g, B * H * L * E), o.linformer_k = weights[0], o.linformer_v = weights[1];
        o.r = r, r[0] = r[1] = 1;
        oracle_forward(&o, NULL, NULL, y);
        write_case(i, "");
        for (int streaming = 0; streaming < 2; streaming++) {
            if (streaming && !kernels[i].c.causal) {
                CHECK_FAILS(ll_attend_file(in, out, 1, 0), LL_EINVAL, "later tokens");
                continue;
            }
            CHECK_OK(ll_attend_file(in, out, streaming, 5));
            check_result(kernels[i].name, "y", B * H * L * E, y, NULL, NULL);
            check_result(kernels[i].name, "grad.q", B * H * L * D, NULL, &o, o.q);
            check_result(kernels[i].name, "grad.v", B * H * L * E, NULL, &o, o.v);
            if (kernels[i].c.kernel != LL_KERNEL_LINFORMER) continue;
            check_result(kernels[i].name, "grad.linformer_k", LENGTH * RANK, NULL, &o, weights[0]);
            check_result(kernels[i].name, "grad.linformer_v", LENGTH * RANK, NULL, &o, weights[1]);
        }
        unlink(out);
        double *all[] = {o.q, o.k, o.v, o.g, weights[0], weights[1]};
        for (int n = 0; n < 6; n++) free(all[n]);
    }
}

static void test_wrong(void **state) {
    (void)state;
    static const struct {
        int kernel;
        const char *without;
    } wrong[] = {{1, "window"},    {2, "linformer_k"}, {2, "linformer_v"},
                 {3, "landmarks"}, {4, "chunk"},       {4, "rotations"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_case(wrong[i].kernel, wrong[i].without);
        CHECK_FAILS(ll_attend_file(in, out, 0, 0), LL_EFORMAT, wrong[i].without);
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

static int make_inputs(void **state) {
    fill(q, B * H * L * D, 1), fill(k, B * H * L * D, 2), fill(v, B * H * L * E, 3), fill(g, B * H * L * E, 4);
    fill(weight[0], LENGTH * RANK, 5), fill(weight[1], LENGTH * RANK, 6), fill(rotations, ROUNDS * H * D * HALF, 7);
    return make_files(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, make_inputs, remove_folder);
}
