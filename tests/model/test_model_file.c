/* Models in files, the random parts of a new model, and memory that runs out. */
#include <unistd.h>

#include "attention/operator.h"
#include "attention/feature/projection.h"
#include "base/file.h"
#include "base/memory.h"
#include "folder.h"
#include "models.h"

static const char *const kinds[] = {
    "attention.kernel=favor position.type=permute position.decay=fixed model.tied-embedding=off",
    ("model.task=classify attention.kernel=relu position.type=permute2d position.width=2 position.height=2 "
     "model.pool=first model.embedding-norm=on train.length=4"),
    "attention.kernel=softmax position.type=learned position.max-length=8 model.norm=post",
    "attention.kernel=favor position.type=sine-spe position.realizations=6",
    "attention.kernel=favor position.type=relative-s1 position.scales=3",
    "attention.kernel=relu position.type=conv-spe position.realizations=6",
    "attention.kernel=favor position.type=rope-linear position.decay=fixed",
    "attention.kernel=elu1 position.type=orthogonal",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void check_same(const ll_model *a, const ll_model *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->redraws, b->redraws);
    for (int i = 0; i < a->count; i++) {
        const size_t n = (size_t)a->param[i].rows * (size_t)a->param[i].cols;
        assert_memory_equal(ll_model_tensor(a, i).data, ll_model_tensor(b, i).data, n * sizeof(float));
    }
    for (int l = 0; l < a->c->model.layers; l++) {
        const ll_attention_config *x = &a->attention[l]->c, *y = &b->attention[l]->c;
        const size_t features = (size_t)(x->M ? x->M : x->D) / (x->position == LL_POSITION_PERMUTE2D ? 2 : 1);
        const size_t size = (size_t)(x->M * ll_attention_width(x));
        if (x->projection) assert_memory_equal(x->projection, y->projection, size * 4);
        if (x->permutation) assert_memory_equal(x->permutation, y->permutation, (size_t)x->H * features * 4);
        if (x->decay) assert_memory_equal(x->decay, y->decay, (size_t)x->H * 4);
    }
}

/* A loaded model has the same bits as the saved one, and gives the same results. */
static void test_round_trip(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        ll_model *model = tiny_model(kinds[i]), *back = NULL;
        float before[4 * 11], after[4 * 11];
        CHECK_OK(ll_model_redraw(model, 6));
        CHECK_OK(ll_model_save(model, at("model")));
        CHECK_OK(ll_model_load(&back, at("model")));
        check_same(model, back);
        CHECK_OK(ll_model_logp(model, before, (const int[]){3, 1, 4, 1}, NULL, 1, 4));
        CHECK_OK(ll_model_logp(back, after, (const int[]){3, 1, 4, 1}, NULL, 1, 4));
        const int values = model->c->model.task == LL_TASK_LM ? 4 * 11 : 5;
        assert_memory_equal(before, after, (size_t)values * sizeof *before);
        ll_model_free(model);
        ll_model_free(back);
    }
}

/* Writes the file again with a header that is one space longer, so that no tensor is aligned. */
static void shift(const char *from, const char *to) {
    ll_bytes file = {0};
    uint64_t header;
    CHECK_OK(ll_file_read(&file, from, SIZE_MAX));
    memcpy(&header, file.data, 8);
    uint8_t *moved = malloc(file.size + 1);
    memcpy(moved, file.data, 8 + header);
    moved[8 + header] = ' ';
    memcpy(moved + 9 + header, file.data + 8 + header, file.size - 8 - header);
    header++;
    memcpy(moved, &header, 8);
    CHECK_OK(ll_file_write(to, moved, file.size + 1));
    ll_bytes_free(&file);
    free(moved);
}

/* A loaded model is mapped from its file, without a copy. Writing to the model does not change the file. If another
 * file replaces it, as all writers here do, the model keeps the old content. */
