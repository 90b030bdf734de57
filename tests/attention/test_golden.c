/* Golden cases: attention calls with outputs and gradients made by the papers' own programs, in ../shared/golden (or
 * $LL_SHARED/golden). Each case whose operator exists runs in tiles of several sizes, backward, and as a stream if it
 * can be one. All other cases are refused by name. None is skipped silently. */
#include <dirent.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "base/text.h"
#include "test.h"

enum { MOST_CASES = 400, CASES_KNOWN = 64, STREAMS_KNOWN = 24 };

static char folder[512], out[64];
static char *names[MOST_CASES];
static int count, tiles, backward, streams;

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_cases(void) {
    const char *shared = getenv("LL_SHARED");
    snprintf(folder, sizeof folder, "%s/golden", shared ? shared : "../shared");
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) && count < MOST_CASES;) {
        const char *ending = strrchr(e->d_name, '.');
        if (ending && !strcmp(ending, ".safetensors")) names[count++] = strdup(e->d_name);
    }
    if (dir) closedir(dir);
    qsort(names, (size_t)count, sizeof *names, by_name);
}

static int is(const ll_safetensors *file, const char *key, const char *value) {
    const char *text = ll_safetensors_meta(file, key);
    return text && !strcmp(text, value);
}

static double number(const ll_safetensors *file, const char *key) {
    const char *text = ll_safetensors_meta(file, key);
    return text ? ll_scan_number(text, NULL) : 0;
}

/* Does this version have the kernel? Other cases are refused. */
static int kernel_exists(const ll_safetensors *file) {
    static const char *const kernels[] = {"exact", "softmax-pos", "softmax-hyp", "softmax-trig", "gauss-trig",
                                          "relu",  "elu1",        "exp",         "sigmoid",      "abs",
                                          "gelu",  "cos",         "tanh",        "identity",     "square"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (is(file, "kernel", kernels[i])) return 1;
    return 0;
}

static int position_exists(const ll_safetensors *file) {
    static const char *const known[] = {"none",     "permute",  "permute2d",   "rope",       "rope-linear",
                                        "sine-spe", "conv-spe", "relative-s1", "relative-s2"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is(file, "position", known[i])) return 1;
    return 0;
}

/* NULL, or the reason why no stream can compute this case. */
static const char *future(const ll_safetensors *file) {
    const int whole = is(file, "key_max", "sequence") || is(file, "key_max", "batch");
    if (!is(file, "causal", "1")) return "not causal";
    if (strncmp(ll_safetensors_meta(file, "kernel"), "softmax-", 8) || !whole) return NULL;
    if (number(file, "feature_eps") == 0 && is(file, "den", "sum")) return NULL;
    if (is(file, "position", "relative-s2")) return NULL; /* its keys are parameters, known in advance */
    return "its stabiliser looks at all keys";
}

/* Compares this tensor of `out` with the golden one. */
static void check_tensor(const char *what, const ll_safetensors *got, const ll_safetensors *golden, const char *name) {
    const ll_st_tensor *a = ll_safetensors_find(got, name), *b = ll_safetensors_find(golden, name);
    const double tolerance = number(golden, *name == 'y' ? "tolerance_float32_y" : "tolerance_float32_grad");
    char text[200];
    if (!a || !b) fail_msg("%s: no %s", what, name);
    assert_int_equal(a->dtype, LL_F32);
    assert_int_equal(a->rank, b->rank);
    for (int i = 0; i < a->rank; i++) assert_int_equal(a->shape[i], b->shape[i]);
    assert_true(tolerance > 0 && tolerance < 1e-3);
    float *x = malloc(a->count * sizeof *x);
    double *y = malloc(a->count * sizeof *y);
    assert_true(x && y);
    ll_st_floats(x, a);
    ll_st_doubles(y, b);
    snprintf(text, sizeof text, "%s: %s", what, name);
    check_close(text, a->count, x, y, tolerance);
    free(x);
    free(y);
}

/* One run of the function behind `longline attend`, with every gradient that the case has. */
static void run_form(const char *path, const char *name, const ll_safetensors *golden, int streaming, int tile) {
    ll_safetensors *got;
    char what[200];
    snprintf(what, sizeof what, "%s, %s, tile %d", name, streaming ? "streaming" : "tiles", tile);
    CHECK_OK(ll_attend_file(path, out, streaming, tile));
    CHECK_OK(ll_safetensors_open(&got, out));
    check_tensor(what, got, golden, "y");
    for (int i = 0; i < ll_safetensors_count(golden); i++) {
        const char *tensor = ll_safetensors_at(golden, i)->name;
        if (!strncmp(tensor, "grad.", 5)) check_tensor(what, got, golden, tensor);
    }
    ll_safetensors_free(got);
    unlink(out);
}

static void check_refused(const char *path, int streaming, const char *word) {
    CHECK_FAILS(ll_attend_file(path, out, streaming, 0), LL_EINVAL, word);
    assert_int_not_equal(access(out, F_OK), 0);
}

static void run_case(const char *name) {
    char path[1024];
    ll_safetensors *golden;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(ll_safetensors_open(&golden, path));
    const char *why = future(golden);
    if (!kernel_exists(golden) || !position_exists(golden)) {
        const char *missing = kernel_exists(golden) ? "position" : "kernel";
        printf("%s: refused, no %s %s yet\n", name, missing, ll_safetensors_meta(golden, missing));
        check_refused(path, 0, ll_safetensors_meta(golden, missing));
    } else {
        static const int sizes[] = {0, 7, 16, 1};
        for (int i = 0; i < 4; i++) run_form(path, name, golden, 0, sizes[i]);
        tiles++;
        backward += ll_safetensors_find(golden, "grad.v") != NULL;
        if (!why) {
            run_form(path, name, golden, 1, 0);
            streams++;
        } else {
            if (is(golden, "causal", "1")) printf("%s: refused as a stream, %s\n", name, why);
            check_refused(path, 1, "");
        }
    }
    ll_safetensors_free(golden);
}

static void test_every_case(void **state) {
    (void)state;
    int fd;
    find_cases();
    if (!count) {
        printf("no golden cases here: %s is missing\n", folder);
        skip();
    }
    snprintf(out, sizeof out, "/tmp/longline-golden-XXXXXX");
    fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    unlink(out);
    for (int i = 0; i < count; i++) run_case(names[i]);
    printf("golden: %d cases: %d ran in tiles, %d backward, %d streaming, %d refused\n", count, tiles, backward,
           streams, count - tiles);
    assert_true(tiles >= CASES_KNOWN);
    assert_int_equal(backward, tiles);
    assert_true(streams >= STREAMS_KNOWN);
    for (int i = 0; i < count; i++) free(names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
