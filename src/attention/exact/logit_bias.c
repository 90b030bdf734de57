/* The positions in the logits of exact attention: T5's bias (Raffel et al. 2020), Shaw's vectors (Shaw et al. 2018). */
#include "attention/exact/logit_bias.h"
#include "base/integer.h"

#include <math.h>
#include <string.h>

/* The only whole numbers at which steps begin are powers of two, and their log2 is exact. */
int ll_t5_bucket(int distance, int causal) {
    const int buckets = causal ? LL_T5_BUCKETS : LL_T5_BUCKETS / 2, exact = buckets / 2;
    const int n = distance < 0 ? -distance : distance, side = distance > 0 && !causal ? buckets : 0;
    if (n < exact) return side + n;
    const int step = (int)((buckets - exact) * log2((double)n / exact) / log2((double)LL_T5_REACH / exact));
    return side + (exact + step < buckets ? exact + step : buckets - 1);
}

/* ---- The two kinds ---- */

static ll_status check_kernel(const ll_attention_config *c, const char *name) {
    if (c->kernel == LL_KERNEL_SOFTMAX) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: %s adds to logits, and linear kernels have none; use softmax", name);
}

static ll_status check_t5(const ll_attention_config *c) {
    const ll_status status = check_kernel(c, "t5");
    if (!status && !c->encoding.bias) return ll_fail(LL_EINVAL, "attention: t5 needs its biases");
    return status;
}

static ll_status check_shaw(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    const ll_status status = check_kernel(c, "shaw");
    if (status) return status;
    if (w->clip < 1 || w->clip > 255)
        return ll_fail(LL_EINVAL, "attention: shaw clips distances at 1 to 255, got %d", w->clip);
    if (!w->distance_k && !w->distance_v)
        return ll_fail(LL_EINVAL, "attention: shaw needs vectors of the distances, for keys, values or both");
    return LL_OK;
}

/* No preference for a distance. */
static void init_zero(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    (void)c, (void)draw;
    memset(x, 0, ll_parameter_size(p) * sizeof *x);
}

/* Small compared with queries and values of size 1. */
static void init_small(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    (void)c;
    ll_parameter_normal(p, draw, (float)draw->std, x);
}

static ll_parameter of_shape(ll_parameter p, int rows, int cols) {
    p.rank = 2, p.lead = 1;
    p.shape[0] = rows, p.shape[1] = cols;
    return p;
}

static int parameters_t5(const ll_attention_config *c, ll_parameter *list) {
    list[0] = of_shape((ll_parameter){LL_POSITION_PARAMETER(bias), .init = init_zero}, c->H, LL_T5_BUCKETS);
    return 1;
}

static int parameters_shaw(const ll_attention_config *c, ll_parameter *list) {
    const int n = c->encoding.clip * (c->causal ? 1 : 2) + 1;
    list[0] = of_shape((ll_parameter){LL_POSITION_PARAMETER(distance_k), .init = init_small}, n, c->D);
    list[1] = of_shape((ll_parameter){LL_POSITION_PARAMETER(distance_v), .init = init_small}, n, c->E);
    return 2;
}

/* A product with each vector. */
static double cost_shaw(const ll_attention_config *c) {
    const double distances = c->encoding.clip * (c->causal ? 1.0 : 2.0) + 1;
    return distances * ((c->encoding.distance_k ? c->D : 0) + (c->encoding.distance_v ? c->E : 0));
}

const ll_logit_kind ll_logits_t5 = {check_t5, parameters_t5, NULL};
const ll_logit_kind ll_logits_shaw = {check_shaw, parameters_shaw, cost_shaw};

/* ---- Of one call ---- */

void ll_distances_take(ll_distances *d, const ll_attention *op, ll_arena *a) {
    const ll_attention_config *c = &op->c;
    const int t5 = op->logits == &ll_logits_t5;
    *d = (ll_distances){0};
    if (!op->logits) return;
    d->clip = t5 ? LL_T5_REACH : c->encoding.clip;
    d->n = d->clip + 1 + (c->causal ? 0 : d->clip);
    d->ld = ll_round_up((size_t)d->n, LL_LINE);
    d->biased = t5;
    d->keys = !t5 && c->encoding.distance_k, d->values = !t5 && c->encoding.distance_v;
    d->H = (size_t)c->H;
    const size_t D = d->keys ? (size_t)c->D : 0, E = d->values ? (size_t)c->E : 0;
    d->row = ll_arena_take(a, (t5 ? d->H : 0) * d->ld);
    d->kt = ll_arena_take(a, D * d->ld), d->k = ll_arena_take(a, D * d->ld);
    d->vt = ll_arena_take(a, E * d->ld), d->v = ll_arena_take(a, E * d->ld);
}

