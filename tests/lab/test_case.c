/* Cases as files (ll_attend_file). Random operators, written in the layout of docs/format.md, give what the definition
 * gives. A wrong file gives one clear error and no output. */
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "cases.h"
#include "drawn.h"

/* ---- Writing cases ---- */

/* What differs from a right case: changed or left out. */
typedef struct {
    const char *meta, *value; /* metadata key and its value; NULL: left out */
    const char *tensor;       /* left out, or its `shape` or `number` is changed */
    size_t shape[4];          /* rank 4; shape[0] = 0: unchanged */
    float number;             /* element `at`; 0: unchanged */
    size_t at;
    enum ll_dtype dtype;      /* data type of all inputs */
} change;

static const char *kernel_names[] = {"exact", NULL,   "relu", "elu1", "exp",      "sigmoid",
                                     "abs",   "gelu", "cos",  "tanh", "identity", "square"};
static const char *kind_names[] = {"softmax-pos", "softmax-hyp", "softmax-trig", "gauss-trig"};
static const char *position_names[] = {
    [LL_POSITION_NONE] = "none", [LL_POSITION_PERMUTE] = "permute", [LL_POSITION_PERMUTE2D] = "permute2d"};
static const char *max_names[] = {"prefix", "token", "sequence", "batch", "none"};
static const char *den_names[] = {"sum", "sum+eps", "sum+eps*phi", "sum+L*eps", "google", "none"};

static void put_meta(ll_st_writer *w, const change *x, const char *key, const char *value) {
    if (x->meta && !strcmp(x->meta, key)) value = x->value;
    if (value) CHECK_OK(ll_st_meta(w, key, value));
}

static void put_number(ll_st_writer *w, const change *x, const char *key, double value) {
    char text[40];
    ll_format_text(text, sizeof text, "%.9g", value);
    put_meta(w, x, key, text);
}

/* Data that the writer keeps pointers to until it saves. */
static void *borrowed[32];
static int borrowings;

static void put_tensor(ll_st_writer *w, const change *x, const char *name, int rank, const size_t *shape,
                       const double *data) {
    const int changed = x->tensor && !strcmp(x->tensor, name);
    size_t n = 1, capacity = 1;
    if (changed && !x->shape[0] && x->number == 0) return;
    if (changed && x->shape[0]) rank = 4;
    for (int i = 0; i < rank; i++) n *= changed && x->shape[0] ? x->shape[i] : shape[i];
    for (int i = 0; i < rank && !(changed && x->shape[0]); i++) capacity *= shape[i];
    double *wide = calloc(n, sizeof *wide);
    float *narrow = calloc(n, sizeof *narrow);
    assert_true(wide && narrow);
    for (size_t i = 0; i < n && i < capacity; i++) wide[i] = data[i];
    if (changed && x->number != 0) wide[x->at] = (double)x->number;
    for (size_t i = 0; i < n; i++) narrow[i] = (float)wide[i];
    CHECK_OK(ll_st_add(w, name, x->dtype, rank, changed && x->shape[0] ? x->shape : shape,
                       x->dtype == LL_F64 ? (void *)wide : (void *)narrow));
    borrowed[borrowings++] = wide;
    borrowed[borrowings++] = narrow;
}

static void put_floats(ll_st_writer *w, const change *x, const char *name, int rank, const size_t *shape,
                       const float *data) {
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    double *wide = calloc(n, sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < n; i++) wide[i] = (double)data[i];
    put_tensor(w, x, name, rank, shape, wide);
    free(wide);
}

static void put_mechanism(ll_st_writer *w, const change *x, const ll_attention_config *c, int T) {
    const int softmax = c->kernel == LL_KERNEL_SOFTMAX, image = c->position == LL_POSITION_PERMUTE2D;
    put_meta(w, x, "kernel", c->kernel == LL_KERNEL_FAVOR ? kind_names[c->features] : kernel_names[c->kernel]);
    put_meta(w, x, "position", position_names[c->position]);
    put_number(w, x, "causal", c->causal);
    put_number(w, x, softmax ? "logit_scale" : "input_scale", (double)c->input_scale);
    put_number(w, x, "d", c->D);
    if (softmax) return;
    put_number(w, x, "feature_eps", (double)c->feature_eps);
    put_meta(w, x, "den", den_names[c->den]);
    put_number(w, x, "den_eps", (double)c->den_eps);
    put_meta(w, x, "query_max", max_names[c->query_max]);
    put_meta(w, x, "key_max", max_names[c->key_max]);
    put_meta(w, x, "stabilizer_of", c->max_of_u ? "u" : "u-n");
    put_meta(w, x, "stabilizer_gradient", c->max_gradient ? "through" : "stopped");
    if (!image) return;
    put_number(w, x, "width", c->width);
    put_number(w, x, "height", c->height);
    put_number(w, x, "prefix", c->before);
    put_number(w, x, "postfix", T - c->before - c->width * c->height);
}

