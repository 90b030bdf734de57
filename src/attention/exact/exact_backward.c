/* Exact attention, backward (exact.c has the formulas): blocks of keys against blocks of queries. */
#include <string.h>

#include "attention/exact/exact_tile.h"
#include "base/integer.h"

static void pack_keys(const ll_exact_tile *j, int j0, int rows) {
    const ll_exact *x = j->x;
    const ll_attention_config *o = &x->op->c;
    ll_exact_pack_keys(j, &j->at.k, j->past.keys, j0, rows, x->op->D, j->k, x->ldd);
    x->k->transpose(rows, x->op->D, j->k, x->ldd, j->kt, x->lds);
    for (int i = 0; i < rows; i++) x->k->scale((size_t)x->op->D, o->input_scale, j->k + (size_t)i * x->ldd);
    ll_exact_pack_keys(j, &j->at.v, j->past.values, j0, rows, o->E, j->v, x->lde);
    x->k->transpose(rows, o->E, j->v, x->lde, j->vt, x->lds);
    if (!j->k_pairs) return;
    ll_pair_rows(x->k, x->op->D, (int)x->lds, j->kt, x->lds, j->kt_pairs);
    ll_pair_rows(x->k, rows, (int)x->ldd, j->k, x->ldd, j->k_pairs);
    ll_pair_rows(x->k, o->E, (int)x->lds, j->vt, x->lds, j->vt_pairs);
}

static void pack_queries(const ll_exact_tile *j, int i0, int rows) {
    const ll_exact *x = j->x;
    const ll_attention_config *o = &x->op->c;
    ll_exact_pack(j, &j->at.q, i0, rows, x->op->D, o->input_scale, j->q, x->ldd);
    ll_exact_pack(j, &j->at.g, i0, rows, o->E, 1, j->g, x->lde);
    for (int i = 0; i < rows; i++) {
        j->lse[i] = j->saved[i0 + i];
        j->delta[i] = x->k->dot((size_t)o->E, j->g + (size_t)i * x->lde, ll_at(&j->at.y, i0 + i));
    }
}

/* Adds the gradients of one tile. None of its rows sees a column before `skip`. */
static void backward_tile(const ll_exact_tile *j, int i0, int rows, int j0, int skip, int width) {
    const ll_exact *x = j->x;
    const int D = x->op->D, E = x->op->c.E, n = width - skip;
    const size_t lds = x->lds;
    float *P = j->P + skip, *dP = j->dP + skip;
    ll_exact_logits(j, rows, skip, width);
    const ll_distance_tile near =
        ll_exact_distances(j, i0, rows, j0); /* with these there is no window, so skip = 0 */
    ll_distances_queries(&near);
    ll_distances_logits(&near, j->P);
    for (int i = 0; i < rows; i++) {
        float *row = j->P + (size_t)i * lds;
        const int from = ll_exact_unseen(j, i0 + i, j0), to = ll_exact_seen(j, i0 + i, j0);
        (void)x->k->exp_sum((size_t)(to - from), j->lse[i], row + from, row + from);
        memset(row + skip, 0, (size_t)(from - skip) * sizeof *row);
        memset(row + to, 0, (size_t)(width - to) * sizeof *row);
    }
    ll_tile_product(x->k, rows, n, E, j->g, x->lde, ll_exact_values_t(j, skip), j->pairs, dP, lds, 0, NULL);
    ll_distances_values_back(&near, j->P, j->dP);
    if (j->want_kv)
        ll_tile_sum(x->k, rows, n, E, P, lds, j->g, x->lde, j->pairs, ll_at(&j->dv, skip), j->dv.token, NULL);
    for (int i = 0; i < rows; i++)
        x->k->softmax_back((size_t)n, j->delta[i], P + (size_t)i * lds, dP + (size_t)i * lds);
    if (j->want_kv)
        ll_tile_sum(x->k, rows, n, D, dP, lds, j->q, x->ldd, j->pairs, ll_at(&j->dk, skip), j->dk.token, NULL);
    if (x->want_q)
        ll_tile_product(x->k, rows, D, n, dP, lds, ll_exact_keys(j, skip), j->pairs, ll_at(&j->at.dq, i0),
                        j->at.dq.token, 1, NULL);
    ll_distances_logits_back(&near, j->dP, x->want_q ? ll_at(&j->at.dq, i0) : NULL, j->at.dq.token);
}

/* The first block of queries with one that sees key j0. */
static int first_block(const ll_exact_tile *j, int j0) {
    const ll_exact *x = j->x;
    const int64_t i = x->op->c.causal ? j0 - j->past.n - x->offset : x->window ? j0 - x->window + 1 : 0;
    return i > 0 ? (int)ll_min_size((size_t)i / (size_t)x->queries, (size_t)x->query_blocks) : 0;
}

/* A block of keys is either of the state or of the call. These give where block b begins, the block of key n, and where
 * the gradients of a block are. */
