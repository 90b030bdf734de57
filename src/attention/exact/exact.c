/* Softmax attention in tiles: a block of queries against a block of keys at a time, never the whole
 * matrix of weights.
 *
 *   s_ij = scale <q_i, k_j>     P_ij = e^(s_ij - lse_i)     y_i = sum_j P_ij v_j
 *
 * Forward runs over the keys with a running maximum m_i and sum l_i of each row: where m_i grows, what
 * was summed is scaled by e^(m_old - m_new) (Milakov and Gimelshein 2018). lse_i = m_i + ln l_i is all
 * that backward needs besides y; it makes P again, and with delta_i = <g_i, y_i>
 *
 *   dS_ij = P_ij (<g_i, v_j> - delta_i)      dq_i = scale sum_j dS_ij k_j
 *   dv_j = sum_i P_ij g_i                    dk_j = scale sum_i dS_ij q_i
 *
 * Both pack their operands into contiguous rows, keys transposed: a few percent of the products' time. Positions that
 * live in the logits are added to the rows of a tile (position/distance.h). */
#include "attention/exact/exact.h"

#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/cross_cache.h"
#include "attention/exact/logit_bias.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/parallel.h"

/* Of a tile: its weights and the packed rows of both sides fit L2. PAD keeps rows out of step with L1. */
enum { QUERIES = 128, KEYS = 256, PAD = 16 };

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    const ll_kernels *k;
    int queries, keys, query_blocks, key_blocks; /* of a tile; of the whole call */
    int want_q, want_kv;                         /* what this pass of backward is for */
    int window;                                  /* local: query i sees keys j with |i - j| < window; else 0 */
    size_t ldd, lde, lds;                        /* distances of packed rows of D, E, keys */
    size_t ldsum;                                /* of rows of running sums: of values, and by distance (shaw) */
    ll_distances d;                              /* t5, shaw; d.n = 0: none */
    int first, group;                            /* sequence of the first task; how many go through backward together */
    int threads;
    float *pool;
    size_t scratch; /* floats a worker */
} exact;

/* One (sequence, head), and one worker's packed rows. */
typedef struct {
    const exact *x;
    ll_views at;
    size_t index; /* of the sequence and head */
    int h;
    float *saved; /* (n), or NULL */
    int n, s;     /* queries and keys in use */
    int query_room, key_room;
    float *q, *g, *sum, *lse, *delta; /* (queries, D), (queries, E) twice, (queries) twice */
    float *k, *kt, *v, *vt;           /* (keys, D), (D, keys), (keys, E), (E, keys) */
    float *P, *dP;                    /* (queries, keys) */
    float *R, *W;                     /* (queries, distances) */
    int *sees;                        /* (queries) */
} head;

/* Cuts a worker's memory into pieces; without memory it only measures. */
static size_t cut(const exact *x, head *j, float *pool) {
    const size_t Q = (size_t)x->queries, K = (size_t)x->keys, D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    ll_arena a = {.base = pool};
    j->q = ll_arena_take(&a, Q * x->ldd);
    j->g = ll_arena_take(&a, Q * x->lde);
    j->sum = ll_arena_take(&a, Q * x->ldsum);
    j->lse = ll_arena_take(&a, Q);
    j->delta = ll_arena_take(&a, Q);
    j->k = ll_arena_take(&a, K * x->ldd);
    j->kt = ll_arena_take(&a, D * x->lds);
    j->v = ll_arena_take(&a, K * x->lde);
    j->vt = ll_arena_take(&a, E * x->lds);
    j->P = ll_arena_take(&a, Q * x->lds);
    j->dP = ll_arena_take(&a, Q * x->lds);
    j->R = ll_arena_take(&a, Q * x->d.ld);
    j->W = ll_arena_take(&a, Q * x->d.ld);
    j->sees = ll_arena_bytes(&a, Q, sizeof *j->sees);
    return a.used;
}

static head head_at(const exact *x, size_t index, int worker) {
    const ll_attention_call *c = x->c;
    const int H = x->op->c.H, h = (int)(index % (size_t)H);
    const ll_span s = ll_sequence_at(c, x->first + (int)(index / (size_t)H));
    head j = {.x = x, .at = ll_views_at(c, &s, h), .index = index, .h = h, .n = s.queries, .s = s.keys};
    j.query_room = s.query_room, j.key_room = s.key_room;
    if (c->saved) j.saved = c->saved + ((size_t)s.row * (size_t)H + (size_t)h) * (size_t)c->T + (size_t)s.query;
    cut(x, &j, x->pool + (size_t)worker * x->scratch);
    return j;
}

