/* What all scans of linear attention need for one head: features of a tile, divisors, packed values, scratch, and the
 * sizes of states. */
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"
#include "base/integer.h"

int ll_causal_has_eps(const ll_attention *op) {
    const ll_feature_map *map = ll_linear_map(op);
    return map->phi[LL_KEY] == LL_PHI_RUNNING && !map->scale_cancels;
}

ll_status ll_causal_check_gate(const ll_attention *op) {
    if (!ll_causal_has_eps(op)) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "attention: a gate goes with the running maximum of favor only where it cancels; divide by "
                   "the sum (LL_DEN_SUM) with feature_eps = 0, or use key_max none");
}

size_t ll_state_floats(const ll_attention *op) {
    const size_t E = (size_t)op->c.E, kept = ll_causal_has_eps(op) ? E + 1 : 0; /* rounding errors of V */
    return (size_t)ll_linear_map(op)->features * (E + 1) + E + LL_SAVED_LOW_COUNT + kept;
}

static int counts(const ll_attention *op) { return op->c.den == LL_DEN_EPS_L; }

size_t ll_carried_floats(const ll_attention *op) { return ll_state_floats(op) + 1 + (size_t)counts(op); }

int64_t ll_carried_keys(const ll_attention *op, const float *state) {
    const float *keys = state + ll_state_floats(op);
    return (int64_t)keys[0] + (counts(op) ? (int64_t)keys[1] : 0);
}

void ll_carried_set_keys(const ll_attention *op, float *state, int64_t keys) {
    float *to = state + ll_state_floats(op);
    to[0] = (float)keys;
    if (counts(op)) to[1] = (float)(keys - (int64_t)to[0]);
}

ll_feature_tile ll_tile_at(const ll_head *j, int side, int t0, int C, int64_t *px, int64_t *py, float *work) {
    const ll_view *view = side == LL_QUERY ? &j->at.q : &j->at.k;
    ll_positions(j->map, j->first[side] + t0, C, px, py);
    const float *mask = side == LL_KEY && j->mask ? j->mask + t0 : NULL;
    return (ll_feature_tile){j->map,          j->k,        j->h,           side, C,    px,     py,
                             ll_at(view, t0), view->token, j->shift[side], work, mask, j->bf16};
}

double ll_divisor(const ll_attention *op, double s, double phi, double keys) {
    const double eps = (double)op->c.den_eps;
    switch (op->c.den) {
    case LL_DEN_EPS: return s + eps;
    case LL_DEN_EPS_PHI: return s + eps * phi;
    case LL_DEN_EPS_L: return s + eps * keys;
    case LL_DEN_GUARD: return fabs(s) <= eps ? s + 2 * eps : s;
    case LL_DEN_NONE: return 1;
    case LL_DEN_SUM: break;
    }
    return s;
}

int ll_kept_keys(const ll_head *j, int from, int to) {
    int keys = to - from;
    for (int t = from; t < to && j->mask; t++) keys -= j->mask[t] == 0;
    return keys;
}

float ll_inverse(float den) {
    if (!isfinite(den)) return NAN;
    return fabsf(den) > 1e-36f ? 1 / den : 0;
}

void ll_inverses(const ll_head *j, int t0, int n, const float *s, const float *phi, int64_t keys, float *inverse) {
    for (int i = 0; i < n; i++) {
        if (j->op->c.causal) keys += !j->mask || j->mask[t0 + i] != 0;
        const float den = (float)ll_divisor(j->op, (double)s[i], phi ? (double)phi[i] : 0, (double)keys);
        if (j->states) j->den[t0 + i] = den;
        inverse[i] = ll_inverse(den);
    }
}

void ll_pack_values(const ll_head *j, int t0, int C, const float *weight, float *out, size_t ld) {
    const size_t E = (size_t)j->op->c.E;
    j->k->scaled_rows(C, E, weight, ll_at(&j->at.v, t0), j->at.v.token, out, ld);
    /* 0 times NaN or an infinity is NaN. */
    for (int i = 0; i < C && j->mask; i++)
        if (j->mask[t0 + i] == 0) memset(out + (size_t)i * ld, 0, E * sizeof *out);
}

void ll_row_gradients(const ll_head *j, int t0, int n, float *dn, size_t ld) {
    const size_t E = (size_t)j->op->c.E;
    const ll_view *g = &j->at.g, *y = &j->at.y;
    float inverse[LL_TILE_MOST] = {0};
    for (int i = 0; i < n; i++) inverse[i] = ll_inverse(j->den[t0 + i]);
    j->k->quotient_back(n, E, inverse, ll_at(g, t0), g->token, ll_at(y, t0), y->token, dn, ld);
    for (int i = 0; i < n && j->op->c.den == LL_DEN_NONE; i++) dn[(size_t)i * ld + E] = 0;
}

void ll_prefetch_add(ll_prefetch *next, const ll_head *j, const ll_view *view, int t0, int end, int cols) {
    if (t0 < end) ll_prefetch_rows(next, ll_at(view, t0), view->token, ll_min_int(j->tile, end - t0), cols);
}
