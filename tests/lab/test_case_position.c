/* Cases as files with positions that have parameters of their own: heads without keys, biases of the logits, random
 * rotations. A file gives the same bits as the operator that it describes. Wrong files are refused by name. */
#include "base/safetensors.h"
#include "cases.h"
#include "drawn.h"

enum { B = 2, H = 3, T = 9, D = 4, E = 5, CLIP = 2, MOST = 4096 };

typedef struct {
    const char *name;
    size_t shape[4];
} tensor;

typedef struct {
    const char *key, *value;
} meta;

/* A case: a row for each tensor and key, at most eight of each. `wrong` replaces a row, or removes it (value NULL,
 * shape 0). */
typedef struct {
    tensor tensors[8];
    meta metas[8];
} layout;

#define COMMON                                                                                                         \
    {"q", {B, H, T, D}}, {"v", {B, H, T, E}}, {                                                                        \
        "g", { B, H, T, E }                                                                                            \
    }
static const layout s2 = {{COMMON, {"k", {B, 1, T, D}}, {"rpe", {CLIP + 1, D}}},
                          {{"kernel", "elu1"},
                           {"position", "relative-s2"},
                           {"causal", "0"},
                           {"clip", "2"},
                           {"s2_layout", "2d"},
                           {"width", "2"},
                           {"height", "4"},
                           {"prefix", "1"}}};
static const layout keyless = {
    {COMMON, {"rpe", {CLIP + 1, D}}},
    {{"kernel", "elu1"}, {"position", "relative-s2"}, {"causal", "1"}, {"clip", "2"}, {"s2_layout", "1d"}}};
static const layout t5 = {{COMMON, {"k", {B, H, T, D}}, {"bias", {H, 32}}},
                          {{"kernel", "exact"}, {"position", "t5"}, {"causal", "1"}, {"logit_scale", "0.5"}}};
static const layout shaw = {
    {COMMON, {"k", {B, H, T, D}}, {"distance_k", {2 * CLIP + 1, D}}, {"distance_v", {2 * CLIP + 1, E}}},
    {{"kernel", "exact"}, {"position", "shaw"}, {"causal", "0"}, {"clip", "2"}, {"logit_scale", "0.5"}}};
static const layout rotated = {{COMMON, {"k", {B, H, T, D}}, {"theta", {H, D / 2}}, {"basis", {H, D, D}}},
                               {{"kernel", "relu"}, {"position", "orthogonal"}, {"causal", "1"}, {"den", "none"}}};

/* The numbers of a tensor are a function of its name. */
static float *numbers(const char *name) {
    static float data[12][MOST];
    static const char *names[12];
    int i = 0;
    while (names[i] && strcmp(names[i], name)) i++;
    assert_true(i < 12);
    uint64_t seed = 90 + (uint64_t)i;
    for (int n = 0; n < MOST && !names[i]; n++) data[i][n] = (float)draw_normal(&seed);
    names[i] = name;
    return data[i];
}

static void write_case(const layout *l, meta wrong_meta, tensor wrong_tensor) {
    ll_st_writer *w;
    CHECK_OK(ll_st_writer_create(&w));
    for (int i = 0; i < 8 && l->metas[i].key; i++) {
        const int wrong = wrong_meta.key && !strcmp(wrong_meta.key, l->metas[i].key);
        const char *value = wrong ? wrong_meta.value : l->metas[i].value;
        if (value) CHECK_OK(ll_st_meta(w, l->metas[i].key, value));
    }
    for (int i = 0; i < 8 && l->tensors[i].name; i++) {
        const int wrong = wrong_tensor.name && !strcmp(wrong_tensor.name, l->tensors[i].name);
        const size_t *shape = wrong ? wrong_tensor.shape : l->tensors[i].shape;
        int rank = 0;
        while (rank < 4 && shape[rank]) rank++;
        if (rank) CHECK_OK(ll_st_add(w, l->tensors[i].name, LL_F32, rank, shape, numbers(l->tensors[i].name)));
    }
    CHECK_OK(ll_st_save(w, in));
    ll_st_writer_free(w);
}

