/* The state of a stream in a file: equal states give equal bytes, and every error that a file can have is found. */
#include <sys/stat.h>
#include <unistd.h>

#include "attention/attention_stream.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "model/stream/model_stream.h"
#include "states.h"

enum { V = 11, FED = 300 };
static const char linear[] = "attention.kernel=favor position.type=rope-linear position.decay=fixed";
static const char exact[] = "attention.kernel=softmax position.type=learned position.max-length=400";

static void feed(ll_stream *s, int n, uint64_t seed) {
    int tokens[FED];
    random_ints(tokens, n, V, 0, seed);
    CHECK_OK(ll_stream_feed(s, tokens, n, NULL));
}

static void save_fed(ll_model *model, int n, const char *to) {
    ll_stream *s = NULL;
    CHECK_OK(ll_stream_create(&s, model));
    if (n) feed(s, n, 3);
    CHECK_OK(ll_stream_save(s, to));
    ll_stream_free(s);
}

static size_t bytes_of(const char *name, uint8_t **data) {
    FILE *f = fopen(name, "rb");
    struct stat about;
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &about), 0);
    *data = malloc((size_t)about.st_size + 1);
    assert_int_equal(fread(*data, 1, (size_t)about.st_size, f), about.st_size);
    fclose(f);
    return (size_t)about.st_size;
}

static void write_bytes(const char *name, const uint8_t *data, size_t size) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* The file holds neither what a cache held before a reset, nor how long the stream has existed. */
static void test_same_bytes(void **state) {
    (void)state;
    static const char *const kinds[] = {linear, exact};
    for (int i = 0; i < 2; i++) {
        ll_model *model = tiny_model(kinds[i]);
        ll_stream *s = NULL;
        uint8_t *a, *b;
        save_fed(model, 7, path);
        CHECK_OK(ll_stream_create(&s, model));
        feed(s, FED, 4);
        ll_stream_reset(s);
        feed(s, 7, 3);
        CHECK_OK(ll_stream_save(s, other));
        const size_t n = bytes_of(path, &a), m = bytes_of(other, &b);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a), free(b);
        ll_stream_free(s);
        ll_model_free(model);
    }
}

/* A stream that was fed nothing has nothing to continue; its file says so, too. */
static void test_nothing_fed(void **state) {
    (void)state;
    ll_model *model = tiny_model(exact);
    ll_stream *s = NULL;
    float logits[V], again[V];
    save_fed(model, 0, path);
    CHECK_OK(ll_stream_load(&s, model, path));
    assert_int_equal(ll_stream_position(s), 0);
    CHECK_FAILS(ll_stream_logits(s, logits), LL_EINVAL, "nothing");
    CHECK_OK(ll_stream_feed(s, (const int[]){1}, 1, logits));
    CHECK_OK(ll_stream_logits(s, again));
    assert_memory_equal(logits, again, sizeof logits);
    ll_stream_free(s);
    ll_model_free(model);
}

/* A model with one parameter, one draw or one key of its recipe changed is another model; data and training are not it.
 */
static void test_other_models(void **state) {
    (void)state;
    ll_model *model = tiny_model(linear), *more = tiny_model("attention.kernel=softmax");
    save_fed(model, 5, path);
    CHECK_OK(load(model, path));
    CHECK_OK(ll_model_set(model, "train.batch=3"));
    CHECK_OK(ll_model_set(model, "data.test=elsewhere.txt"));
    CHECK_OK(load(model, path));
    CHECK_FAILS(load(more, path), LL_EINVAL, "another model");
    float *parameter = ll_model_tensor(model, 3).data + 5;
    *parameter += 1e-6f;
    CHECK_FAILS(load(model, path), LL_EINVAL, "another model");
    *parameter -= 1e-6f;
    CHECK_OK(ll_model_redraw(model, 1));
    CHECK_FAILS(load(model, path), LL_EINVAL, "another model");
    CHECK_OK(ll_model_redraw(model, 0));
    CHECK_OK(ll_model_set(model, "train.seed=8"));
    CHECK_FAILS(load(model, path), LL_EINVAL, "another model");
    CHECK_OK(ll_model_set(model, "train.seed=7"));
    CHECK_OK(load(model, path));
    ll_model_free(more);
    more = tiny_model("attention.kernel=favor position.type=rope-linear position.decay=fixed model.activation=relu");
    memcpy(more->data, model->data, model->size * sizeof *model->data);
    CHECK_FAILS(load(more, path), LL_EINVAL, "another model"); /* the same numbers, read differently */
    CHECK_OK(ll_model_save(model, other));
    CHECK_FAILS(load(model, other), LL_EFORMAT, "not the state of a stream");
    CHECK_FAILS(load(model, "/nowhere/at all"), LL_EIO, "nowhere");
    ll_model_free(more);
    ll_model_free(model);
}

