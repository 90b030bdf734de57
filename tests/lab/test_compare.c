/* Tables of systems: what their files say and what their runs give. The results do not depend on how often they are
 * stopped. */
#include "tables.h"

#include <math.h>

#include "base/text.h"

/* ---- Files ---- */

static void files_are_read(void **state) {
    (void)state;
    ll_comparison *c = load(at("table.ini"));
    const ll_comparison_about *a = ll_comparison_report(c);
    assert_string_equal(a->title, "Small <things>");
    assert_string_equal(a->metric, "bits");
    assert_string_equal(a->split, "valid");
    assert_int_equal(a->rises, 0);
    assert_int_equal(a->batches, 3);
    assert_int_equal(a->differences, 1);
    assert_string_equal(a->difference[0].what, "data");
    assert_string_equal(system_at(c, 0).label, "Transformer");
    assert_string_equal(system_at(c, 1).label, "permute"); /* the default is its name */
    assert_true(system_at(c, 1).published == 2.5 && isnan(system_at(c, 2).published));
    ll_system s;
    assert_int_equal(ll_comparison_system(c, 3, &s), 0);
    CHECK_FAILS(ll_comparison_set(c, "model.nothing=1"), LL_EINVAL, "model.nothing");
    ll_comparison_free(c);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no systems"},
        {"title = x\n", "comes before"},
        {"[table]\nmetric = bits\nrecipe = sub/base.ini\n", "no systems"},
        {"[table]\nrecipe = sub/base.ini\n[a]\n", "lacks metric"},
        {"[table]\nmetric = speed\n", "bad.ini:2: metric is \"speed\""},
        {"[table]\nsplit = train\n", "bad.ini:2: split"},
        {"[table]\nbatches = -1\n", "bad.ini:2: batches"},
        {"[table]\ncolour = red\n", "bad.ini:2: there is no key \"colour\""},
        {"[table]\nmetric = bits\n[a]\npublished = many\n", "bad.ini:4: published is \"many\""},
        {"[table]\nmetric = bits\n[a]\nbaseline = magic\n", "bad.ini:4: baseline"},
        {"[table]\nmetric = bits\n[a]\nmetric = bits\n", "bad.ini:4: there is no key \"metric\""},
        {"[table]\nmetric = bits\n[a b]\n", "bad.ini:3: [a b]"},
        {"[table]\nmetric = bits\n[../a]\n", "bad.ini:3: [../a]"},
        {"[table]\nmetric = bits\n[a]\n[a]\n", "bad.ini:4: there are two"},
        {"[table]\nmetric = bits\n[a]\n", "[a] has no recipe"},
        {"[table]\nmetric = bits\nrecipe = gone.ini\n[a]\n", "gone.ini"},
        {"[table]\nmetric = bits\nrecipe = sub/base.ini\n\nmodel.nose = 1\n[a]\n", "bad.ini:5: there is no key"},
        {"[table]\nmetric = bits\nrecipe = sub/base.ini\n[a]\nmodel.layers = 0\n", "bad.ini:5: model.layers"},
        {"[table]\nmetric = bits\nrecipe = sub/base.ini\n[a]\nattention.kernel = softmax\nposition.type = permute\n",
         "bad.ini: [a]: position.type = permute"},
        {"[table\n", "bad.ini:1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_comparison *c = NULL;
        write_text(at("bad.ini"), cases[i].text);
        const ll_status status = ll_comparison_load(&c, at("bad.ini"));
        if (!status || !strstr(ll_error(), cases[i].message) || c)
            fail_msg("%s: %d, \"%s\"", cases[i].text, status, ll_error());
    }
    for (long n = 1;; n++) {
        ll_comparison *c = NULL;
        ll_memory_fail_at(n);
        const ll_status status = ll_comparison_load(&c, at("table.ini"));
        ll_memory_fail_at(0);
        if (!status) {
            ll_comparison_free(c);
            break;
        }
        assert_int_equal(status, LL_ENOMEM);
    }
}

/* ---- Runs ---- */

typedef struct {
    int steps, stop_at; /* reports of progress in training; after how many of them to stop */
    int first, of;
} seen;

static int look(const ll_comparison_progress *p, void *arg) {
    seen *s = arg;
    if (!s->first) s->first = p->number, s->of = p->of;
    assert_true(p->number >= 1 && p->number <= p->of && p->seed >= 1);
    if (!p->run) return 0;
    assert_string_equal(p->stage, "train");
    if (!p->run->event) s->steps++;
    return s->stop_at && s->steps >= s->stop_at;
}

