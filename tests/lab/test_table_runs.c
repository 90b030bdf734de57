/* Runs of a table: some whose evaluation diverges, some that another process makes, some of another split. */
#include "tables.h"

#include <math.h>

/* Makes the loss of the trained model infinite before it is evaluated. */
static int spoil(const ll_comparison_progress *p, void *arg) {
    ll_model *m = NULL;
    if (strcmp(p->stage, "evaluate")) return 0;
    ++*(int *)arg;
    CHECK_OK(ll_model_load(&m, at("spoilt/permute-1/best.safetensors")));
    for (int i = 0; i < m->param[0].rows * m->param[0].cols; i++) m->param[0].value[i] = i % 2 ? 3e38F : -3e38F;
    CHECK_OK(ll_model_save(m, at("spoilt/permute-1/best.safetensors")));
    ll_model_free(m);
    return 0;
}

static void models_that_cannot_be_evaluated_are_results(void **state) {
    (void)state;
    int evaluated = 0;
    char command[200];
    ll_comparison *c = load(at("table.ini"));
    ll_comparison_how how = {.steps = 5, .seeds = 1, .folder = at("spoilt"), .progress = spoil, .arg = &evaluated};
    how.only = 1, how.names = (const char *const[]){"permute"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ll_comparison_run(c, &how));
        assert_int_equal(system_at(c, 1).runs, 1);
        assert_int_equal(system_at(c, 1).diverged, 1);
        char *text = page_at(at("spoilt/permute-1/result.ini"));
        has(text, i ? "state = done" : "state = diverged");
        ll_free(text);
        /* the same, as earlier versions wrote it */
        snprintf(command, sizeof command, "sed -i 's/= diverged/= done\\nloss = nan/' %s/result.ini",
                 at("spoilt/permute-1"));
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(evaluated, 1);
    ll_comparison_free(c);
}

/* While a run begins here, another process ends one. */
static int meanwhile(const ll_comparison_progress *p, void *arg) {
    if (!strcmp(p->stage, "begin")) {
        CHECK_OK(ll_folder_create(at("shared/permute-1")));
        CHECK_OK(ll_file_copy(at("shared/permute-1/result.ini"), at("whole/permute-1/result.ini")));
    }
    return !strcmp(p->stage, "train") && *(int *)arg;
}

static void results_of_other_processes_are_seen(void **state) {
    (void)state;
    ll_comparison *whole = load(at("table.ini"));
    ll_comparison_how one = {.steps = 21, .seeds = 1, .folder = at("whole")};
    one.only = 1, one.names = (const char *const[]){"permute"};
    CHECK_OK(ll_comparison_run(whole, &one));
    ll_comparison_free(whole);
    for (int stop = 1; stop >= 0; stop--) {
        ll_comparison *c = load(at("table.ini"));
        ll_comparison_how how = {.steps = 21, .seeds = 1, .folder = at("shared"), .progress = meanwhile, .arg = &stop};
        how.only = 1, how.names = (const char *const[]){"soft"};
        assert_int_equal(ll_comparison_run(c, &how), stop ? LL_ESTOPPED : LL_OK);
        assert_int_equal(system_at(c, 0).runs, !stop);
        assert_int_equal(system_at(c, 1).runs, 1);
        assert_true(system_at(c, 1).mean > 0);
        ll_comparison_free(c);
        if (stop) assert_int_equal(remove(at("shared/permute-1/result.ini")), 0);
    }
}

typedef struct {
    const char *run;        /* the folder of the second system's run */
    const char *change;     /* sed: what the other process has made of the second system's run */
    int trained, elsewhere; /* steps made here; runs left to the other process */
} shared;

