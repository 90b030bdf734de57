/* Runs the cases in turn, so that a slow minute of the machine slows all of them. */
#include <fnmatch.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"

int ll_bench_wanted(const ll_bench *b, const char *name, int usual) {
    if (!b->pattern) return usual;
    int wanted = 0;
    for (const char *p = b->pattern; *p && !wanted; p += *p == ',') {
        char one[128];
        const size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        wanted = n && (strpbrk(one, "*?[") ? !fnmatch(one, name, 0) : strstr(name, one) != NULL);
        p += n;
    }
    return wanted;
}

void ll_bench_add(ll_bench *b, const ll_bench_row *row) {
    if (b->rows < LL_BENCH_ROWS) b->row[b->rows++] = *row;
}

const ll_bench_row *ll_bench_find(const ll_bench *b, const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int i = 0; i < b->rows; i++)
        if (!strcmp(b->row[i].name, name)) return &b->row[i];
    return NULL;
}

void ll_bench_progress(const char *what, double spent, double left) {
    static ll_line line;
    static double shown; /* 0: there is no line */
    const double now = ll_now();
    char eta[24];
    if (left <= 0) {
        ll_line_end(&line);
        shown = 0;
        return;
    }
    if (shown == 0) line = ll_line_start();
    if (spent < 2 || now - shown < (line.moves ? 0.1 : 10)) return;
    shown = now;
    ll_fields fields = {0};
    ll_field_add(&fields, 3, "%s: ", what);
    ll_field_add(&fields, 1, "%.0f %%", 100 * spent / (spent + left));
    ll_field_add(&fields, 2, ", eta %s", ll_duration(eta, left));
    ll_line_show(&line, &fields);
}

/* ---- Memory ---- */

enum { HUGE_PAGE = 2 << 20 };

float *ll_bench_floats(size_t n) {
    const size_t bytes = (n * sizeof(float) + 63) / 64 * 64;
    char *p = aligned_alloc(64, bytes), *first = p + (-(uintptr_t)p & (HUGE_PAGE - 1));
    if (p && bytes >= 2 * (size_t)HUGE_PAGE)
        (void)madvise(first, (size_t)(p + bytes - first) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return (float *)(void *)p;
}

/* Resident memory, after the peak that Linux records has been set back to it. */
static double settle_memory(void) {
    malloc_trim(0);
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
    return (double)ll_memory_now();
}

/* ---- Turns ---- */

/* The expected seconds of a case. One that has not run yet counts as fast as those that have; the first of all as
 * running at half the peak. */
static double expected(const ll_bench *b, const ll_bench_case *c) {
    return c->runs ? c->cost : c->row.flops * (b->per_flop > 0 ? b->per_flop : 2 / b->peak);
}

static void learn_speed(ll_bench *b, const ll_bench_case *c, int n) {
    double seconds = 0, flops = 0;
    for (int i = 0; i < n; i++)
        if (c[i].runs) seconds += c[i].cost, flops += c[i].row.flops;
    b->per_flop = flops > 0 ? seconds / flops : 0;
}

static int wants_more(const ll_bench *b, const ll_bench_case *c) {
    return !c->row.repeats || c->row.repeats < (b->repeats ? b->repeats : 25);
}

/* Short cases run more often than long ones, and none waits for another to finish. */
static int next_case(const ll_bench *b, const ll_bench_case *c, int n, double left) {
    int best = -1;
    double least = INFINITY;
    for (int i = 0; i < n; i++) {
        const double t = expected(b, &c[i]);
        const double key = (c[i].row.repeats + 0.5) * (b->repeats ? 1 : sqrt(t));
        if (c[i].row.repeats && (!wants_more(b, &c[i]) || (!b->repeats && t > left))) continue;
        if (!c[i].row.repeats) return i;
        if (key < least) best = i, least = key;
    }
    return best;
}

static double time_left(const ll_bench *b, const ll_bench_case *c, int n, double left) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += expected(b, &c[i]) * (b->repeats ? (double)(b->repeats - c[i].row.repeats) : c[i].row.repeats == 0);
    return b->repeats ? sum : fmax(sum, left);
}

/* The first run of a case measures its memory. Its time counts only if it is so long that touching new memory is a
 * negligible part. */
static ll_status run_case(ll_bench_case *c) {
    const double before = c->runs ? 0 : settle_memory(), start = ll_now();
    double seconds = 0;
    const ll_status status = c->run(c, &seconds);
    if (status) return status;
    c->cost = ll_now() - start;
    if (!c->runs) {
        const double grown = (double)ll_memory_peak() - before;
        c->row.bytes += grown > 0 ? grown : 0;
    }
    if (c->runs || c->warm || seconds > 0.7) c->row.time[c->row.repeats++] = seconds;
    c->runs++;
    return LL_OK;
}

ll_status ll_bench_run(ll_bench *b, const char *what, ll_bench_case *c, int n) {
    const double start = ll_now(), end = start + b->seconds;
    b->per_flop = 0;
    for (int i; (i = next_case(b, c, n, end - ll_now())) >= 0;) {
        ll_bench_progress(what, ll_now() - start, fmax(0.5, time_left(b, c, n, end - ll_now())));
        const ll_status status = run_case(&c[i]);
        if (status) return status;
        learn_speed(b, c, n);
    }
    ll_bench_progress(what, ll_now() - start, 0);
    for (int i = 0; i < n; i++) {
        double time[LL_BENCH_REPEATS];
        memcpy(time, c[i].row.time, sizeof time);
        c[i].row.seconds = ll_median(time, c[i].row.repeats);
        ll_bench_add(b, &c[i].row);
    }
    return LL_OK;
}
