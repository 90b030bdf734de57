/* Causal attention as a recurrence: each token goes into a state, and the state answers its query.
 *
 *   linear kernels   S = r S + phi(k) v^T    z = r z + phi(k)    y = phi(q) S / phi(q) z
 *   softmax          keeps all keys and values                   y = sum_j e^(s_j) v_j / sum_j e^(s_j)
 *   local            the same with those of the window, in a ring
 *
 * S and z are kept in double: in float, sums of a million tokens drift by 1e-5. Softmax features (favor)
 * come as phi 2^e, and S and z in units of 2^C with C no less than any e before: when C moves they are
 * scaled by a power of two, exactly. Features (f + eps) / sqrt(M) under a running maximum c, with
 * f = e^(u - n - c), need besides V = sum v and the number N of tokens (both decaying like S):
 *
 *   phi(q) S' = (2^C e^-c phi(q) S + eps Phi V) / sqrt(M)        Phi = sum of phi(q); z' likewise with N
 *
 * Nothing here depends on how tokens are cut into calls. */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "attention/features.h"
#include "attention/stream_shell.h"
#include "base/memory.h"
#include "base/parallel.h"

enum {
    CHUNK = 16,       /* tokens whose features are computed together */
    WORTH = 1 << 20   /* multiply-adds below which waking other threads costs more than it gives */
};

/* One (sequence, head). */
typedef struct {
    double *S, *z, *V; /* (features, E), (features), (E) */
    double count, top, level; /* N, c, and the exponent that the largest contribution still has */
    int exponent;             /* C */
} state;

struct ll_attention_stream {
    const ll_attention *op;
    int B;
    int64_t position;    /* tokens so far */
    state *head;         /* (B, H); linear kernels */
    double *block;       /* what head points into */
    size_t state_size;   /* doubles of a head */
    float *keys, *values; /* (B, H, capacity, D), (B, H, capacity, E); softmax; local: rings */
    size_t capacity;
    float *pool; /* (workers, scratch) */
    size_t scratch;
    int workers;
    ll_shell_stream *shell; /* everything, where the operator is a shell */
};

typedef struct {
    ll_attention_stream *s;
    const ll_kernels *k;
    int n;
    ll_view q, key, v, y;
} feed;

static size_t heads(const ll_attention_stream *s) { return (size_t)s->B * (size_t)s->op->c.H; }

static float *at(const ll_view *view, size_t b, size_t h, int token) {
    return view->data + b * view->batch + h * view->head + (size_t)token * view->token;
}

/* ---- Linear kernels ------------------------------------------------------------------------------ */

static int has_unit(const ll_attention *op) { return op->phi[LL_KEY] == LL_PHI_RUNNING && !op->scale_cancels; }

/* Makes room for a key of exponent e. A state that decays may have shrunk far below 2^C: then C follows
 * it down, so that small new keys are not lost. */
static void raise(const ll_attention *op, state *s, double decay, int e) {
    s->level = fmax(s->level + log2(decay), e);
    const int wanted = (int)ceil(s->level);
    if (wanted <= s->exponent && wanted > s->exponent - 32) return;
    const size_t m = (size_t)op->features, E = (size_t)op->c.E;
    const double factor = s->exponent == LL_NO_EXPONENT ? 1 : ldexp(1, s->exponent - wanted);
    for (size_t i = 0; i < m * E; i++) s->S[i] *= factor;
    for (size_t i = 0; i < m; i++) s->z[i] *= factor;
    s->exponent = wanted;
}

/* The divisor of a row whose weights sum to `sum`. */
static double divisor(const ll_attention *op, double sum, double phi, double keys) {
    const double eps = op->c.den_eps;
    switch (op->c.den) {
    case LL_DEN_EPS: return sum + eps;
    case LL_DEN_EPS_PHI: return sum + eps * phi;
    case LL_DEN_EPS_L: return sum + eps * keys;
    case LL_DEN_GUARD: return fabs(sum) <= eps ? sum + 2 * eps : sum;
    case LL_DEN_NONE: return 1;
    case LL_DEN_SUM: break;
    }
    return sum;
}

