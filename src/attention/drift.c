/* How far a stream strays from exact arithmetic: random tokens go through the operator's stream, and beside it through
 * the same recurrence with everything in double, the feature maps included.
 *
 *   S = r S + phi(k) v^T     z = r z + phi(k)     y = phi(q) S / phi(q) z
 *
 * Softmax features need no stabiliser here: exponents of standard normal q and k are far inside the range of double. */
#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"
#include "base/random.h"

enum { BLOCK = 100 };

typedef struct {
    ll_attention *op;
    const ll_attention_config *c;
    uint64_t seed;
    float *x[4];               /* a block of q, k, v, y: (H, BLOCK, D or E) */
    double *S, *z, *phi, *num; /* (H, m, E), (H, m), (m), (E) */
    double worst, largest;     /* of the block that is compared */
} drift;

/* f of the generalized kernels. */
static double map(ll_kernel kernel, double u) {
    switch (kernel) {
    case LL_KERNEL_RELU: return u > 0 ? u : 0;
    case LL_KERNEL_ELU1: return u > 0 ? u + 1 : exp(u);
    case LL_KERNEL_EXP: return exp(u);
    case LL_KERNEL_SIGMOID: return 1 / (1 + exp(-u));
    case LL_KERNEL_ABS: return fabs(u);
    case LL_KERNEL_SQUARE: return u * u;
    default: return NAN; /* check says which */
    }
}

static ll_status check(const ll_attention_config *c, int64_t tokens) {
    const int favor = c->kernel == LL_KERNEL_FAVOR;
    if (!favor && isnan(map(c->kernel, 1)))
        return ll_fail(LL_EINVAL,
                       "drift: is measured for linear kernels with positive features: favor, relu, elu1, exp, "
                       "sigmoid, abs, square");
    if (favor && (c->feature_eps > 0 || c->features > LL_FEATURES_HYPERBOLIC))
        return ll_fail(LL_EINVAL, "drift: favor is measured with positive or hyperbolic features and without an eps");
    if (!c->causal || c->position != LL_POSITION_NONE || c->den != LL_DEN_SUM)
        return ll_fail(LL_EINVAL, "drift: is measured for causal attention without a position, divided by its sum");
    if (tokens < 1) return ll_fail(LL_EINVAL, "drift: %lld tokens, must be at least 1", (long long)tokens);
    return LL_OK;
}

/* phi(x) of one token. */
static void features(const drift *d, const float *x) {
    const ll_attention_config *c = d->c;
    const int m = ll_feature_count(c), D = c->D;
    const double scale = (double)c->input_scale;
    double n = 0;
    for (int e = 0; e < D; e++) n += scale * scale * (double)x[e] * (double)x[e] / 2;
    for (int a = 0; a < m; a++) {
        const float *w = c->M ? c->projection + (size_t)(a % c->M) * (size_t)D : NULL;
        double u = 0;
        for (int e = 0; e < D && w; e++) u += scale * (double)w[e] * (double)x[e];
        if (!w) u = scale * (double)x[a];
        if (c->M && a >= c->M) u = -u;
        d->phi[a] = c->kernel == LL_KERNEL_FAVOR ? exp(u - n) : map(c->kernel, u) + (double)c->feature_eps;
    }
}

static void remember(drift *d, int h, const float *key, const float *value) {
    const size_t m = (size_t)ll_feature_count(d->c), E = (size_t)d->c->E;
    const double decay = d->c->decay ? (double)d->c->decay[h] : 1;
    double *S = d->S + (size_t)h * m * E, *z = d->z + (size_t)h * m;
    features(d, key);
    for (size_t a = 0; a < m; a++) {
        z[a] = decay * z[a] + d->phi[a];
        for (size_t e = 0; e < E; e++) S[a * E + e] = decay * S[a * E + e] + d->phi[a] * (double)value[e];
    }
}

