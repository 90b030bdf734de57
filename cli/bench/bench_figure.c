/* The picture of linear attention's purpose: time against length, beside softmax. */
#include <stdio.h>

#include "bench/bench.h"

enum { MOST = 32, SYSTEMS = 3 };

/* Names of cases, and of curves. */
static const char *const SYSTEM[SYSTEMS][2] = {
    {"relu+permute", "PermuteFormer"}, {"softmax", "softmax"}, {"favor", "Performer, FAVOR+"}};
static const char NAME[] = "attention/%s/causal/fwdbwd/%d";

typedef struct {
    int n;
    double x[MOST], y[MOST];
} points;

static void collect(points *p, const ll_bench *b, const char *kernel) {
    p->n = 0;
    for (int T = 1; T < 1 << 24; T *= 2) {
        const ll_bench_row *r = ll_bench_find(b, NAME, kernel, T);
        if (!r || p->n == MOST) continue;
        p->x[p->n] = T;
        p->y[p->n++] = 1e3 * r->seconds;
    }
}

/* Is this length measured? --figure adds those from 256 to 65536. */
static int measured(const ll_bench *b, int T) {
    int listed = T >= 256 && T <= 65536;
    for (int i = 0; i < b->lengths; i++) listed |= b->length[i] == T;
    return listed;
}

int ll_bench_figure_check(const ll_bench *b) {
    char name[80];
    for (int i = 0; i < SYSTEMS; i++)
        for (int T = 1; T < 1 << 24; T *= 2) {
            snprintf(name, sizeof name, NAME, SYSTEM[i][0], T);
            if (measured(b, T) && ll_bench_wanted(b, name, 1)) return -1;
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
