/* Causal linear attention as a recurrence. Each token is added to a state, and its query reads the state.
 *
 *   S = r S + phi(k) v^T     z = r z + phi(k)     y = phi(q) S / phi(q) z
 *
 * S and z are in double, because in float sums of a million tokens are off by 1e-3. Softmax features (favor) are phi
 * 2^e. S and z are in units of 2^C, and C is at least as large as every e so far. When C changes, S and z are scaled by
 * a power of two, which is exact. Features (f + eps) / sqrt(M) under a running maximum c, with f = e^(u - n - c), also
 * need V = sum v and the number N of tokens, which decay as S does:
 *
 *   phi(q) S' = (2^C e^-c phi(q) S + eps Phi V) / sqrt(M)        Phi = sum of phi(q); z' likewise with N
 *
 * A few tokens are computed at a time, so that the state is read less often. Each result is the same as if its token
 * came alone, so nothing depends on how tokens are cut into calls. */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/linear/causal.h"
#include "base/integer.h"
#include "base/memory.h"

enum { CHUNK = LL_STATE_TOKENS };

/* The state of one (sequence, head) is a row of doubles: S (features, E), z (features), V (E), N, c, the exponent of
 * the largest contribution after its decay, C. */
enum { COUNT, TOP, LEVEL, EXPONENT, SCALARS };
typedef struct {
    size_t size; /* of a row */
    double *row; /* (B, H, size) */
} recurrent;

/* One (sequence, head), with the scratch of its worker. */
typedef struct {
    const ll_attention *op;
    const ll_feature_map *map;
    const ll_kernels *k;
    int head;
    double decay[CHUNK]; /* of the state before each token */
    double *S, *z, *V, *scalar;
    float *phi_q, *phi_k, *work; /* (CHUNK, ld) */
    double *v, *num, *den;       /* (CHUNK, ldv) twice, (CHUNK) */
    size_t ldv;
    int64_t x[CHUNK], y[CHUNK];       /* positions */
    int exponent[CHUNK], none[CHUNK]; /* of keys; of queries, where only their ratios count */
    float top[CHUNK];
    double factor[CHUNK], unit[CHUNK]; /* factor of S before a token; C after it */
} lane;

static size_t padded(int E) {
    return ((size_t)E + 7) / 8 * 8;
}

size_t ll_recurrent_doubles(const ll_attention *op) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    return (m + 1) * E + m + SCALARS;
}

static size_t scratch_floats(const ll_attention_stream *s) {
    const ll_attention *op = s->op;
    return 3 * CHUNK * (size_t)ll_linear_map(op)->ld + 2 * CHUNK * (2 * padded(op->c.E) + 1);
}

static void reset(ll_attention_stream *s) {
    const recurrent *own = s->own;
    memset(own->row, 0, ll_stream_heads(s) * own->size * sizeof *own->row);
    for (size_t i = 1; i <= ll_stream_heads(s); i++) {
        double *scalar = own->row + i * own->size - SCALARS;
        scalar[TOP] = scalar[LEVEL] = -INFINITY;
        scalar[EXPONENT] = LL_NO_EXPONENT;
    }
}

/* All numbers are finite, except the scalars of an empty state. Exponents are such as `raise` leaves. */
static ll_status check(const ll_attention_stream *s) {
    const recurrent *own = s->own;
    for (size_t i = 0; i < ll_stream_heads(s); i++) {
        const double *x = own->row + i * own->size, *scalar = x + own->size - SCALARS;
        for (const double *p = x; p <= scalar; p++)
            if (!isfinite(*p))
                return ll_fail(LL_EFORMAT, "the state of head %zu is not finite at element %zu", i, (size_t)(p - x));
        const double level = ceil(scalar[LEVEL]), C = scalar[EXPONENT];
        const int empty = level == -INFINITY && C == LL_NO_EXPONENT;
        const int running = fabs(C) < -(double)LL_NO_EXPONENT && C == floor(C) && level <= C &&
                            level > C - LL_EXPONENT_SLACK;
        if (scalar[COUNT] < 0 || !(scalar[TOP] < INFINITY) || !(empty || running))
            return ll_fail(LL_EFORMAT, "the state of head %zu has exponents that no stream comes to", i);
    }
    return LL_OK;
}