static void write_case(const drawn *d, const change *x) {
    const ll_attention_config *c = &d->config;
    const size_t B = (size_t)d->call.B, H = (size_t)c->H, T = (size_t)d->call.T, m = (size_t)oracle_features(c);
    const size_t q[] = {B, H, T, (size_t)c->D}, v[] = {B, H, T, (size_t)c->E}, w_shape[] = {(size_t)c->M, (size_t)c->D};
    const size_t n = m / (c->position == LL_POSITION_PERMUTE2D ? 2 : 1), perm[] = {H, n}, mask[] = {B, T};
    ll_st_writer *w;
    CHECK_OK(ll_st_writer_create(&w));
    put_mechanism(w, x, c, (int)T);
    put_tensor(w, x, "q", 4, q, d->o.q);
    put_tensor(w, x, "k", 4, q, d->o.k);
    put_tensor(w, x, "v", 4, v, d->o.v);
    put_tensor(w, x, "g", 4, v, d->o.g);
    if (c->decay) put_floats(w, x, "r", 1, &H, c->decay);
    if (c->M) put_floats(w, x, "proj", 2, w_shape, c->projection);
    if (d->call.key_mask) put_floats(w, x, "key_mask", 2, mask, d->call.key_mask);
    if (c->permutation) {
        float *numbers = calloc(H * n, sizeof *numbers);
        assert_non_null(numbers);
        for (size_t i = 0; i < H * n; i++) numbers[i] = (float)c->permutation[i];
        put_floats(w, x, "perm", 2, perm, numbers);
        free(numbers);
    }
    CHECK_OK(ll_st_save(w, in));
    ll_st_writer_free(w);
    while (borrowings) free(borrowed[--borrowings]);
}

/* ---- Cases that are right ---- */

static void check_tensor(const drawn *d, const ll_safetensors *file, const char *name, const double *expected,
                         double tolerance) {
    char text[500];
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    if (!t) fail_msg("no %s for %s", name, drawn_name(d));
    float *x = calloc(t->count + 1, sizeof *x);
    assert_non_null(x);
    ll_st_floats(x, t);
    snprintf(text, sizeof text, "%s of %s", name, drawn_name(d));
    check_close(text, t->count, x, expected, tolerance);
    free(x);
}

static drawn *draw_case(uint64_t *seed, int most) {
    ll_attention_config c = draw_config(seed);
    const int image = c.before + c.width * c.height, spare = draw_int(seed, 0, 2);
    const int T = c.position == LL_POSITION_PERMUTE2D ? image + spare : draw_int(seed, 2, most);
    const int how = draw_int(seed, 0, 1) * DRAW_MASK, B = draw_int(seed, 1, 2);
    return drawn_create(c, B, T, T, 0.8, how, seed);
}

static void test_other_shapes_and_draws(void **state) {
    (void)state;
    uint64_t seed = 31;
    for (int n = 0; n < rounds(80); n++) {
        drawn *d = draw_case(&seed, 60);
        const change plain = {.dtype = n % 3 ? LL_F32 : LL_F64};
        ll_safetensors *file;
        drawn_solve(d, 1);
        write_case(d, &plain);
        CHECK_OK(ll_attend_file(in, out, 0, n % 20));
        CHECK_OK(ll_safetensors_open(&file, out));
        check_tensor(d, file, "y", d->y, 1e-5);
        if (d->call.T > 3) { /* of fewer tokens whole gradients may cancel */
            check_tensor(d, file, "grad.q", d->dq, 1e-4);
            check_tensor(d, file, "grad.k", d->dk, 1e-4);
        }
        check_tensor(d, file, "grad.v", d->dv, 1e-4);
        assert_true(!ll_safetensors_find(file, "grad.r") == !d->config.decay);
        if (d->config.decay) check_tensor(d, file, "grad.r", d->dr, 1e-4);
        ll_safetensors_free(file);
        unlink(out);
        drawn_free(d);
    }
}

