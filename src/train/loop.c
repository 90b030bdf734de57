/* The training loop. After every update come an evaluation, a row of metrics and a checkpoint, each if it is due
 * and not done yet. A run that was stopped before that does it when it is resumed. So its files are equal to those of
 * an uninterrupted run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/float_mode.h"
#include "train/train_internal.h"

/* The present speed, smoothed: a moving average. */
static void measure(ll_trainer *t, double seconds, int64_t tokens) {
    const double keep = t->state.step - t->start_step > 1 ? 0.8 : 0;
    t->recent_seconds = keep * t->recent_seconds + seconds;
    t->recent_tokens = keep * t->recent_tokens + (double)tokens;
    t->progress.tokens_per_second = t->recent_seconds > 0 ? t->recent_tokens / t->recent_seconds : 0;
}

static int due(const ll_trainer *t, int64_t every) {
    const int64_t step = t->state.step;
    return step > 0 && (step == t->model->recipe->c.train.steps || (every > 0 && step % every == 0));
}

static int must_evaluate(const ll_trainer *t) {
    return t->valid && due(t, t->model->recipe->c.train.eval_every) && t->state.evaluated != t->state.step;
}

/* The first step is slower than the others, so more than that is waited for. */
static double time_left(const ll_trainer *t, double elapsed) {
    const ll_train_options *c = &t->model->recipe->c.train;
    const int64_t step = t->state.step;
    const int here = must_evaluate(t);
    const double within = t->progress.within, next = here ? 0 : within;
    ll_pace p = {.steps = (double)(step - t->start_step) + next,
                 .steps_left = (double)(c->steps - step) - next,
                 .step_seconds = elapsed - t->evaluation_seconds,
                 .evaluations = t->evaluations,
                 .evaluation_seconds = t->evaluation_seconds};
    if (p.steps <= 1 && next <= 0.1) p.steps = 0;
    if (!t->valid) return ll_time_left(&p);
    p.evaluations_left = (double)ll_evaluations_after(step, c->steps, c->eval_every) + (here ? 1 - within : 0);
    p.batches = ll_evaluate_batches(t->valid, c->eval_batches);
    return ll_time_left(&p);
}

static void refresh(ll_trainer *t) {
    const ll_config *c = &t->model->recipe->c;
    const ll_run_state *s = &t->state;
    ll_progress *p = &t->progress;
    const double elapsed = ll_now() - t->start_time;
    p->step = s->step;
    p->steps = c->train.steps;
    p->saved = t->saved;
    p->loss = ll_recent_loss(s, LL_ROW_EVERY);
    p->learning_rate = s->step > 0 ? ll_optimizer_rate(t->engine->optimizer, c, s->step) : 0;
    p->gradient_norm = s->norm;
    p->seconds = t->metrics.seconds + elapsed;
    p->eta = time_left(t, elapsed);
    p->valid_loss = s->valid_loss;
    p->valid_accuracy = s->valid_accuracy;
    p->matching = (const char *const[]){NULL, "attention", "logits"}[ll_teaching_stage(c, s->step > 0 ? s->step : 1)];
}

typedef struct {
    ll_progress_fn *call;
    void *arg;
    int stop;
    ll_float_mode host; /* its functions are called in its mode of floating point, and all else in the library's */
} watcher;

static int is_alone(const ll_trainer *t) { return t->ranks.size == 1; }

static void report(ll_trainer *t, watcher *w, const char *event) {
    refresh(t);
    t->progress.event = event;
    t->last_report = ll_now();
    if (!w->call) return;
    ll_float_mode_restore(&w->host);
    if (w->call(&t->progress, w->arg)) w->stop = 1;
    w->host = ll_float_mode_set();
}

typedef struct {
    ll_trainer *t;
    watcher *w;
} watched_step;

/* An ll_done_fn for the model of a step. Ranks only stop together, after a step. */
static int report_within(int64_t done, int64_t total, void *arg) {
    const watched_step *in = arg;
    ll_trainer *t = in->t;
    if (ll_now() - t->last_report < t->report_interval) return 0;
    t->progress.within = (double)done / (double)total;
    report(t, in->w, "computing");
    t->progress.within = 0;
    return in->w->stop && is_alone(t);
}

/* The gradient of a step, watched. */
static ll_status gradient(ll_trainer *t, watcher *w, int64_t step, ll_gradient *g) {
    watched_step in = {t, w};
    ll_model *m = t->model;
    ll_done_fn *const before = m->progress;
    void *const before_arg = m->progress_arg;
    if (w->call) ll_model_watch(m, report_within, &in);
    const ll_status status = ll_engine_gradient(t->engine, t->train, step, g);
    ll_model_watch(m, before, before_arg);
    return status;
}

