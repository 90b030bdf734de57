/* Progress of a run: one moving line on a terminal, a line now and then elsewhere. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* What is left of the run after a second signal. */
static void leaves(const ll_watch *w) {
    char text[4500], step[40] = "", folder[LL_QUOTED];
    if (w->saved >= 0) snprintf(step, sizeof step, " from step %lld", (long long)w->saved);
    if (!w->folder)
        snprintf(text, sizeof text, "finished runs are kept; the same command continues");
    else if (!ll_has_checkpoint(w->folder))
        snprintf(text, sizeof text, "%s has no checkpoint yet, so nothing is kept", w->folder);
    else
        snprintf(text, sizeof text, "the steps since the checkpoint are lost; go on%s with: longline train --resume %s",
                 step, ll_quoted(folder, w->folder));
    ll_stop_leaves(text);
}

void ll_watch_preempt(const ll_recipe *recipe) {
    const char *preempt = ll_recipe_get(recipe, "train.preempt");
    if (!strcmp(preempt, "SIGUSR1")) ll_stop_on_notice(SIGUSR1, "saving");
    if (!strcmp(preempt, "SIGUSR2")) ll_stop_on_notice(SIGUSR2, "saving");
}

void ll_watch_start(ll_watch *watch, const ll_recipe *recipe, const char *folder) {
    *watch = (ll_watch){.unit = ll_unit(recipe), .line = ll_line_start(), .shown = ll_now(), .folder = folder};
    watch->saved = -1;
    watch->last.loss = watch->last.valid_loss = NAN;
    ll_stop_on_signals(1, "saving", "");
    leaves(watch);
    ll_watch_preempt(recipe);
    signal(SIGPIPE, SIG_IGN); /* a run of hours must not end because a reader of messages is gone */
}

/* What is under way after the step: an evaluation, or a next step that takes long. */
static void describe_within(ll_fields *f, const ll_progress *p) {
    if (p->within <= 0) return;
    if (p->event && !strcmp(p->event, "evaluating"))
        ll_field_add(f, 3, ", evaluating %.0f %%", 100 * p->within);
    else
        ll_field_add(f, 3, ", %.0f %% of the next", 100 * p->within);
}

static void describe_loss(ll_fields *f, const ll_watch *w) {
    const ll_progress *p = &w->last;
    const double unit = w->unit ? 1 / log(2) : 1;
    const int any = isfinite(p->loss); /* before the first step there is none, and no speed */
    if (any && p->matching && !strcmp(p->matching, "attention"))
        ll_field_add(f, 4, "  %.2f %% of attention missed", 100 * p->loss);
    else if (any && p->matching)
        ll_field_add(f, 4, "  distillation loss %.3f", p->loss);
    else if (any)
        ll_field_add(f, 4, "  %.3f %s%s", p->loss * unit, w->unit ? "bits/" : "loss", w->unit ? w->unit : "");
    if (isfinite(p->valid_loss) && w->unit) ll_field_add(f, 7, "  valid %.3f", p->valid_loss * unit);
    if (isfinite(p->valid_loss) && !w->unit)
        ll_field_add(f, 7, "  valid %.3f, %.2f %% right", p->valid_loss, 100 * p->valid_accuracy);
}

/* "step 120/2000  2.314 bits/byte  valid 2.410  38.2k tokens/s  eta 1:23  412 MB", with a name in front and what comes
 * after the run: "[2/6] permute, seed 1  step ... eta 1:23, all 12:40  412 MB" */
static void describe(ll_fields *f, const ll_watch *w) {
    const ll_progress *p = &w->last;
    char text[24];
    if (w->name) ll_field_add(f, 5, "%s", w->name);
    ll_field_add(f, 1, "%sstep %lld/%lld", w->name ? "  " : "", (long long)p->step, (long long)p->steps);
    describe_within(f, p);
    describe_loss(f, w);
    if (p->tokens_per_second > 0)
        ll_field_add(f, 8, "  %.*f tokens/s", p->tokens_per_second < 10, p->tokens_per_second);
    ll_field_add(f, 2, "  eta %s", ll_duration(text, p->eta));
    if (w->after > 0) ll_field_add(f, 6, ", all %s", ll_duration(text, p->eta + w->after));
    ll_field_add(f, 9, "  %s", ll_size(text, (double)ll_memory_now()));
}

/* Does this event get a line of its own? An evaluation does. So does the end if its step has no line yet; but not if
 * the run made no step, because its speed is then unknown. */
static int is_news(const ll_watch *w, const ll_progress *p) {
    if (p->step == 1 && !p->event) return 1;
    if (!p->event) return 0;
    return !strcmp(p->event, "eval") || (!strcmp(p->event, "done") && w->steps && w->shown_step != p->step);
}

/* Does ll_error() say what this event is about? */
static int explains(const char *event) {
    return event &&
           (!strncmp(event, "no ", 3) || !strcmp(event, "best") || !strcmp(event, "rewind") || !strcmp(event, "cut"));
}

/* Now and then there is a line. What follows on a line of its own, as a report, does not repeat it. */
static int is_due(const ll_watch *w, const ll_progress *p) {
    if (ll_now() - w->shown < (w->line.moves ? 0.1 : 10)) return 0;
    return w->line.moves || p->within > 0 || w->shown_step != p->step;
}

int ll_watch_step(const ll_progress *progress, void *arg) {
    ll_watch *w = arg;
    if (explains(progress->event)) {
        ll_watch_end(w);
        ll_print("%s: %s", progress->event, ll_error());
    }
    ll_reading_line_end();
    if (progress->step != w->last.step && (!progress->event || progress->tokens_per_second > 0)) w->steps++;
    w->last = *progress;
    if (w->saved != progress->saved) {
        w->saved = progress->saved;
        leaves(w);
    }
    if (is_news(w, progress) || is_due(w, progress)) {
        ll_fields fields = {0};
        describe(&fields, w);
        ll_line_show(&w->line, &fields);
        w->shown = ll_now();
        w->shown_step = progress->step;
    }
    return ll_stop_wanted();
}

void ll_watch_end(ll_watch *w) {
    ll_line_end(&w->line);
}