static void test_mapped(void **state) {
    (void)state;
    const char *other = at("other");
    ll_model *model = tiny_model(kinds[0]), *back = NULL, *third = NULL;
    CHECK_OK(ll_model_save(model, at("model")));
    CHECK_OK(ll_model_load(&back, at("model")));
    assert_null(back->data);
    assert_non_null(back->file);
    const ll_st_tensor *t = ll_safetensors_find(back->file, "norm.gain");
    assert_non_null(t);
    int inside = 0;
    for (int i = 0; i < back->count; i++) inside += ll_model_tensor(back, i).data == t->data;
    assert_int_equal(inside, 1);
    ll_model_tensor(back, 2).data[0] += 1;
    CHECK_OK(ll_model_load(&third, at("model")));
    check_same(model, third);
    ll_model_tensor(back, 2).data[0] = ll_model_tensor(model, 2).data[0];
    ll_model_free(third);

    shift(at("model"), other);
    CHECK_OK(ll_model_load(&third, other));
    assert_null(third->file); /* copied, because floats must be aligned */
    check_same(model, third);
    ll_model_free(third);
    unlink(other);

    third = tiny_model("train.seed=99");
    CHECK_OK(ll_model_save(third, at("model")));
    check_same(model, back);
    ll_model_free(third);
    ll_model_free(model);
    ll_model_free(back);
}

/* A file like the saved one, except that one tensor is left out, replaced or changed. */
typedef struct {
    const char *tensor;
    enum { OMIT, RESHAPE, RETYPE, PATCH } how;
    int32_t bits; /* PATCH: the bits of the second element */
} change;

static ll_status load_changed(change c, const char *format, const char *redraws, const char *recipe) {
    ll_safetensors *file = NULL;
    ll_st_writer *writer = NULL;
    CHECK_OK(ll_safetensors_open(&file, at("model")));
    CHECK_OK(ll_st_writer_create(&writer));
    CHECK_OK(ll_st_meta(writer, "format", format ? format : "longline-model"));
    CHECK_OK(ll_st_meta(writer, "version", "1"));
    CHECK_OK(ll_st_meta(writer, "redraws", redraws ? redraws : "0"));
    CHECK_OK(ll_st_meta(writer, "recipe", recipe ? recipe : ll_safetensors_meta(file, "recipe")));
    int32_t *copies[64] = {0};
    int used = 0;
    for (int i = 0; i < ll_safetensors_count(file); i++) {
        const ll_st_tensor *t = ll_safetensors_at(file, i);
        const int hit = c.tensor && !strcmp(t->name, c.tensor);
        const size_t flat[1] = {t->count};
        if (hit && c.how == OMIT) continue;
        int32_t *data = copies[used++] = calloc(t->count + 1, sizeof *data);
        memcpy(data, t->data, t->count * (t->dtype == LL_U8 ? 1 : sizeof *data));
        if (hit && c.how == PATCH) data[1] = c.bits;
        const enum ll_dtype type = hit && c.how == RETYPE ? (t->dtype == LL_F32 ? LL_I32 : LL_F32) : t->dtype;
        const int reshape = hit && c.how == RESHAPE;
        CHECK_OK(ll_st_add(writer, t->name, type, reshape ? 1 : t->rank, reshape ? flat : t->shape, data));
    }
    const char *other = at("other");
    CHECK_OK(ll_st_save(writer, other));
    ll_st_writer_free(writer);
    ll_safetensors_free(file);
    for (int i = 0; i < used; i++) free(copies[i]);
    ll_model *model = NULL;
    const ll_status status = ll_model_load(&model, other);
    assert_true(status ? model == NULL : model != NULL);
    ll_model_free(model);
    unlink(other);
    return status;
}

