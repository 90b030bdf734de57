/* A call of exact attention in tiles: sizes, scratch, which keys a query sees, packed rows. Forward and backward pack
 * their operands into contiguous rows, and keys transposed. That takes a few percent of the time of the products. */
#include "attention/exact/exact_tile.h"
#include "base/integer.h"

#include <string.h>

/* Most queries and keys of a tile. Its weights and packed rows are about as large as L2, and a window of 128 fits one
 * tile of keys. Where a tile meets the diagonal or the edge of a window, STEP of its queries are computed at a time,
 * which are whole register tiles. PAD puts rows into different sets of L1. */
enum { QUERIES = 256, KEYS = 512, STEP = 24, PAD = 16 };

/* Divides the memory of a worker. Without memory it only counts floats. */
static size_t cut(const ll_exact *x, ll_exact_tile *j, float *pool) {
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
    if (!x->c->bf16) return a.used;
    j->kt_pairs = ll_arena_take(&a, (D + 1) / 2 * x->lds);
    j->vt_pairs = ll_arena_take(&a, (E + 1) / 2 * x->lds);
    j->v_pairs = ll_arena_take(&a, (K + 1) / 2 * x->lde);
    j->k_pairs = ll_arena_take(&a, (K + 1) / 2 * x->ldd);
    j->pairs = ll_arena_take(&a, (Q + 1) / 2 * (x->lds + x->ldd + x->lde));
    return a.used;
}

static ll_factor factor(const float *x, const float *pairs, size_t ld, size_t row, size_t column) {
    return (ll_factor){x + row * ld + column, pairs ? pairs + row / 2 * ld + column : NULL, ld};
}
ll_factor ll_exact_keys(const ll_exact_tile *j, int skip) {
    return factor(j->k, j->k_pairs, j->x->ldd, (size_t)skip, 0);
}
static ll_factor keys_t(const ll_exact_tile *j, int skip) {
    return factor(j->kt, j->kt_pairs, j->x->lds, 0, (size_t)skip);
}
ll_factor ll_exact_values(const ll_exact_tile *j, int skip) {
    return factor(j->v, j->v_pairs, j->x->lde, (size_t)skip, 0);
}
ll_factor ll_exact_values_t(const ll_exact_tile *j, int skip) {
    return factor(j->vt, j->vt_pairs, j->x->lds, 0, (size_t)skip);
}

ll_exact_tile ll_exact_head(const ll_exact *x, size_t index, int worker) {
    const ll_attention_call *c = x->c;
    const int H = x->op->c.H, h = (int)(index % (size_t)H);
    const ll_span s = ll_sequence_at(c, x->first + (int)(index / (size_t)H));
    ll_exact_tile j = {.x = x, .at = ll_views_at(c, &s, h), .index = index, .h = h, .n = s.queries, .s = s.keys};
    j.query_capacity = s.query_capacity, j.key_capacity = s.key_capacity;
    j.width = x->keys;
    if (x->state) j.past = ll_window_at(x->op, c, x->first + (int)(index / (size_t)H), h);
    j.s += j.past.n, j.key_capacity += j.past.n;
    if (c->saved) j.saved = c->saved + ((size_t)s.row * (size_t)H + (size_t)h) * (size_t)c->T + (size_t)s.query;
    cut(x, &j, x->pool + (size_t)worker * x->scratch);
    return j;
}

void ll_exact_pack(const ll_exact_tile *j, const ll_view *view, int token, int rows, int n, float factor, float *out,
                   size_t ld) {
    for (int i = 0; i < rows; i++, out += ld) j->x->k->scaled((size_t)n, factor, ll_at(view, token + i), out);
}

void ll_exact_pack_keys(const ll_exact_tile *j, const ll_view *view, const float *past, int token, int rows, int n,
                        float *out, size_t ld) {
    for (; rows && token < j->past.n; token++, rows--, out += ld)
        memcpy(out, past + (size_t)token * (size_t)n, (size_t)n * sizeof *out);
    ll_exact_pack(j, view, token - j->past.n, rows, n, 1, out, ld);
}

void ll_exact_transpose_keys(const ll_exact_tile *j, int token, int rows) {
    const ll_exact *x = j->x;
    const int own = token - j->past.n;
    if (own < 0) ll_exact_pack_keys(j, &j->at.k, j->past.keys, token, rows, x->op->D, j->k, x->ldd);
    const float *keys = own < 0 ? j->k : ll_at(&j->at.k, own);
    x->k->transpose(rows, x->op->D, keys, own < 0 ? x->ldd : j->at.k.token, j->kt, x->lds);
    if (j->kt_pairs) ll_pair_rows(x->k, x->op->D, (int)x->lds, j->kt, x->lds, j->kt_pairs);
}

void ll_exact_prefetch_keys(const ll_exact_tile *j, ll_prefetch *next, int token, int rows) {
    const int own = token - j->past.n;
    if (own < 0 || rows <= 0) return;
    ll_prefetch_rows(next, ll_at(&j->at.k, own), j->at.k.token, rows, j->x->op->D);
    ll_prefetch_rows(next, ll_at(&j->at.v, own), j->at.v.token, rows, j->x->op->c.E);
}

int ll_exact_first(const ll_exact_tile *j, int i) {
    const int n = i + j->past.n - j->x->window + 1;
    return j->x->window && n > 0 ? n : 0;
}
int ll_exact_last(const ll_exact_tile *j, int i) {
    const int64_t end = j->x->op->c.causal ? i + j->past.n + j->x->offset + 1 : j->x->window ? i + j->x->window : j->s;
    return end < 0 ? 0 : end < j->s ? (int)end : j->s;
}