/* Another process begins or ends the run of the second system while the first one's begins here. */
static int share(const ll_comparison_progress *p, void *arg) {
    shared *s = arg;
    char command[400];
    const int second = !strcmp(p->system->name, "permute");
    s->trained += second && p->run && !p->run->event;
    s->elsewhere += !strcmp(p->stage, "elsewhere");
    if (second || strcmp(p->stage, "begin") || !s->change) return 0;
    CHECK_OK(ll_folder_create(s->run));
    snprintf(command, sizeof command, "sed '%s' %s >%s/result.ini", s->change, at("first/permute-1/result.ini"),
             s->run);
    assert_int_equal(system(command), 0);
    return 0;
}

static void processes_divide_the_runs(void **state) {
    (void)state;
    static const char *const changes[] = {NULL, "", "s/= done/= begun/; s/^steps = .*/steps = 17/"};
    static const char *const folders[] = {"first", "second", "third"};
    static const int steps[] = {10, 0, 17}; /* 10: the smallest number of steps */
    for (int i = 0; i < 3; i++) {
        char run[300];
        shared s = {.run = run, .change = changes[i]};
        snprintf(run, sizeof run, "%s/permute-1", at(folders[i]));
        ll_comparison *c = load(at("table.ini"));
        const ll_comparison_how how = {
            .seconds = 1e-6, .seeds = 1, .folder = at(folders[i]), .progress = share, .arg = &s};
        CHECK_OK(ll_comparison_run(c, &how));
        assert_int_equal(s.trained, steps[i]);
        for (int k = 0; k < 3; k++) assert_int_equal(system_at(c, k).runs, 1);
        ll_comparison_free(c);
    }
}

/* A run that another process makes is passed over, whatever is in its folder so far. */
static void locked_runs_are_left_to_others(void **state) {
    (void)state;
    static const char *const models[] = {NULL, "busy/soft-1/best.safetensors", "busy/soft-1/last.safetensors"};
    char busy[300];
    ll_comparison *c = load(at("table.ini"));
    shared s = {0};
    const ll_comparison_how how = {.steps = 5, .seeds = 1, .folder = busy, .progress = share, .arg = &s};
    snprintf(busy, sizeof busy, "%s", at("busy"));
    CHECK_OK(ll_folder_create(at("busy/soft-1")));
    for (int i = 0; i < 3; i++) {
        int lock, why;
        if (models[i]) write_text(at(models[i]), "a model");
        CHECK_OK(ll_folder_lock(&lock, &why, at("busy/soft-1")));
        CHECK_OK(ll_comparison_run(c, &how));
        close(lock);
        assert_int_equal(s.elsewhere, i + 1);
        assert_true(system_at(c, 0).runs == 0 && system_at(c, 1).runs == 1);
    }
    for (int i = 1; i < 3; i++) assert_int_equal(remove(at(models[i])), 0);
    CHECK_OK(ll_comparison_run(c, &how));
    assert_true(s.elsewhere == 3 && system_at(c, 0).runs == 1);
    ll_comparison_free(c);
}

/* Counts reports of training. */
static int count_training(const ll_comparison_progress *p, void *arg) {
    *(int *)arg += !strcmp(p->stage, "train");
    return 0;
}

/* Runs the small table after a change of its file. */
static ll_comparison *run_changed(const char *change, const char *folder, int *trained) {
    char text[300];
    snprintf(text, sizeof text, "sed '%s' %s >%s", change, at("table.ini"), at("changed.ini"));
    assert_int_equal(system(text), 0);
    ll_comparison *c = load(at("changed.ini"));
    snprintf(text, sizeof text, "data.test=%s", at("train.txt"));
    CHECK_OK(ll_comparison_set(c, text));
    const ll_comparison_how how = {
        .steps = 12, .seeds = 1, .folder = folder, .progress = count_training, .arg = trained};
    *trained = 0;
    CHECK_OK(ll_comparison_run(c, &how));
    return c;
}