/* An error names whatever a file lacks or has wrong. */
static void test_wrong_files(void **state) {
    (void)state;
    static const char projection[] = "blocks.0.attention.projection", permutation[] = "blocks.1.attention.permutation";
    static const char query[] = "blocks.1.attention.query.weight", decay[] = "blocks.1.attention.decay";
    const int32_t nan = 0x7fc00000, two = 0x40000000;
    ll_model *model = tiny_model(kinds[0]);
    CHECK_OK(ll_model_keep(model, &(ll_bytes){(uint8_t[]){'a', 'b', 'c'}, 3}));
    CHECK_OK(ll_model_save(model, at("model")));
    ll_model_free(model);
    CHECK_OK(load_changed((change){0}, NULL, NULL, NULL));
    CHECK_FAILS(load_changed((change){"vocabulary", RETYPE, 0}, NULL, NULL, NULL), LL_EFORMAT, "not a row of bytes");
    CHECK_FAILS(load_changed((change){0}, "other", NULL, NULL), LL_EFORMAT, "not a longline model");
    CHECK_FAILS(load_changed((change){0}, NULL, "-3", NULL), LL_EFORMAT, "redraws");
    CHECK_FAILS(load_changed((change){0}, NULL, "3x", NULL), LL_EFORMAT, "redraws");
    CHECK_FAILS(load_changed((change){0}, NULL, NULL, "[model]\nwidht = 3\n"), LL_EFORMAT, "width");
    CHECK_FAILS(load_changed((change){0}, NULL, NULL, "[model]\nheads = 3\n"), LL_EFORMAT, "heads");
    CHECK_FAILS(load_changed((change){0}, NULL, NULL, "[model]\nwidth = 65536\nlayers = 1000\n"), LL_EFORMAT, "");
    CHECK_FAILS(load_changed((change){query, OMIT, 0}, NULL, NULL, NULL), LL_EFORMAT, query);
    CHECK_FAILS(load_changed((change){query, RESHAPE, 0}, NULL, NULL, NULL), LL_EFORMAT, query);
    CHECK_FAILS(load_changed((change){query, RETYPE, 0}, NULL, NULL, NULL), LL_EFORMAT, query);
    CHECK_FAILS(load_changed((change){query, PATCH, nan}, NULL, NULL, NULL), LL_EFORMAT, query);
    CHECK_FAILS(load_changed((change){projection, OMIT, 0}, NULL, NULL, NULL), LL_EFORMAT, projection);
    CHECK_FAILS(load_changed((change){projection, PATCH, nan}, NULL, NULL, NULL), LL_EFORMAT, projection);
    CHECK_FAILS(load_changed((change){permutation, OMIT, 0}, NULL, NULL, NULL), LL_EFORMAT, permutation);
    CHECK_FAILS(load_changed((change){permutation, RETYPE, 0}, NULL, NULL, NULL), LL_EFORMAT, permutation);
    CHECK_FAILS(load_changed((change){permutation, PATCH, 12}, NULL, NULL, NULL), LL_EFORMAT, "not a permutation");
    CHECK_FAILS(load_changed((change){permutation, PATCH, -1}, NULL, NULL, NULL), LL_EFORMAT, "not a permutation");
    CHECK_FAILS(load_changed((change){decay, OMIT, 0}, NULL, NULL, NULL), LL_EFORMAT, decay);
    CHECK_FAILS(load_changed((change){decay, PATCH, two}, NULL, NULL, NULL), LL_EFORMAT, "decay");
}

/* With a repeated entry it is no permutation. */
static void test_repeated_entry(void **state) {
    (void)state;
    ll_model *model = tiny_model(kinds[0]);
    CHECK_OK(ll_model_save(model, at("model")));
    const int32_t first = model->attention[0]->c.permutation[0];
    ll_model_free(model);
    CHECK_FAILS(load_changed((change){"blocks.0.attention.permutation", PATCH, first}, NULL, NULL, NULL), LL_EFORMAT,
                "not a permutation");
}

static ll_status everything(const ll_recipe *recipe) {
    ll_model *model = NULL, *back = NULL;
    ll_workspace *ws = NULL;
    ll_stream *stream = NULL;
    float logp[2 * 11];
    ll_status status = ll_model_create(&model, recipe);
    if (!status) status = ll_model_redraw(model, 2);
    if (!status) status = ll_workspace_create(&ws, model, 2, 4, 1);
    if (!status) status = ll_stream_create(&stream, model);
    if (!status) status = ll_stream_feed(stream, (const int[]){1, 2}, 2, logp);
    if (!status) status = ll_model_logp(model, logp, (const int[]){1, 2}, NULL, 1, 2);
    if (!status) status = ll_model_save(model, at("model"));
    if (!status) status = ll_model_load(&back, at("model"));
    ll_stream_free(stream);
    ll_workspace_free(ws);
    ll_model_free(model);
    ll_model_free(back);
    return status;
}

