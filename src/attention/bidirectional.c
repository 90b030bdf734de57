/* Linear attention in both directions, and between sequences: one pass over the keys sums the state
 * S = sum phi(k) v^T, z = sum phi(k); one pass over the queries reads it. Backward the other way round:
 * the queries give U = sum phi(q) [dnum, dden]^T, and the keys read that. Products per token: 4 forward
 * and 8 backward of features x E, none more than the mathematics asks for.
 *
 * Sums of FOLD keys are added up, not single keys: beside a long sum small features would be lost in rounding, always
 * to the same side.
 *
 * States are transposed for the products that need it, with the normaliser as one more row. */
#include <math.h>
#include <string.h>

#include "attention/linear.h"

enum { FOLD = 1024 };

typedef struct {
    float *phi, *work, *dphi, *v, *rows, *s;
    float *S, *z;   /* (features, E), (features) */
    float *more_S, *more_z; /* the same of keys past the first FOLD, until they are added */
    float *St, *Ut; /* (E + 1, ld) */
    int exponent;   /* of S and z */
    int e[LL_TILE_MOST];
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    size_t ld, ldv;
} scratch;

static int least(int a, int b) { return a < b ? a : b; }
static float power2(int n) { return n < -148 ? 0 : ldexpf(1, n); }

size_t ll_bidirectional_scratch(const ll_attention *op, int tile, int backward) {
    const size_t C = (size_t)tile, ld = (size_t)op->ld, E = (size_t)op->c.E, m = (size_t)op->features;
    const size_t ldv = (E + 16) / 16 * 16 + 16;
    return 3 * C * ld + 2 * C * ldv + C + 2 * m * (E + 1) + (backward ? 2 * (E + 1) * ld + m * E : 0) + 512;
}

static void take_all(ll_head *j, scratch *w, float **pool, int backward) {
    const ll_attention *op = j->op;
    const size_t C = (size_t)j->tile, E = (size_t)op->c.E, m = (size_t)op->features;
    w->ld = (size_t)op->ld;
    w->ldv = (E + 16) / 16 * 16 + 16;
    w->phi = ll_take(pool, C * w->ld);
    w->work = ll_take(pool, C * w->ld);
    w->dphi = ll_take(pool, C * w->ld);
    w->v = ll_take(pool, C * w->ldv);
    w->rows = ll_take(pool, C * w->ldv);
    w->s = ll_take(pool, C);
    w->S = ll_take(pool, m * E);
    w->z = ll_take(pool, m);
    w->more_S = ll_take(pool, m * E), w->more_z = ll_take(pool, m);
    w->exponent = LL_NO_EXPONENT;
    if (!backward) return;
    w->St = ll_take(pool, (E + 1) * w->ld);
    w->Ut = ll_take(pool, (E + 1) * w->ld);
}

/* What each key counts: its mask, times its exponent in units of the state's. */
static void key_weights(const ll_head *j, const scratch *w, int t0, int n, int exponent, float *weight) {
    const int running = j->op->phi[LL_KEY] == LL_PHI_RUNNING;
    for (int i = 0; i < n; i++) {
        const float keep = j->mask ? j->mask[t0 + i] : 1;
        weight[i] = keep == 0 ? 0 : keep * (running ? power2(w->e[i] - exponent) : 1);
    }
}

static void scale_rows(const ll_head *j, const float *weight, int n, int cols, float *rows, size_t ld) {
    for (int i = 0; i < n; i++)
        if (weight[i] != 1) j->k->scale((size_t)cols, weight[i], rows + (size_t)i * ld);
}

/* Sums of more keys go to those of all before. */
static void fold(const ll_head *j, scratch *w) {
    const size_t m = (size_t)j->op->features, E = (size_t)j->op->c.E;
    j->k->add(m * E, w->more_S, w->S), j->k->add(m, w->more_z, w->z);
    memset(w->more_S, 0, m * E * sizeof *w->more_S), memset(w->more_z, 0, m * sizeof *w->more_z);
}