/* One update; or LL_EDIVERGED and no update, because the check comes before any change. */
static ll_status advance(ll_trainer *t, watcher *w) {
    ll_run_state *s = &t->state;
    const int64_t step = s->step + 1;
    const double start = ll_now();
    ll_gradient g;
    t->engine->stop = w->stop;
    ll_status status = gradient(t, w, step, &g);
    if (status) return status;
    if (!isfinite(g.loss)) return ll_run_diverged(t, "the loss", g.loss, step);
    if (!isfinite(g.norm)) return ll_run_diverged(t, "the norm of the gradient", g.norm, step);
    status = ll_engine_update(t->engine, step, &g);
    if (status) return status;
    s->step = step;
    s->tokens += g.tokens;
    s->norm = g.norm;
    const int begins = ll_teaching_ends(&t->model->recipe->c, step - 1); /* losses of before are of something else */
    if (begins) {
        memset(s->loss, 0, sizeof s->loss);
        memset(s->count, 0, sizeof s->count);
    }
    s->loss[step % LL_ROW_EVERY] = g.loss;
    s->count[step % LL_ROW_EVERY] = (double)g.count;
    if (begins || step == s->rewind_step + 1) s->rewind_loss = ll_recent_loss(s, 1);
    t->unsaved = 1;
    measure(t, ll_now() - start, g.tokens);
    return LL_OK;
}

/* The loss of a model on held-out data. LL_ESTOPPED: a request to stop ended it between two batches. */
static ll_status measure_loss(ll_trainer *t, watcher *w, const ll_model *model, ll_tally *sum) {
    ll_evaluator e = t->evaluator;
    const int64_t n = ll_evaluate_batches(t->valid, t->model->recipe->c.train.eval_batches);
    const double begun = ll_now() - t->evaluation_seconds;
    e.model = model;
    *sum = (ll_tally){0};
    for (int64_t i = 0; i < n; i++) {
        const ll_status status = ll_evaluate_batch(sum, &e, i, n);
        if (status) return status;
        t->evaluations += 1 / (double)n;
        t->evaluation_seconds = ll_now() - begun;
        t->progress.within = (double)(i + 1) / (double)n;
        report(t, w, "evaluating");
        t->progress.within = 0;
        if (w->stop && i + 1 < n && is_alone(t)) return LL_ESTOPPED;
    }
    return ll_evaluate_share(sum);
}

/* The loss of the best model is of another evaluation than the run has now. It is measured anew, so that losses of one
 * evaluation are compared. A model that is gone, or has no finite loss, does not count any more. */
static ll_status measure_best(ll_trainer *t, watcher *w) {
    ll_run_state *s = &t->state;
    const double before = s->best_loss;
    ll_model *best = NULL;
    ll_tally sum = {0};
    ll_status status = ll_best_load(&best, t);
    if (status == LL_EFORMAT) {
        ll_best_forget(s);
        report(t, w, "no best");
        return LL_OK;
    }
    if (!status) status = measure_loss(t, w, best, &sum);
    ll_model_free(best);
    if (status) return status;
    if (!isfinite(sum.loss)) {
        ll_best_forget(s);
        return LL_OK;
    }
    s->best_loss = sum.loss / (double)sum.count;
    if (s->best_loss == before) return LL_OK;
    if (ll_fail(LL_EINVAL,
                "with the evaluation there is now, the best model so far, of step %lld, has %.4g nats, not %.4g",
                (long long)s->best_step, s->best_loss, before))
        report(t, w, "best");
    return LL_OK;
}

static ll_status evaluate(ll_trainer *t, watcher *w) {
    ll_run_state *s = &t->state;
    ll_tally sum;
    ll_status status = measure_loss(t, w, t->model, &sum);
    if (status) return status;
    const double loss = sum.loss / (double)sum.count;
    if (!isfinite(loss)) return ll_run_diverged(t, "the loss on held-out data", loss, s->step);
    const int anew = s->best_step && strcmp(s->best_sum, t->evaluation);
    if (anew) status = measure_best(t, w);
    if (status) return status;
    memcpy(s->best_sum, t->evaluation, sizeof s->best_sum);
    s->evaluated = s->step;
    s->valid_loss = loss;
    s->valid_accuracy = (double)sum.correct / (double)sum.count;
    t->unsaved = 1;
    /* Before the first evaluation best_loss is NaN, so the first is the best. A model that was measured anew and has
     * the same loss is the present one: the run was killed between this model and its checkpoint. */
    if (anew ? loss > s->best_loss : loss >= s->best_loss) return LL_OK;
    s->best_loss = loss;
    s->best_step = s->step;
    return t->ranks.rank ? LL_OK : ll_model_save(t->model, t->best);
}

