/* What a run does not resume from: a recipe of another run, other data, a damaged checkpoint. */
#include "runs.h"

#include <sys/stat.h>

#include "recipe/recipe_key.h"

/* A value of a key that it does not have: of two choices the other one, of a range its lower or upper end. */
static void other_value(char text[LL_NUMBER_TEXT], const ll_key *key, const char *value) {
    const char *choice = key->about.choices;
    const size_t n = strlen(value);
    double now = 0;
    if (choice && !strncmp(choice, value, n) && choice[n] == '|') choice += n + 1;
    if (choice)
        snprintf(text, LL_NUMBER_TEXT, "%.*s", (int)strcspn(choice, "|"), choice);
    else if (key->type == LL_KEY_TEXT)
        snprintf(text, LL_NUMBER_TEXT, "another");
    else if (ll_parse_number(&now, value) && key->type == LL_KEY_NUMBER)
        ll_print_number(text, now > key->lo ? key->lo : key->hi);
    else
        snprintf(text, LL_NUMBER_TEXT, "%.0f", now > key->lo ? key->lo : key->hi);
}

/* A key may change on resume, or it belongs to the run. */
static void test_every_key(void **state) {
    (void)state;
    const ll_recipe_key *key;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        char value[LL_NUMBER_TEXT], assignment[128], named[128];
        ll_model *model = NULL;
        CHECK_OK(ll_model_load(&model, in("straight", "last.safetensors")));
        ll_recipe *recipe = NULL;
        CHECK_OK(ll_recipe_copy(&recipe, model->recipe));
        other_value(value, ll_key_at(i), ll_recipe_get(recipe, key->name));
        snprintf(assignment, sizeof assignment, "%s=%s", key->name, value);
        snprintf(named, sizeof named, "its %s is", key->name);
        set(recipe, assignment);
        if (key->resumable) {
            CHECK_OK(ll_fit_resume(model, recipe, "last.safetensors"));
            assert_string_equal(ll_recipe_get(model->recipe, key->name), ll_recipe_get(recipe, key->name));
        } else {
            CHECK_FAILS(ll_fit_resume(model, recipe, "last.safetensors"), LL_EINVAL, named);
        }
        ll_recipe_free(recipe);
        ll_model_free(model);
    }
}

static void test_the_recipe_of_the_folder_must_fit(void **state) {
    (void)state;
    ll_trainer *trainer = NULL;
    copy_folder(at("straight"), at("edited"));
    ll_bytes own = slurp(in("edited", "recipe.ini"));
    char *width = strstr((char *)own.data, "width = 16");
    assert_non_null(width);
    width[8] = '3';
    CHECK_OK(ll_file_write(in("edited", "recipe.ini"), own.data, own.size));
    CHECK_FAILS(ll_trainer_create(&trainer, NULL, NULL, at("edited")), LL_EINVAL, "model.width");
    ll_bytes_free(&own);
    CHECK_OK(ll_file_write(in("edited", "recipe.ini"), "[model]\nwidht = 16\n", 19));
    CHECK_FAILS(ll_trainer_create(&trainer, NULL, NULL, at("edited")), LL_EINVAL, "edited/recipe.ini");
}

static void test_another_model_is_refused(void **state) {
    (void)state;
    CHECK_FAILS(refused("model.width=32", at("straight"), at("straight")), LL_EINVAL, "model.width");
    CHECK_FAILS(refused("attention.num-features=32", at("straight"), at("straight")), LL_EINVAL,
                "attention.num-features");
    CHECK_FAILS(refused("position.type=none", at("straight"), at("straight")), LL_EINVAL, "position.type");
    CHECK_FAILS(refused("train.seed=9", at("straight"), at("straight")), LL_EINVAL, "train.seed");
    char more[200];
    snprintf(more, sizeof more, "data.train=%s", at("other.txt"));
    CHECK_FAILS(refused(more, at("straight"), at("straight")), LL_EINVAL, "data.train");
    ll_bytes text = slurp(at("train.txt"));
    for (size_t i = text.size / 2; i < text.size; i++) text.data[i] ^= 1;
    CHECK_OK(ll_file_write(at("other.txt"), text.data, text.size));
    ll_bytes_free(&text);
    CHECK_FAILS(refused(more, at("straight"), at("straight")), LL_EINVAL, "data.train is as long as");
    assert_int_equal(mkdir(at("weights"), 0777), 0);
    ll_bytes best = slurp(in("straight", "best.safetensors"));
    CHECK_OK(ll_file_write(in("weights", "last.safetensors"), best.data, best.size));
    ll_bytes_free(&best);
    CHECK_FAILS(refused(NULL, at("weights"), at("weights")), LL_EFORMAT, "cannot be resumed");
    CHECK_FAILS(refused(NULL, at("nowhere"), at("nowhere")), LL_EIO, "no run folder");
    assert_int_not_equal(access(at("nowhere"), F_OK), 0);
}

