/* The approximate operators by definition. */
#include "oracle_approximate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_inside.h"

int oracle_is_approximate(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_VALUE || c->kernel >= LL_KERNEL_LINFORMER;
}

/* One head of one sequence. */
typedef struct {
    const oracle_case *o;
    int b, h, n, s; /* used queries and keys */
    const double *q, *k, *v;
    double *y;
} head;

static void value(const head *a) { memcpy(a->y, a->v, (size_t)(a->n * a->o->c.E) * sizeof *a->y); }

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
    const int rank = a->o->c.approximate.rank, D = a->o->c.D, E = a->o->c.E;
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

/* Means of m runs of n rows. */
static double *means(const double *x, int n, int m, int D) {
    double *out = oracle_alloc((size_t)(m * D), sizeof *out);
    for (int r = 0; r < m; r++) {
        const int from = r * n / m, to = (r + 1) * n / m;
        const double share = 1.0 / (to - from);
        for (int t = from; t < to; t++) mean(&share, x + t * D, 1, D, out + r * D);
    }
    return out;
}

/* C (m x m) = c - A B. */
static void subtract(int m, double c, const double *A, const double *B, double *C) {
    for (int i = 0; i < m * m; i++) {
        C[i] = i / m == i % m ? c : 0;
        for (int k = 0; k < m; k++) C[i] -= A[i / m * m + k] * B[k * m + i % m];
    }
}

/* Z = an approximation of A^-1. */
static void invert(int m, int steps, const double *A, double *Z) {
    const size_t n = (size_t)(m * m);
    double *work = oracle_alloc(4 * n, sizeof *work), *N = work, *R = N + n, *next = R + n, *one = next + n, top = 0;
    for (int j = 0; j < m; j++) {
        double sum = 0;
        for (int i = 0; i < m; i++) sum += A[i * m + j];
        top = fmax(top, sum);
        one[j * (m + 1)] = 1;
    }
    for (int i = 0; i < m * m; i++) Z[i] = A[i % m * m + i / m] / top;
    for (int t = 0; t < steps; t++) {
        subtract(m, 0, A, Z, next); /* -N */
        subtract(m, 0, next, one, N);
        subtract(m, 7, N, one, R);
        subtract(m, 15, N, R, next);
        subtract(m, 13, N, next, R);
        subtract(m, 0, Z, R, next);
        for (int i = 0; i < m * m; i++) Z[i] = -next[i] / 4;
    }
    free(work);
}

static void nystrom(const head *a) {
    const int m = a->o->c.approximate.landmarks, D = a->o->c.D, E = a->o->c.E, small = a->n <= m || a->s <= m;
    double *p = oracle_alloc((size_t)(a->s + m), sizeof *p);
    for (int i = 0; i < a->n && small; i++) {
        softmax(a, a->q + i * D, a->k, a->s, p);
        mean(p, a->v, a->s, E, a->y + i * E);
    }
    if (!small) {
        double *q = means(a->q, a->n, m, D), *k = means(a->k, a->s, m, D);
        double *A = oracle_alloc((size_t)(2 * m * (m + E)), sizeof *A), *Z = A + m * m, *X = Z + m * m, *W = X + m * E;
        for (int r = 0; r < m; r++) {
            softmax(a, q + r * D, k, m, A + r * m);
            softmax(a, q + r * D, a->k, a->s, p);
            mean(p, a->v, a->s, E, X + r * E);
        }
        invert(m, a->o->c.approximate.iterations, A, Z);
        for (int r = 0; r < m; r++) mean(Z + r * m, X, m, E, W + r * E);
        for (int i = 0; i < a->n; i++) {
            softmax(a, a->q + i * D, k, m, p);
            mean(p, W, m, E, a->y + i * E);
        }
        free(q), free(k), free(A);
    }
    free(p);
}

/* The bucket of each token in a round. */
static void buckets(const head *a, int round, int *bucket) {
    const ll_attention_config *c = &a->o->c;
    const int half = c->approximate.buckets / 2, D = c->D;
    const float *R = c->approximate.rotations + (round * c->H + a->h) * D * half;
    for (int t = 0; t < a->n; t++) {
        double best = -INFINITY;
        for (int f = 0; f < 2 * half; f++) {
            double x = 0;
            for (int e = 0; e < D; e++) x += a->q[t * D + e] * (double)R[e * half + f % half];
            if (f >= half) x = -x;
            if (x > best) best = x, bucket[t] = f;
        }
    }
}

/* The rank of token t among the sorted tokens (causal: among those of its bucket). */
static int rank_of(const head *a, const int *bucket, int t) {
    int place = 0;
    for (int j = 0; j < a->n; j++) {
        const int lower = bucket[j] < bucket[t] && !a->o->c.causal;
        place += lower || (bucket[j] == bucket[t] && j < t);
    }
    return place;
}

static void reformer(const head *a) {
    const ll_attention_config *c = &a->o->c;
    const int D = c->D, E = c->E, n = a->n, chunk = c->approximate.chunk;
    int *bucket = oracle_alloc((size_t)(2 * n), sizeof *bucket), *place = bucket + n;
    double *sum = oracle_alloc((size_t)n, sizeof *sum);
    for (int round = 0; round < c->approximate.rounds; round++) {
        buckets(a, round, bucket);
        for (int t = 0; t < n; t++) place[t] = rank_of(a, bucket, t);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                const int back = place[i] / chunk - place[j] / chunk;
                if (i == j || back < 0 || back > 1) continue;
                if (c->causal && (j > i || bucket[i] != bucket[j])) continue;
                double product = 0, norm = 0;
                for (int e = 0; e < D; e++) {
                    product += a->q[i * D + e] * a->q[j * D + e];
                    norm += a->q[j * D + e] * a->q[j * D + e];
                }
                const double weight = exp((double)c->input_scale * product / sqrt(norm));
                sum[i] += weight;
                mean(&weight, a->v + j * E, 1, E, a->y + i * E);
            }
    }
    for (int i = 0; i < n * E; i++) a->y[i] = sum[i / E] > 0 ? a->y[i] / sum[i / E] : a->v[i];
    free(bucket), free(sum);
}

void oracle_approximate_forward(const oracle_case *o, double *y) {
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
            case LL_KERNEL_NYSTROM: nystrom(&a); break;
            case LL_KERNEL_REFORMER: reformer(&a); break;
            default: abort();
            }
        }
}
