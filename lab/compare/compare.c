/* All runs of a comparison, seed by seed, so that there is a table early, which becomes more certain with every
 * seed. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "compare/compare_internal.h"
#include "train/train_internal.h"

enum { LEAST_STEPS = 10, TIMED = 5, TIMED_MOST = 100 };
static const double TIMING = 1; /* seconds, about */

typedef struct {
    ll_comparison *c;
    const ll_comparison_how *how;
    char budget[32];
    double spent; /* seconds of the runs made in this call, and ... */
    int made;     /* ... their number */
    ll_comparison_progress now;
    ll_system system;
    double run_total; /* expected seconds of the current run, if known */
} session;

char *ll_contender_folder(const ll_contender *x, const char *folder, int seed) {
    char name[96];
    snprintf(name, sizeof name, "%s-%d", x->name, seed);
    return ll_path_join(folder, name);
}

/* ---- Finished runs ---- */

static int wanted(const session *s, const ll_contender *x, int seed) {
    if (x->result[seed - 1].state >= LL_RESULT_DONE || (x->baseline && seed > 1)) return 0;
    for (int i = 0; i < s->how->only; i++)
        if (!strcmp(s->how->names[i], x->name)) return 1;
    return s->how->only == 0;
}

/* Is its loss that of another split, or of other batches? Earlier versions did not write which ones they were. */
static int is_of_other_split(const session *s, const ll_result *r) {
    const ll_comparison_about *a = &s->c->about;
    return r->state == LL_RESULT_DONE && (strcmp(r->split, a->split) || r->batches != a->batches);
}

static ll_status check_result(const session *s, const ll_contender *x, ll_result *r, const char *run, int seed) {
    char settings[24];
    ll_status status = ll_result_settings(settings, x->recipe, x->said);
    if (status || r->state == LL_RESULT_NONE) return status;
    const int same = !strcmp(r->settings, settings), other_split = is_of_other_split(s, r);
    if (x->baseline && (!same || other_split))
        return *r = (ll_result){.loss = NAN, .accuracy = NAN}, LL_OK; /* soon measured again */
    if (other_split) r->state = LL_RESULT_TRAINED;
    if (!same) status = ll_contender_compare(x, r, run, seed);
    if (status) return status;
    memcpy(r->settings, settings, sizeof settings);
    if (!x->baseline && strcmp(r->budget, s->budget))
        return ll_fail(LL_EINVAL,
                       "%s was made under a budget of %s, not %s, and the two do not compare; give the same budget, or "
                       "another folder for the results",
                       run, r->budget, s->budget);
    return LL_OK;
}

/* again: what another process may have finished since; results that are there stay. */
static ll_status read_system(const session *s, ll_contender *x, int again) {
    ll_status status = LL_OK;
    for (int k = 0; k < LL_SEEDS_MOST && !status; k++) {
        if (again && x->result[k].state >= LL_RESULT_DONE) continue;
        char *run = ll_contender_folder(x, s->how->folder, k + 1);
        status = run ? ll_result_read(&x->result[k], run) : LL_ENOMEM;
        if (!status && k < s->c->seeds) status = check_result(s, x, &x->result[k], run, k + 1);
        ll_free(run);
    }
    return status;
}

static ll_status read_results(const session *s, int again) {
    ll_status status = LL_OK;
    for (int i = 0; i < s->c->systems && !status; i++) status = read_system(s, &s->c->system[i], again);
    return status;
}

/* Before a run: all ranks take what rank 0 reads. */
static ll_status read_again(const session *s, ll_contender *x) {
    const ll_group all = ll_group_all();
    const ll_status status = ll_group_agree(&all, read_system(s, x, 1));
    return status ? status : ll_group_broadcast(&all, x->result, sizeof x->result, 0);
}

static int left(const session *s) {
    int n = 0;
    for (int i = 0; i < s->c->systems; i++)
        for (int seed = 1; seed <= s->c->seeds; seed++) n += wanted(s, &s->c->system[i], seed);
    return n;
}

