/* Progress of work that takes longer than two seconds. */
#include <stdio.h>

#include "cli.h"

ll_progress_line ll_progress_of(ll_progress_unit unit, const char *what) {
    return (ll_progress_line){.line = ll_line_start(), .unit = unit, .what = what, .start = ll_now()};
}

/* "31 MB of 170 MB", "1200 of 96000", "34 %"; only what is done if the total is unknown. */
static void describe(char *text, size_t size, const ll_progress_line *t, double done, double total) {
    char a[24], b[24];
    if (t->unit == LL_PROGRESS_SHARE)
        snprintf(text, size, "%.0f %%", 100 * done / total);
    else if (t->unit == LL_PROGRESS_COUNT)
        snprintf(text, size, total > 0 ? "%.0f of %.0f" : "%.0f", done, total);
    else if (total > 0)
        snprintf(text, size, "%s of %s", ll_size(a, done), ll_size(b, total));
    else
        ll_size(text, done);
}

int ll_progress_report(int64_t done, int64_t total, void *arg) {
    ll_progress_line *t = arg;
    const double now = ll_now(), every = t->line.moves ? 0.2 : 10;
    char far[64], eta[24];
    ll_fields fields = {0};
    ll_reading_line_end();
    if (t->resumes && !t->done_before) t->before = done;
    t->done_before = 1;
    if (now - t->start < 2 || now - t->shown < every) return ll_stop_wanted();
    t->shown = now;
    describe(far, sizeof far, t, (double)done, (double)total);
    ll_field_add(&fields, 3, "%s: ", t->what);
    ll_field_add(&fields, 1, "%s", far);
    if (total > 0 && done > t->before)
        ll_field_add(&fields, 2, ", eta %s",
                     ll_duration(eta, (now - t->start) * (double)(total - done) / (double)(done - t->before)));
    ll_line_show(&t->line, &fields);
    return ll_stop_wanted();
}

void ll_progress_end(ll_progress_line *t) {
    ll_line_end(&t->line);
}