static void pack(const head *j, const ll_view *view, int token, int rows, int n, float factor, float *out, size_t ld) {
    for (int i = 0; i < rows; i++, out += ld) j->x->k->scaled((size_t)n, factor, ll_at(view, token + i), out);
}

/* Query i sees keys first..last-1. Both grow with i. */
static int first(const head *j, int i) {
    const int n = i - j->x->window + 1;
    return j->x->window && n > 0 ? n : 0;
}
static int last(const head *j, int i) {
    const int end = j->x->op->c.causal ? i + 1 : j->x->window ? i + j->x->window : j->s;
    return ll_min(end, j->s);
}

/* Of the tile of keys from j0 on: where what query i sees ends, and where it begins. */
static int seen(const head *j, int i, int j0) {
    const int n = last(j, i) - j0;
    return n < 0 ? 0 : ll_min(n, j->x->keys);
}
static int unseen(const head *j, int i, int j0) {
    const int n = first(j, i) - j0;
    return n < 0 ? 0 : ll_min(n, seen(j, i, j0));
}

/* A tile as positions in the logits see it. */
static ll_distance_tile distances(const head *j, int i0, int rows, int j0) {
    const exact *x = j->x;
    if (!x->d.n) return (ll_distance_tile){0};
    for (int i = 0; i < rows; i++) j->sees[i] = seen(j, i0 + i, j0);
    float *sums = x->want_kv ? ll_distances_part(&x->d, j->index, (size_t)(j0 / x->keys)) : NULL;
    return (ll_distance_tile){&x->d,   x->k,   j->h, rows, x->op->D, x->op->c.E, (int64_t)j0 - i0,
                              j->sees, x->lds, j->q, j->g, x->ldd,   x->lde,     j->R,
                              j->W,    sums};
}

/* Columns skip..width-1 of P (rows, width) = logits, of the packed queries and the transposed keys. */
static void logits(const head *j, int rows, int skip, int width) {
    const exact *x = j->x;
    x->k->gemm(rows, width - skip, x->op->D, j->q, x->ldd, 1, j->kt + skip, x->lds, j->P + skip, x->lds, 0);
}

/* ---- Forward ---- */

static void finish(const head *j, int i0, int rows, const float *m, const float *l) {
    const exact *x = j->x;
    const size_t E = (size_t)x->op->c.E;
    if (x->d.values) x->k->gemm(rows, x->op->c.E, x->d.n, j->sum + x->lde, x->ldsum, 1, x->d.v, E, j->sum, x->ldsum, 1);
    for (int i = 0; i < rows; i++) {
        x->k->scaled(E, l[i] != 0 ? 1 / l[i] : 1, j->sum + (size_t)i * x->ldsum, ll_at(&j->at.y, i0 + i));
        /* A row without keys: e^(s - inf) makes all its weights 0 in backward. */
        if (j->saved) j->saved[i0 + i] = l[i] != 0 ? m[i] + logf(l[i]) : INFINITY;
    }
}