static ll_comparison_how how_of(const char *folder, int64_t steps, int seeds, seen *s) {
    return (ll_comparison_how){.steps = steps, .seeds = seeds, .folder = folder, .progress = look, .arg = s};
}

/* The loss of a run made by hand, as a user would. */
static double by_hand(const char *folder, const char *changes, int seed) {
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    char keys[300];
    CHECK_OK(ll_recipe_load(&recipe, at("sub/base.ini")));
    snprintf(keys, sizeof keys, "train.steps=21 train.warmup=2 train.eval-every=3 train.seed=%d %s", seed, changes);
    for (char *rest = keys, *key; (key = strtok_r(rest, " ", &rest));) CHECK_OK(ll_recipe_set(recipe, key));
    CHECK_OK(ll_trainer_create(&trainer, recipe, folder, NULL));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    ll_model *m = NULL;
    CHECK_OK(ll_model_load(&m, in(strrchr(folder, '/') + 1, "best.safetensors")));
    CHECK_OK(ll_evaluate(m, "valid", 3, &e));
    ll_model_free(m);
    return e.bits_per_token;
}

static void results_are_those_of_runs(void **state) {
    (void)state;
    seen s = {0};
    ll_comparison *c = load(at("table.ini"));
    const ll_comparison_how how = how_of(at("whole"), 21, 2, &s);
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 4 * 21);
    assert_int_equal(s.of, 5);
    const double a =
        by_hand(at("hand1"), "attention.kernel=softmax position.type=rope position.decay=none model.ff=32", 1);
    const double b =
        by_hand(at("hand2"), "attention.kernel=softmax position.type=rope position.decay=none model.ff=32", 2);
    const ll_system soft = system_at(c, 0), permute = system_at(c, 1), letters = system_at(c, 2);
    assert_true(fabs(soft.mean - (a + b) / 2) < 1e-9 && fabs(soft.deviation - fabs(a - b) / sqrt(2)) < 1e-9);
    assert_true(soft.runs == 2 && soft.steps == 21 && soft.tokens == 21 * 4 * 24 && soft.seconds > 0);
    assert_true(permute.parameters > 0 && soft.parameters > permute.parameters); /* ff = 24, the system's own */
    ll_recipe *recipe = NULL;
    ll_baseline unigram;
    CHECK_OK(ll_recipe_load(&recipe, at("sub/base.ini")));
    CHECK_OK(ll_unigram(recipe, "valid", 3, &unigram));
    ll_recipe_free(recipe);
    assert_true(letters.runs == 1 && fabs(letters.mean - unigram.loss / log(2)) < 1e-9 && isnan(letters.deviation));
    int pairs, agree;
    ll_comparison_order(c, &pairs, &agree);
    assert_int_equal(pairs, 1); /* the baseline has no published figure */
    assert_int_equal(agree, soft.mean < permute.mean);
    ll_comparison_free(c);
}

/* Results are equal except for the time they took. */
static void same_result(const char *a, const char *b) {
    char *x = page_at(in(a, "result.ini")), *y = page_at(in(b, "result.ini"));
    for (int k = 0; k < 2; k++) {
        char *line = strstr(k ? y : x, "seconds = ");
        assert_non_null(line);
        memset(line, ' ', strcspn(line, "\n"));
    }
    /* one number may have more digits than the other */
    assert_int_equal(strncmp(x, y, strcspn(x, "p")), 0);
    assert_string_equal(strstr(x, "parameters"), strstr(y, "parameters"));
    ll_free(x);
    ll_free(y);
}

/* A table is stopped after any number of steps, again and again. The results are the same, and no step is made
 * twice. */
static void stopped_tables_go_on(void **state) {
    (void)state;
    int steps = 0, calls = 0;
    ll_comparison *c = load(at("table.ini"));
    for (ll_status status = LL_ESTOPPED; status; calls++) {
        seen s = {.stop_at = 13};
        const ll_comparison_how how = how_of(at("pieces"), 21, 2, &s);
        status = ll_comparison_run(c, &how);
        assert_true(status == LL_OK || status == LL_ESTOPPED);
        steps += s.steps;
    }
    assert_int_equal(steps, 4 * 21);
    assert_true(calls > 5);
    same_result("pieces/soft-1", "whole/soft-1");
    same_result("pieces/permute-2", "whole/permute-2");
    /* A finished run is not repeated; further seeds are run. */
    seen s = {0};
    ll_comparison_how how = how_of(at("pieces"), 21, 2, &s);
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 0);
    how.seeds = 3, how.only = 1, how.names = (const char *const[]){"permute"};
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 21);
    assert_int_equal(system_at(c, 0).runs, 2);
    assert_int_equal(system_at(c, 1).runs, 3);
    /* A run is killed with a checkpoint, and without one. */
    char command[300];
    snprintf(command, sizeof command, "rm %s/last.safetensors %s/best.safetensors", at("pieces/soft-2"),
             at("pieces/soft-2"));
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "sed -i 's/= done/= begun/' %s/result.ini %s/result.ini", at("pieces/soft-2"),
             at("pieces/soft-1"));
    assert_int_equal(system(command), 0);
    how.seeds = 2, how.only = 0, s.steps = 0;
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 21); /* seed 1 was finished */
    same_result("pieces/soft-1", "whole/soft-1");
    same_result("pieces/soft-2", "whole/soft-2");
    ll_comparison_free(c);
}