/* x 2^n; 0 if that is far too small for a float. */
static double scale_by(double x, double n) { return n < -1000 ? 0 : ldexp(x, (int)n); }

/* Raises C for a key of exponent e, if needed, and returns by how much its unit 2^C falls: log2 of a factor of the
 * state. A state that decays may have become far smaller than 2^C. Then C is lowered, so that small new keys are not
 * lost. */
static double raise(lane *j, double decay, int e) {
    double *level = j->scalar + LEVEL, *exponent = j->scalar + EXPONENT;
    *level = fmax(*level + log2(decay), e);
    const double old = *exponent, wanted = ceil(*level);
    if (wanted <= old && wanted > old - LL_EXPONENT_SLACK) return 0;
    *exponent = wanted;
    return (int)old == LL_NO_EXPONENT ? 0 : old - wanted;
}

/* Computes the factors of the state at every token, and scales keys to its units. */
static int scale_keys(lane *j, int C) {
    int scaled = 0;
    for (int t = 0; t < C; t++) {
        scaled |= j->decay[t] != 1;
        j->factor[t] = j->decay[t];
        if (j->map->phi[LL_KEY] != LL_PHI_RUNNING) continue;
        const double moved = raise(j, j->decay[t], j->exponent[t]), C2 = j->scalar[EXPONENT];
        scaled |= moved != 0;
        j->factor[t] = scale_by(j->decay[t], moved); /* at once: a state that has decayed to 0 stays 0 */
        if (j->exponent[t] != (int)C2)
            j->k->scale((size_t)(j->map->divisor + j->map->features), (float)scale_by(1, j->exponent[t] - C2),
                        j->phi_k + (size_t)t * (size_t)j->map->ld);
        j->unit[t] = C2;
    }
    return scaled;
}

/* Adds what eps gives to the sums of token t of the chunk, and computes its row of y. keys: its number in the
 * stream. */
static void finish(lane *j, int t, double keys, float *y) {
    const ll_attention *op = j->op;
    const int E = op->c.E, sums = ll_causal_has_eps(op) || op->c.den == LL_DEN_EPS_PHI;
    const size_t ld = (size_t)j->map->ld;
    const double phi = sums ? (double)j->k->sum((size_t)j->map->features, j->phi_q + (size_t)t * ld) : 0;
    const double *v = j->v + (size_t)t * j->ldv;
    double *num = j->num + (size_t)t * j->ldv, sum = j->den[t], *scalar = j->scalar;
    if (ll_causal_has_eps(op)) {
        scalar[TOP] = fmax(scalar[TOP], (double)j->top[t]);
        scalar[COUNT] = j->decay[t] * scalar[COUNT] + 1;
        const double unit = exp(j->unit[t] * 0.69314718055994530942 - scalar[TOP]) * (double)j->map->root;
        const double eps = phi * (double)op->c.feature_eps * (double)j->map->root;
        sum = unit * sum + eps * scalar[COUNT];
        for (int i = 0; i < E; i++) {
            j->V[i] = j->decay[t] * j->V[i] + v[i];
            num[i] = unit * num[i] + eps * j->V[i];
        }
    }
    const double den = ll_divisor(op, sum, phi, keys);
    for (int i = 0; i < E; i++) y[i] = den != 0 ? (float)(num[i] / den) : 0;
}