static void compare(drift *d, int h, const float *query, const float *y) {
    const size_t m = (size_t)ll_feature_count(d->c), E = (size_t)d->c->E;
    const double *S = d->S + (size_t)h * m * E, *z = d->z + (size_t)h * m;
    double den = 0;
    features(d, query);
    memset(d->num, 0, E * sizeof *d->num);
    for (size_t a = 0; a < m; a++) {
        den += d->phi[a] * z[a];
        for (size_t e = 0; e < E; e++) d->num[e] += d->phi[a] * S[a * E + e];
    }
    for (size_t e = 0; e < E; e++) {
        const double expected = d->num[e] / den, error = fabs((double)y[e] - expected);
        if (!(error <= d->worst)) d->worst = error; /* also NaN */
        d->largest = fmax(d->largest, fabs(expected));
    }
}

/* Tokens first..first+n-1, compared where `compared`. */
static ll_status block(drift *d, ll_attention_stream *stream, int64_t first, int n, int compared) {
    const size_t H = (size_t)d->c->H, width[4] = {(size_t)d->c->D, (size_t)d->c->D, (size_t)d->c->E, (size_t)d->c->E};
    ll_view view[4];
    for (uint32_t i = 0; i < 4; i++) {
        view[i] = (ll_view){d->x[i], H * BLOCK * width[i], width[i], H * width[i]};
        const uint64_t from = (uint64_t)first * H * width[i], stream_id = ll_stream_id(LL_RANDOM_TEST, i, 0);
        if (i < 2) ll_normal_fill(d->x[i], (size_t)n * H * width[i], d->seed, stream_id, from);
        if (i == 2) ll_uniform_fill(d->x[i], (size_t)n * H * width[i], d->seed, stream_id, from);
    }
    const ll_status status = ll_attention_stream_feed(stream, n, view[0], view[1], view[2], view[3]);
    if (status) return status;
    d->worst = d->largest = 0;
    for (size_t t = 0; t < (size_t)n; t++)
        for (size_t h = 0; h < H; h++) {
            const size_t at = t * H + h;
            remember(d, (int)h, d->x[1] + at * width[1], d->x[2] + at * width[2]);
            if (compared) compare(d, (int)h, d->x[0] + at * width[0], d->x[3] + at * width[3]);
        }
    return LL_OK;
}

static ll_status run(drift *d, int64_t tokens, ll_drift *out) {
    ll_attention_stream *stream = NULL;
    ll_status status = ll_attention_stream_create(&stream, d->op, 1);
    ll_drift result = {0};
    int64_t next = BLOCK;
    for (int64_t t = 0; t < tokens && !status;) {
        const int n = tokens - t < BLOCK ? (int)(tokens - t) : BLOCK, compared = t + n >= next || t + n == tokens;
        status = block(d, stream, t, n, compared);
        t += n;
        if (status || !compared || result.count == LL_DRIFT_MOST) continue;
        result.tokens[result.count] = t;
        result.deviation[result.count++] = d->worst / d->largest;
        next *= 10;
    }
    ll_attention_stream_free(stream);
    if (!status) *out = result;
    return status;
}

ll_status ll_attention_drift(ll_drift *out, const ll_attention_config *c, int64_t tokens, uint64_t seed) {
    drift d = {.c = c, .seed = seed};
    ll_status status = check(c, tokens);
    if (!status) status = ll_attention_create(&d.op, c);
    if (status) return status;
    const size_t m = (size_t)ll_feature_count(c), H = (size_t)c->H, D = (size_t)c->D, E = (size_t)c->E;
    float *x = ll_alloc(H * BLOCK * 2 * (D + E), sizeof *x);
    double *state = ll_alloc(H * m * (E + 1) + m + E, sizeof *state);
    if (x && state) {
        d.x[0] = x, d.x[1] = x + H * BLOCK * D, d.x[2] = d.x[1] + H * BLOCK * D, d.x[3] = d.x[2] + H * BLOCK * E;
        d.S = state, d.z = d.S + H * m * E, d.phi = d.z + H * m, d.num = d.phi + m;
        status = run(&d, tokens, out);
    } else {
        status = LL_ENOMEM;
    }
    ll_free(x);
    ll_free(state);
    ll_attention_free(d.op);
    return status;
}