void ll_distances_set(ll_distances *d, const ll_attention *op) {
    const ll_attention_config *c = &op->c;
    const ll_kernels *k = ll_kernel_table();
    const size_t D = (size_t)c->D, E = (size_t)c->E, n = (size_t)d->n;
    for (int i = 0; i < d->n && d->biased; i++) {
        const int number = ll_t5_bucket(i - d->clip, c->causal);
        for (int h = 0; h < c->H; h++)
            d->row[(size_t)h * d->ld + (size_t)i] = c->encoding.bias[(size_t)h * LL_T5_BUCKETS + (size_t)number];
    }
    if (d->keys) {
        k->transpose(d->n, c->D, c->encoding.distance_k, D, d->kt, d->ld);
        memcpy(d->k, c->encoding.distance_k, n * D * sizeof *d->k);
        k->scale(n * D, c->input_scale, d->k);
    }
    if (d->values) {
        k->transpose(d->n, c->E, c->encoding.distance_v, E, d->vt, d->ld);
        memcpy(d->v, c->encoding.distance_v, n * E * sizeof *d->v);
    }
}

/* How many of n distances from `first` on are below `limit`. */
static int below(int64_t limit, int64_t first, int n) {
    const int64_t count = limit - first;
    return count < 0 ? 0 : count < n ? (int)count : n;
}

void ll_distances_spread(const ll_distances *d, const ll_kernels *k, const float *row, int64_t first, int n, float *x) {
    const int from = below(1 - d->clip, first, n), to = below(d->clip, first, n);
    const float before = row[0], after = row[d->n - 1];
    for (int j = 0; j < from; j++) x[j] += before;
    if (to > from) k->add((size_t)(to - from), row + (d->clip + first + from), x + from);
    for (int j = to; j < n; j++) x[j] += after;
}

void ll_distances_gather(const ll_distances *d, const ll_kernels *k, const float *x, int64_t first, int n, float *row) {
    const int from = below(1 - d->clip, first, n), to = below(d->clip, first, n);
    if (from > 0) row[0] += k->sum((size_t)from, x);
    if (to > from) k->add((size_t)(to - from), x + from, row + (d->clip + first + from));
    if (to < n) row[d->n - 1] += k->sum((size_t)(n - to), x + to);
}

/* ---- Tiles of exact attention ---- */

/* rows: R, or one for all. */
static void spread(const ll_distance_tile *t, const float *row, size_t ldr, float *tile) {
    for (int i = 0; i < t->rows; i++)
        ll_distances_spread(t->d, t->k, row + (size_t)i * ldr, t->first - i, t->seen[i], tile + (size_t)i * t->ld);
}

static void gather(const ll_distance_tile *t, const float *tile, float *row, size_t ldr) {
    for (int i = 0; i < t->rows; i++)
        ll_distances_gather(t->d, t->k, tile + (size_t)i * t->ld, t->first - i, t->seen[i], row + (size_t)i * ldr);
}

void ll_distances_queries(const ll_distance_tile *t) {
    if (t->d && t->d->keys) t->k->gemm(t->rows, t->d->n, t->D, t->q, t->ldq, 1, t->d->kt, t->d->ld, t->R, t->d->ld, 0);
}

void ll_distances_logits(const ll_distance_tile *t, float *P) {
    if (t->d && t->d->keys) spread(t, t->R, t->d->ld, P);
    if (t->d && t->d->biased) spread(t, t->d->row + (size_t)t->head * t->d->ld, 0, P);
}

void ll_distances_weights(const ll_distance_tile *t, const float *P, float *out, size_t ldw) {
    if (t->d && t->d->values) gather(t, P, out, ldw);
}