static void test_without_gradient(void **state) {
    (void)state;
    uint64_t seed = 32;
    drawn *d = draw_case(&seed, 20);
    ll_safetensors *file;
    write_case(d, &(change){.tensor = "g"});
    CHECK_OK(ll_attend_file(in, out, 0, 0));
    CHECK_OK(ll_safetensors_open(&file, out));
    assert_int_equal(ll_safetensors_count(file), 1);
    ll_safetensors_free(file);
    unlink(out);
    drawn_free(d);
}

/* ---- Cases that are wrong ---- */

static drawn *draw_wrong(int position, uint64_t *seed) {
    ll_attention_config c = {.kernel = LL_KERNEL_RELU, .H = 2, .D = 4, .E = 3, .input_scale = 1, .feature_eps = 0.1f};
    c.position = (ll_position)position;
    c.causal = position != LL_POSITION_PERMUTE2D;
    c.M = 6;
    c.width = 3;
    c.height = 2;
    draw_parts(&c, c.causal, seed);
    return drawn_create(c, 1, 6, 6, 0.8, DRAW_MASK, seed);
}

static void check_refused(const change *x, int position, ll_status status, const char *word) {
    uint64_t seed = 33;
    drawn *d = draw_wrong(position, &seed);
    write_case(d, x);
    CHECK_FAILS(ll_attend_file(in, out, 0, 0), status, word);
    if (!strstr(ll_error(), in)) fail_msg("\"%s\" does not name the file", ll_error());
    assert_int_not_equal(access(out, F_OK), 0);
    drawn_free(d);
}

static void test_wrong_metadata(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        ll_status status;
        const char *word;
    } wrong[] = {{"kernel", NULL, LL_EFORMAT, "kernel"},
                 {"kernel", "softmax-mix", LL_EINVAL, "softmax-mix"},
                 {"kernel", "", LL_EINVAL, "kernel"},
                 {"kernel", "relu elu1", LL_EINVAL, "relu elu1"},
                 {"position", NULL, LL_EFORMAT, "position"},
                 {"position", "rope", LL_EINVAL, "rope"},
                 {"causal", NULL, LL_EFORMAT, "causal"},
                 {"causal", "2", LL_EFORMAT, "causal"},
                 {"causal", "0", LL_EINVAL, "decay"},
                 {"input_scale", "nan", LL_EFORMAT, "input_scale"},
                 {"input_scale", "-1", LL_EINVAL, "scale"},
                 {"input_scale", "1x", LL_EFORMAT, "input_scale"},
                 {"feature_eps", "", LL_EFORMAT, "feature_eps"},
                 {"feature_eps", "-0.1", LL_EINVAL, "eps"},
                 {"den", "sums", LL_EINVAL, "sums"},
                 {"den_eps", "1e999", LL_EFORMAT, "den_eps"},
                 {"query_max", "best", LL_EINVAL, "best"},
                 {"stabilizer_of", "v", LL_EINVAL, "stabilizer_of"},
                 {"d", "5", LL_EFORMAT, "'d' is 5"},
                 {"d", "1e300", LL_EFORMAT, "'d'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(&(change){.meta = wrong[i].key, .value = wrong[i].value}, LL_POSITION_PERMUTE, wrong[i].status,
                      wrong[i].word);
    static const char *image[][2] = {{"width", NULL},   {"width", "0"},  {"width", "4"},   {"height", "-2"},
                                     {"height", "1.5"}, {"prefix", "1"}, {"postfix", "7"}, {"width", "99999999"}};
    for (size_t i = 0; i < sizeof image / sizeof *image; i++)
        check_refused(&(change){.meta = image[i][0], .value = image[i][1]}, LL_POSITION_PERMUTE2D, LL_EFORMAT, "");
}