static void add_keys(ll_head *j, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E, more = t0 >= FOLD;
    float weight[LL_TILE_MOST];
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, w->phi, w->e, NULL);
    int top = w->exponent;
    for (int i = 0; i < n; i++)
        if ((!j->mask || j->mask[t0 + i] != 0) && w->e[i] > top) top = w->e[i];
    if (top > w->exponent && w->exponent > LL_NO_EXPONENT) {
        j->k->scale((size_t)m * (size_t)E, power2(w->exponent - top), w->S);
        j->k->scale((size_t)m, power2(w->exponent - top), w->z);
        if (more) j->k->scale((size_t)m * (size_t)E, power2(w->exponent - top), w->more_S);
        if (more) j->k->scale((size_t)m, power2(w->exponent - top), w->more_z);
    }
    w->exponent = top;
    key_weights(j, w, t0, n, top, weight);
    ll_pack_values(j, &j->at.v, t0, n, w->v, w->ldv);
    scale_rows(j, weight, n, E, w->v, w->ldv);
    ll_ahead next = {0};
    ll_ahead_add(&next, j, &j->at.k, t0 + n, j->s, op->c.D);
    ll_ahead_add(&next, j, &j->at.v, t0 + n, j->s, op->c.E);
    j->k->gemm_ahead(m, E, n, w->phi, 1, w->ld, w->v, w->ldv, more ? w->more_S : w->S, (size_t)E, 1, &next);
    j->k->gemv(m, n, weight, w->phi, w->ld, more ? w->more_z : w->z, 1);
    if (more && (t0 + n == j->s || (t0 + n) / FOLD != t0 / FOLD)) fold(j, w);
}

static void read_queries(ll_head *j, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E;
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, w->phi, w->e, NULL);
    ll_ahead next = {0};
    ll_ahead_add(&next, j, &j->at.q, t0 + n, j->n, op->c.D);
    ll_ahead_add(&next, j, &j->at.y, t0, j->n, op->c.E);
    j->k->gemm_ahead(n, E, m, w->phi, w->ld, 1, w->S, (size_t)E, w->rows, w->ldv, 0, &next);
    j->k->gemv_rows(n, m, w->phi, w->ld, w->z, w->s, 0);
    for (int i = 0; i < n; i++) {
        const float *num = w->rows + (size_t)i * w->ldv;
        const float phi = op->c.den == LL_DEN_EPS_PHI ? j->k->sum((size_t)m, w->phi + (size_t)i * w->ld) : 0;
        const float den = ll_divisor(op, w->s[i], phi, j->keys), inverse = ll_inverse(den);
        j->k->scaled((size_t)E, inverse, num, ll_at(&j->at.y, t0 + i));
        if (j->states) j->den[t0 + i] = den;
    }
}

void ll_bidirectional_forward(ll_head *j) {
    const size_t m = (size_t)j->op->features, E = (size_t)j->op->c.E;
    float *pool = j->pool;
    scratch w;
    take_all(j, &w, &pool, 0);
    memset(w.S, 0, m * E * sizeof *w.S);
    memset(w.z, 0, m * sizeof *w.z);
    memset(w.more_S, 0, (j->s > FOLD ? m * E : 0) * sizeof *w.more_S);
    memset(w.more_z, 0, (j->s > FOLD ? m : 0) * sizeof *w.more_z);
    for (int t0 = 0; t0 < j->s; t0 += j->tile) add_keys(j, &w, t0, least(j->tile, j->s - t0));
    j->keys = ll_kept_keys(j, 0, j->s);
    for (int t0 = 0; t0 < j->n; t0 += j->tile) read_queries(j, &w, t0, least(j->tile, j->n - t0));
    if (!j->states) return;
    memcpy(j->states, w.S, m * E * sizeof *w.S);
    memcpy(j->states + m * E, w.z, m * sizeof *w.z);
    j->states[m * E + m] = (float)w.exponent;
}

void ll_bidirectional_read(ll_head *j, const float *state) {
    const size_t m = (size_t)j->op->features, E = (size_t)j->op->c.E;
    float *pool = j->pool;
    scratch w;
    take_all(j, &w, &pool, 0);
    w.S = (float *)state; /* which reading leaves alone */
    w.z = w.S + m * E;
    for (int t0 = 0; t0 < j->n; t0 += j->tile) read_queries(j, &w, t0, least(j->tile, j->n - t0));
}