/* One token: phi_k (exponent e, scaled in place) and v into the state, y out of it. */
static void step(const feed *f, state *s, int h, int64_t t, float *phi_k, int e, float top, const float *phi_q,
                 const float *v, double *num, float *y) {
    const ll_attention *op = f->s->op;
    const int m = op->features, E = op->c.E;
    const double decay = op->c.decay ? (double)op->c.decay[h] : 1;
    if (op->phi[LL_KEY] == LL_PHI_RUNNING) {
        raise(op, s, decay, e);
        if (e != s->exponent) f->k->scale((size_t)m, ldexpf(1, e - s->exponent), phi_k);
    }
    f->k->state_add(m, E, decay, phi_k, v, s->S, s->z);
    double sum = f->k->state_read(m, E, phi_q, s->S, s->z, num);
    const double phi = (double)f->k->sum((size_t)m, phi_q);
    if (has_unit(op)) {
        if (top > s->top) s->top = top;
        s->count = decay * s->count + 1;
        const double unit = exp(s->exponent * 0.69314718055994530942 - s->top) * (double)op->root;
        const double eps = phi * (double)op->c.feature_eps * (double)op->root;
        sum = unit * sum + eps * s->count;
        for (int i = 0; i < E; i++) {
            s->V[i] = decay * s->V[i] + (double)v[i];
            num[i] = unit * num[i] + eps * s->V[i];
        }
    }
    const double den = divisor(op, sum, phi, (double)t + 1);
    for (int i = 0; i < E; i++) y[i] = den != 0 ? (float)(num[i] / den) : 0;
}

static void feed_linear(void *arg, size_t index, int worker) {
    const feed *f = arg;
    ll_attention_stream *s = f->s;
    const ll_attention *op = s->op;
    const size_t b = index / (size_t)op->c.H, h = index % (size_t)op->c.H, ld = (size_t)op->ld;
    float *phi_q = s->pool + (size_t)worker * s->scratch, *phi_k = phi_q + CHUNK * ld, *work = phi_k + CHUNK * ld;
    double *num = (double *)(void *)(work + CHUNK * ld);
    for (int t0 = 0; t0 < f->n; t0 += CHUNK) {
        const int C = f->n - t0 < CHUNK ? f->n - t0 : CHUNK;
        int64_t x[CHUNK], y[CHUNK];
        int none[CHUNK], e[CHUNK];
        float top[CHUNK];
        ll_positions(op, s->position + t0, C, x, y);
        ll_feature_tile tile = {op, f->k, (int)h, LL_QUERY, C, x, y, at(&f->q, b, h, t0), f->q.token, 0, work};
        ll_features(&tile, phi_q, none, NULL);
        tile.side = LL_KEY, tile.in = at(&f->key, b, h, t0), tile.token = f->key.token;
        ll_features(&tile, phi_k, e, has_unit(op) ? top : NULL);
        for (int i = 0; i < C; i++)
            step(f, s->head + index, (int)h, s->position + t0 + i, phi_k + (size_t)i * ld, e[i],
                 has_unit(op) ? top[i] : 0, phi_q + (size_t)i * ld, at(&f->v, b, h, t0 + i), num,
                 at(&f->y, b, h, t0 + i));
    }
}

/* ---- Softmax ------------------------------------------------------------------------------------- */

static void feed_exact(void *arg, size_t index, int worker) {
    const feed *f = arg;
    const ll_attention_stream *s = f->s;
    const ll_attention_config *c = &s->op->c;
    const size_t b = index / (size_t)c->H, h = index % (size_t)c->H, D = (size_t)c->D, E = (size_t)c->E;
    float *keys = s->keys + index * s->capacity * D, *values = s->values + index * s->capacity * E;
    float *weight = s->pool + (size_t)worker * s->scratch, *q = weight + s->capacity;
    for (int t = 0; t < f->n; t++) {
        const size_t token = (size_t)s->position + (size_t)t, slot = token % s->capacity;
        const size_t n = token < s->capacity ? token + 1 : s->capacity;
        memcpy(keys + slot * D, at(&f->key, b, h, t), D * sizeof *keys);
        memcpy(values + slot * E, at(&f->v, b, h, t), E * sizeof *values);
        memcpy(q, at(&f->q, b, h, t), D * sizeof *q);
        f->k->scale(D, c->input_scale, q);
        f->k->gemv_rows((int)n, (int)D, keys, D, q, weight, 0);
        f->k->exp_shift(n, f->k->max(n, weight), 1, 0, weight, weight);
        float *y = at(&f->y, b, h, t);
        const float sum = f->k->sum(n, weight);
        f->k->gemv((int)E, (int)n, weight, values, E, y, 0);
        f->k->scale(E, 1 / sum, y);
    }
}