static void forward_block(void *arg, size_t index, int worker) {
    const exact *x = arg;
    const ll_attention_config *o = &x->op->c;
    const size_t blocks = (size_t)x->query_blocks;
    head j = head_at(x, index / blocks, worker);
    const int i0 = (int)(blocks - 1 - index % blocks) * x->queries; /* causal: the longest first */
    const int rows = ll_min(x->queries, j.n - i0);
    const int sums = x->d.values ? (int)x->ldsum : o->E;
    float *m = j.lse, *l = j.delta;
    ll_zero_rows(&j.at.y, i0 > j.n ? i0 : j.n, ll_min(i0 + x->queries, j.query_room), o->E);
    if (rows <= 0) return;
    pack(&j, &j.at.q, i0, rows, x->op->D, o->input_scale, j.q, x->ldd);
    memset(j.sum, 0, (size_t)rows * x->ldsum * sizeof *j.sum);
    for (int i = 0; i < rows; i++) m[i] = -INFINITY, l[i] = 0;
    for (int j0 = first(&j, i0), width; (width = seen(&j, i0 + rows - 1, j0)) > 0; j0 += x->keys) {
        pack(&j, &j.at.k, j0, width, x->op->D, 1, j.k, x->ldd);
        x->k->transpose(width, x->op->D, j.k, x->ldd, j.kt, x->lds);
        pack(&j, &j.at.v, j0, width, o->E, 1, j.v, x->lde);
        logits(&j, rows, 0, width);
        const ll_distance_tile near = distances(&j, i0, rows, j0);
        if (j0 == 0) ll_distances_queries(&near);
        ll_distances_logits(&near, j.P);
        for (int i = 0; i < rows; i++)
            ll_exact_soften(x->k, unseen(&j, i0 + i, j0), seen(&j, i0 + i, j0), width, j.P + (size_t)i * x->lds, m + i,
                            l + i, sums, j.sum + (size_t)i * x->ldsum);
        x->k->gemm(rows, o->E, width, j.P, x->lds, 1, j.v, x->lde, j.sum, x->ldsum, 1);
        ll_distances_weights(&near, j.P, j.sum + x->lde, x->ldsum);
    }
    finish(&j, i0, rows, m, l);
}

/* ---- Backward ---- */

static void pack_keys(const head *j, int j0, int rows) {
    const exact *x = j->x;
    const ll_attention_config *o = &x->op->c;
    pack(j, &j->at.k, j0, rows, x->op->D, 1, j->k, x->ldd);
    x->k->transpose(rows, x->op->D, j->k, x->ldd, j->kt, x->lds);
    for (int i = 0; i < rows; i++) x->k->scale((size_t)x->op->D, o->input_scale, j->k + (size_t)i * x->ldd);
    pack(j, &j->at.v, j0, rows, o->E, 1, j->v, x->lde);
    x->k->transpose(rows, o->E, j->v, x->lde, j->vt, x->lds);
}

static void pack_queries(const head *j, int i0, int rows) {
    const exact *x = j->x;
    const ll_attention_config *o = &x->op->c;
    pack(j, &j->at.q, i0, rows, x->op->D, o->input_scale, j->q, x->ldd);
    pack(j, &j->at.g, i0, rows, o->E, 1, j->g, x->lde);
    for (int i = 0; i < rows; i++) {
        j->lse[i] = j->saved[i0 + i];
        j->delta[i] = x->k->dot((size_t)o->E, j->g + (size_t)i * x->lde, ll_at(&j->at.y, i0 + i));
    }
}

/* What one tile adds to the gradients; none of its rows sees a column before `skip`. */
static void backward_tile(const head *j, int i0, int rows, int j0, int skip, int width) {
    const exact *x = j->x;
    const int D = x->op->D, E = x->op->c.E, n = width - skip;
    const size_t lds = x->lds;
    float *P = j->P + skip, *dP = j->dP + skip;
    const float *vt = j->vt + skip, *k = j->k + (size_t)skip * x->ldd;
    logits(j, rows, skip, width);
    const ll_distance_tile near = distances(j, i0, rows, j0); /* where these are, there is no window: skip = 0 */
    ll_distances_queries(&near);
    ll_distances_logits(&near, j->P);
    for (int i = 0; i < rows; i++) {
        float *row = j->P + (size_t)i * lds, *drow = j->dP + (size_t)i * lds;
        const int from = unseen(j, i0 + i, j0), to = seen(j, i0 + i, j0);
        x->k->exp_shift((size_t)(to - from), j->lse[i], 1, 0, row + from, row + from);
        memset(row + skip, 0, (size_t)(from - skip) * sizeof *row);
        memset(row + to, 0, (size_t)(width - to) * sizeof *row);
        for (int e = skip; e < width; e++) drow[e] = -j->delta[i];
    }
    x->k->gemm(rows, n, E, j->g, x->lde, 1, vt, lds, dP, lds, 1);
    ll_distances_values_back(&near, j->P, j->dP);
    if (x->want_kv) x->k->gemm(n, E, rows, P, 1, lds, j->g, x->lde, ll_at(&j->at.dv, j0 + skip), j->at.dv.token, 1);
    for (int i = 0; i < rows; i++) x->k->mul((size_t)n, P + (size_t)i * lds, dP + (size_t)i * lds);
    if (x->want_kv) x->k->gemm(n, D, rows, dP, 1, lds, j->q, x->ldd, ll_at(&j->at.dk, j0 + skip), j->at.dk.token, 1);
    if (x->want_q) x->k->gemm(rows, D, n, dP, lds, 1, k, x->ldd, ll_at(&j->at.dq, i0), j->at.dq.token, 1);
    ll_distances_logits_back(&near, j->dP, x->want_q ? ll_at(&j->at.dq, i0) : NULL, j->at.dq.token);
}