static void test_wrong_tensors(void **state) {
    (void)state;
    static const change gone[] = {{.tensor = "q"}, {.tensor = "k"}, {.tensor = "v"}, {.tensor = "perm"}};
    for (int i = 0; i < 4; i++) check_refused(&gone[i], LL_POSITION_PERMUTE, LL_EFORMAT, "is missing");
    static const char *all[] = {"q", "k", "v", "g", "r", "proj", "key_mask", "perm"};
    for (int i = 0; i < 8; i++) {
        check_refused(&(change){.tensor = all[i], .shape = {1, 2, 6, 5}}, LL_POSITION_PERMUTE, LL_EFORMAT, "");
        check_refused(&(change){.tensor = all[i], .shape = {1, 1, 1, 1}}, LL_POSITION_PERMUTE, LL_EFORMAT, "");
        check_refused(&(change){.tensor = all[i], .number = NAN}, LL_POSITION_PERMUTE, LL_EFORMAT, all[i]);
        check_refused(&(change){.tensor = all[i], .number = INFINITY}, LL_POSITION_PERMUTE, LL_EFORMAT, all[i]);
    }
    check_refused(&(change){.tensor = "perm", .number = 0.5f}, LL_POSITION_PERMUTE, LL_EFORMAT, "perm");
    check_refused(&(change){.tensor = "perm", .number = 6}, LL_POSITION_PERMUTE, LL_EFORMAT, "perm");
    check_refused(&(change){.tensor = "perm", .number = -1}, LL_POSITION_PERMUTE, LL_EFORMAT, "perm");
    check_refused(&(change){.tensor = "r", .number = 1.5f}, LL_POSITION_PERMUTE, LL_EINVAL, "decay");
    check_refused(&(change){.tensor = "key_mask", .number = 0.5f}, LL_POSITION_PERMUTE, LL_EFORMAT, "key_mask");
    check_refused(&(change){.meta = "position", .value = "none"}, LL_POSITION_PERMUTE, LL_EINVAL, "perm");
    check_refused(&(change){.meta = "kernel", .value = "exact"}, LL_POSITION_NONE, LL_EFORMAT, "logit_scale");
}

/* Finite inputs so large that a result, or a number on its way, is not finite. */
static void test_diverged(void **state) {
    (void)state;
    enum { LAST_QUERY = 5 * 4, LAST_ROW = 5 * 3 }; /* the mask does not keep the first keys */
    check_refused(&(change){.tensor = "q", .number = 3e38f}, LL_POSITION_PERMUTE, LL_EDIVERGED, "y became");
    check_refused(&(change){.tensor = "q", .number = 3e38f, .at = LAST_QUERY}, LL_POSITION_PERMUTE, LL_EDIVERGED,
                  "y became");
    check_refused(&(change){.tensor = "g", .number = 3e38f, .at = LAST_ROW}, LL_POSITION_PERMUTE, LL_EDIVERGED,
                  "grad.q became");
}

static void test_wrong_calls(void **state) {
    (void)state;
    uint64_t seed = 34;
    drawn *d = draw_wrong(LL_POSITION_PERMUTE2D, &seed);
    write_case(d, &(change){0});
    CHECK_FAILS(ll_attend_file(in, out, 0, -1), LL_EINVAL, "tile");
    CHECK_FAILS(ll_attend_file(in, out, 0, 257), LL_EINVAL, "tile");
    CHECK_FAILS(ll_attend_file("/nonexistent/case", out, 0, 0), LL_EIO, "/nonexistent/case");
    CHECK_FAILS(ll_attend_file(in, "/dev/null/out", 0, 0), LL_EIO, "/dev/null/out");
    CHECK_FAILS(ll_attend_file(in, out, 1, 0), LL_EINVAL, "");
    assert_int_not_equal(access(out, F_OK), 0);
    drawn_free(d);
}

static void test_memory_refused(void **state) {
    (void)state;
    uint64_t seed = 35;
    drawn *d = draw_wrong(LL_POSITION_PERMUTE, &seed);
    write_case(d, &(change){0});
    ll_status status = LL_ENOMEM;
    for (long at = 1; status != LL_OK; at++) {
        ll_memory_fail_at(at);
        status = ll_attend_file(in, out, 0, 0);
        ll_memory_fail_at(0);
        if (status != LL_OK && status != LL_ENOMEM) fail_msg("allocation %ld: status %d, %s", at, status, ll_error());
        assert_int_equal(access(out, F_OK) == 0, status == LL_OK);
        assert_true(at < 1000);
    }
    unlink(out);
    drawn_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_shapes_and_draws),
        cmocka_unit_test(test_without_gradient),
        cmocka_unit_test(test_wrong_metadata),
        cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_memory_refused),
    };
    return cmocka_run_group_tests(tests, make_files, remove_folder);
}