/* dq of a tile, and what its rows add to U. */
static void queries_back(ll_head *j, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E;
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, w->phi, w->e, NULL);
    for (int i = 0; i < n; i++) {
        const float *g = ll_at(&j->at.g, t0 + i), *y = ll_at(&j->at.y, t0 + i);
        const float inverse = ll_inverse(j->den[t0 + i]);
        float *dn = w->rows + (size_t)i * w->ldv;
        j->k->scaled((size_t)E, inverse, g, dn);
        dn[E] = op->c.den == LL_DEN_NONE ? 0 : -j->k->dot((size_t)E, g, y) * inverse;
    }
    ll_ahead out = {0};
    ll_ahead_add(&out, j, &j->at.dq, t0, j->n, op->c.D);
    j->k->gemm_ahead(n, m, E + 1, w->rows, w->ldv, 1, w->St, w->ld, w->dphi, w->ld, 0, &out);
    if (op->c.den == LL_DEN_EPS_PHI)
        for (int i = 0; i < n; i++)
            for (int a = 0; a < m; a++)
                w->dphi[(size_t)i * w->ld + (size_t)a] += op->c.den_eps * w->rows[(size_t)i * w->ldv + (size_t)E];
    ll_ahead next = {0};
    ll_ahead_add(&next, j, &j->at.q, t0 + n, j->n, op->c.D);
    ll_ahead_add(&next, j, &j->at.g, t0 + n, j->n, op->c.E);
    ll_ahead_add(&next, j, &j->at.y, t0 + n, j->n, op->c.E);
    j->k->gemm_ahead(E + 1, m, n, w->rows, 1, w->ldv, w->phi, w->ld, w->Ut, w->ld, 1, &next);
    ll_features_back(&q, w->phi, w->dphi, ll_at(&j->at.dq, t0), j->at.dq.token, j->dtop[LL_QUERY]);
}

static void keys_back(ll_head *j, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E;
    float weight[LL_TILE_MOST];
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, w->phi, w->e, NULL);
    key_weights(j, w, t0, n, w->exponent, weight);
    ll_pack_values(j, &j->at.v, t0, n, w->v, w->ldv);
    for (int i = 0; i < n; i++) w->v[(size_t)i * w->ldv + (size_t)E] = 1;
    scale_rows(j, weight, n, E + 1, w->v, w->ldv);
    ll_ahead out = {0};
    ll_ahead_add(&out, j, &j->at.dk, t0, j->s, op->c.D);
    j->k->gemm_ahead(n, m, E + 1, w->v, w->ldv, 1, w->Ut, w->ld, w->dphi, w->ld, 0, &out);
    ll_ahead next = {0};
    ll_ahead_add(&next, j, &j->at.k, t0 + n, j->s, op->c.D);
    ll_ahead_add(&next, j, &j->at.v, t0 + n, j->s, op->c.E);
    ll_ahead_add(&next, j, &j->at.dv, t0, j->s, op->c.E);
    j->k->gemm_ahead(n, E, m, w->phi, w->ld, 1, w->S, (size_t)E, w->rows, w->ldv, 0, &next); /* S holds U here */
    scale_rows(j, weight, n, E, w->rows, w->ldv);
    for (int i = 0; i < n; i++)
        memcpy(ll_at(&j->at.dv, t0 + i), w->rows + (size_t)i * w->ldv, (size_t)E * sizeof *w->rows);
    ll_features_back(&k, w->phi, w->dphi, ll_at(&j->at.dk, t0), j->at.dk.token, j->dtop[LL_KEY]);
}

void ll_bidirectional_backward(ll_head *j) {
    const int m = j->op->features, E = j->op->c.E;
    const size_t state = (size_t)m * (size_t)E;
    float *pool = j->pool;
    scratch w;
    take_all(j, &w, &pool, 1);
    j->k->transpose(m, E, j->states, (size_t)E, w.St, w.ld);
    memcpy(w.St + (size_t)E * w.ld, j->states + state, (size_t)m * sizeof *w.St);
    w.exponent = (int)j->states[state + (size_t)m];
    memset(w.Ut, 0, (size_t)(E + 1) * w.ld * sizeof *w.Ut);
    for (int t0 = 0; t0 < j->n; t0 += j->tile) queries_back(j, &w, t0, least(j->tile, j->n - t0));
    j->k->transpose(E, m, w.Ut, w.ld, w.S, (size_t)E);
    for (int t0 = 0; t0 < j->s; t0 += j->tile) keys_back(j, &w, t0, least(j->tile, j->s - t0));
}
