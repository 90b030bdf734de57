/* The stage before the feature map. The queries and keys of a whole call are encoded first, and the operator runs on
 * the result. Backward computes the gradients of queries and keys from those of the encoded ones. That needs B H (T +
 * S) more rows of memory. No operator depends on these positions.
 *
 * Encoding is divided by shape alone into about TASKS tasks: a head and a run of tokens. Each task has its own sums for
 * the gradients of parameters, in double. They are added in order afterwards. Only tokens in use count, so that padding
 * changes no sum. */
#include "attention/position/premap.h"

#include <math.h>
#include <string.h>

#include "attention/feature/feature_map.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"

enum { TASKS = 32 };

ll_status ll_premap_check(const ll_premap_kind *kind, const ll_attention_config *c, const ll_operator_kind *kernel) {
    if (!kernel->reads)
        return ll_fail(LL_EINVAL, "attention: %s has no queries and keys that a position could act on; use none",
                       kernel->name);
    if (kernel->reads == 1 && !kind->same)
        return ll_fail(LL_EINVAL,
                       "attention: the queries of %s are its keys, and this position tells them apart; use "
                       "rope",
                       kernel->name);
    return kind->check(c);
}

ll_status ll_premap_create(ll_premap **premap, const ll_premap_kind *kind, const ll_attention_config *config) {
    ll_premap *b = *premap = ll_alloc(1, sizeof *b);
    if (!b) return LL_ENOMEM;
    b->kind = kind;
    b->c = *config;
    b->R = kind->width(config);
    b->given = config->encoding.noise || config->encoding.gate_noise;
    const ll_status status = kind->create ? kind->create(b) : LL_OK;
    b->c.projection = b->c.decay = b->c.encoding.theta = b->c.encoding.noise = b->c.encoding.gate_noise = NULL;
    return status;
}

void ll_premap_free(ll_premap *b) {
    if (!b) return;
    if (b->own) b->kind->free(b->own);
    ll_free(b);
}

void ll_attention_set_noise(ll_attention *op, uint64_t seed) {
    ll_premap *b = op->premap;
    if (!b || b->given || b->c.encoding.seed == seed) return;
    b->c.encoding.seed = seed;
    if (b->kind->draw) b->kind->draw(b);
}

ll_status ll_premap_reaches(const ll_premap *b, int64_t tokens) {
    const int64_t most = b->kind->longest ? b->kind->longest(b) : INT64_MAX;
    if (tokens <= most) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: %lld tokens, but the noise that was given ends after %lld", (long long)tokens,
                   (long long)most);
}

ll_status ll_premap_reaches_call(const ll_premap *b, const ll_attention_call *c) {
    int64_t end = 0;
    for (int i = 0, n = ll_sequence_count(c); i < n; i++) {
        const ll_span s = ll_sequence_at(c, i); /* no noise is read for what is not in use */
        const int64_t queries = ll_sequence_offset(c, LL_QUERY, i) + s.queries,
                      keys = ll_sequence_offset(c, LL_KEY, i) + s.keys;
        end = ll_max_int64(queries, end), end = ll_max_int64(keys, end);
    }
    return ll_premap_reaches(b, end);
}

/* ---- Encoding ---- */

typedef struct {
    const ll_premap *premap;
    const ll_attention_call *c;
    ll_view in[2], out[2]; /* out: encoded, or their gradients */
    ll_view din[2];
    int backward, stripes, most, length; /* tokens in use of a sequence at most; of a stripe */
    size_t scratch, copy, count;
    float *pool;  /* (workers, scratch): of the kind, then of a copy of keys */
    double *sums; /* (H, stripes, count) */
} encoding;

/* Sequences from .. to - 1, which begin at the same position. */
typedef struct {
    int from, to;
} group;

static group group_from(const ll_attention_call *c, int from) {
    const int all = ll_sequence_count(c);
    int to = c->offsets ? from + 1 : all;
    while (to < all && c->offsets[to] == c->offsets[from]) to++;
    return (group){from, to};
}

/* The n keys of a tile, whose masked rows may be anything: a copy (n, D) in which these rows are 0, so that they add
 * nothing to gradients of parameters. */