static void other_runs_are_refused(void **state) {
    (void)state;
    seen s = {0};
    ll_comparison *c = load(at("table.ini"));
    ll_comparison_how how = how_of(at("whole"), 22, 2, &s);
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "budget of 21 steps, not 22 steps");
    how.steps = 21, how.seeds = 0;
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "0 seeds");
    how.seeds = 2, how.only = 1, how.names = (const char *const[]){"nobody"};
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "[nobody]");
    how.only = 0;
    CHECK_OK(ll_comparison_set(c, "train.batch=8"));
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "[soft] with other settings (train.batch = 4, not 8)");
    how.steps = 0;
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "at least one step");
    assert_int_equal(s.steps, 0);
    write_text(at("whole/soft-1/result.ini"), "[result]\nstate = perhaps\n");
    how.steps = 21;
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EFORMAT, "state is \"perhaps\"");
    ll_comparison_free(c);
}

/* What reads the train split once has no budget. */
static void a_baseline_is_kept_under_any_budget(void **state) {
    (void)state;
    seen s = {0};
    ll_comparison *c = load(at("table.ini"));
    ll_comparison_how how = how_of(at("letters"), 21, 1, &s);
    how.only = 1, how.names = (const char *const[]){"letters"};
    CHECK_OK(ll_comparison_run(c, &how));
    how.steps = 12, how.only = 0;
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 2 * 12);
    assert_int_equal(system_at(c, 2).runs, 1);
    ll_comparison_free(c);
}

/* The digest of settings is another one after a release with other keys. Settings that are the same are accepted. */
static void runs_of_other_releases_are_kept(void **state) {
    (void)state;
    seen s = {0};
    char command[400];
    ll_comparison *c = load(at("table.ini"));
    ll_comparison_how how = how_of(at("kept"), 12, 1, &s);
    CHECK_OK(ll_comparison_run(c, &how));
    const ll_system soft = system_at(c, 0), letters = system_at(c, 2);
    ll_comparison_free(c);
    snprintf(command, sizeof command, "sed -i 's/^settings = .*/settings = 0123456789abcdef/' %s/*/result.ini",
             at("kept"));
    assert_int_equal(system(command), 0);
    c = load(at("table.ini"));
    s.steps = 0;
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 0);
    assert_true(system_at(c, 0).mean == soft.mean && system_at(c, 2).mean == letters.mean);
    assert_int_equal(rename(at("kept/soft-1/recipe.ini"), at("kept/soft-1/recipe.txt")), 0);
    CHECK_FAILS(ll_comparison_run(c, &how), LL_EINVAL, "[soft] with other settings");
    ll_comparison_free(c);
}

/* A budget of time: all seeds make as many steps as the first seed has time for. */
static void time_becomes_steps(void **state) {
    (void)state;
    seen s = {0};
    ll_comparison *c = load(at("table.ini"));
    ll_comparison_how how = how_of(at("timed"), 0, 2, &s);
    how.seconds = 1e-6, how.only = 1, how.names = (const char *const[]){"permute"};
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 2 * 10); /* the smallest number of steps */
    assert_true(system_at(c, 1).steps == 10);
    ll_comparison_free(c);
}