/* A report that cannot be written is an event for the caller, and does not stop the run. */
static void report_page(ll_trainer *t, watcher *w, int whole) {
    if (t->ranks.rank || !t->report || !t->model->recipe->c.train.report) return;
    if (!t->state.row) return; /* without a row there is no loss to draw */
    if (whole) ll_engine_rest(t->engine); /* a whole page runs the model */
    ll_float_mode_restore(&w->host);
    const ll_status status = t->report(t, whole, t->report_arg);
    w->host = ll_float_mode_set();
    report(t, w, status ? "no report" : "report");
}

static ll_status keep_folder(ll_trainer *t, watcher *w) {
    int made = 0;
    const ll_status status = ll_run_folder_keep(t, &made);
    if (made) report(t, w, "no folder");
    return status;
}

/* Calls a function that writes to the folder. If it fails because the folder is gone, calls it again in the new one. */
static ll_status in_folder(ll_trainer *t, watcher *w, ll_status (*act)(ll_trainer *, watcher *)) {
    enum { TRIES = 10 };
    for (int i = 1;; i++) {
        ll_status status = keep_folder(t, w);
        if (!status) status = act(t, w);
        if (status != LL_EIO || i == TRIES || !is_alone(t) || !ll_run_folder_gone(t)) return status;
    }
}

/* Is reported once. The run may recover, but somebody who trains for a week needs to know on the first day. */
static void report_chance(ll_trainer *t, watcher *w) {
    if (t->warned || t->state.step < LL_ROW_EVERY || !ll_trainer_check_loss(t, LL_ROW_EVERY)) return;
    t->warned = 1;
    report(t, w, "no learning");
}

static ll_status after_step(ll_trainer *t, watcher *w) {
    const ll_config *c = &t->model->recipe->c;
    ll_run_state *s = &t->state;
    ll_status status = ll_rewind_check(t);
    int evaluated = 0, saved = 0;
    if (status) return status;
    if (must_evaluate(t)) {
        /* Never a best model without a checkpoint: a run that is killed in between could not go on. */
        if (t->saved < 0) status = ll_run_save(t, 0);
        if (!status) status = evaluate(t, w);
        if (status) return status;
        evaluated = 1;
    }
    const int ends = due(t, LL_ROW_EVERY) || ll_teaching_ends(c, s->step);
    if (evaluated || (ends && s->row != s->step)) {
        /* The row may be there already, if this evaluation was not due before the run was resumed. */
        if (s->row == s->step && !t->ranks.rank) status = ll_metrics_cut(&t->metrics, s->step - 1, &s->row);
        if (status) return status;
        refresh(t);
        status = t->ranks.rank ? LL_OK : ll_metrics_row(&t->metrics, &t->progress, s);
        if (status) return status;
        s->row = s->step;
        t->unsaved = 1;
        report_chance(t, w);
    }
    if (evaluated) report(t, w, "eval");
    if (due(t, c->train.checkpoint_every) && t->unsaved) {
        status = ll_run_save(t, 0);
        if (!status) report(t, w, "checkpoint");
        saved = 1;
    }
    if (!status && (evaluated || saved) && s->step < c->train.steps) report_page(t, w, 0);
    return status;
}

static ll_status save_rest(ll_trainer *t, watcher *w) {
    (void)w;
    return t->unsaved ? ll_run_save(t, 0) : LL_OK;
}

static ll_status save_aside(ll_trainer *t, watcher *w) {
    (void)w;
    return t->unsaved ? ll_run_save(t, 1) : LL_OK;
}

static ll_status stopped(ll_trainer *t, watcher *w) {
    ll_status status = in_folder(t, w, save_aside);
    if (status) return status;
    report(t, w, "checkpoint");
    report_page(t, w, 0);
    return ll_fail(LL_ESTOPPED, "stopped after step %lld of %lld; all is saved, resume %s to go on",
                   (long long)t->state.step, (long long)t->model->recipe->c.train.steps, t->folder);
}