/* Whichever allocation is refused, the call returns LL_ENOMEM, nothing leaks and nothing is half made. */
static void test_no_memory(void **state) {
    (void)state;
    ll_recipe *recipe = tiny_recipe(kinds[0]);
    ll_set_threads(1);
    for (int alone = -1; alone <= 1; alone += 2) { /* one, or one and all that follow */
        long n = 1;
        for (ll_status status = LL_ENOMEM; status; n++) {
            ll_memory_fail_at(alone * n);
            status = everything(recipe);
            ll_memory_fail_at(0);
            if (status) assert_int_equal(status, LL_ENOMEM);
            assert_true(n < 1000);
        }
        assert_true(n > 30);
    }
    ll_set_threads(0);
    ll_recipe_free(recipe);
}

/* Rows of a block are orthogonal, their lengths are those of normal vectors, and no sign of a direction is
 * preferred. */
static void test_projection(void **state) {
    (void)state;
    enum { D = 6, M = 15, DRAWS = 2000 };
    double first = 0, square = 0, fourth = 0, cross = 0;
    for (int i = 0; i < DRAWS; i++) {
        float W[M * D];
        CHECK_OK(ll_draw_projection(W, M, D, LL_DRAW_ORTHOGONAL, LL_NORMS_CHI, 5, 1, i));
        for (int a = 0; a < M; a++)
            for (int b = 0; b < a; b++) {
                double dot = 0, norms[2] = {0};
                for (int e = 0; e < D; e++) {
                    dot += (double)W[a * D + e] * W[b * D + e];
                    norms[0] += (double)W[a * D + e] * W[a * D + e];
                    norms[1] += (double)W[b * D + e] * W[b * D + e];
                }
                if (a / D == b / D) assert_true(fabs(dot) < 1e-5 * sqrt(norms[0] * norms[1]));
                if (a / D != b / D) cross += dot * dot / (norms[0] * norms[1]);
            }
        for (int a = 0; a < M; a++) {
            double n = 0;
            for (int e = 0; e < D; e++) n += (double)W[a * D + e] * W[a * D + e];
            square += n / M, fourth += n * n / M;
        }
        first += W[0];
    }
    /* E|w|^2 = D, E|w|^4 = D (D + 2). Blocks are independent: E cos^2 = 1/D over their 72 pairs. */
    assert_true(fabs(square / DRAWS / D - 1) < 0.02);
    assert_true(fabs(fourth / DRAWS / (D * (D + 2)) - 1) < 0.04);
    assert_true(fabs(cross / DRAWS / 72 * D - 1) < 0.05);
    assert_true(fabs(first / DRAWS) < 4 / sqrt(DRAWS));
    float a[M * D], b[M * D];
    CHECK_OK(ll_draw_projection(a, M, D, LL_DRAW_ORTHOGONAL, LL_NORMS_CHI, 5, 1, 3));
    CHECK_OK(ll_draw_projection(b, M, D, LL_DRAW_ORTHOGONAL, LL_NORMS_CHI, 5, 2, 3));
    assert_memory_not_equal(a, b, sizeof a);
}

/* Cycles are stored one after the other. A random permutation of n has 1/1 + .. + 1/n cycles on average, 1/k of them of
 * length k. */
static void test_permutation(void **state) {
    (void)state;
    enum { N = 20, DRAWS = 4000 };
    double cycles = 0, fixed = 0;
    for (int i = 0; i < DRAWS; i++) {
        int32_t p[N];
        ll_permutation_random(p, N, 9, i, 3);
        for (int a = 0, start = 0; a < N; a++) {
            if (p[a] == a + 1) continue;
            assert_int_equal(p[a], start);
            cycles++;
            fixed += start == a;
            start = a + 1;
        }
        assert_true(p[N - 1] < N);
    }
    assert_true(fabs(cycles / DRAWS - 3.5977) < 0.08);
    assert_true(fabs(fixed / DRAWS - 1) < 0.06);
}