/* (heads, used, width) of `old` into a larger (heads, capacity, width). */
static void move(const ll_attention_stream *s, size_t capacity, int width, const float *old, float *out) {
    const size_t w = (size_t)width, used = (size_t)s->position;
    for (size_t i = 0; i < heads(s); i++)
        memcpy(out + i * capacity * w, old + i * s->capacity * w, used * w * sizeof *out);
}

static int is_window(const ll_attention_stream *s) {
    return s->op->mechanism->keeps == LL_KEEPS_WINDOW;
}

/* Room for n more tokens: doubles; or for a window. The stream is as it was if memory is refused. */
static ll_status grow(ll_attention_stream *s, int n) {
    const size_t needed = (size_t)s->position + (size_t)n;
    size_t capacity = s->capacity ? s->capacity : is_window(s) ? (size_t)s->op->c.baseline.window : 256;
    while (capacity < needed && !is_window(s)) capacity *= 2;
    if (capacity == s->capacity) return LL_OK;
    if (capacity > INT32_MAX)
        return ll_fail(LL_EINVAL, "attention stream: %zu tokens; softmax keeps all of them and stops at 2^30", needed);
    float *keys = ll_alloc(heads(s) * capacity, (size_t)s->op->c.D * sizeof *keys);
    float *values = ll_alloc(heads(s) * capacity, (size_t)s->op->c.E * sizeof *values);
    if (!keys || !values) {
        ll_free(keys);
        ll_free(values);
        return LL_ENOMEM;
    }
    if (s->capacity) {
        move(s, capacity, s->op->c.D, s->keys, keys);
        move(s, capacity, s->op->c.E, s->values, values);
    }
    ll_free(s->keys);
    ll_free(s->values);
    s->keys = keys, s->values = values, s->capacity = capacity;
    return LL_OK;
}

static void feed_value(void *arg, size_t index, int worker) {
    const feed *f = arg;
    const size_t H = (size_t)f->s->op->c.H, b = index / H, h = index % H;
    (void)worker;
    for (int t = 0; t < f->n; t++)
        memcpy(at(&f->y, b, h, t), at(&f->v, b, h, t), (size_t)f->s->op->c.E * sizeof(float));
}

/* ---- The stream ---------------------------------------------------------------------------------- */

static int is_exact(const ll_attention_stream *s) {
    return s->op->mechanism->keeps == LL_KEEPS_KEYS || is_window(s);
}
static int is_empty(const ll_attention_stream *s) {
    return s->op->mechanism->keeps == LL_KEEPS_NOTHING;
}