/* Ranks that know of other runs would make other ones. */
static ll_status compare_ranks(const session *s) {
    char sum[LL_CHECKSUM_TEXT] = "";
    for (int seed = 1; seed <= s->c->seeds; seed++)
        for (int i = 0; i < s->c->systems; i++) {
            const ll_contender *x = &s->c->system[i];
            char text[160];
            const int n = snprintf(text, sizeof text, "%s %s %d %d %lld", sum, x->name, seed, wanted(s, x, seed),
                                   (long long)x->result[seed - 1].steps);
            ll_st_checksum(sum, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
        }
    return ll_dist_same("a checksum of its systems and finished runs", sum,
                        "give all ranks the same table, arguments and folder of runs");
}

/* ---- Progress ---- */

static int report(session *s, const char *stage, const ll_progress *run) {
    const double known = s->how->seconds > 0 ? s->how->seconds : s->made ? s->spent / s->made : s->run_total;
    if (!s->how->progress) return 0;
    s->now.stage = stage;
    s->now.run = run;
    s->now.after = known > 0 ? known * (s->now.of - s->now.number) : NAN;
    double stop = s->how->progress(&s->now, s->how->arg);
    const ll_group all = ll_group_all();
    if (!run && ll_group_all_reduce(&all, &stop, 1))
        return 1; /* ranks stop together; in a run the trainer sees to it */
    return stop > 0;
}

static int on_step(const ll_progress *run, void *arg) {
    session *s = arg;
    if (isfinite(run->eta)) s->run_total = run->seconds + run->eta;
    return report(s, "train", run);
}

static ll_status stopped(void) {
    return ll_fail(LL_ESTOPPED, "stopped; finished runs are kept, and the same command continues");
}

/* ---- A plan ---- */

/* Ranks go by the time of rank 0. */
static ll_status same_time(ll_status status, double *seconds) {
    const ll_group all = ll_group_all();
    status = ll_group_agree(&all, status);
    return status ? status : ll_group_broadcast(&all, seconds, sizeof *seconds, 0);
}

/* A recipe with the sizes that its data give, which can be trained. */
static ll_status fill(ll_recipe **full, const ll_recipe *recipe) {
    ll_reader *reader = NULL;
    ll_status status = ll_recipe_copy(full, recipe);
    if (!status) status = ll_reader_open(&reader, &(*full)->c, "train");
    if (!status) status = ll_fit_fill(*full, reader);
    if (!status) status = ll_config_check(&(*full)->c);
    ll_reader_free(reader);
    return status;
}

/* Seconds that a step of this system takes here. */
static ll_status time_step(const ll_recipe *recipe, double *seconds) {
    ll_recipe *full = NULL;
    ll_status status = fill(&full, recipe);
    status = same_time(status ? status : ll_train_step_time(full, TIMED, seconds), seconds);
    const double more = status ? 0 : fmin(TIMING / fmax(*seconds, 1e-9), TIMED_MOST);
    if (more > TIMED) status = same_time(ll_train_step_time(full, (int)more, seconds), seconds);
    ll_recipe_free(full);
    return status;
}

/* All seeds of a system make the same number of steps: that of the first seed, which had to fit its time. */
static ll_status plan(session *s, const ll_contender *x, ll_result *r) {
    double step = 0;
    int64_t steps = s->how->steps;
    *r = (ll_result){.loss = NAN, .accuracy = NAN};
    ll_status status = ll_result_settings(r->settings, x->recipe, x->said);
    snprintf(r->budget, sizeof r->budget, "%s", s->budget);
    for (int k = 0; k < LL_SEEDS_MOST && s->how->seconds > 0; k++)
        if (x->result[k].state && !strcmp(x->result[k].budget, s->budget) &&
            !strcmp(x->result[k].settings, r->settings))
            steps = x->result[k].steps;
    if (!status && steps < 1) {
        if (report(s, "pace", NULL)) return stopped();
        status = time_step(x->recipe, &step);
        if (!status) steps = (int64_t)fmin(s->how->seconds / fmax(step, 1e-9), 1e12);
        if (steps < LEAST_STEPS) steps = LEAST_STEPS;
    }
    r->steps = steps;
    return status;
}

/* ---- A run ---- */

/* Rank 0 has the folders. */
static ll_status write_result(const ll_result *r, const char *run) {
    return ll_dist_ranks().rank ? LL_OK : ll_result_write(r, run);
}

/* Did a run fail to begin because another process makes it? */
static int is_made_elsewhere(const char *run) {
    const ll_group all = ll_group_all();
    int lock = -1, why = 0;
    if (!ll_dist_ranks().rank && !access(run, F_OK) && ll_folder_lock(&lock, &why, run) && why != EWOULDBLOCK) why = 0;
    if (lock >= 0) close(lock);
    return !ll_group_broadcast(&all, &why, sizeof why, 0) && why == EWOULDBLOCK;
}

/* *planned is written when the run can begin, because its data exist. r stays as it is if another process makes the
 * run. */
static ll_status train(session *s, const ll_recipe *recipe, const char *run, ll_result *planned, ll_result *r) {
    ll_trainer *trainer = NULL;
    char *last = ll_path_join(run, "last.safetensors");
    if (!last) return LL_ENOMEM;
    const int begun = !access(last, F_OK);
    ll_free(last);
    ll_status status = ll_trainer_create(&trainer, recipe, run, begun ? run : NULL);
    if (status && is_made_elsewhere(run)) return report(s, "elsewhere", NULL) ? stopped() : LL_OK;
    if (status) return status;
    if (planned->state == LL_RESULT_NONE) {
        planned->state = LL_RESULT_BEGUN;
        status = write_result(planned, run);
    }
    if (!status) ll_trainer_on_report(trainer, ll_trainer_report, NULL);
    if (!status) status = ll_trainer_run(trainer, on_step, s);
    /* A run whose last steps have a loss far above chance diverged, whatever its best model was before. */
    if (!status) status = ll_trainer_check_loss(trainer, LL_ROW_EVERY);
    r->state = LL_RESULT_TRAINED;
    r->tokens = (double)trainer->state.tokens;
    r->seconds = trainer->progress.seconds;
    r->parameters = (double)ll_model_size(trainer->model).parameters;
    ll_trainer_free(trainer);
    return status;
}

static void set_loss(const session *s, ll_result *r, double loss, double accuracy, double count) {
    snprintf(r->split, sizeof r->split, "%s", s->c->about.split);
    r->batches = s->c->about.batches;
    r->state = LL_RESULT_DONE;
    r->loss = loss, r->accuracy = accuracy, r->count = count;
}

/* Evaluates the model with the lowest held-out loss on the table's split. */
static ll_status evaluate(session *s, const char *run, ll_result *r) {
    ll_model *model = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    if (report(s, "evaluate", NULL)) return stopped();
    const ll_group all = ll_group_all();
    ll_status status = ll_group_barrier(&all); /* rank 0 has written it */
    if (!status) status = ll_run_load(&model, run);
    if (!status && !model) status = ll_fail(LL_EIO, "%s has lost its model; remove that folder to repeat the run", run);
    if (!status) status = ll_evaluate(model, s->c->about.split, s->c->about.batches, &e);
    if (!status) set_loss(s, r, e.loss, e.accuracy, (double)e.count);
    ll_model_free(model);
    return status;
}

static ll_status make_run(session *s, ll_contender *x, int seed) {
    ll_result *r = &x->result[seed - 1], done = {0};
    ll_recipe *recipe = NULL;
    char *run = ll_contender_folder(x, s->how->folder, seed);
    ll_status status = run ? LL_OK : LL_ENOMEM;
    s->run_total = 0;
    if (!status && report(s, "begin", NULL)) status = stopped();
    if (!status && r->state == LL_RESULT_NONE) status = plan(s, x, r);
    if (!status) status = ll_contender_recipe(&recipe, x, r, seed);
    if (!status) done = *r;
    if (!status && r->state < LL_RESULT_TRAINED) status = train(s, recipe, run, r, &done);
    if (!status && done.state == LL_RESULT_TRAINED) status = evaluate(s, run, &done);
    if (status == LL_EDIVERGED) done.state = LL_RESULT_DIVERGED, status = LL_OK; /* in training, or on the split */
    const int made = !status && done.state >= LL_RESULT_DONE;
    if (made) status = write_result(&done, run);
    if (made && !status) *r = done, s->spent += done.seconds, s->made++;
    ll_recipe_free(recipe);
    ll_free(run);
    return status;
}

/* The unigram baseline reads the train split once, under any budget. */
static ll_status measure_baseline(session *s, ll_contender *x) {
    ll_result r = {.steps = 1};
    ll_baseline b;
    if (report(s, "evaluate", NULL)) return stopped();
    char *run = ll_contender_folder(x, s->how->folder, 1);
    ll_status status = run ? ll_result_settings(r.settings, x->recipe, x->said) : LL_ENOMEM;
    snprintf(r.budget, sizeof r.budget, "%s", s->budget);
    if (!status) status = ll_unigram(x->recipe, s->c->about.split, s->c->about.batches, &b);
    if (!status) {
        set_loss(s, &r, b.loss, b.accuracy, (double)b.count);
        status = write_result(&r, run);
    }
    if (!status) x->result[0] = r;
    ll_free(run);
    return status;
}

static ll_status check_recipe(const ll_recipe *recipe) {
    ll_recipe *full = NULL;
    const ll_status status = fill(&full, recipe);
    ll_recipe_free(full);
    return status;
}

/* Can every system be trained, and has it the split that it is evaluated on? That is asked before the first of them is
 * trained. A file that cannot be read is left to the run that needs it. */
static ll_status check_systems(const session *s) {
    ll_status status = LL_OK;
    for (int i = 0; i < s->c->systems && !status; i++) {
        const ll_contender *x = &s->c->system[i];
        ll_reader *reader = NULL;
        int wants = 0;
        for (int seed = 1; seed <= s->c->seeds; seed++) wants |= wanted(s, x, seed);
        if (wants) status = ll_reader_open(&reader, &x->recipe->c, s->c->about.split);
        if (status == LL_EINVAL) status = ll_fail(status, "split=%s: %s", s->c->about.split, ll_error());
        if (wants && !status && !x->baseline) status = check_recipe(x->recipe);
        if (status != LL_EINVAL) status = LL_OK;
        if (status) status = ll_fail(status, "[%.60s] %s", x->name, ll_error());
        ll_reader_free(reader);
    }
    const ll_group all = ll_group_all();
    return ll_group_agree(&all, status);
}

static ll_status make_all(session *s) {
    ll_status status = LL_OK;
    s->now.of = left(s);
    for (int seed = 1; seed <= s->c->seeds; seed++)
        for (int i = 0; i < s->c->systems && !status; i++) {
            ll_contender *x = &s->c->system[i];
            if (!wanted(s, x, seed)) continue;
            s->now.number++;
            status = read_again(s, x);
            if (status || !wanted(s, x, seed)) continue;
            ll_comparison_system(s->c, i, &s->system);
            s->now.system = &s->system;
            s->now.recipe = x->recipe;
            s->now.seed = seed;
            status = x->baseline ? measure_baseline(s, x) : make_run(s, x, seed);
        }
    return status;
}

/* ---- All of them ---- */

static ll_status check_how(const ll_comparison *c, const ll_comparison_how *how) {
    if (how->seeds < 1 || how->seeds > LL_SEEDS_MOST)
        return ll_fail(LL_EINVAL, "%d seeds; 1 to %d are possible", how->seeds, (int)LL_SEEDS_MOST);
    if (!(how->seconds > 0) && how->steps < 1)
        return ll_fail(LL_EINVAL, "the budget must be some seconds, or at least one step");
    for (int k = 0; k < how->only; k++) {
        int found = 0;
        for (int i = 0; i < c->systems; i++) found |= !strcmp(how->names[k], c->system[i].name);
        if (!found) return ll_fail(LL_EINVAL, "the table has no system [%.60s]", how->names[k]);
    }
    return LL_OK;
}

ll_status ll_comparison_run(ll_comparison *c, const ll_comparison_how *how) {
    session s = {.c = c, .how = how};
    ll_status status = check_how(c, how);
    if (status) return status;
    c->seeds = how->seeds;
    if (how->seconds > 0)
        ll_format_text(s.budget, sizeof s.budget, "%.6g s", how->seconds);
    else
        snprintf(s.budget, sizeof s.budget, "%lld steps", (long long)how->steps);
    const ll_group all = ll_group_all();
    status = ll_group_agree(&all, read_results(&s, 0)); /* nobody writes before all have looked */
    if (!status) status = compare_ranks(&s);
    if (!status) status = check_systems(&s);
    if (!status) status = make_all(&s);
    const ll_status late = status && status != LL_ESTOPPED ? status : read_results(&s, 1);
    return late ? late : status;
}
