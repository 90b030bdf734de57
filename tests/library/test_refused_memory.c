/* Public functions that find no memory: each says so, keeps nothing, and works again. Each allocation is refused in
 * turn, with all that follow. Other tests do the same for attention, streams, models, readers, runs and reports;
 * tests/trust/memory.sh does it for the commands, with the allocations of libraries. */
#include <limits.h>

#include "runs.h"

#include "data/music/score.h"
#include "longline-lab.h"

static ll_recipe *recipe;
static ll_model *model;
static ll_trainer *trainer;
static const int tokens[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, targets[] = {1, 2, 3, 4, 5, 6, 7, 8};

/* ---- Models and their training ---- */

static ll_status in_bytes(void) {
    char *bytes = NULL;
    size_t size = 0;
    ll_model *copy = NULL;
    ll_status status = ll_model_save_bytes(model, &bytes, &size);
    if (!status) status = ll_model_load_bytes(&copy, bytes, size, "copy");
    ll_model_free(copy);
    ll_text_free(bytes);
    return status;
}

static ll_status update(void) {
    const ll_memory_batch batch = {.struct_size = sizeof batch, .B = 2, .T = 4, .tokens = tokens, .targets = targets};
    ll_loss loss = {.struct_size = sizeof loss};
    ll_adam *adam = NULL;
    float *gradients = malloc(ll_model_size(model).block * sizeof *gradients);
    ll_status status = ll_adam_create(&adam, model);
    for (int i = 0; i < 4 && !status; i++) { /* features are drawn again after three updates */
        status = ll_model_loss(model, &batch, gradients, &loss);
        if (!status) status = ll_adam_step(adam, gradients, NULL);
    }
    ll_adam_free(adam);
    free(gradients);
    return status;
}

static ll_status step_time(void) {
    double seconds = 0;
    return ll_train_step_time(recipe, 1, &seconds);
}

static ll_status report(void) { return ll_trainer_report(trainer, 1, NULL); }

static void test_models(void **state) {
    (void)state;
    recipe = recipe_of("train.report=on");
    CHECK_OK(ll_model_create(&model, recipe));
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("run"), NULL));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    assert_true(check_refused_memory(in_bytes) > 5);
    assert_true(check_refused_memory(update) > 3);
    assert_true(check_refused_memory(step_time) > 10);
    assert_true(check_refused_memory(report) > 10);
    ll_trainer_free(trainer);
    ll_model_free(model);
    ll_recipe_free(recipe);
}

/* ---- Streams ---- */

static ll_attention_stream *stream;

static ll_status clone(void) {
    ll_attention_stream *copy = NULL;
    const ll_status status = ll_attention_stream_clone(&copy, stream);
    ll_attention_stream_free(copy);
    return status;
}

static void feed(ll_attention_stream *s, float y[8]) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const ll_view in = {x, 8, 8, 8}, out = {y, 8, 8, 8};
    CHECK_OK(ll_attention_stream_feed(s, 1, in, in, in, (ll_view){0}, out));
}

static void test_clones(void **state) {
    (void)state;
    static const ll_kernel kernels[] = {LL_KERNEL_ELU1, LL_KERNEL_SOFTMAX, LL_KERNEL_LOCAL};
    for (int i = 0; i < 3; i++) {
        ll_attention_config c = ll_attention_default();
        ll_attention *op = NULL;
        ll_attention_stream *copy = NULL;
        float y[8], again[8];
        c.kernel = kernels[i], c.approximate.window = 4, c.D = c.E = 8;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_stream_create(&stream, op, 1));
        feed(stream, y);
        assert_true(check_refused_memory(clone) >= 1);
        CHECK_OK(ll_attention_stream_clone(&copy, stream));
        feed(stream, y);
        feed(copy, again);
        assert_memory_equal(y, again, sizeof y);
        ll_attention_stream_free(copy);
        ll_attention_stream_free(stream);
        ll_attention_free(op);
    }
}

/* ---- Data ---- */

static const char *what;
static int most;

static ll_status make(void) { return ll_data_make(what, at("made"), 3, most, 1, NULL, NULL); }

static ll_status checksum(void) {
    char digits[65];
    int64_t bytes;
    return ll_data_checksum(at("train.txt"), digits, &bytes);
}

static ll_status count_ngrams(void) {
    double loss;
    int64_t count;
    return ll_ngrams(recipe, 3, "valid", NULL, NULL, &loss, &count);
}

