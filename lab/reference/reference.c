/* The recurrence in double.
 *
 *   S = r S + phi(k) v^T     z = r z + phi(k)     y = phi(q) S / phi(q) z
 *
 * with phi of the definitions, moved by the position. Softmax, local and heads without keys keep rows instead of sums,
 * as far back as they look. Softmax features need no stabiliser here: exponents of standard normal q and k are far
 * inside the range of double. */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "attention/table.h"
#include "base/memory.h"

struct ll_reference {
    const ll_attention_config *c;
    ll_reference_position encoding;
    ll_reference_buckets buckets; /* reformer */
    int m;
    int64_t keep, *count;        /* rows kept; (H) tokens so far */
    double *S, *z, *V;           /* (H, m, E), (H, m), (H, E) the sum of values */
    double *keys, *values;       /* rings (H, keep, width), (H, keep, E) */
    int *power;                  /* permute: (H, m), feature a of the next token is power[a] of phi */
    double *x, *vector;          /* (width) */
    double *phi, *moved;        /* (m) */
};

/* ---- What has a reference ---- */

static int linear(const ll_attention_config *c) {
    return ll_operator_of_kernel(c->kernel)->linear;
}

static ll_status check(const ll_attention_config *c) {
    const int image = c->position == LL_POSITION_PERMUTE2D || c->encoding.axes == 2 || c->before;
    const int stabilised = c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_GAUSSIAN;
    if (stabilised && (c->feature_eps > 0 || c->den != LL_DEN_SUM))
        return ll_fail(LL_EINVAL,
                       "stream-error: favor is measured without an eps and divided by the sum of its weights, where "
                       "no stabiliser counts");
    if (c->den != LL_DEN_SUM && c->den != LL_DEN_NONE)
        return ll_fail(LL_EINVAL, "stream-error: is measured with divisors that are the sum of the weights, or none");
    if (image) return ll_fail(LL_EINVAL, "stream-error: is measured for sequences, not for images");
    return LL_OK;
}

/* ---- Features ---- */

/* f of the generalized kernels. */
static double map(ll_kernel kernel, double u) {
    switch (kernel) {
    case LL_KERNEL_RELU: return u > 0 ? u : 0;
    case LL_KERNEL_ELU1: return u > 0 ? u + 1 : exp(u);
    case LL_KERNEL_EXP: return exp(u);
    case LL_KERNEL_SIGMOID: return 1 / (1 + exp(-u));
    case LL_KERNEL_ABS: return fabs(u);
    case LL_KERNEL_GELU: return u * erfc(-u / sqrt(2)) / 2;
    case LL_KERNEL_COS: return cos(u);
    case LL_KERNEL_TANH: return tanh(u);
    case LL_KERNEL_SQUARE: return u * u;
    default: return u;
    }
}

/* Feature a of favor, u = <w_a, x>, n = |x|^2 / 2; without the factor that all have, where only quotients count. */
static double favor(const ll_attention_config *c, int a, double u, double n) {
    switch (c->features) {
    case LL_FEATURES_HYPERBOLIC: return exp((a < c->M ? u : -u) - n);
    case LL_FEATURES_TRIGONOMETRIC: return exp(n) * (a < c->M ? cos(u) : sin(u));
    case LL_FEATURES_GAUSSIAN: return (a < c->M ? cos(u) : sin(u)) / sqrt(c->M);
    default: return exp(u - n);
    }
}

/* phi(x) of an encoded vector. */
static void features(const ll_reference *t, const double *x, double *phi) {
    const ll_attention_config *c = t->c;
    const int width = t->encoding.width;
    const double scale = (double)c->input_scale;
    double n = 0;
    for (int e = 0; e < width; e++) n += scale * scale * x[e] * x[e] / 2;
    for (int a = 0; a < t->m; a++) {
        double u = c->M ? 0 : scale * x[a];
        for (int e = 0; e < width && c->M; e++)
            u += scale * (double)c->projection[(size_t)(a % c->M) * (size_t)width + (size_t)e] * x[e];
        phi[a] = c->kernel == LL_KERNEL_FAVOR ? favor(c, a, u, n) : map(c->kernel, u) + (double)c->feature_eps;
    }
}

