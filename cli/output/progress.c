/* Progress of work that takes longer than two seconds. */
#include <stdio.h>
#include <string.h>

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

/* Is it time for a line: two seconds after the start, and now and then? */
static int due(const ll_progress_line *t, double now) {
    return now - t->start >= 2 && now - t->shown >= (t->line.moves ? 0.2 : 10);
}

/* "WHAT: 34 %, eta 0:05". gone: the seconds that the work between `before` and `done` took. */
static void show(ll_progress_line *t, const char *what, int64_t before, int64_t done, int64_t total, double gone) {
    char far[64], eta[24];
    ll_fields fields = {0};
    describe(far, sizeof far, t, (double)done, (double)total);
    ll_field_add(&fields, 3, "%s: ", what);
    ll_field_add(&fields, 1, "%s", far);
    if (total > 0 && done > before)
        ll_field_add(&fields, 2, ", eta %s", ll_duration(eta, gone * (double)(total - done) / (double)(done - before)));
    ll_line_show(&t->line, &fields);
}

int ll_progress_report(int64_t done, int64_t total, void *arg) {
    ll_progress_line *t = arg;
    const double now = ll_now();
    ll_reading_line_end();
    if (t->resumes && !t->done_before) t->before = done;
    t->done_before = 1;
    if (!due(t, now)) return ll_stop_wanted();
    t->shown = now;
    show(t, t->what, t->before, done, total, now - t->start);
    return ll_stop_wanted();
}

void ll_progress_end(ll_progress_line *t) {
    ll_line_end(&t->line);
}

/* ---- Files that take longer than two seconds to read ---- */

/* A line until one of other work is shown. */
static struct {
    ll_progress_line line;
    char what[300];
    int64_t first, done; /* at its first and last report */
    double begun, last;  /* time of them */
} reading;

/* Files that follow each other belong together: many small ones are as long as a large one. */
static void begin(const char *what, int64_t done, double now) {
    if (now - reading.last > 1) reading.line.start = now;
    snprintf(reading.what, sizeof reading.what, "%s", what);
    reading.first = done;
    reading.begun = now;
}

static void report(const char *name, int64_t done, int64_t total, void *arg) {
    ll_progress_line *t = &reading.line;
    char what[300];
    const double now = ll_now();
    (void)arg;
    snprintf(what, sizeof what, "reading %s", name ? name : "the text");
    if (done < reading.done || strcmp(what, reading.what) != 0) begin(what, done, now);
    reading.done = done;
    reading.last = now;
    if (!due(t, now)) return;
    if (total <= 0) { /* how long it will take is not known */
        ll_fields fields = {0};
        char gone[24];
        ll_field_add(&fields, 2, "%s", what);
        ll_field_add(&fields, 1, ", %s so far", ll_duration(gone, now - reading.begun));
        ll_line_show(&t->line, &fields);
    } else {
        show(t, what, reading.first, done, total, now - reading.begun);
    }
    t->shown = now;
}

void ll_reading_line_begin(void) {
    reading.line = ll_progress_of(LL_PROGRESS_SHARE, NULL);
    reading.last = 0;
    reading.what[0] = 0;
    ll_data_watch(report, NULL);
}

void ll_reading_line_end(void) {
    ll_data_watch(NULL, NULL);
    ll_line_end(&reading.line.line);
}