static void test_a_folder_with_a_run_is_refused(void **state) {
    (void)state;
    CHECK_FAILS(refused(NULL, at("straight"), NULL), LL_EINVAL, "resume");
    CHECK_FAILS(refused(NULL, NULL, NULL), LL_EINVAL, "folder");
    CHECK_FAILS(refused("data.train=/does/not/exist", at("empty"), NULL), LL_EIO, "/does/not/exist");
    CHECK_FAILS(refused("model.vocab=60", at("empty"), NULL), LL_EINVAL, "model.vocab");
    assert_int_not_equal(access(at("empty"), F_OK), 0);
}

/* A checkpoint that ends anywhere is refused, and nothing crashes. */
static void test_damaged_checkpoints(void **state) {
    (void)state;
    ll_bytes whole = slurp(in("straight", "last.safetensors"));
    assert_int_equal(mkdir(at("damaged"), 0777), 0);
    for (size_t cut = 0; cut < whole.size; cut += whole.size / 23 + 1) {
        CHECK_OK(ll_file_write(in("damaged", "last.safetensors"), whole.data, cut));
        assert_int_equal(refused(NULL, at("damaged"), at("damaged")), LL_EFORMAT);
    }
    ll_bytes_free(&whole);
    copy_folder(at("straight"), at("metrics"));
    CHECK_OK(ll_file_write(in("metrics", "metrics.csv"), "a,b\n1,2\n", 8));
    CHECK_FAILS(refused(NULL, at("metrics"), at("metrics")), LL_EFORMAT, "metrics.csv");
}

/* The run of folder "numbers" is resumed, one of its numbers becomes x, and a checkpoint is saved. */
static void spoil(int number, int64_t x) {
    ll_trainer *t = NULL;
    CHECK_OK(ll_trainer_create(&t, NULL, NULL, at("numbers")));
    ll_run_state s = t->state;
    int64_t *const numbers[] = {&s.rewinds, &s.tokens, &s.row, &s.best_step, t->engine->carry->offset + 3};
    *numbers[number] = x;
    CHECK_OK(ll_checkpoint_save(in("numbers", "last.safetensors"), t->engine, &s));
    ll_trainer_free(t);
}