void ll_distances_values_back(const ll_distance_tile *t, const float *P, float *dP) {
    const ll_distances *d = t->d;
    const size_t E = (size_t)t->E;
    if (!d || !d->values) return;
    t->k->gemm(t->rows, d->n, t->E, t->g, t->ldg, 1, d->vt, d->ld, t->R, d->ld, 0);
    spread(t, t->R, d->ld, dP);
    if (!t->sums) return;
    memset(t->W, 0, (size_t)t->rows * d->ld * sizeof *t->W);
    gather(t, P, t->W, d->ld);
    float *sums = t->sums + (d->keys ? d->n * t->D : 0);
    t->k->gemm(d->n, t->E, t->rows, t->W, 1, d->ld, t->g, t->ldg, sums, E, 1);
}

void ll_distances_logits_back(const ll_distance_tile *t, const float *dS, float *dq, size_t token) {
    const ll_distances *d = t->d;
    const size_t D = (size_t)t->D;
    if (!d) return;
    if (d->biased && t->sums) { /* a row for the tile, for sums of a few terms at a time */
        memset(t->W, 0, d->ld * sizeof *t->W);
        gather(t, dS, t->W, 0);
        t->k->add((size_t)d->n, t->W, t->sums);
    }
    if (!d->keys) return;
    memset(t->W, 0, (size_t)t->rows * d->ld * sizeof *t->W);
    gather(t, dS, t->W, d->ld);
    if (t->sums) t->k->gemm(d->n, t->D, t->rows, t->W, 1, d->ld, t->q, t->ldq, t->sums, D, 1);
    if (dq) t->k->gemm(t->rows, t->D, d->n, t->W, d->ld, 1, d->k, D, dq, token, 1);
}

/* ---- Gradients ---- */

void ll_distances_take_sums(ll_distances *d, const ll_attention *op, size_t sequences, size_t parts, ll_arena *a) {
    const size_t vectors = (d->keys ? (size_t)op->D : 0) + (d->values ? (size_t)op->c.E : 0);
    if (!d->n) return;
    d->parts = parts, d->size = (size_t)d->n * (d->biased ? 1 : vectors);
    d->sums = ll_arena_take(a, sequences * d->H * parts * d->size);
    d->total = ll_arena_bytes(a, (d->biased ? d->H : 1) * d->size, sizeof *d->total);
}

float *ll_distances_part(const ll_distances *d, size_t head, size_t part) {
    return d->sums ? d->sums + (head * d->parts + part) * d->size : NULL;
}

void ll_distances_begin(const ll_distances *d) {
    if (d->n) memset(d->total, 0, (d->biased ? d->H : 1) * d->size * sizeof *d->total);
}

void ll_distances_clear(ll_distances *d, size_t sequences) {
    d->heads = sequences * d->H;
    if (d->n) memset(d->sums, 0, d->heads * d->parts * d->size * sizeof *d->sums);
}

/* All heads share the vectors of shaw. Each head has its own biases of t5. */
void ll_distances_add(const ll_distances *d) {
    for (size_t h = 0; h < d->heads && d->n; h++) {
        double *total = d->total + (d->biased ? h % d->H * d->size : 0);
        for (size_t p = 0; p < d->parts; p++) {
            const float *sum = ll_distances_part(d, h, p);
            for (size_t i = 0; i < d->size; i++) total[i] += (double)sum[i];
        }
    }
}

void ll_distances_collect(const ll_distances *d, const ll_attention *op, const ll_position_gradients *to) {
    const size_t keys = d->keys ? (size_t)d->n * (size_t)op->D : 0;
    for (size_t h = 0; h < d->H && d->biased && to->bias; h++) {
        double bias[LL_T5_BUCKETS] = {0};
        for (int i = 0; i < d->n; i++)
            bias[ll_t5_bucket(i - d->clip, op->c.causal)] += d->total[h * d->size + (size_t)i];
        for (size_t b = 0; b < LL_T5_BUCKETS; b++) to->bias[h * LL_T5_BUCKETS + b] += (float)bias[b];
    }
    for (size_t at = 0; at < d->size && !d->biased; at++) {
        float *out = at < keys ? to->distance_k : to->distance_v;
        if (out) out[at < keys ? at : at - keys] += (float)d->total[at];
    }
}