/* Another split, or other batches: the models that there are, are evaluated again. */
static void results_are_of_the_split_of_the_table(void **state) {
    (void)state;
    static const char *const changes[] = {"s/= valid/= test/", "s/^batches = 3/batches = 1/", "/^batches/d"};
    static const char *const folders[] = {"test", "one", "all"};
    int trained;
    ll_comparison_free(run_changed("", at("split"), &trained));
    assert_int_equal(remove(at("split/soft-1/last.safetensors")), 0);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        ll_comparison *fresh = run_changed(changes[i], at(folders[i]), &trained);
        ll_comparison *c = run_changed(changes[i], at("split"), &trained);
        assert_int_equal(trained, 0);
        for (int k = 0; k < 3; k++) {
            const ll_system a = system_at(fresh, k), b = system_at(c, k);
            assert_true(b.runs == 1 && a.mean == b.mean && a.count == b.count && a.tokens == b.tokens);
        }
        ll_comparison_free(fresh);
        ll_comparison_free(c);
    }
}

/* A system of which some runs diverged has a mean, but is neither the best one nor in the published order. */
static void means_of_survivors_win_nothing(void **state) {
    (void)state;
    static const char *const changes[] = {"s/^loss = .*/loss = 0.2/", "s/^loss = .*/loss = 800/",
                                          "s/= done/= diverged/"};
    char command[400], folder[300];
    snprintf(command, sizeof command, "sed 's/= bits/= perplexity/' %s >%s", at("table.ini"), at("changed.ini"));
    assert_int_equal(system(command), 0);
    snprintf(folder, sizeof folder, "%s", at("lucky"));
    const ll_comparison_how how = {.steps = 5, .seeds = 2, .folder = folder};
    ll_comparison *c = load(at("changed.ini"));
    CHECK_OK(ll_comparison_run(c, &how));
    ll_comparison_free(c);
    snprintf(command, sizeof command, "sed -i 's/^loss = .*/loss = 0.1/' %s/permute-1/result.ini", folder);
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 3; i++) {
        int pairs, agree;
        snprintf(command, sizeof command, "sed -i '%s' %s/permute-2/result.ini", changes[i], folder);
        assert_int_equal(system(command), 0);
        c = load(at("changed.ini"));
        CHECK_OK(ll_comparison_run(c, &how));
        CHECK_OK(ll_comparison_write(c, folder));
        const ll_system s = system_at(c, 1);
        assert_true(s.runs == 2 && s.diverged == (i > 0) && isfinite(s.mean) && isfinite(s.deviation) == !i);
        ll_comparison_order(c, &pairs, &agree);
        assert_int_equal(pairs, !i);
        char *page = page_at(at("lucky/table.html"));
        assert_int_equal(strstr(page, "<tr class=\"marked\"><th scope=\"row\">permute") != NULL, !i);
        assert_int_equal(strstr(page, "Means are of the runs that did not diverge.") != NULL, i > 0);
        ll_free(page);
        ll_comparison_free(c);
    }
    /* Nor does the other one of the pair win, if the first one's diverged. */
    int pairs, agree;
    snprintf(command, sizeof command, "sed -i 's/= diverged/= done/; s/^loss = .*/loss = 0.2/' %s/permute-2/result.ini",
             folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "sed -i 's/= done/= diverged/' %s/soft-2/result.ini", folder);
    assert_int_equal(system(command), 0);
    c = load(at("changed.ini"));
    CHECK_OK(ll_comparison_run(c, &how));
    assert_true(system_at(c, 0).diverged == 1 && system_at(c, 1).diverged == 0);
    ll_comparison_order(c, &pairs, &agree);
    assert_int_equal(pairs, 0);
    ll_comparison_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_that_cannot_be_evaluated_are_results),
        cmocka_unit_test(results_of_other_processes_are_seen),
        cmocka_unit_test(processes_divide_the_runs),
        cmocka_unit_test(locked_runs_are_left_to_others),
        cmocka_unit_test(means_of_survivors_win_nothing),
        cmocka_unit_test(results_are_of_the_split_of_the_table),
    };
    return cmocka_run_group_tests(tests, make_table, remove_data);
}
