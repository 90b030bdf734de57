/* What papers compare linear attention with, by definition. */
#include "oracle_baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_inside.h"

int oracle_is_baseline(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_VALUE;
}

/* One head of one sequence. */
typedef struct {
    const oracle_case *o;
    int b, h, n, s; /* queries and keys in use */
    const double *q, *k, *v;
    double *y;
} head;

static void value(const head *a) {
    memcpy(a->y, a->v, (size_t)(a->n * a->o->c.E) * sizeof *a->y);
}

void oracle_baseline_forward(const oracle_case *o, double *y) {
    const int D = o->c.D, E = o->c.E;
    memset(y, 0, (size_t)(o->B * o->c.H * o->T * E) * sizeof *y);
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->c.H; h++) {
            const size_t query = oracle_row(o, b, h, 0, o->T), key = oracle_row(o, b, h, 0, o->S);
            head a = {.o = o, .b = b, .h = h, .n = oracle_queries(o, b), .s = o->lengths ? o->lengths[b] : o->S};
            a.q = o->q + query * (size_t)D, a.k = o->k + key * (size_t)D, a.v = o->v + key * (size_t)E;
            a.y = y + query * (size_t)E;
            switch (o->c.kernel) {
            case LL_KERNEL_VALUE: value(&a); break;
            default: abort();
            }
        }
}