/* Models of the same parameters and sizes of state that differ in one key. */
static void test_one_key(void **state) {
    (void)state;
    static const char *const keys[][2] = {
        {"attention.kernel=relu", "attention.kernel=square"},
        {"attention.kernel=relu", "attention.kernel=relu position.type=rope-linear"},
        {"attention.kernel=relu", "attention.kernel=relu position.decay=fixed"},
        {"attention.kernel=relu", "attention.kernel=relu model.activation=relu"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        ll_model *model = tiny_model(keys[i][0]), *more = tiny_model(keys[i][1]);
        assert_int_equal(more->size, model->size);
        memcpy(more->data, model->data, model->size * sizeof *model->data);
        save_fed(model, 5, path);
        CHECK_OK(load(model, path));
        CHECK_FAILS(load(more, path), LL_EINVAL, "another model");
        ll_model_free(model);
        ll_model_free(more);
    }
}

/* The seed of a model that draws the noise of its positions from it, however it is written. */
static void test_a_seed_that_stays(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=favor position.type=sine-spe");
    CHECK_FAILS(ll_model_set(model, "train.seed=8"), LL_EINVAL, "cannot change");
    CHECK_FAILS(ll_model_set(model, "train.seed = 8"), LL_EINVAL, "cannot change");
    CHECK_FAILS(ll_model_set(model, "train.seed\t=8"), LL_EINVAL, "cannot change");
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "train.seed"), "7");
    CHECK_OK(ll_model_set(model, "train.seed=7"));
    ll_model_free(model);
}

/* Quantized weights are other numbers: their state is refused elsewhere. The message says how to load the model. */
static void test_quantized_models(void **state) {
    (void)state;
    ll_model *model = tiny_model(linear), *int8 = tiny_model(linear);
    CHECK_OK(ll_model_quantize(int8, LL_INT8));
    save_fed(int8, 5, path);
    CHECK_OK(load(int8, path));
    CHECK_FAILS(load(model, path), LL_EINVAL,
                "weights int8, and this one has f32; if it is of this model, load it with --weights int8");
    save_fed(model, 5, path);
    CHECK_FAILS(load(int8, path), LL_EINVAL,
                "weights f32, and this one has int8; if it is of this model, load it with --weights f32");
    ll_model_free(int8);
    ll_model_free(model);
}

/* Weights that bfloat16 holds exactly are the same numbers in both types, so a state fits both. */
static void test_bf16_is_the_same_numbers(void **state) {
    (void)state;
    ll_model *model = tiny_model(linear), *bf16 = tiny_model(linear);
    for (size_t i = 0; i < model->size; i++) {
        const float exact_in_both = ll_float16_to_float(LL_ST_BF16, ll_float16_from_float(LL_ST_BF16, model->data[i]));
        model->data[i] = bf16->data[i] = exact_in_both;
    }
    CHECK_OK(ll_model_quantize(bf16, LL_BFLOAT16));
    save_fed(model, 5, path);
    CHECK_OK(load(bf16, path));
    save_fed(bf16, 5, path);
    CHECK_OK(load(model, path));
    ll_model_free(bf16);
    model->data[0] *= 2;
    CHECK_FAILS(load(model, path), LL_EINVAL, "--weights bf16");
    ll_model_free(model);
}

