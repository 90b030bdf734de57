/* The picture of linear attention's purpose: time against length, beside softmax. */
#include <stdio.h>

#include "bench/bench.h"

enum { MOST = LL_BENCH_MOST, SYSTEMS = 3 };

/* Names of cases, and of curves. */
static const char *const SYSTEM[SYSTEMS][2] = {
    {"relu+permute", "PermuteFormer"}, {"softmax", "softmax"}, {"favor", "Performer, FAVOR+"}};
static const char GROUP[] = "attention/%s/causal/fwdbwd";

typedef struct {
    int n;
    double x[MOST], y[MOST];
} points;

static void collect(points *p, const ll_bench *b, const char *kernel) {
    char group[64];
    snprintf(group, sizeof group, GROUP, kernel);
    p->n = 0;
    for (int T = 0; p->n < MOST && (T = ll_bench_next_length(b, group, T));) {
        p->x[p->n] = T;
        p->y[p->n++] = 1e3 * ll_bench_find(b, "%s/%d", group, T)->seconds;
    }
}

/* Is this length of a curve measured? */
static int is_drawn(const ll_bench *b, const char *kernel, int T) {
    char group[64], name[80];
    snprintf(group, sizeof group, GROUP, kernel);
    snprintf(name, sizeof name, "%s/%d", group, T);
    return ll_bench_wanted(b, name, 1);
}

/* --figure adds the lengths from 256 to 65536. */
int ll_bench_figure_check(const ll_bench *b) {
    for (int i = 0; i < SYSTEMS; i++) {
        for (int k = 0; k < b->lengths; k++)
            if (is_drawn(b, SYSTEM[i][0], b->length[k])) return -1;
        for (int T = 256; T <= 65536; T *= 2)
            if (is_drawn(b, SYSTEM[i][0], T)) return -1;
    }
    return ll_usage(
        "--case %s leaves nothing that --figure draws: it draws attention/%s/causal/fwdbwd, and the same of %s "
        "and %s",
        b->pattern, SYSTEM[0][0], SYSTEM[1][0], SYSTEM[2][0]);
}

ll_status ll_bench_figure(const ll_bench *b, const char *path) {
    points p[SYSTEMS];
    ll_curve curves[SYSTEMS];
    for (int i = 0; i < SYSTEMS; i++) {
        collect(&p[i], b, SYSTEM[i][0]);
        curves[i] = (ll_curve){SYSTEM[i][1], p[i].n, p[i].x, p[i].y};
    }
    const ll_figure f = {
        .title = "One layer of causal attention, forward and backward",
        .x_label = "tokens in the sequence",
        .y_label = "milliseconds, 8 heads of size 64, 256 features",
        .log_x = 1,
        .log_y = 1,
        .n = SYSTEMS,
        .curves = curves,
    };
    return ll_figure_write(&f, path);
}