static void write_right(const layout *l) { write_case(l, (meta){NULL, NULL}, (tensor){NULL, {0}}); }

static ll_view view(float *data, int heads, int n) {
    return (ll_view){data, (size_t)(heads * T * n), (size_t)(T * n), (size_t)n};
}

static void check_same(const ll_safetensors *file, const char *name, const float *expected, size_t n) {
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    if (!t) fail_msg("no %s in the result", name);
    assert_int_equal(t->count, n);
    float *x = malloc(n * sizeof *x);
    ll_st_floats(x, t);
    if (memcmp(x, expected, n * sizeof *x)) fail_msg("%s is not what the operator gives", name);
    free(x);
}

/* Calls the operator that the file describes, as a program would. The gradients of its parameters are under the file's
 * names. */
static void check_case(const layout *l, ll_attention_config c, int keys, const meta *gradient, const size_t *counts) {
    static float y[MOST], dq[MOST], dk[MOST], dv[MOST], saved[1 << 16], d[2][MOST];
    ll_attention *op;
    ll_safetensors *file;
    write_right(l);
    CHECK_OK(ll_attend_file(in, out, 0, 0));
    c.H = H, c.D = D, c.E = E;
    ll_attention_call call = {.B = B, .T = T, .S = T, .saved = saved};
    call.q = view(numbers("q"), H, D), call.k = view(numbers("k"), keys, D), call.v = view(numbers("v"), H, E);
    call.g = view(numbers("g"), H, E), call.y = view(y, H, E);
    call.dq = view(dq, H, D), call.dk = view(dk, keys, D), call.dv = view(dv, H, E);
    memset(d, 0, sizeof d);
    ll_position_gradients *p = &call.dposition;
    if (c.position == LL_POSITION_RELATIVE_S2) p->rpe = d[0];
    if (c.position == LL_POSITION_T5) p->bias = d[0];
    if (c.position == LL_POSITION_SHAW) p->distance_k = d[0], p->distance_v = d[1];
    CHECK_OK(ll_attention_create(&op, &c));
    assert_true(ll_attention_saved(op, &(ll_attention_call){.B = B, .T = T, .S = T}) <= 1 << 16);
    CHECK_OK(ll_attention_forward(op, &call));
    CHECK_OK(ll_attention_backward(op, &call));
    CHECK_OK(ll_safetensors_open(&file, out));
    check_same(file, "y", y, B * H * T * E);
    check_same(file, "grad.q", dq, B * H * T * D);
    check_same(file, "grad.v", dv, B * H * T * E);
    if (keys) check_same(file, "grad.k", dk, (size_t)(B * keys * T * D));
    if (!keys) assert_null(ll_safetensors_find(file, "grad.k"));
    for (int i = 0; i < 2 && gradient[i].key; i++) check_same(file, gradient[i].key, d[i], counts[i]);
    ll_safetensors_free(file);
    ll_attention_free(op);
    unlink(out);
    if (!c.causal) return;
    CHECK_OK(ll_attend_file(in, out, 1, 0)); /* and once more as a stream */
    CHECK_OK(ll_safetensors_open(&file, out));
    double wide[B * H * T * E];
    float streamed[B * H * T * E];
    for (int i = 0; i < B * H * T * E; i++) wide[i] = (double)y[i];
    ll_st_floats(streamed, ll_safetensors_find(file, "y"));
    check_close("streamed y", B * H * T * E, streamed, wide, 2e-5);
    ll_safetensors_free(file);
    unlink(out);
}