/* Positions count from the beginning of the present document. A copy of a stream, and one from a file, know it. */
static void test_documents(void **state) {
    (void)state;
    static const char *const kinds[] = {"attention.kernel=favor position.type=permute model.separator=0",
                                        "attention.kernel=softmax position.type=rope model.separator=0",
                                        ("attention.kernel=relu position.type=learned position.max-length=9 "
                                         "model.separator=0")};
    static const int before[] = {3, 4, 0, 5, 6, 1}, after[] = {2, 7, 8, 0, 9, 1};
    for (int i = 0; i < 3; i++) {
        ll_model *model = tiny_model(kinds[i]);
        ll_stream *s = NULL, *loaded = NULL, *copy = NULL;
        float logits[V], again[V];
        CHECK_OK(ll_stream_create(&s, model));
        CHECK_OK(ll_stream_feed(s, before, 6, NULL));
        CHECK_OK(ll_stream_save(s, path));
        CHECK_OK(ll_stream_load(&loaded, model, path));
        CHECK_OK(ll_stream_clone(&copy, s));
        assert_int_equal(ll_stream_position(loaded), 6);
        for (int t = 0; t < 6; t++) {
            CHECK_OK(ll_stream_feed(s, after + t, 1, logits));
            CHECK_OK(ll_stream_feed(loaded, after + t, 1, again));
            assert_memory_equal(logits, again, sizeof logits);
            CHECK_OK(ll_stream_feed(copy, after + t, 1, again));
            assert_memory_equal(logits, again, sizeof logits);
        }
        CHECK_FAILS(load_changed(model, (change){0}, "document", "7"), LL_EFORMAT, "document");
        CHECK_FAILS(load_changed(model, (change){0}, "document", NULL), LL_EFORMAT, "document");
        ll_stream_free(s);
        ll_stream_free(loaded);
        ll_stream_free(copy);
        ll_model_free(model);
    }
    ll_model *model = tiny_model(linear);
    save_fed(model, 5, path);
    CHECK_FAILS(load_changed(model, (change){0}, "document", "1"), LL_EFORMAT, "separator");
    ll_model_free(model);
}

static void test_wrong_metadata(void **state) {
    (void)state;
    static const char *const wrong[] = {"-1", "3x", "", "1e3", "9007199254740993", "99999999999999999999", NULL};
    ll_model *model = tiny_model(exact);
    save_fed(model, 5, path);
    CHECK_OK(load_changed(model, (change){0}, NULL, NULL));
    CHECK_FAILS(load_changed(model, (change){0}, "format", "longline-model"), LL_EFORMAT, "not the state");
    CHECK_FAILS(load_changed(model, (change){0}, "format", NULL), LL_EFORMAT, "not the state");
    CHECK_FAILS(load_changed(model, (change){0}, "version", "2"), LL_EFORMAT, "version 2");
    CHECK_FAILS(load_changed(model, (change){0}, "version", NULL), LL_EFORMAT, "version");
    CHECK_FAILS(load_changed(model, (change){0}, "model", NULL), LL_EINVAL, "another model");
    CHECK_FAILS(load_changed(model, (change){0}, "model", "0123"), LL_EINVAL, "another model");
    for (int i = 0; i < 7; i++)
        CHECK_FAILS(load_changed(model, (change){0}, "position", wrong[i]), LL_EFORMAT, "position");
    CHECK_FAILS(load_changed(model, (change){0}, "position", "401"), LL_EFORMAT, "learned");
    CHECK_FAILS(load_changed(model, (change){0}, "position", "257"), LL_EFORMAT, "keys"); /* two blocks of keys */
    ll_model_free(model);
    model = tiny_model("attention.kernel=softmax"); /* no memory is allocated for what the file does not hold */
    save_fed(model, 5, path);
    CHECK_FAILS(load_changed(model, (change){0}, "position", "1000000000"), LL_EFORMAT, "keys");
    ll_model_free(model);
}

