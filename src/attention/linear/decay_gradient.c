/* The gradient of a head's decay r. It is computed only if a call asks for it, by forward differentiation of the
 * recurrence, token by token in double. With S' = dS/dr, z' = dz/dr and r_i the token's gate, or 1,
 *
 *   S'_i = r_i (S_{i-1} + r S'_{i-1})        dr = sum_i phi_i S'_i dnum_i + phi_i z'_i dden_i
 *
 * An eps under a running maximum is treated as one more feature, which is 1 in every key. */
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"

typedef struct {
    double *S, *dS; /* (features, E + 1); the last column is the normaliser */
    int exponent;
} tangent;

/* Where the numbers of a saved state begin, which LL_SAVED_... count. */
static size_t numbers_of(const ll_head *j) {
    const size_t m = (size_t)j->map->features, E = (size_t)j->op->c.E;
    return m * E + m + E;
}

/* Moves a state of m features past one key, whose gate is `gate`, and returns phi_q S' [dnum, dden] for the query of
 * the same token. A masked key, of weight 0, and its value are not read: 0 times NaN is NaN. divisor: where the
 * features of the last column begin. */
static double step(int m, int divisor, int E1, tangent *s, double r, double gate, double weight, const float *phi_k,
                   const float *v, const float *phi_q, const double *dn) {
    double dr = 0;
    for (int a = 0; a < m; a++) {
        double *S = s->S + (size_t)a * (size_t)E1, *dS = s->dS + (size_t)a * (size_t)E1;
        for (int e = 0; e < E1; e++) {
            const int feature = e + 1 < E1 ? a : divisor + a;
            dS[e] = gate * (S[e] + r * dS[e]);
            S[e] *= gate * r;
            if (weight != 0) S[e] += weight * (double)phi_k[feature] * (e + 1 < E1 ? (double)v[e] : 1);
            dr += (double)phi_q[feature] * dS[e] * dn[e];
        }
    }
    return dr;
}

static double sum_of_weights(const ll_head *j, const tangent *s, const float *phi_q) {
    const size_t E1 = (size_t)j->op->c.E + 1;
    double den = 0;
    for (int a = 0; a < j->map->features; a++)
        den += (double)phi_q[j->map->divisor + a] * s->S[(size_t)a * E1 + E1 - 1];
    return den;
}

static void rescale(const ll_attention *op, tangent *s, int exponent) {
    const size_t n = 2 * (size_t)ll_linear_map(op)->features * ((size_t)op->c.E + 1);
    const double f = s->exponent == LL_NO_EXPONENT ? 1 : ldexp(1, s->exponent - exponent);
    for (size_t i = 0; i < n; i++) s->S[i] *= f; /* dS lies behind S */
    s->exponent = exponent;
}

/* Begins with the state that the call took. `ones` is the state of the eps. Returns the largest c so far. */
static float begin(const ll_head *j, tangent *s, tangent *ones) {
    const size_t m = (size_t)j->map->features, E = (size_t)j->op->c.E;
    if (!j->state_in) return -INFINITY;
    const float *S = j->state_in, *z = S + m * E, *V = z + m, *number = S + numbers_of(j);
    for (size_t a = 0; a < m; a++) {
        for (size_t e = 0; e < E; e++) s->S[a * (E + 1) + e] = (double)S[a * E + e];
        s->S[a * (E + 1) + E] = (double)z[a];
    }
    for (size_t e = 0; e < E; e++) ones->S[e] = (double)V[e];
    ones->S[E] = (double)number[LL_SAVED_COUNT];
    s->exponent = (int)number[LL_SAVED_EXPONENT];
    return number[LL_SAVED_TOP];
}

/* The derivative of the state that the call left by r, times the gradient at this state. */
static double end(const ll_head *j, const tangent *s, const tangent *ones) {
    const size_t m = (size_t)j->map->features, E = (size_t)j->op->c.E;
    if (!j->dstate_out || s->exponent == LL_NO_EXPONENT) return 0;
    const float *d = j->dstate_out, *dz = d + m * E, *dV = dz + m;
    double sum = 0, eps = 0;
    for (size_t a = 0; a < m; a++) {
        for (size_t e = 0; e < E; e++) sum += s->dS[a * (E + 1) + e] * (double)d[a * E + e];
        sum += s->dS[a * (E + 1) + E] * (double)dz[a];
    }
    for (size_t e = 0; e < E; e++) eps += ones->dS[e] * (double)dV[e];
    eps += ones->dS[E] * (double)d[numbers_of(j) + LL_SAVED_COUNT];
    const int running = j->map->phi[LL_KEY] == LL_PHI_RUNNING;
    const int left = (int)j->state_out[numbers_of(j) + LL_SAVED_EXPONENT];
    return (running ? ldexp(sum, s->exponent - left) : sum) + eps;
}