/* No file is written that could not be loaded: the one of before stays. */
static void test_not_finite(void **state) {
    (void)state;
    ll_model *model = tiny_model("train.seed=1"), *back = NULL;
    char *bytes = NULL;
    size_t size = 0;
    CHECK_OK(ll_model_save(model, at("finite")));
    model->param[3].value[5] = NAN;
    CHECK_FAILS(ll_model_save(model, at("finite")), LL_EDIVERGED, "finite: tensor blocks.0.attention.query.weight");
    CHECK_FAILS(ll_model_save_bytes(model, &bytes, &size), LL_EDIVERGED, "not a number at element 5, and such a model");
    assert_null(bytes);
    CHECK_FAILS(ll_model_quantize(model, LL_INT8), LL_EDIVERGED, "such a model cannot be quantized");
    model->param[3].value[5] = -INFINITY;
    CHECK_FAILS(ll_model_save(model, at("finite")), LL_EDIVERGED, "is infinite at element 5");
    CHECK_OK(ll_model_load(&back, at("finite")));
    ll_model_free(model), ll_model_free(back);
}

/* The rotations of a hash are those of the file, not those that the seed would draw. */
static void test_rotations(void **state) {
    (void)state;
    ll_model *model =
        tiny_model("attention.kernel=reformer attention.buckets=4 attention.chunk=2 attention.rounds=2"), *back = NULL;
    float *rotations;
    memcpy(&rotations, &model->attention[1]->c.approximate.rotations, sizeof rotations);
    rotations[0] = 0.625f;
    CHECK_OK(ll_model_save(model, at("model")));
    CHECK_OK(ll_model_load(&back, at("model")));
    assert_true(back->attention[1]->c.approximate.rotations[0] == 0.625f);
    assert_true(back->attention[1]->c.approximate.rotations[1] == rotations[1]);
    ll_model_free(model);
    ll_model_free(back);
}

/* Redraws change favor's projections by (seed, layer, count), and change no other model. */
static void test_redraw(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=favor");
    const size_t bytes = (size_t)model->c->attention.num_features * 8 * sizeof(float);
    float first[12 * 8];
    memcpy(first, model->attention[1]->c.projection, bytes);
    CHECK_OK(ll_model_redraw(model, 5));
    assert_int_equal(model->redraws, 5);
    assert_memory_not_equal(first, model->attention[1]->c.projection, bytes);
    assert_memory_not_equal(model->attention[0]->c.projection, model->attention[1]->c.projection, bytes);
    CHECK_OK(ll_model_redraw(model, 0));
    assert_memory_equal(first, model->attention[1]->c.projection, bytes);
    ll_model_free(model);
}

/* What its tokens are belongs to a model. Formats with the same tokens may replace each other. */
static void test_other_tokens(void **state) {
    (void)state;
    ll_model *model = tiny_model("data.format=bytes");
    CHECK_FAILS(ll_model_set(model, "data.format=words"), LL_EINVAL, "data.format = words are words");
    CHECK_FAILS(ll_model_set(model, "data.format = midi"), LL_EINVAL, "data.format = bytes, where they are bytes");
    CHECK_FAILS(ll_model_set(model, "data.format=fasta"), LL_EINVAL, "residues");
    CHECK_FAILS(ll_model_set(model, "data.format=png"), LL_EINVAL, "numbers");
    CHECK_OK(ll_model_set(model, "data.format=labelled"));
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "data.format"), "labelled");
    ll_model_free(model);
}

/* A file is packed if it begins with a whole magic number. The header of a model may have 0xb528 bytes. */
static void test_plain(void **state) {
    (void)state;
    static const char *const begin[] = {"\x28\xb5\0\0\0\0\0\0", "\x1f\x8b\x09.....",
                                        "\x28\xb5\x2f\xfd....", "\x1f\x8b\x08....."};
    for (int i = 0; i < 4; i++) {
        put_file(at("begin"), begin[i], 8);
        assert_int_equal(ll_file_plain_size(at("begin")), i < 2 ? 8 : -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_mapped),    cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_repeated_entry), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_projection),
        cmocka_unit_test(test_permutation),    cmocka_unit_test(test_redraw),    cmocka_unit_test(test_rotations),
        cmocka_unit_test(test_plain),          cmocka_unit_test(test_other_tokens),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
