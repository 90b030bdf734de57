/* A line for files that take longer than two seconds to read, until a line of other work is shown. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

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
    char what[300], eta[24];
    const double now = ll_now(), every = t->line.moves ? 0.2 : 10;
    (void)arg;
    snprintf(what, sizeof what, "reading %s", name ? name : "the text");
    if (done < reading.done || strcmp(what, reading.what) != 0) begin(what, done, now);
    reading.done = done;
    reading.last = now;
    if (now - t->start < 2 || now - t->shown < every || total <= 0) return;
    ll_fields fields = {0};
    ll_field_add(&fields, 3, "%s: ", what);
    ll_field_add(&fields, 1, "%.0f %%", 100 * (double)done / (double)total);
    if (done > reading.first)
        ll_field_add(&fields, 2, ", eta %s",
                     ll_duration(eta, (now - reading.begun) * (double)(total - done) / (double)(done - reading.first)));
    ll_line_show(&t->line, &fields);
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
