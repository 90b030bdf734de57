/* Reduces a long curve to few points that look the same: in each narrow column of the picture the first, the least, the
 * largest and the last point. */
#include <math.h>

#include "base/integer.h"
#include "report/html.h"

/* Ends of the x axis as drawn, linear or logarithmic. */
static double drawn_at(const ll_figure *f, double x) {
    return f->log_x ? log(x) : x;
}

typedef struct {
    int first, least, most, last;
} column;

/* The points of a column in their order, each once. */
static int leave(const column *c, int *index, int n) {
    const int low = ll_min_int(c->least, c->most), high = ll_max_int(c->least, c->most);
    const int order[4] = {c->first, low, high, c->last};
    for (int i = 0; i < 4; i++) {
        if (i > 0 && order[i] <= order[i - 1]) continue;
        if (index) index[n] = order[i];
        n++;
    }
    return n;
}

int ll_thin(const ll_figure *f, const ll_curve *c, int bins, int *index) {
    double lo = INFINITY, hi = -INFINITY;
    int points = 0, n = 0, open = 0;
    for (int i = 0; i < c->n; i++) {
        if (!ll_axis_takes_point(f, c, i)) continue;
        points++;
        lo = fmin(lo, drawn_at(f, c->x[i]));
        hi = fmax(hi, drawn_at(f, c->x[i]));
    }
    column now = {0};
    double column_of_point = 0;
    for (int i = 0; i < c->n; i++) {
        if (!ll_axis_takes_point(f, c, i)) continue;
        const double at = points <= 4 * bins ? i : floor((drawn_at(f, c->x[i]) - lo) / (hi - lo) * bins);
        if (open && at == column_of_point) {
            if (c->y[i] < c->y[now.least]) now.least = i;
            if (c->y[i] > c->y[now.most]) now.most = i;
            now.last = i;
            continue;
        }
        if (open) n = leave(&now, index, n);
        now = (column){i, i, i, i};
        column_of_point = at;
        open = 1;
    }
    return open ? leave(&now, index, n) : n;
}