/* The run continues if its folder cannot be locked. The user must then see to it that two runs do not write there. */
static void report_lock(ll_trainer *t, watcher *w) {
    if (t->unlocked && ll_fail(LL_EIO, "%s cannot be locked (%s); make sure that no other run writes to it", t->folder,
                               strerror(t->unlocked)))
        report(t, w, "no lock");
    t->unlocked = 0;
}

static void report_lost_best(ll_trainer *t, watcher *w) {
    if (t->lost_best && ll_best_missing(t, t->lost_best)) report(t, w, "no best");
    t->lost_best = 0;
}

/* What may be wrong with the data. */
static void report_data(ll_trainer *t, watcher *w) {
    if (ll_fit_heading(t->train)) report(t, w, "no header");
    if (ll_fit_unused(&t->model->recipe->c, t->train)) report(t, w, "no effect");
    if (ll_fit_left_out(t->left_out)) report(t, w, "no class");
    if (ll_fit_cut(&t->model->recipe->c, t->train)) report(t, w, "cut");
    for (int test = 0; test < 2; test++)
        if (ll_fit_apart(&t->model->recipe->c, test)) report(t, w, "no held-out data");
}

/* Goes back, and saves that it did. */
static ll_status rewind_run(ll_trainer *t, watcher *w) {
    (void)w;
    const ll_status status = ll_rewind_load(t);
    return status ? status : ll_run_save(t, 0);
}

/* What becomes of a step that failed. */
static ll_status recover(ll_trainer *t, watcher *w, ll_status status) {
    if (status != LL_EDIVERGED) return status;
    if (!ll_rewind_may(t)) return t->state.rewinds == LL_REWINDS ? ll_rewind_too_often(status) : status;
    char why[400];
    snprintf(why, sizeof why, "%s", ll_error());
    status = in_folder(t, w, rewind_run);
    if (status) return status;
    if (ll_fail(LL_EDIVERGED, "%s; back to step %lld with 1/%d of the learning rate (%lld of at most %d times)", why,
                (long long)t->state.step, 1 << t->state.rewinds, (long long)t->state.rewinds, LL_REWINDS))
        report(t, w, "rewind");
    return LL_OK;
}

/* A run that may go back has a checkpoint from the beginning. */
static ll_status save_first(ll_trainer *t, watcher *w) {
    const int wanted = t->model->recipe->c.train.on_divergence == LL_DIVERGENCE_REWIND && t->saved < 0;
    return wanted ? in_folder(t, w, save_rest) : LL_OK;
}

static ll_status run(ll_trainer *t, watcher *w) {
    report_lock(t, w);
    report_lost_best(t, w);
    report_data(t, w);
    ll_status status = save_first(t, w);
    if (status) return status;
    for (;;) {
        status = in_folder(t, w, after_step);
        if (!status && t->state.step >= t->model->recipe->c.train.steps && !must_evaluate(t)) break;
        if (!status && w->stop && is_alone(t)) return stopped(t, w);
        if (!status) status = advance(t, w);
        if (status == LL_ESTOPPED) return stopped(t, w); /* within a step or evaluation; nothing of it is kept */
        if (status) {
            status = recover(t, w, status);
            if (status) return status;
            continue;
        }
        const int agreed = t->engine->stop;
        report(t, w, NULL);
        if (agreed || (w->stop && is_alone(t))) return stopped(t, w);
    }
    status = in_folder(t, w, save_rest); /* a run of no steps stores its initial model */
    if (status) return status;
    report(t, w, "done");
    report_page(t, w, 1);
    return ll_rewind_end(t);
}

ll_status ll_trainer_run(ll_trainer *t, ll_progress_fn *progress, void *arg) {
    const ll_group all = ll_group_all();
    watcher w = {.call = progress, .arg = arg, .host = ll_float_mode_set()};
    t->start_time = ll_now();
    t->start_step = t->state.step;
    t->evaluations = t->evaluation_seconds = 0;
    t->last_report = t->start_time;
    ll_status status = ll_model_trainable(t->model); /* it may have been quantized since the last run */
    if (!status) status = ll_fit_restore(t->model, t->recipe); /* likewise, it may have been set to other files */
    if (!status && t->left) status = ll_run_folder_enter(t);
    status = ll_group_agree(&all, status);
    t->model->training = 1;
    if (!status) status = run(t, &w);
    t->model->training = 0;
    t->metrics.seconds += ll_now() - t->start_time;
    ll_run_folder_leave(t);
    ll_model_fix_noise(t->model);
    ll_float_mode_restore(&w.host);
    return status;
}