/* The first block of queries of which one sees key j0. */
static int first_block(const head *j, int j0) {
    const exact *x = j->x;
    const int i = x->op->c.causal ? j0 : x->window ? j0 - x->window + 1 : 0;
    return i > 0 ? i / x->queries : 0;
}

/* The tiles of key blocks k0..k1-1 and query blocks q0..q1-1. The sums for one row run over the tiles in
 * the same order however the blocks are shared out, so the results are the same bits. */
static void backward_range(head *j, int k0, int k1, int q0, int q1) {
    const exact *x = j->x;
    if (x->want_q) ll_zero_rows(&j->at.dq, q0 * x->queries, ll_min(q1 * x->queries, j->query_room), x->op->D);
    if (x->want_kv) {
        ll_zero_rows(&j->at.dk, k0 * x->keys, ll_min(k1 * x->keys, j->key_room), x->op->D);
        ll_zero_rows(&j->at.dv, k0 * x->keys, ll_min(k1 * x->keys, j->key_room), x->op->c.E);
    }
    const int end = ll_min(q1 * x->queries, j->n), none = end <= q0 * x->queries;
    const int from = first(j, q0 * x->queries) / x->keys, to = none ? 0 : last(j, end - 1);
    for (int j0 = (from > k0 ? from : k0) * x->keys; j0 < ll_min(k1 * x->keys, to); j0 += x->keys) {
        int packed = 0;
        const int block = first_block(j, j0);
        for (int i0 = (block > q0 ? block : q0) * x->queries; i0 < end; i0 += x->queries) {
            const int rows = ll_min(x->queries, j->n - i0), width = seen(j, i0 + rows - 1, j0);
            const int skip = first(j, i0) - j0;
            if (width == 0) continue;
            if (skip >= width) break; /* past the window */
            if (!packed) pack_keys(j, j0, ll_min(x->keys, j->s - j0));
            packed = 1;
            pack_queries(j, i0, rows);
            backward_tile(j, i0, rows, j0, skip > 0 ? skip : 0, width);
        }
    }
}

static void backward_head(void *arg, size_t index, int worker) {
    const exact *x = arg;
    head j = head_at(x, index, worker);
    backward_range(&j, 0, x->key_blocks, 0, x->query_blocks);
}

static void backward_keys(void *arg, size_t index, int worker) {
    const exact *x = arg;
    head j = head_at(x, index / (size_t)x->key_blocks, worker);
    const int block = (int)(index % (size_t)x->key_blocks);
    backward_range(&j, block, block + 1, 0, x->query_blocks);
}

static void backward_queries(void *arg, size_t index, int worker) {
    const exact *x = arg;
    const int block = x->query_blocks - 1 - (int)(index % (size_t)x->query_blocks);
    head j = head_at(x, index / (size_t)x->query_blocks, worker);
    backward_range(&j, 0, x->key_blocks, block, block + 1);
}

/* A head at once takes 5 products a tile; where there are too few heads for the threads, its gradients
 * for keys and for queries are shared out apart, with 7. */
static void share_out_backward(exact *x, size_t heads) {
    const size_t threads = (size_t)x->threads, rounds = (heads + threads - 1) / threads;
    x->want_q = x->want_kv = 1;
    if (5 * rounds * threads <= 7 * heads) {
        ll_parallel_among(x->threads, heads, backward_head, x);
        return;
    }
    x->want_q = 0;
    ll_parallel_among(x->threads, heads * (size_t)x->key_blocks, backward_keys, x);
    x->want_q = 1, x->want_kv = 0;
    ll_parallel_among(x->threads, heads * (size_t)x->query_blocks, backward_queries, x);
}

/* ---- Calls ---- */