static const float *without_masked(const ll_premap *b, const float *mask, int n, const float *in, size_t token,
                                   float *copy) {
    const size_t D = (size_t)b->c.D;
    for (int r = 0; r < n; r++) {
        if (mask[r] == 0) {
            memset(copy + (size_t)r * D, 0, D * sizeof *copy);
        } else {
            memcpy(copy + (size_t)r * D, in + (size_t)r * token, D * sizeof *copy);
        }
    }
    return copy;
}

/* Some kernels read no keys. */
static int is_wanted(const encoding *x, int side) { return x->in[side].data && (!x->backward || x->din[side].data); }

/* Tokens token .. token + C - 1 of a group, on the sides first .. last. */
static void encode_tile(const encoding *x, const ll_premap_tile *t, group g, int t0, int first, int last, double *sum) {
    const ll_premap *b = t->b;
    for (int i = g.from; i < g.to; i++)
        for (int side = first; side <= last; side++) {
            const ll_span s = ll_sequence_at(x->c, i);
            const int left = (side == LL_QUERY ? s.queries : s.keys) - t0, n = ll_min_int(left, t->C);
            const int token0 = (side == LL_QUERY ? s.query : s.key) + t0;
            const size_t ldo = x->out[side].token;
            size_t token = x->in[side].token;
            if (n <= 0 || !is_wanted(x, side)) continue;
            const float *in = ll_element(&x->in[side], s.row, t->head, token0);
            float *out = ll_element(&x->out[side], s.row, t->head, token0);
            if (!x->backward) {
                b->kind->forward(t, side, n, in, token, out, ldo);
                continue;
            }
            float *din = ll_element(&x->din[side], s.row, t->head, token0);
            if (x->copy && x->c->key_mask && side == LL_KEY) {
                const float *mask = x->c->key_mask + (size_t)s.row * (size_t)x->c->S + (size_t)token0;
                in = without_masked(b, mask, n, in, token, t->work + x->scratch - x->copy), token = (size_t)b->c.D;
            }
            b->kind->back(t, side, n, in, token, out, ldo, din, x->din[side].token, sum);
        }
}

/* Tokens in use of its longest sequence. */
static int longest(const ll_attention_call *c, group g) {
    int most = 0;
    for (int i = g.from; i < g.to; i++) {
        const ll_span s = ll_sequence_at(c, i);
        most = ll_max_int(s.queries, most);
        most = ll_max_int(s.keys, most);
    }
    return most;
}

/* The gradients of a head's padding, and of all keys where a kernel reads none. */
static void clear_padding(void *arg, size_t h, int worker) {
    const encoding *x = arg;
    (void)worker;
    for (int i = 0; i < ll_sequence_count(x->c); i++)
        for (int side = LL_QUERY; side <= LL_KEY; side++) {
            const ll_span s = ll_sequence_at(x->c, i);
            const int used = !x->in[side].data ? 0 : side == LL_QUERY ? s.queries : s.keys;
            const int all = side == LL_QUERY ? s.query_capacity : s.key_capacity;
            for (int t = used; t < all && x->din[side].data; t++)
                memset(ll_element(&x->din[side], (size_t)s.row, h, (size_t)((side == LL_QUERY ? s.query : s.key) + t)),
                       0, (size_t)x->premap->c.D * sizeof(float));
        }
}

/* Tokens from .. to - 1 of a group. Queries and keys at the same positions share what is prepared for them. */
static void encode_group(const encoding *x, ll_premap_tile *t, group g, int from, int to, double *sum) {
    const int64_t offset[2] = {ll_sequence_offset(x->c, LL_QUERY, g.from), ll_sequence_offset(x->c, LL_KEY, g.from)};
    const int same = offset[LL_QUERY] == offset[LL_KEY];
    for (int side = LL_QUERY; side <= (same ? LL_QUERY : LL_KEY); side++) {
        memset(t->work, 0, x->scratch * sizeof *t->work);
        for (int t0 = from; t0 < to; t0 += LL_PREMAP_TILE) {
            t->t0 = offset[side] + t0;
            t->C = ll_min_int(to - t0, LL_PREMAP_TILE);
            t->b->kind->prepare(t);
            encode_tile(x, t, g, t0, side, same ? LL_KEY : side, sum);
        }
    }
}