/* Scratch for the threads there are now and the capacity there is now. */
static ll_status ready(ll_attention_stream *s) {
    const size_t D = (size_t)s->op->c.D, E = (size_t)s->op->c.E;
    const size_t floats = is_exact(s) ? s->capacity + D : 3 * CHUNK * (size_t)s->op->ld + 2 * E;
    const size_t scratch = (floats + 15) / 16 * 16;
    if (s->pool && s->workers >= ll_threads() && s->scratch == scratch) return LL_OK;
    float *pool = ll_alloc((size_t)ll_threads() * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(s->pool);
    s->pool = pool, s->scratch = scratch, s->workers = ll_threads();
    return LL_OK;
}

static ll_status check(const ll_attention *op) {
    static const char *const rule[] = {"prefix", "token", "sequence", "batch", "none"};
    if (!op->c.causal)
        return ll_fail(LL_EINVAL, "attention stream: the operator is not causal: it needs later tokens");
    if (op->mechanism->keeps == LL_KEEPS_NO_STREAM)
        return ll_fail(LL_EINVAL,
                       "attention stream: %s keeps every token in its buckets, so that its state would grow without "
                       "end; generate with local or a linear kernel",
                       op->mechanism->name);
    if (op->phi[LL_KEY] == LL_PHI_FIXED && op->c.key_max != LL_MAX_NONE)
        return ll_fail(LL_EINVAL,
                       "attention stream: with an eps, a key maximum over the %s needs later tokens; "
                       "use prefix or none",
                       rule[op->c.key_max]);
    if (op->phi[LL_QUERY] == LL_PHI_FIXED && op->c.query_max == LL_MAX_SEQUENCE)
        return ll_fail(LL_EINVAL, "attention stream: a query maximum over the sequence needs later tokens; use token");
    return LL_OK;
}

static ll_status build(ll_attention_stream *s) {
    const size_t m = (size_t)s->op->features, E = (size_t)s->op->c.E;
    if (is_exact(s)) return grow(s, 1);
    if (is_empty(s)) return LL_OK;
    s->state_size = (m + 1) * E + m;
    s->head = ll_alloc(heads(s), sizeof *s->head);
    s->block = ll_alloc(heads(s) * s->state_size, sizeof *s->block);
    if (!s->head || !s->block) return LL_ENOMEM;
    for (size_t i = 0; i < heads(s); i++) {
        double *p = s->block + i * s->state_size;
        s->head[i] = (state){.S = p, .z = p + m * E, .V = p + m * E + m};
    }
    return LL_OK;
}

ll_status ll_attention_stream_create(ll_attention_stream **stream, const ll_attention *op, int B) {
    ll_status status = check(op);
    if (status) return status;
    if (B < 1) return ll_fail(LL_EINVAL, "attention stream: %d sequences, must be at least 1", B);
    ll_attention_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->op = op;
    s->B = B;
    status = op->inner ? ll_shell_stream_create(&s->shell, op, B) : build(s);
    if (!status && !s->shell) status = ready(s);
    if (status) {
        ll_attention_stream_free(s);
        return status;
    }
    ll_attention_stream_reset(s);
    *stream = s;
    return LL_OK;
}

void ll_attention_stream_free(ll_attention_stream *s) {
    if (!s) return;
    ll_shell_stream_free(s->shell);
    ll_free(s->head);
    ll_free(s->block);
    ll_free(s->keys);
    ll_free(s->values);
    ll_free(s->pool);
    ll_free(s);
}

void ll_attention_stream_reset(ll_attention_stream *s) {
    s->position = 0;
    if (s->shell) ll_shell_stream_reset(s->shell);
    if (s->shell || is_exact(s) || is_empty(s)) return;
    memset(s->block, 0, heads(s) * s->state_size * sizeof *s->block);
    for (size_t i = 0; i < heads(s); i++) {
        s->head[i].count = 0;
        s->head[i].top = s->head[i].level = -INFINITY;
        s->head[i].exponent = LL_NO_EXPONENT;
    }
}

size_t ll_attention_stream_bytes(const ll_attention_stream *s) {
    const size_t D = (size_t)s->op->c.D, E = (size_t)s->op->c.E, scratch = (size_t)s->workers * s->scratch;
    if (s->shell) return sizeof *s + ll_shell_stream_bytes(s->shell);
    const size_t state_bytes = s->head ? sizeof *s->head + s->state_size * sizeof *s->block : 0;
    return sizeof *s + heads(s) * (state_bytes + s->capacity * (D + E) * sizeof(float)) + scratch * sizeof(float);
}

ll_status ll_attention_stream_reserve(ll_attention_stream *s, int n) {
    const ll_status status = is_exact(s) ? grow(s, n) : LL_OK;
    return status ? status : ready(s);
}

ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    if (n < 0) return ll_fail(LL_EINVAL, "attention stream: %d tokens, must not be negative", n);
    if (s->shell) return ll_shell_stream_feed(s->shell, n, q, k, v, y);
    const ll_status status = ll_attention_stream_reserve(s, n);
    if (status) return status;
    feed f = {s, ll_kernel_table(), n, q, k, v, y};
    ll_task *task = is_exact(s) ? feed_exact : is_empty(s) ? feed_value : feed_linear;
    const double rows = is_exact(s) ? (double)s->position + n : is_empty(s) ? 1 : s->op->features;
    if (rows * n * (s->op->c.D + s->op->c.E) * (double)heads(s) < WORTH) {
        for (size_t i = 0; i < heads(s); i++) task(&f, i, 0);
    } else {
        ll_parallel_for(heads(s), task, &f);
    }
    s->position += n;
    return LL_OK;
}