static void test_files_are_operators(void **state) {
    (void)state;
    ll_attention_config c = {.kernel = LL_KERNEL_ELU1, .position = LL_POSITION_RELATIVE_S2, .input_scale = 1};
    c.query_max = c.key_max = LL_MAX_NONE, c.max_of_u = 1;
    c.encoding = (ll_position_config){.clip = CLIP, .keyless = 2, .axes = 2, .rpe = numbers("rpe")};
    c.width = 2, c.height = 4, c.before = 1;
    const meta rpe[2] = {{"grad.rpe", NULL}};
    check_case(&s2, c, 1, rpe, (size_t[]){(CLIP + 1) * D});
    c.encoding.keyless = H, c.encoding.axes = 1, c.before = 0, c.causal = 1, c.encoding.rpe = numbers("rpe");
    check_case(&keyless, c, 0, rpe, (size_t[]){(CLIP + 1) * D});
    c = (ll_attention_config){.kernel = LL_KERNEL_SOFTMAX, .position = LL_POSITION_T5, .input_scale = 0.5f};
    c.causal = 1, c.encoding.bias = numbers("bias");
    check_case(&t5, c, H, (meta[2]){{"grad.bias", NULL}}, (size_t[]){H * 32});
    c.position = LL_POSITION_SHAW, c.causal = 0, c.encoding.clip = CLIP;
    c.encoding.distance_k = numbers("distance_k"), c.encoding.distance_v = numbers("distance_v");
    check_case(&shaw, c, H, (meta[2]){{"grad.distance_k", NULL}, {"grad.distance_v", NULL}},
               (size_t[]){(2 * CLIP + 1) * D, (2 * CLIP + 1) * E});
    c = (ll_attention_config){.kernel = LL_KERNEL_RELU, .position = LL_POSITION_ORTHOGONAL, .input_scale = 1};
    c.causal = 1, c.den = LL_DEN_NONE, c.encoding.theta = numbers("theta"), c.encoding.basis = numbers("basis");
    check_case(&rotated, c, H, (meta[2]){{NULL, NULL}}, (size_t[]){0});
}

static void check_wrong(const layout *l, meta key, tensor t, ll_status status, const char *word) {
    write_case(l, key, t);
    CHECK_FAILS(ll_attend_file(in, out, 0, 0), status, word);
    assert_int_not_equal(access(out, F_OK), 0);
}

static void test_wrong_files(void **state) {
    (void)state;
    const meta right = {NULL, NULL};
    const tensor same = {NULL, {0}};
    check_wrong(&s2, (meta){"clip", NULL}, same, LL_EFORMAT, "'clip' is missing");
    check_wrong(&s2, (meta){"clip", "3"}, same, LL_EFORMAT, "'rpe'");
    check_wrong(&s2, (meta){"clip", "0"}, (tensor){"rpe", {1, D}}, LL_EINVAL, "clips");
    check_wrong(&s2, (meta){"s2_layout", "3d"}, same, LL_EFORMAT, "3d");
    check_wrong(&s2, (meta){"s2_layout", NULL}, same, LL_EFORMAT, "'s2_layout'");
    check_wrong(&s2, (meta){"width", NULL}, same, LL_EFORMAT, "'width' is missing");
    check_wrong(&s2, right, (tensor){"rpe", {0}}, LL_EFORMAT, "'rpe' is missing");
    check_wrong(&s2, right, (tensor){"k", {B, H, T, D}}, LL_EFORMAT, "3 heads of 3");
    check_wrong(&s2, right, (tensor){"k", {B, 1, T, D + 1}}, LL_EFORMAT, "'k'");
    check_wrong(&t5, right, (tensor){"k", {0}}, LL_EFORMAT, "'k' is missing");
    check_wrong(&t5, right, (tensor){"k", {B, 1, T, D}}, LL_EFORMAT, "'k'");
    check_wrong(&t5, right, (tensor){"bias", {H, 31}}, LL_EFORMAT, "'bias'");
    check_wrong(&t5, (meta){"kernel", "relu"}, same, LL_EINVAL, "use softmax");
    check_wrong(&shaw, (meta){"clip", "1"}, same, LL_EFORMAT, "'distance_k'");
    check_wrong(&shaw, right, (tensor){"distance_v", {2 * CLIP + 1, D}}, LL_EFORMAT, "'distance_v'");
    check_wrong(&rotated, right, (tensor){"theta", {0}}, LL_EINVAL, "angles");
    check_wrong(&rotated, right, (tensor){"basis", {H, D, D - 1}}, LL_EFORMAT, "'basis'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_operators),
        cmocka_unit_test(test_wrong_files),
    };
    return cmocka_run_group_tests(tests, make_files, remove_folder);
}