/* Features of a token as they stand in the weighted sum, and in its divisor. */
static void move(const ll_reference *t, int h, int64_t position, double **sum, double **divisor) {
    const ll_attention_config *c = t->c;
    const size_t m = (size_t)t->m;
    *sum = *divisor = t->phi;
    if (c->position == LL_POSITION_PERMUTE) {
        for (size_t a = 0; a < m; a++) t->moved[a] = t->phi[t->power[(size_t)h * m + a]];
        *sum = *divisor = t->moved;
    } else if (c->position == LL_POSITION_ROPE_LINEAR) {
        memcpy(t->moved, t->phi, m * sizeof *t->moved);
        ll_reference_rotate(t->m, c->encoding.theta, 10000, NULL, position, t->moved);
        *sum = t->moved;
    } else if (c->position == LL_POSITION_ORTHOGONAL) {
        for (size_t a = 0; a < m; a++) {
            t->moved[a] = 0;
            for (size_t b = 0; b < m; b++)
                t->moved[a] += (double)c->encoding.basis[((size_t)h * m + a) * m + b] * t->phi[b];
        }
        ll_reference_rotate(t->m, c->encoding.theta + (size_t)h * (m / 2), 0, NULL, position, t->moved);
        *sum = *divisor = t->moved;
    }
}

/* ---- Tokens ---- */

static double *row(const ll_reference *t, double *ring, int h, int64_t token, int n) {
    return ring + ((size_t)h * (size_t)t->keep + (size_t)(token % t->keep)) * (size_t)n;
}

static void accumulate(ll_reference *t, int h, int64_t position, const float *v, const float *gate) {
    const size_t m = (size_t)t->m, E = (size_t)t->c->E;
    const double decay = (t->c->decay ? (double)t->c->decay[h] : 1) * (gate ? exp((double)*gate) : 1);
    double *S = t->S + (size_t)h * m * E, *z = t->z + (size_t)h * m, *sum, *divisor;
    features(t, t->x, t->phi);
    move(t, h, position, &sum, &divisor);
    for (size_t a = 0; a < m; a++) {
        z[a] = decay * z[a] + divisor[a];
        for (size_t e = 0; e < E; e++) S[a * E + e] = decay * S[a * E + e] + sum[a] * (double)v[e];
    }
}

void ll_reference_feed(ll_reference *t, int h, const float *k, const float *v, const float *gate) {
    const ll_attention_config *c = t->c;
    const int keys = h < ll_keyed_heads(c) && c->kernel != LL_KERNEL_VALUE;
    const int64_t position = t->count[h]++;
    for (int a = 0; a < t->m && position && c->permutation; a++) {
        int *power = t->power + (size_t)h * (size_t)t->m + a;
        *power = c->permutation[(size_t)h * (size_t)t->m + (size_t)*power];
    }
    if (keys) ll_reference_encode(&t->encoding, LL_KEY, h, position, k, t->x);
    if (keys && linear(c)) accumulate(t, h, position, v, gate);
    if (c->kernel == LL_KERNEL_REFORMER) ll_reference_buckets_feed(&t->buckets, h, position, k, t->x, v);
    if (keys && t->keep)
        memcpy(row(t, t->keys, h, position, t->encoding.width), t->x, (size_t)t->encoding.width * sizeof *t->x);
    for (int e = 0; e < c->E; e++) {
        t->V[h * c->E + e] += (double)v[e];
        if (t->keep) row(t, t->values, h, position, c->E)[e] = (double)v[e];
    }
}

/* ---- Answers ---- */