int ll_exact_seen(const ll_exact_tile *j, int i, int j0) {
    const int n = ll_exact_last(j, i) - j0;
    return n < 0 ? 0 : ll_min_int(n, j->width);
}
int ll_exact_unseen(const ll_exact_tile *j, int i, int j0) {
    const int n = ll_exact_first(j, i) - j0;
    return n < 0 ? 0 : ll_min_int(n, ll_exact_seen(j, i, j0));
}

int ll_exact_skip(const ll_exact_tile *j, int i, int j0) { return ll_exact_unseen(j, i, j0) / 2 * 2; }

int ll_exact_step(const ll_exact_tile *j, int i0, int rows, int j0) {
    const int last = i0 + rows - 1;
    const int even = ll_exact_seen(j, i0, j0) == ll_exact_seen(j, last, j0) &&
                     ll_exact_unseen(j, i0, j0) == ll_exact_unseen(j, last, j0);
    return even ? rows : ll_min_int(rows, j->x->step);
}

ll_exact_tile ll_exact_rows(const ll_exact_tile *j, int i) {
    const ll_exact *x = j->x;
    const size_t n = (size_t)i;
    ll_exact_tile part = *j;
    part.q += n * x->ldd, part.g += n * x->lde, part.sum += n * x->ldsum;
    part.lse += i, part.delta += i;
    part.R += n * x->d.ld; /* W and sees are of one tile alone */
    return part;
}

ll_distance_tile ll_exact_distances(const ll_exact_tile *j, int i0, int rows, int j0) {
    const ll_exact *x = j->x;
    if (!x->d.n) return (ll_distance_tile){0};
    for (int i = 0; i < rows; i++) j->sees[i] = ll_exact_seen(j, i0 + i, j0);
    float *sums = j->want_kv ? ll_distances_part(&x->d, j->index, (size_t)(j0 / x->keys)) : NULL;
    const int64_t first = j0 - i0 - x->offset;
    return (ll_distance_tile){&x->d,   x->k,   j->h, rows, x->op->D, x->op->c.E, first,
                              j->sees, x->lds, j->q, j->g, x->ldd,   x->lde,     j->R,
                              j->W,    sums};
}

void ll_exact_logits(const ll_exact_tile *j, int rows, int skip, int width) {
    const ll_exact *x = j->x;
    ll_tile_product(x->k, rows, width - skip, x->op->D, j->q, x->ldd, keys_t(j, skip), j->pairs, j->P + skip, x->lds, 0,
                    NULL);
}

/* ---- Calls ---- */

/* Sizes of a call whose longest sequence has so many queries and keys. */
static ll_exact exact_of(const ll_attention *op, const ll_attention_call *c, int queries, int keys) {
    const int window = op->c.kernel == LL_KERNEL_LOCAL;
    const int most_queries = op->tile ? op->tile : QUERIES, most_keys = op->tile ? op->tile : KEYS;
    ll_exact x = {.op = op, .c = c, .k = ll_kernel_table(), .threads = c->threads};
    if (window) x.window = op->c.approximate.window;
    if (ll_call_has_state(c)) x.state = ll_window_floats(op);
    if (op->c.kernel == LL_KERNEL_SOFTMAX) x.offset = c->query_offset - c->key_offset;
    x.step = ll_min_int(STEP, 4 * ll_ceil_div(most_queries, 16)); /* not of the call's size: padding changes no bit */
    x.queries = queries < 1 ? 1 : ll_min_int(queries, most_queries);
    const int most = op->c.causal && x.window ? keys + ll_min_int(x.window - 1, most_keys) : keys; /* with a state's */
    x.keys = most < 1 ? 1 : ll_min_int(most, most_keys);
    x.query_blocks = ll_ceil_div(queries, x.queries);
    x.key_blocks = ll_ceil_div(keys, x.keys) + (x.state ? ll_ceil_div(x.window - 1, x.keys) : 0);
    x.ldd = ll_round_up((size_t)op->D, 16) + PAD;
    x.lde = ll_round_up((size_t)op->c.E, 16) + PAD;
    x.lds = ll_round_up((size_t)x.keys, 16) + PAD;
    return x;
}

static void lay_out(ll_exact *x, size_t sequences, int backward, ll_arena *a) {
    ll_exact_tile unused;
    ll_distances_take(&x->d, x->op, a);
    x->ldsum = x->lde + (x->d.values ? x->d.ld : 0);
    x->scratch = cut(x, &unused, NULL);
    x->pool = ll_arena_take(a, (size_t)x->threads * x->scratch);
    if (backward) ll_distances_take_sums(&x->d, x->op, sequences, (size_t)x->key_blocks, a);
}

/* Positions in the logits that have gradients have sums for each block of keys. There is memory for the sums of a batch
 * of whole rows. Of packed rows, as many sequences are computed at a time as fit there. */
ll_exact ll_exact_prepare(const ll_attention *op, const ll_attention_call *c, int backward) {
    int queries, keys;
    ll_sequence_longest(c, &queries, &keys);
    ll_exact x = exact_of(op, c, queries, keys);
    const int blocks = ll_max_int(x.key_blocks, 1), whole = exact_of(op, c, c->T, c->S).key_blocks;
    x.group = ll_sequence_count(c);
    if (c->segment && backward && op->logits) x.group = ll_min_int(x.group, c->B * ll_max_int(whole, 1) / blocks);
    ll_arena a = {.base = c->scratch};
    lay_out(&x, (size_t)x.group, backward, &a);
    ll_distances_set(&x.d, op);
    return x;
}

size_t ll_exact_scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_exact x = exact_of(op, c, c->T, c->S);
    ll_arena a = {0};
    lay_out(&x, (size_t)c->B, backward, &a);
    return a.used;
}

size_t ll_exact_saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return (size_t)B * (size_t)op->c.H * (size_t)T;
}