/* Computes phi(q), phi(k) and v of C tokens, from token t0 of the call on. */
static void load(lane *j, const ll_feed *f, size_t b, int t0, int C) {
    const size_t h = (size_t)j->head;
    ll_positions(j->map, f->s->position + t0, C, j->x, j->y);
    ll_feature_tile tile = {j->map,     j->k, j->head, LL_QUERY, C, j->x, j->y, ll_feed_at(&f->q, b, h, t0),
                            f->q.token, 0,    j->work};
    ll_features(&tile, j->phi_q, j->none, NULL);
    tile.side = LL_KEY, tile.in = ll_feed_at(&f->key, b, h, t0), tile.token = f->key.token;
    ll_features(&tile, j->phi_k, j->exponent, ll_causal_has_eps(j->op) ? j->top : NULL);
    const double decay = j->op->c.decay ? (double)j->op->c.decay[j->head] : 1;
    for (int t = 0; t < C; t++) {
        j->decay[t] = f->gate.data ? decay * exp((double)*ll_feed_at(&f->gate, b, h, t0 + t)) : decay;
        const float *v = ll_feed_at(&f->v, b, h, t0 + t);
        for (int e = 0; e < j->op->c.E; e++) j->v[(size_t)t * j->ldv + (size_t)e] = (double)v[e];
    }
}

static lane lane_at(const ll_feed *f, size_t index, int worker) {
    const ll_attention_stream *s = f->s;
    const ll_attention *op = s->op;
    const ll_feature_map *map = ll_linear_map(op);
    const recurrent *own = s->own;
    const size_t m = (size_t)map->features, E = (size_t)op->c.E, ld = (size_t)map->ld;
    lane j = {.op = op, .map = map, .k = f->k, .head = (int)(index % (size_t)op->c.H), .ldv = padded(op->c.E)};
    j.S = own->row + index * own->size;
    j.z = j.S + m * E, j.V = j.z + m, j.scalar = j.V + E;
    j.v = (double *)(void *)(s->pool + (size_t)worker * s->scratch);
    j.num = j.v + CHUNK * j.ldv, j.den = j.num + CHUNK * j.ldv;
    j.phi_q = (float *)(j.den + CHUNK);
    j.phi_k = j.phi_q + CHUNK * ld, j.work = j.phi_k + CHUNK * ld;
    for (size_t t = 0; t < CHUNK; t++) memset(j.v + t * j.ldv, 0, j.ldv * sizeof *j.v);
    return j;
}

/* With features of the divisor, z has those alone. */
static void add_and_read(lane *j, int C, const double *factor) {
    const int m = j->map->features, divisor = j->map->divisor;
    const size_t ld = (size_t)j->map->ld;
    j->k->state_tokens(C, m, j->op->c.E, factor, j->phi_k, j->phi_q, ld, j->v, j->ldv, j->S, divisor ? NULL : j->z,
                       j->num, j->den);
    if (divisor)
        j->k->state_tokens(C, m, 0, factor, j->phi_k + divisor, j->phi_q + divisor, ld, j->v, 0, j->S, j->z, j->num,
                           j->den);
}

static void feed_head(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    lane j = lane_at(f, index, worker);
    const ll_attention *op = j.op;
    const size_t b = index / (size_t)op->c.H;
    for (int t0 = 0; t0 < f->n; t0 += CHUNK) {
        const int C = ll_min_int(f->n - t0, CHUNK);
        load(&j, f, b, t0, C);
        const int scaled = scale_keys(&j, C);
        add_and_read(&j, C, scaled ? j.factor : NULL);
        for (int t = 0; t < C; t++)
            finish(&j, t, (double)(f->s->position + t0 + t + 1), ll_feed_at(&f->y, b, (size_t)j.head, t0 + t));
    }
}

static ll_status feed(ll_feed *f) {
    const ll_status status = f->gate.data ? ll_causal_check_gate(f->s->op) : LL_OK;
    if (status) return status;
    const int features = ll_linear_map(f->s->op)->features;
    ll_stream_share_heads(f, features, feed_head);
    return LL_OK;
}
static ll_status create(ll_attention_stream *s) {
    recurrent *own = s->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->size = ll_recurrent_doubles(s->op);
    own->row = ll_alloc(ll_stream_heads(s) * own->size, sizeof *own->row);
    return own->row ? LL_OK : LL_ENOMEM;
}