static int block_begin(const ll_exact_tile *j, int b) {
    const int keys = j->x->keys, blocks = ll_ceil_div(j->past.n, keys);
    return b < blocks ? b * keys : j->past.n + (b - blocks) * keys;
}
static int block_of(const ll_exact_tile *j, int n) {
    const int keys = j->x->keys, past = j->past.n;
    return n < past ? n / keys : ll_ceil_div(past, keys) + (n - past) / keys;
}
static void set_block(ll_exact_tile *j, int b) {
    const size_t D = (size_t)j->x->op->D, E = (size_t)j->x->op->c.E;
    const int j0 = block_begin(j, b), own = j0 - j->past.n;
    j->width = block_begin(j, b + 1) - j0;
    j->want_kv = j->x->want_kv && (own >= 0 || j->past.dkeys);
    if (!j->want_kv) return;
    j->dk = own >= 0 ? ll_view_from(j->at.dk, own) : (ll_view){j->past.dkeys + (size_t)j0 * D, 0, 0, D};
    j->dv = own >= 0 ? ll_view_from(j->at.dv, own) : (ll_view){j->past.dvalues + (size_t)j0 * E, 0, 0, E};
}

/* Sets the gradients of keys from..to-1 of the call to 0, or to those that come through the state after the call. */
static void begin_gradients(const ll_exact_tile *j, int from, int to) {
    const int own = ll_max_int(from, j->past.n);
    if (to > own) {
        ll_zero_rows(&j->at.dk, own - j->past.n, to - j->past.n, j->x->op->D);
        ll_zero_rows(&j->at.dv, own - j->past.n, to - j->past.n, j->x->op->c.E);
    }
    if (j->x->state) ll_window_gradients(j->x->op, &j->past, &j->at, j->s, from, to);
}

/* The tiles of key blocks k0..k1-1 and query blocks q0..q1-1. The sum of a row goes over the tiles in the same order,
 * whichever thread computes which blocks, so results are the same bits. */
static void backward_range(ll_exact_tile *j, int k0, int k1, int q0, int q1) {
    const ll_exact *x = j->x;
    if (x->want_q) ll_zero_rows(&j->at.dq, q0 * x->queries, ll_min_int(q1 * x->queries, j->query_capacity), x->op->D);
    if (x->want_kv) begin_gradients(j, block_begin(j, k0), ll_min_int(block_begin(j, k1), j->key_capacity));
    const int end = ll_min_int(q1 * x->queries, j->n), none = end <= q0 * x->queries;
    const int from = block_of(j, ll_exact_first(j, q0 * x->queries)), to = none ? 0 : ll_exact_last(j, end - 1);
    for (int b = ll_max_int(from, k0); b < k1 && block_begin(j, b) < to; b++) {
        int packed = 0;
        const int j0 = block_begin(j, b), block = first_block(j, j0);
        set_block(j, b);
        for (int i0 = ll_max_int(block, q0) * x->queries; i0 < end; i0 += x->queries) {
            const int rows = ll_min_int(x->queries, j->n - i0), width = ll_exact_seen(j, i0 + rows - 1, j0);
            if (width == 0) continue;
            if (ll_exact_first(j, i0) - j0 >= width) break; /* past the window */
            if (!packed) pack_keys(j, j0, ll_min_int(j->width, j->s - j0));
            packed = 1;
            pack_queries(j, i0, rows);
            const int step = ll_exact_step(j, i0, rows, j0);
            for (int i = 0; i < rows; i += step) {
                const ll_exact_tile part = ll_exact_rows(j, i);
                const int some = ll_min_int(step, rows - i), seen = ll_exact_seen(j, i0 + i + some - 1, j0);
                const int skip = ll_exact_skip(j, i0 + i, j0);
                if (seen > skip) backward_tile(&part, i0 + i, some, j0, skip, seen);
            }
        }
    }
}

static void backward_head(void *arg, size_t index, int worker) {
    const ll_exact *x = arg;
    ll_exact_tile j = ll_exact_head(x, index, worker);
    backward_range(&j, 0, x->key_blocks, 0, x->query_blocks);
}

static void backward_keys(void *arg, size_t index, int worker) {
    const ll_exact *x = arg;
    ll_exact_tile j = ll_exact_head(x, index / (size_t)x->key_blocks, worker);
    const int block = (int)(index % (size_t)x->key_blocks);
    backward_range(&j, block, block + 1, 0, x->query_blocks);
}

static void backward_queries(void *arg, size_t index, int worker) {
    const ll_exact *x = arg;
    const int block = x->query_blocks - 1 - (int)(index % (size_t)x->query_blocks);
    ll_exact_tile j = ll_exact_head(x, index / (size_t)x->query_blocks, worker);
    backward_range(&j, 0, x->key_blocks, block, block + 1);
}

/* A head in one task needs 5 products a tile. If there are fewer heads than threads, gradients of keys and of queries
 * are separate tasks, and need 7. */
static void share_out_backward(ll_exact *x, size_t heads) {
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

ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *c) {
    ll_exact x = ll_exact_prepare(op, c, 1);
    const int sequences = ll_sequence_count(c);
    for (int i = 0; i < sequences && c->dstate_in; i++) {
        const ll_carried carried = ll_carried_at(c, x.state, i, 0);
        if (carried.din) memset(carried.din, 0, x.state * sizeof *carried.din);
    }
    ll_distances_begin(&x.d);
    for (x.first = 0; x.first < sequences; x.first += x.group) {
        const int now = ll_min_int(x.group, sequences - x.first);
        ll_distances_clear(&x.d, (size_t)now);
        share_out_backward(&x, (size_t)now * (size_t)op->c.H);
        ll_distances_add(&x.d);
    }
    ll_distances_collect(&x.d, op, &c->dposition);
    return LL_OK;
}