static ll_status count_tokens(void) {
    ll_baseline b;
    return ll_unigram(recipe, "valid", 0, &b);
}

static ll_status measure_music(void) {
    ll_music_fit fit;
    return ll_music_measure(&fit, at("music"));
}

static ll_status compare_music(void) {
    ll_likeness likeness;
    return ll_music_compare(&likeness, at("music"), at("music"));
}

static ll_status write_midi(void) {
    static const int note[] = {LL_MUSIC_BAR, LL_MUSIC_POSITION, LL_MUSIC_PITCH + 60, LL_MUSIC_DURATION,
                               LL_MUSIC_VELOCITY + 16};
    ll_tokenizer *tokenizer = NULL;
    ll_status status = ll_tokenizer_create(&tokenizer, model);
    if (!status) status = ll_tokenizer_write_midi(tokenizer, at("one.mid"), note, 5, 0);
    ll_tokenizer_free(tokenizer);
    return status;
}

static void test_music(void **state) {
    (void)state;
    static const int none[] = {INT_MIN, INT_MAX, LL_MUSIC_BAR};
    ll_tokenizer *tokenizer = NULL;
    char assignment[160];
    CHECK_OK(ll_data_make("music", at("music"), 2, 4, 1, NULL, NULL));
    assert_true(check_refused_memory(measure_music) > 3);
    assert_true(check_refused_memory(compare_music) > 3);
    snprintf(assignment, sizeof assignment, "data.train=%s", at("music"));
    recipe = recipe_of("data.format=midi model.vocab=0");
    set(recipe, assignment);
    snprintf(assignment, sizeof assignment, "data.valid=%s", at("music"));
    set(recipe, assignment);
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("musician"), NULL));
    model = ll_trainer_model(trainer);
    assert_true(check_refused_memory(write_midi) > 3);
    CHECK_OK(ll_tokenizer_create(&tokenizer, model));
    CHECK_FAILS(ll_tokenizer_write_midi(tokenizer, at("one.mid"), none, 3, 5), LL_EINVAL, "in these 0 events");
    ll_tokenizer_free(tokenizer);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static void test_data_sets(void **state) {
    (void)state;
    recipe = recipe_of("");
    what = "listops", most = 60;
    assert_true(check_refused_memory(make) >= 2);
    remove(at("made"));
    what = "pathfinder-1", most = 16;
    assert_true(check_refused_memory(make) >= 2);
    what = "music", most = 4;
    assert_true(check_refused_memory(make) >= 2);
    (void)check_refused_memory(checksum);
    assert_true(check_refused_memory(count_ngrams) > 5);
    assert_true(check_refused_memory(count_tokens) > 3);
    ll_recipe_free(recipe);
}

/* ---- Pictures, tables, files ---- */

static ll_status draw(void) {
    static const float value[] = {1, 2, 3, 4};
    static const ll_panel panel = {"panel", 2, 2, value};
    const ll_heat_map map = {.title = "title", .n = 1, .panels = &panel, .numbers = 1};
    return ll_heat_map_write(&map, at("map.svg"));
}

static ll_status tabulate(void) {
    char *text = NULL;
    const ll_status status = ll_measured_table(&text, "recipes/tables/lra.ini");
    ll_text_free(text);
    return status;
}

static ll_status save_text(void) { return ll_text_save(at("text"), "text", 4); }

static ll_status save_stream(void) {
    ll_text_file *file = NULL;
    int fd;
    const ll_status status = ll_text_file_create(&file, at("long text"), &fd);
    if (status) return status;
    assert_true(write(fd, "text", 4) == 4);
    return ll_text_file_commit(file);
}

static ll_status check_tensors(void) {
    int count, checked;
    return ll_tensor_file_check(at("run/best.safetensors"), &count, &checked);
}

static void test_files(void **state) {
    (void)state;
    assert_true(check_refused_memory(draw) >= 1);
    assert_true(check_refused_memory(tabulate) > 5);
    assert_true(check_refused_memory(save_text) >= 1);
    assert_true(check_refused_memory(save_stream) > 1);
    ll_text_file_abandon(NULL);
    assert_true(check_refused_memory(check_tensors) >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_clones),
        cmocka_unit_test(test_music),
        cmocka_unit_test(test_data_sets),
        cmocka_unit_test(test_files),
    };
    ll_set_threads(1);
    return cmocka_run_group_tests_name("refused_memory", tests, make_data, remove_data);
}