static void divide(const ll_attention_config *c, double den, double *y) {
    for (int e = 0; e < c->E && (c->den == LL_DEN_SUM || !linear(c)); e++) y[e] /= den;
}

static void answer_linear(ll_reference *t, int h, double *y) {
    const size_t m = (size_t)t->m, E = (size_t)t->c->E;
    const double *S = t->S + (size_t)h * m * E, *z = t->z + (size_t)h * m;
    double den = 0, *sum, *divisor;
    features(t, t->x, t->phi);
    move(t, h, t->count[h] - 1, &sum, &divisor);
    for (size_t a = 0; a < m; a++) {
        den += divisor[a] * z[a];
        for (size_t e = 0; e < E; e++) y[e] += sum[a] * S[a * E + e];
    }
    divide(t->c, den, y);
}

/* T5's bucket of a distance to the past: 16 hold one each, 16 grow up to 128. */
static int bucket(int64_t distance) {
    if (distance < 16) return (int)distance;
    const int step = (int)(16 * log2((double)distance / 16) / 3);
    return 16 + (step < 15 ? step : 15);
}

static double logit(const ll_reference *t, int h, int64_t distance, const double *key) {
    const ll_attention_config *c = t->c;
    const int width = t->encoding.width, clip = c->encoding.clip;
    const float *a = c->position == LL_POSITION_SHAW ? c->encoding.distance_k : NULL;
    const size_t far = (size_t)(clip - (distance < clip ? (int)distance : clip)) * (size_t)c->D;
    double s = 0;
    for (int e = 0; e < width; e++) s += t->x[e] * (key[e] + (a ? (double)a[far + (size_t)e] : 0));
    s *= (double)c->input_scale;
    return c->position == LL_POSITION_T5 ? s + (double)c->encoding.bias[h * 32 + bucket(distance)] : s;
}

/* Softmax over the rows that are kept. */
static void answer_exact(ll_reference *t, int h, double *y) {
    const ll_attention_config *c = t->c;
    const int64_t last = t->count[h] - 1, first = last < t->keep ? 0 : last - t->keep + 1;
    const int clip = c->encoding.clip;
    const float *added = c->position == LL_POSITION_SHAW ? c->encoding.distance_v : NULL;
    double den = 0;
    for (int64_t j = first; j <= last; j++) {
        const double weight = exp(logit(t, h, last - j, row(t, t->keys, h, j, t->encoding.width)));
        const double *v = row(t, t->values, h, j, c->E);
        const size_t far = (size_t)(clip - (last - j < clip ? (int)(last - j) : clip)) * (size_t)c->E;
        den += weight;
        for (int e = 0; e < c->E; e++) y[e] += weight * (v[e] + (added ? (double)added[far + (size_t)e] : 0));
    }
    divide(c, den, y);
}

/* The weight of the vector of a distance, in a head without keys. */
static double distance_weight(ll_reference *t, int distance) {
    const float *r = t->c->encoding.rpe + (size_t)distance * (size_t)t->c->D;
    double w = 0;
    for (int e = 0; e < t->c->D; e++) t->vector[e] = (double)r[e];
    for (int e = 0; e < t->c->D; e++) w += (double)t->c->input_scale * t->x[e] * t->vector[e];
    if (!linear(t->c)) return exp(w);
    w = 0;
    features(t, t->vector, t->moved);
    for (int a = 0; a < t->m; a++) w += t->phi[a] * t->moved[a];
    return w;
}

/* All values with the weight of the far ones, the near ones with what theirs is more. */
static void answer_keyless(ll_reference *t, int h, double *y) {
    const ll_attention_config *c = t->c;
    const int64_t last = t->count[h] - 1;
    const int clip = c->encoding.clip;
    if (linear(c)) features(t, t->x, t->phi);
    const double far = distance_weight(t, clip);
    double den = far * (double)t->count[h];
    for (int e = 0; e < c->E; e++) y[e] = far * t->V[h * c->E + e];
    for (int d = 0; d < clip && d <= last; d++) {
        const double weight = distance_weight(t, d) - far, *v = row(t, t->values, h, last - d, c->E);
        den += weight;
        for (int e = 0; e < c->E; e++) y[e] += weight * v[e];
    }
    divide(c, den, y);
}

