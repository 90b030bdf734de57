/* What papers compare linear attention with, by definition. */
#include "oracle_baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_inside.h"

int oracle_is_baseline(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_VALUE || c->kernel >= LL_KERNEL_LINFORMER;
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

/* p (m) = softmax(scale <q, k_j>) over m keys. */
static void softmax(const head *a, const double *q, const double *k, int m, double *p) {
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < m; j++) {
        p[j] = 0;
        for (int e = 0; e < a->o->c.D; e++) p[j] += (double)a->o->c.input_scale * q[e] * k[j * a->o->c.D + e];
        top = fmax(top, p[j]);
    }
    for (int j = 0; j < m; j++) sum += p[j] = exp(p[j] - top);
    for (int j = 0; j < m; j++) p[j] /= sum;
}

/* y (width) += sum_j p_j x_j. */
static void mean(const double *p, const double *x, int m, int width, double *y) {
    for (int j = 0; j < m; j++)
        for (int e = 0; e < width; e++) y[e] += p[j] * x[j * width + e];
}

static void linformer(const head *a) {
    const int rank = a->o->c.baseline.rank, D = a->o->c.D, E = a->o->c.E;
    double *k = oracle_alloc((size_t)(rank * D), sizeof *k), *v = oracle_alloc((size_t)(rank * E), sizeof *v);
    double *p = oracle_alloc((size_t)rank, sizeof *p);
    for (int r = 0; r < rank; r++)
        for (int j = 0; j < a->s; j++) {
            mean(a->o->linformer_k + j * rank + r, a->k + j * D, 1, D, k + r * D);
            mean(a->o->linformer_v + j * rank + r, a->v + j * E, 1, E, v + r * E);
        }
    for (int i = 0; i < a->n; i++) {
        softmax(a, a->q + i * D, k, rank, p);
        mean(p, v, rank, E, a->y + i * E);
    }
    free(k), free(v), free(p);
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
            case LL_KERNEL_LINFORMER: linformer(&a); break;
            default: abort();
            }
        }
}