static void test_wrong_tensors(void **state) {
    (void)state;
    static const char state_name[] = "blocks.1.attention.state", first[] = "blocks.0.attention.state";
    static const char keys[] = "blocks.1.attention.keys", values[] = "blocks.0.attention.values";
    ll_model *model = tiny_model(linear);
    save_fed(model, FED, path);
    CHECK_OK(load_changed(model, (change){0}, NULL, NULL));
    for (int how = OMIT; how <= RETYPE; how++) {
        CHECK_FAILS(load_changed(model, (change){state_name, how, 0, 0}, NULL, NULL), LL_EFORMAT, state_name);
        CHECK_FAILS(load_changed(model, (change){first, how, 0, 0}, NULL, NULL), LL_EFORMAT, first);
        if (how != RESHAPE) /* it is one row already */
            CHECK_FAILS(load_changed(model, (change){"logits", how, 0, 0}, NULL, NULL), LL_EFORMAT, "logits");
    }
    CHECK_FAILS(load_changed(model, (change){"logits", PATCH, NAN, 1}, NULL, NULL), LL_EFORMAT, "logits");
    CHECK_FAILS(load_changed(model, (change){"more", ADD, 0, 0}, NULL, NULL), LL_EFORMAT, "4 tensors");
    CHECK_FAILS(load_changed(model, (change){state_name, PATCH, INFINITY, 9}, NULL, NULL), LL_EFORMAT, "not finite");
    CHECK_FAILS(load_changed(model, (change){first, PATCH, NAN, 9}, NULL, NULL), LL_EFORMAT, "not finite");
    /* The last four numbers of a head: tokens, maximum, level, exponent. */
    static const change scalars[] = {
        {state_name, PATCH, -1, 4},  {state_name, PATCH, NAN, 3},    {state_name, PATCH, INFINITY, 3},
        {state_name, PATCH, 1e9, 2}, {state_name, PATCH, -1e300, 2}, {state_name, PATCH, NAN, 2},
        {state_name, PATCH, 0.5, 1}, {state_name, PATCH, 1e12, 1},   {state_name, PATCH, -INFINITY, 1},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        CHECK_FAILS(load_changed(model, scalars[i], NULL, NULL), LL_EFORMAT, "blocks.1.attention");
    ll_model_free(model);
    model = tiny_model(exact);
    save_fed(model, FED, path);
    CHECK_FAILS(load_changed(model, (change){keys, PATCH, NAN, 1}, NULL, NULL), LL_EFORMAT, "keys is not finite");
    CHECK_FAILS(load_changed(model, (change){values, PATCH, NAN, 1}, NULL, NULL), LL_EFORMAT, "values is not finite");
    CHECK_FAILS(load_changed(model, (change){values, OMIT, 0, 0}, NULL, NULL), LL_EFORMAT, values);
    CHECK_FAILS(load_changed(model, (change){keys, RESHAPE, 0, 0}, NULL, NULL), LL_EFORMAT, keys);
    ll_model_free(model);
    static const char tokens[] = "blocks.1.attention.tokens";
    model = tiny_model("attention.kernel=reformer attention.buckets=4 attention.chunk=3 attention.rounds=2");
    save_fed(model, FED, path);
    CHECK_OK(load_changed(model, (change){0}, NULL, NULL));
    for (size_t i = 0; i < 4; i++) { /* each bucket's count is what the other buckets leave */
        const double wrong[] = {-1, 0.5, 1e9, NAN};
        CHECK_FAILS(load_changed(model, (change){tokens, PATCH, wrong[i], i + 1}, NULL, NULL), LL_EFORMAT, "tokens");
    }
    CHECK_FAILS(load_changed(model, (change){0}, "position", "299"), LL_EFORMAT, "the 299 tokens");
    CHECK_FAILS(load_changed(model, (change){keys, PATCH, NAN, 1}, NULL, NULL), LL_EFORMAT, "keys is not finite");
    ll_model_free(model);
}

/* A file cut anywhere is refused. One with a changed byte near its beginning is refused, or gives a stream that can be
 * fed. */
static void test_damage(void **state) {
    (void)state;
    ll_model *model = tiny_model(linear);
    uint8_t *data;
    save_fed(model, 5, path);
    const size_t size = bytes_of(path, &data);
    for (size_t n = 0; n < size; n += 1 + n / 16) {
        write_bytes(other, data, n);
        CHECK_FAILS(load(model, other), LL_EFORMAT, "");
    }
    for (size_t i = 0; i < size; i += i < 600 ? 1 : 97) {
        ll_stream *s = NULL;
        data[i] ^= 0x81;
        write_bytes(other, data, size);
        const ll_status status = ll_stream_load(&s, model, other);
        assert_true(status == LL_OK || status == LL_EFORMAT || status == LL_EINVAL);
        if (!status) feed(s, 9, 5);
        ll_stream_free(s);
        data[i] ^= 0x81;
    }
    free(data);
    ll_model_free(model);
}

/* A stream that failed in the middle of a call has no state. One that diverged is not written. */
static void test_not_saved(void **state) {
    (void)state;
    ll_model *model = tiny_model(exact);
    ll_stream *s = NULL, *copy = NULL;
    float logits[V];
    CHECK_OK(ll_stream_create(&s, model));
    ll_memory_fail_at(1);
    int tokens[FED] = {0};
    assert_int_equal(ll_stream_feed(s, tokens, FED, logits), LL_ENOMEM);
    ll_memory_fail_at(0);
    CHECK_FAILS(ll_stream_save(s, other), LL_EINVAL, "reset");
    CHECK_FAILS(ll_stream_clone(&copy, s), LL_EINVAL, "reset");
    CHECK_FAILS(ll_stream_logits(s, logits), LL_EINVAL, "reset");
    assert_null(copy);
    ll_stream_reset(s);
    ll_model_tensor(model, 0).data[0] = NAN;
    CHECK_FAILS(ll_stream_feed(s, tokens, 20, logits), LL_EDIVERGED, "not a number at token 19");
    CHECK_FAILS(ll_stream_save(s, other), LL_EINVAL, "reset");
    s->broken = 0;
    CHECK_FAILS(ll_stream_save(s, other), LL_EINVAL, "diverged");
    CHECK_FAILS(ll_stream_save(s, "/nowhere/at all"), LL_EINVAL, "diverged");
    ll_stream_free(s);
    ll_model_free(model);
}

static ll_status everything(ll_model *model) {
    ll_stream *s = NULL, *copy = NULL, *back = NULL;
    ll_status status = ll_stream_create(&s, model);
    if (!status) status = ll_stream_feed(s, (const int[]){1, 2}, 2, NULL);
    if (!status) status = ll_stream_clone(&copy, s);
    if (!status) status = ll_stream_save(copy, other);
    if (!status) status = ll_stream_load(&back, model, other);
    if (status) assert_null(back);
    ll_stream_free(s);
    ll_stream_free(copy);
    ll_stream_free(back);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char *const kinds[] = {linear, exact};
    ll_set_threads(1);
    for (int i = 0; i < 2; i++) {
        ll_model *model = tiny_model(kinds[i]);
        long n = 1;
        for (ll_status status = LL_ENOMEM; status; n++) {
            ll_memory_fail_at(n);
            status = everything(model);
            ll_memory_fail_at(0);
            if (status) assert_int_equal(status, LL_ENOMEM);
            assert_true(n < 1000);
        }
        assert_true(n > 30);
        ll_model_free(model);
    }
    ll_set_threads(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_nothing_fed),
        cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_a_seed_that_stays),
        cmocka_unit_test(test_wrong_metadata),
        cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_not_saved),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_quantized_models),
        cmocka_unit_test(test_bf16_is_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