static void diverged_runs_are_results(void **state) {
    (void)state;
    seen s = {0};
    char text[600];
    snprintf(text, sizeof text,
             "[table]\nmetric = accuracy\nrecipe = sub/base.ini\nsplit = valid\n[wild]\npublished = 3\n"
             "train.learning-rate = 100\ntrain.weight-decay = 10\ntrain.schedule = constant\ntrain.warmup = 0\n"
             "[tame]\npublished = 2\n[high]\ntrain.learning-rate = 100\ntrain.schedule = constant\n");
    write_text(at("wild.ini"), text);
    ll_comparison *c = load(at("wild.ini"));
    const ll_comparison_how how = how_of(at("wild"), 60, 1, &s);
    CHECK_OK(ll_comparison_run(c, &how));
    const ll_system wild = system_at(c, 0), tame = system_at(c, 1);
    assert_true(wild.runs == 1 && wild.diverged == 1 && isnan(wild.mean));
    assert_true(tame.runs == 1 && tame.diverged == 0 && tame.mean > 0 && tame.mean <= 100);
    const ll_system high = system_at(c, 2); /* its loss is finite, and far above chance */
    assert_true(high.runs == 1 && high.diverged == 1 && isnan(high.mean));
    s.steps = 0;
    CHECK_OK(ll_comparison_run(c, &how));
    assert_int_equal(s.steps, 0);
    int pairs, agree;
    ll_comparison_order(c, &pairs, &agree);
    assert_int_equal(pairs, 0);
    CHECK_OK(ll_comparison_write(c, at("wild")));
    char *page = page_at(at("wild/table.html"));
    has(page, "1, 1 diverged");
    has(page, "high diverged, and has no curve here.");
    ll_free(page);
    ll_comparison_free(c);
}

/* ---- What is written ---- */

static void tables_are_written(void **state) {
    (void)state;
    seen s = {0};
    ll_comparison *c = load(at("table.ini"));
    const ll_comparison_how how = how_of(at("pieces"), 21, 2, &s);
    CHECK_OK(ll_comparison_run(c, &how));
    CHECK_OK(ll_comparison_write(c, at("pieces")));
    char *csv = page_at(at("pieces/table.csv")), *page = page_at(at("pieces/table.html")), row[200];
    const ll_system soft = system_at(c, 0);
    has(csv, "system,label,published,mean,deviation,runs,diverged,steps,tokens,seconds,parameters,count\n"
             "soft,\"Transformer\",1.5,");
    has(csv, "\nletters,\"letters\",,");
    check_page(page);
    ll_format_text(row, sizeof row, "Transformer</th><td>%.4f ± %.4f</td><td>1.5000</td><td>2</td><td>21</td>",
                   soft.mean, soft.deviation);
    has(page, row);
    has(page, "<h1>Small &lt;things&gt;</h1>");
    has(page, "<th scope=\"row\">data</th><td>little</td>");
    has(page, "<li>permute, seed 2</li>"); /* the run has no page ... */
    write_text(at("pieces/permute-2/report.html"), "a page");
    CHECK_OK(ll_comparison_write(c, at("pieces")));
    ll_free(page);
    page = page_at(at("pieces/table.html"));
    has(page, "<li><a href=\"permute-2/report.html\">permute, seed 2</a></li>"); /* ... and now it has one */
    has(page, "class=\"marked\"");
    has(page, "id=\"loss-by-time\"");
    assert_int_equal(files_in(at("pieces/table-figures"), "loss"), 4);
    ll_free(csv);
    ll_free(page);
    ll_comparison_free(c);
}

/* Curves of systems whose losses have different units. */
static void units_of_curves_are_named(void **state) {
    (void)state;
    seen s = {0};
    write_text(at("units.ini"), "[table]\nmetric = bits\nrecipe = sub/base.ini\nsplit = valid\nbatches = 1\n"
                                "[bytes]\n[words]\ndata.format = words\n[more]\ndata.format = words\n"
                                "model.vocab = 260\n");
    ll_comparison *c = load(at("units.ini"));
    ll_comparison_how how = how_of(at("units"), 10, 1, &s);
    how.names = (const char *const[]){"bytes", "words", "more"};
    for (how.only = 1; how.only <= 3; how.only++) {
        CHECK_OK(ll_comparison_run(c, &how));
        CHECK_OK(ll_comparison_write(c, at("units")));
        char *page = page_at(at("units/table.html"));
        has(page, how.only > 1 ? "bits per byte or word" : "bits per byte");
        assert_int_equal(strstr(page, "Losses in different units do not compare") != NULL, how.only > 1);
        assert_int_equal(strstr(page, "another model.vocab do not compare") != NULL, how.only > 2);
        ll_free(page);
    }
    ll_comparison_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(results_are_those_of_runs),
        cmocka_unit_test(stopped_tables_go_on),
        cmocka_unit_test(tables_are_written),
        cmocka_unit_test(other_runs_are_refused),
        cmocka_unit_test(a_baseline_is_kept_under_any_budget),
        cmocka_unit_test(runs_of_other_releases_are_kept),
        cmocka_unit_test(time_becomes_steps),
        cmocka_unit_test(diverged_runs_are_results),
        cmocka_unit_test(units_of_curves_are_named),
    };
    return cmocka_run_group_tests(tests, make_table, remove_data);
}