/* Numbers that no run would have written. */
static void test_damaged_numbers(void **state) {
    (void)state;
    static const struct {
        int number;
        int64_t x;
        const char *named;
    } cases[] = {
        {0, -1, "train.rewinds holds -1;"},      {0, LL_REWINDS + 1, "train.rewinds holds 4;"},
        {1, -1, "train.counters holds -1;"},     {1, (INT64_C(1) << 52) + 1, "train.counters holds 4503599627370497;"},
        {2, -7, "train.counters holds -7;"},     {3, -2, "train.counters holds -2;"},
        {4, -1, "train.carry-offset holds -1;"},
    };
    run("train.carry-state=on attention.redraw=0 model.separator=32", at("numbers"), NULL, 6, LL_ESTOPPED);
    ll_bytes whole = slurp(in("numbers", "last.safetensors"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_trainer *t = NULL;
        spoil(cases[i].number, cases[i].x);
        CHECK_FAILS(ll_trainer_create(&t, NULL, NULL, at("numbers")), LL_EFORMAT, cases[i].named);
        CHECK_OK(ll_file_write(in("numbers", "last.safetensors"), whole.data, whole.size));
    }
    spoil(0, LL_REWINDS), spoil(1, INT64_C(1) << 52), spoil(4, 0);
    ll_bytes_free(&whole);
}

/* A checkpoint with a state that no window leaves: number `at`, counted from the end if it is negative, becomes x. */
static void spoil_state(int at_number, float x) {
    ll_trainer *t = NULL;
    CHECK_OK(ll_trainer_create(&t, NULL, NULL, at("carried")));
    const ll_carry *c = t->engine->carry;
    c->in[at_number < 0 ? (int)c->count + at_number : at_number] = x;
    CHECK_OK(ll_checkpoint_save(in("carried", "last.safetensors"), t->engine, &t->state));
    ll_trainer_free(t);
}

static void test_damaged_states(void **state) {
    (void)state;
    static const char local[] = "attention.kernel=local attention.window=8",
                      reformer[] = "attention.kernel=reformer attention.buckets=4 attention.chunk=4 attention.rounds=1",
                      rounds[] = "attention.kernel=reformer attention.buckets=4 attention.chunk=4 attention.rounds=2",
                      s2[] = "attention.kernel=relu position.type=relative-s2 position.clip=3 model.heads=4",
                      relu[] = "attention.kernel=relu", favor[] = "attention.kernel=favor",
                      two[] = "attention.kernel=relu model.layers=2";
    static const struct {
        const char *kernel;
        int number;
        float x;
        const char *named;
    } cases[] = {
        {local, 0, 1e6f, "tensor tokens holds 1e+06, must be a whole number from 0 to 7"},
        {local, 0, -1, "tensor tokens holds -1,"},
        {local, 0, 0.5f, "tensor tokens holds 0.5,"},
        {local, 0, NAN, "tensor tokens holds "},
        {local, 5, INFINITY, "tensor keys is not finite at element 4"},
        {local, -1, NAN, "tensor values is not finite"},
        {reformer, 2, -3, "tensor tokens holds -3, must be a whole number from 0 to 15"},
        {reformer, 2, 16, "tensor tokens holds 16,"},
        {reformer, -1, -INFINITY, "tensor values is not finite"},
        {rounds, 15, 16, "tensor tokens holds 16,"}, /* in the last bucket of the last round */
        {s2, -1, NAN, "tensor keyless.kept is not finite"},
        /* The upper halves of doubles: what the two heads without keys count. */
        {s2, -37, -2, "tensor keyless.count holds -2, must be a whole number from 0 to 4503599627370496"},
        {s2, -33, -2, "tensor keyless.count holds -2, must be a whole number from 0 to 4503599627370496"},
        {s2, -35, 4, "tensor keyless.count holds 512, must be a whole number from 0 to 3"},
        {s2, -31, 4, "tensor keyless.count holds 512, must be a whole number from 0 to 3"},
        {relu, 0, NAN, "tensor state is not finite at element 0"},
        {relu, -1, -2, "tensor state holds -2, must be a whole number"}, /* the number of keys */
        {two, -1, -2, "tensor state holds -2, must be a whole number"},
        {favor, 0, -INFINITY, "tensor state is not finite at element 0"},
        {favor, -5, 0.5f, "has the exponent 0.5"},
        {favor, -5, 1e30f, "has the exponent 1e+30"},
        {favor, -2, 1e30f, "at most 1e+30"},
        {favor, -5, 1e3f, "has the exponent 1000"}, /* not that of its bound */
        {favor, -5, -0x1p29f, "has the exponent -5.36871e+08"},
        {relu, -5, 3, "has the exponent 3"},
        {s2, -37, NAN, "tensor keyless.count holds "},
        {s2, -37, 2.0625f, "tensor keyless.count holds 2.5, must be a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[200];
        ll_trainer *t = NULL;
        snprintf(more, sizeof more, "train.carry-state=on attention.redraw=0 position.type=none %s", cases[i].kernel);
        run(more, at("carried"), NULL, 6, LL_ESTOPPED);
        spoil_state(cases[i].number, cases[i].x);
        CHECK_FAILS(ll_trainer_create(&t, NULL, NULL, at("carried")), LL_EFORMAT, cases[i].named);
        assert_non_null(strstr(ll_error(), "carried/last.safetensors: train.carry: "));
        char command[200];
        snprintf(command, sizeof command, "rm -r '%s'", at("carried"));
        assert_int_equal(system(command), 0);
    }
}

/* Pairs with the same targets and other sources, of the same or another length. */
static void test_other_sources_are_refused(void **state) {
    (void)state;
    static const char *const sources[] = {"abcd", "abcx", "abc"};
    for (int i = 0; i < 3; i++) {
        char name[16], keys[200], text[1200];
        size_t n = 0;
        for (int line = 0; line < 60; line++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d\tt%d\n", sources[i], line, line);
        snprintf(name, sizeof name, "pairs%d.tsv", i);
        CHECK_OK(ll_file_write(at(name), text, n));
        snprintf(keys, sizeof keys,
                 "model.task=seq2seq model.vocab=259 position.cross=both data.format=pairs "
                 "data.valid= data.train=%s",
                 at(name));
        if (i)
            CHECK_FAILS(refused(keys, at("pairs"), at("pairs")), LL_EINVAL, "differs from it");
        else
            run(keys, at("pairs"), NULL, 6, LL_ESTOPPED);
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_the_recipe_of_the_folder_must_fit),
        cmocka_unit_test(test_another_model_is_refused),
        cmocka_unit_test(test_a_folder_with_a_run_is_refused),
        cmocka_unit_test(test_damaged_checkpoints),
        cmocka_unit_test(test_damaged_numbers),
        cmocka_unit_test(test_damaged_states),
        cmocka_unit_test(test_other_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, make_straight, remove_data);
}