/* Sizes of a call whose longest sequence has so many queries and keys. */
static exact exact_of(const ll_attention *op, const ll_attention_call *c, int queries, int keys) {
    const int most_queries = op->tile ? op->tile : QUERIES, most_keys = op->tile ? op->tile : KEYS;
    exact x = {.op = op, .c = c, .k = ll_kernel_table(), .threads = c->threads};
    if (op->c.kernel == LL_KERNEL_LOCAL) x.window = op->c.baseline.window;
    x.queries = queries < 1 ? 1 : ll_min(queries, most_queries);
    x.keys = keys < 1 ? 1 : ll_min(keys, most_keys);
    x.query_blocks = ll_ceil_div(queries, x.queries);
    x.key_blocks = ll_ceil_div(keys, x.keys);
    x.ldd = ll_round_up((size_t)op->D, 16) + PAD;
    x.lde = ll_round_up((size_t)op->c.E, 16) + PAD;
    x.lds = ll_round_up((size_t)x.keys, 16) + PAD;
    return x;
}

static void lay_out(exact *x, size_t sequences, int backward, ll_arena *a) {
    head unused;
    ll_distances_take(&x->d, x->op, a);
    x->ldsum = x->lde + (x->d.values ? x->d.ld : 0);
    x->scratch = cut(x, &unused, NULL);
    x->pool = ll_arena_take(a, (size_t)x->threads * x->scratch);
    if (backward) ll_distances_take_sums(&x->d, x->op, sequences, (size_t)x->key_blocks, a);
}

/* Where positions in the logits have gradients, each block of keys has its own sums for them. There is memory for those
 * of a batch of whole rows; of packed rows so many sequences as fit there go together. */
static exact prepare(const ll_attention *op, const ll_attention_call *c, int backward) {
    int queries, keys;
    ll_sequence_longest(c, &queries, &keys);
    exact x = exact_of(op, c, queries, keys);
    const int blocks = x.key_blocks > 1 ? x.key_blocks : 1, whole = exact_of(op, c, c->T, c->S).key_blocks;
    x.group = ll_sequence_count(c);
    if (c->segment && backward && (op->c.position == LL_POSITION_T5 || op->c.position == LL_POSITION_SHAW))
        x.group = ll_min(x.group, c->B * (whole > 1 ? whole : 1) / blocks);
    ll_arena a = {.base = c->scratch};
    lay_out(&x, (size_t)x.group, backward, &a);
    ll_distances_set(&x.d, op);
    return x;
}

size_t ll_exact_scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    exact x = exact_of(op, c, c->T, c->S);
    ll_arena a = {0};
    lay_out(&x, (size_t)c->B, backward, &a);
    return a.used;
}

size_t ll_exact_saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return (size_t)B * (size_t)op->c.H * (size_t)T;
}

ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *c) {
    exact x = prepare(op, c, 0);
    const size_t heads = (size_t)ll_sequence_count(c) * (size_t)op->c.H;
    ll_parallel_among(x.threads, heads * (size_t)x.query_blocks, forward_block, &x);
    return LL_OK;
}

ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *c) {
    exact x = prepare(op, c, 1);
    const int sequences = ll_sequence_count(c);
    ll_distances_begin(&x.d);
    for (x.first = 0; x.first < sequences; x.first += x.group) {
        const int now = ll_min(x.group, sequences - x.first);
        ll_distances_clear(&x.d, (size_t)now);
        share_out_backward(&x, (size_t)now * (size_t)op->c.H);
        ll_distances_add(&x.d);
    }
    ll_distances_collect(&x.d, op, &c->dposition);
    return LL_OK;
}

/* ---- The kind ---- */

ll_status ll_exact_create(ll_attention **made, const ll_attention *like) {
    ll_attention_config c = ll_attention_default();
    c.causal = 0, c.H = like->c.H, c.D = like->D, c.E = like->c.E, c.input_scale = like->c.input_scale;
    return ll_attention_create(made, &c);
}

const ll_operator ll_operator_softmax = {
    .name = "softmax",
    .reads = 2,
    .packs = 1,
    .saved = ll_exact_saved,
    .scratch = ll_exact_scratch,
    .forward = ll_exact_forward,
    .backward = ll_exact_backward,
    .recurrence = &ll_recurrence_exact,
    .cross = &ll_cross_exact,
};