static void destroy(ll_attention_stream *s) {
    recurrent *own = s->own;
    if (own) ll_free(own->row);
    ll_free(own);
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const recurrent *own = s->own;
    (void)position;
    tensor[0] = (ll_state_tensor){"state", LL_F64, 3, {(size_t)s->B, (size_t)s->op->c.H, own->size}, own->row};
    return 1;
}

/* ---- The state of calls: the same numbers in float, with the scalars in another order ---- */

static int running(const ll_attention *op) { return ll_linear_map(op)->phi[LL_KEY] == LL_PHI_RUNNING; }

static void load_state(ll_attention_stream *s, int b, const float *state) {
    const recurrent *own = s->own;
    const ll_attention *op = s->op;
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E, sums = m * (E + 1), H = (size_t)op->c.H;
    for (size_t h = 0; h < H; h++, state += ll_carried_floats(op)) {
        double *x = own->row + ((size_t)b * H + h) * own->size, *V = x + sums, *scalar = V + E;
        const float *last = state + sums + E, *low_V = last + LL_SAVED_LOW_V;
        for (size_t i = 0; i < sums; i++) x[i] = (double)state[i];
        for (size_t e = 0; e < E && ll_causal_has_eps(op); e++) V[e] = (double)state[sums + e] - (double)low_V[e];
        if (ll_causal_has_eps(op)) {
            scalar[COUNT] = (double)last[LL_SAVED_COUNT] - (double)last[LL_SAVED_LOW_COUNT];
            scalar[TOP] = (double)last[LL_SAVED_TOP];
        }
        if (!running(op)) continue;
        scalar[EXPONENT] = (double)last[LL_SAVED_EXPONENT], scalar[LEVEL] = (double)last[LL_SAVED_BOUND];
    }
}

static void store_state(const ll_attention_stream *s, int b, float *state) {
    const recurrent *own = s->own;
    const ll_attention *op = s->op;
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E, sums = m * (E + 1), H = (size_t)op->c.H;
    for (size_t h = 0; h < H; h++, state += ll_carried_floats(op)) {
        const double *x = own->row + ((size_t)b * H + h) * own->size, *V = x + sums, *scalar = V + E;
        float *last = state + sums + E, *low_V = last + LL_SAVED_LOW_V;
        ll_carried_clear(op, state);
        for (size_t i = 0; i < sums; i++) state[i] = (float)x[i];
        last[LL_SAVED_EXPONENT] = (float)(running(op) ? scalar[EXPONENT] : 0);
        if (running(op)) last[LL_SAVED_BOUND] = (float)scalar[LEVEL];
        ll_carried_set_keys(op, state, s->position);
        if (!ll_causal_has_eps(op)) continue;
        last[LL_SAVED_TOP] = (float)scalar[TOP], last[LL_SAVED_COUNT] = (float)scalar[COUNT];
        last[LL_SAVED_LOW_COUNT] = (float)((double)last[LL_SAVED_COUNT] - scalar[COUNT]);
        for (size_t e = 0; e < E; e++) {
            state[sums + e] = (float)V[e];
            low_V[e] = (float)((double)state[sums + e] - V[e]);
        }
    }
}

static size_t bytes(const ll_attention_stream *s) {
    const recurrent *own = s->own;
    return ll_stream_heads(s) * own->size * sizeof *own->row;
}

const ll_recurrence ll_recurrence_linear = {
    .create = create,
    .free = destroy,
    .scratch = scratch_floats,
    .reset = reset,
    .step = feed,
    .load_state = load_state,
    .store_state = store_state,
    .state = state,
    .bytes = bytes,
    .check = check,
};