void ll_reference_answer(ll_reference *t, int h, const float *q, double *y) {
    const ll_attention_config *c = t->c;
    memset(y, 0, (size_t)c->E * sizeof *y);
    if (c->kernel == LL_KERNEL_VALUE) {
        memcpy(y, row(t, t->values, h, t->count[h] - 1, c->E), (size_t)c->E * sizeof *y);
        return;
    }
    ll_reference_encode(&t->encoding, LL_QUERY, h, t->count[h] - 1, q, t->x);
    if (h >= ll_keyed_heads(c)) {
        answer_keyless(t, h, y);
    } else if (linear(c)) {
        answer_linear(t, h, y);
    } else if (c->kernel == LL_KERNEL_REFORMER) {
        divide(c, ll_reference_buckets_answer(&t->buckets, h, t->x, y), y);
    } else {
        answer_exact(t, h, y);
    }
}

/* ---- Life ---- */

/* How far back rows are looked at. */
static int64_t rows_kept(const ll_attention_config *c, int64_t tokens) {
    if (c->kernel == LL_KERNEL_VALUE) return 1;
    if (c->kernel == LL_KERNEL_LOCAL) return c->approximate.window;
    if (c->kernel == LL_KERNEL_SOFTMAX) return tokens;
    return c->position == LL_POSITION_RELATIVE_S2 ? c->encoding.clip : 0;
}

ll_status ll_reference_create(ll_reference **reference, const ll_attention *op, int64_t tokens) {
    const ll_attention_config *c = &op->c;
    ll_status status = check(c);
    ll_reference *t = status ? NULL : ll_alloc(1, sizeof *t);
    if (!t) return status ? status : LL_ENOMEM;
    t->c = c;
    t->keep = rows_kept(c, tokens);
    status = ll_reference_position_create(&t->encoding, c);
    if (!status) status = ll_reference_buckets_create(&t->buckets, op);
    const size_t H = (size_t)c->H, width = (size_t)t->encoding.width, E = (size_t)c->E, keep = (size_t)t->keep;
    const size_t m = (size_t)(t->m = !linear(c) ? 0 : c->M ? ll_feature_count(c) : (int)width);
    if (!status) {
        t->count = ll_alloc(H, sizeof *t->count);
        t->S = ll_alloc(H * m, E * sizeof *t->S), t->z = ll_alloc(H, m * sizeof *t->z);
        t->V = ll_alloc(H, E * sizeof *t->V);
        t->keys = ll_alloc(H * keep, width * sizeof *t->keys), t->values = ll_alloc(H * keep, E * sizeof *t->values);
        t->power = ll_alloc(H, m * sizeof *t->power);
        t->x = ll_alloc(2 * width + 2 * m, sizeof *t->x);
        t->vector = t->x + width, t->phi = t->vector + width, t->moved = t->phi + m;
        const int there = t->count && t->S && t->z && t->V && t->keys && t->values && t->power && t->x;
        status = there ? LL_OK : LL_ENOMEM;
    }
    for (size_t i = 0; !status && i < H * m; i++) t->power[i] = (int)(i % m);
    if (status) {
        ll_reference_free(t);
        return status;
    }
    *reference = t;
    return LL_OK;
}

void ll_reference_free(ll_reference *t) {
    if (!t) return;
    ll_reference_position_free(&t->encoding);
    ll_reference_buckets_free(&t->buckets);
    ll_free(t->count), ll_free(t->S), ll_free(t->z), ll_free(t->V);
    ll_free(t->keys), ll_free(t->values), ll_free(t->power), ll_free(t->x);
    ll_free(t);
}