static void encode_stripe(void *arg, size_t index, int worker) {
    const encoding *x = arg;
    const int h = (int)(index / (size_t)x->stripes), stripe = (int)(index % (size_t)x->stripes);
    const int most = x->most, from = stripe * x->length;
    const int to = most - from < x->length ? most : from + x->length;
    ll_premap_tile t = {.b = x->premap, .k = ll_kernel_table(), .head = h};
    t.work = x->pool + (size_t)worker * x->scratch;
    for (group g = {0}; g.to < ll_sequence_count(x->c);) {
        g = group_from(x->c, g.to);
        const int end = longest(x->c, g);
        encode_group(x, &t, g, from, ll_min_int(to, end), x->sums + index * x->count);
    }
}

/* Cuts sequences of at most so many tokens into stripes, and divides the scratch. */
static void lay_out(encoding *x, int most, ll_arena *a) {
    const ll_premap *b = x->premap;
    const int H = b->c.H;
    const int tiles = (most + LL_PREMAP_TILE - 1) / LL_PREMAP_TILE, most_stripes = (TASKS + H - 1) / H;
    x->length = (tiles + most_stripes - 1) / most_stripes * LL_PREMAP_TILE;
    x->most = most;
    x->stripes = most ? (most + x->length - 1) / x->length : 0;
    x->count = x->backward && b->kind->sums ? b->kind->sums(b) : 0;
    x->copy = x->count ? LL_PREMAP_TILE * (size_t)b->c.D : 0;
    x->scratch = ll_round_up(b->kind->scratch(b) + x->copy, LL_LINE);
    x->pool = ll_arena_take(a, (size_t)x->c->threads * x->scratch);
    x->sums = ll_arena_bytes(a, (size_t)H * (size_t)x->stripes * x->count, sizeof *x->sums);
}

static void encode(encoding *x) {
    const ll_premap *b = x->premap;
    ll_arena a = {.base = x->c->scratch};
    lay_out(x, longest(x->c, (group){0, ll_sequence_count(x->c)}), &a);
    const size_t tasks = x->c->B ? (size_t)b->c.H * (size_t)x->stripes : 0;
    if (x->backward) ll_parallel_among(x->c->threads, (size_t)b->c.H, clear_padding, x);
    if (x->count) memset(x->sums, 0, tasks * x->count * sizeof *x->sums);
    ll_parallel_among(x->c->threads, tasks, encode_stripe, x);
    for (size_t i = 0; x->count && i < tasks; i++)
        b->kind->collect(b, (int)i / x->stripes, x->sums + i * x->count, &x->c->dposition);
}

/* Reads no lengths. Longer sequences may be cut into fewer stripes, so this counts the most stripes. */
size_t ll_premap_scratch(const ll_attention *op, const ll_attention_call *call, int backward) {
    encoding x = {.premap = op->premap, .c = call, .backward = backward};
    ll_arena a = {0};
    lay_out(&x, ll_max_int(call->T, call->S), &a);
    const int H = op->c.H, most_stripes = (TASKS + H - 1) / H;
    ll_arena_bytes(&a, (size_t)H * (size_t)(most_stripes - x.stripes) * x.count, sizeof *x.sums);
    return a.used;
}

/* ---- Calls ---- */

static size_t floats(const ll_attention *op, int B, int T) {
    return ll_round_up((size_t)B * (size_t)op->c.H * (size_t)T * (size_t)op->D, LL_LINE);
}

size_t ll_premap_floats(const ll_attention *op, int B, int T, int S) {
    return op->premap ? floats(op, B, T) + floats(op, B, S) : 0;
}

ll_attention_call ll_premap_call(const ll_attention *op, const ll_attention_call *call, float *encoded) {
    ll_attention_call c = *call;
    c.q = ll_view_packed(encoded, op->c.H, c.T, op->D);
    c.k = ll_view_packed(encoded + floats(op, c.B, c.T), op->c.H, c.S, op->D);
    if (c.saved) c.saved += ll_premap_floats(op, c.B, c.T, c.S);
    return c;
}

void ll_premap_forward(const ll_attention *op, const ll_attention_call *call, const ll_attention_call *encoded) {
    encoding x = {.premap = op->premap,
                  .c = call,
                  .in = {call->q, call->k},
                  .out = {encoded->q, encoded->k}};
    encode(&x);
}

void ll_premap_backward(const ll_attention *op, const ll_attention_call *call, const ll_attention_call *encoded) {
    encoding x = {.premap = op->premap,
                  .c = call,
                  .in = {call->q, call->k},
                  .out = {encoded->dq, encoded->dk},
                  .din = {call->dq, call->dk},
                  .backward = 1};
    encode(&x);
}
