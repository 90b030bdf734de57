/* The picture of linear attention's purpose: time against length, beside softmax. */
#include <stdio.h>

#include "bench/bench.h"

enum { MOST = 32 };

typedef struct {
    int n;
    double x[MOST], y[MOST];
} points;

static void collect(points *p, const ll_bench *b, const char *kernel) {
    p->n = 0;
    for (int T = 1; T < 1 << 24; T *= 2) {
        const ll_bench_row *r = ll_bench_find(b, "attention/%s/causal/fwdbwd/%d", kernel, T);
        if (!r || p->n == MOST) continue;
        p->x[p->n] = T;
        p->y[p->n++] = 1e3 * r->seconds;
    }
}

ll_status ll_bench_figure(const ll_bench *b, const char *path) {
    static const char *const kernel[][2] = {
        {"relu+permute", "PermuteFormer"}, {"softmax", "softmax"}, {"favor", "Performer, FAVOR+"}};
    points p[3];
    ll_curve curves[3];
    for (int i = 0; i < 3; i++) {
        collect(&p[i], b, kernel[i][0]);
        curves[i] = (ll_curve){kernel[i][1], p[i].n, p[i].x, p[i].y};
    }
    const ll_figure f = {
        .title = "One layer of causal attention, forward and backward",
        .x_label = "tokens in the sequence",
        .y_label = "milliseconds, 8 heads of size 64, 256 features",
        .log_x = 1,
        .log_y = 1,
        .n = 3,
        .curves = curves,
    };
    return ll_figure_write(&f, path);
}