/* What the scan takes. */
typedef struct {
    double *S, *ones, *dn; /* (2, features, E + 1), (2, E + 1), (E + 1) */
    float *phi_q, *phi_k, *work; /* (ld) */
} scratch;

static void take_all(const ll_head *j, scratch *w, ll_arena *pool) {
    const size_t E1 = (size_t)j->op->c.E + 1, ld = (size_t)j->map->ld;
    w->S = ll_arena_bytes(pool, 2 * (size_t)j->map->features * E1, sizeof *w->S);
    w->ones = ll_arena_bytes(pool, 2 * E1, sizeof *w->ones);
    w->dn = ll_arena_bytes(pool, E1, sizeof *w->dn);
    w->phi_q = ll_arena_take(pool, ld), w->phi_k = ll_arena_take(pool, ld);
    w->work = ll_arena_take(pool, ll_feature_work(j->map, 1, j->bf16));
}

size_t ll_decay_floats(const ll_head *j) {
    ll_arena pool = {0};
    scratch w;
    take_all(j, &w, &pool);
    return pool.used;
}

double ll_decay_gradient(ll_head *j) {
    const ll_attention *op = j->op;
    const size_t E = (size_t)op->c.E, state = (size_t)j->map->features * (E + 1);
    const int eps = ll_causal_has_eps(op);
    ll_arena pool = j->pool;
    scratch w;
    take_all(j, &w, &pool);
    tangent s = {.S = w.S, .dS = w.S + state, .exponent = LL_NO_EXPONENT};
    tangent ones = {.S = w.ones, .dS = w.ones + E + 1, .exponent = 0};
    memset(s.S, 0, 2 * state * sizeof *s.S);
    memset(ones.S, 0, 2 * (E + 1) * sizeof *ones.S);
    float *phi_q = w.phi_q, *phi_k = w.phi_k, *work = w.work;
    double *dn = w.dn;
    const double r = (double)op->c.decay[j->h], root = eps ? (double)j->map->root : 1;
    float top = begin(j, &s, &ones);
    double dr = 0;
    for (int t = 0; t < j->n; t++) {
        int64_t x, y;
        int e, none;
        float own;
        ll_feature_tile q = ll_tile_at(j, LL_QUERY, t, 1, &x, &y, work);
        ll_features(&q, phi_q, &none, NULL);
        ll_feature_tile k = ll_tile_at(j, LL_KEY, t, 1, &x, &y, work);
        ll_features(&k, phi_k, &e, eps ? &own : NULL);
        const double keep = j->mask ? (double)j->mask[t] : 1;
        if (keep != 0 && e > s.exponent) rescale(op, &s, e);
        if (eps && keep != 0 && own > top) top = own;
        const double unit = eps && top > -INFINITY ? root * exp(s.exponent * 0.69314718055994531 - (double)top) : 1;
        const float *g = ll_at(&j->at.g, t), *out = ll_at(&j->at.y, t);
        dn[E] = 0;
        for (size_t i = 0; i < E; i++) {
            dn[i] = (double)g[i];
            if (op->c.den != LL_DEN_NONE) dn[E] -= (double)g[i] * (double)out[i];
        }
        const double weight = keep == 0 ? 0 : keep * ldexp(1, e - s.exponent);
        const float *v = ll_at(&j->at.v, t), one = 1;
        const double gate = j->at.gate.data ? exp((double)*ll_at(&j->at.gate, t)) : 1;
        double change =
            unit * step(j->map->features, j->map->divisor, (int)E + 1, &s, r, gate, weight, phi_k, v, phi_q, dn);
        if (eps) {
            const float sum = op->c.feature_eps * j->map->root * j->k->sum((size_t)j->map->features, phi_q);
            change += step(1, 0, (int)E + 1, &ones, r, gate, keep, &one, v, &sum, dn);
        }
        /* Where scales cancel, the saved divisor is in units of the tiles' exponent, not of this state's. */
        const double den = j->map->scale_cancels ? sum_of_weights(j, &s, phi_q) : (double)j->den[t];
        dr += den != 0 && ll_inverse(j->den[t]) != 0 ? change / den : 0; /* 0 where the divisor makes y 0 */
    }
    return dr + end(j, &s, &ones);
}
