/* A call of reformer in tiles: sizes, scratch, tokens sorted by their buckets, and their runs. */
#include <string.h>

#include "attention/approximate/reformer_tile.h"
#include "base/integer.h"

/* ---- Memory ---- */

static size_t saved_floats(const ll_attention *op, int T) {
    return ll_round_up((size_t)(1 + op->c.approximate.rounds) * (size_t)T, LL_LINE); /* lse, buckets of all rounds */
}

size_t ll_reformer_saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return (size_t)B * (size_t)op->c.H * saved_floats(op, T);
}

/* Divides the memory of a worker. Without memory it only counts floats. */
static size_t cut(const ll_reformer *x, ll_reformer_tile *j, float *pool) {
    const size_t T = (size_t)x->c->T, C = (size_t)x->chunk, buckets = (size_t)x->op->c.approximate.buckets;
    ll_arena a = {.base = pool};
    j->m = ll_arena_take(&a, T), j->l = ll_arena_take(&a, T), j->inverse = ll_arena_take(&a, T);
    j->order = ll_arena_bytes(&a, T, sizeof *j->order);
    j->bucket = ll_arena_bytes(&a, T, sizeof *j->bucket);
    j->start = ll_arena_bytes(&a, buckets + 1, sizeof *j->start);
    j->hashes = ll_arena_take(&a, LL_HASHED * (buckets / 2));
    j->q = ll_arena_take(&a, C * x->ldd);
    j->g = ll_arena_take(&a, C * x->lde), j->sum = ll_arena_take(&a, C * x->lde);
    j->k = ll_arena_take(&a, 2 * C * x->ldd), j->kt = ll_arena_take(&a, (size_t)x->op->D * x->lds);
    j->v = ll_arena_take(&a, 2 * C * x->lde), j->vt = ll_arena_take(&a, (size_t)x->op->c.E * x->lds);
    j->P = ll_arena_take(&a, C * x->lds), j->dP = ll_arena_take(&a, C * x->lds);
    j->dk = ll_arena_take(&a, 2 * C * x->ldd), j->dv = ll_arena_take(&a, 2 * C * x->lde);
    return a.used;
}

ll_reformer_tile ll_reformer_head(const ll_reformer *x, size_t index, int worker) {
    const size_t H = (size_t)x->op->c.H;
    const ll_span s = ll_sequence_at(x->c, (int)(index / H));
    ll_reformer_tile j = {
        .x = x, .row = s.row, .h = (int)(index % H), .first = s.query, .n = s.queries, .capacity = s.query_capacity};
    cut(x, &j, x->pool + (size_t)worker * x->scratch);
    j.sequence = (int)(index / H);
    j.lse = j.m;
    if (x->c->saved) {
        j.lse = x->c->saved + ((size_t)s.row * H + (size_t)j.h) * saved_floats(x->op, x->c->T) + s.query;
        j.bucket = (int *)(void *)(j.lse + x->c->T);
    }
    for (int t = 0; t < j.n; t++) j.inverse[t] = ll_reformer_inverse(x->op, x->k, ll_reformer_at(&j, &x->c->q, t));
    return j;
}

/* ---- Sorting ---- */

int *ll_reformer_buckets(const ll_reformer_tile *j, int round) {
    return j->bucket + (j->x->c->saved ? (size_t)round * (size_t)j->x->c->T : 0);
}

void ll_reformer_sort(const ll_reformer_tile *j, int round) {
    const int buckets = j->x->op->c.approximate.buckets, *bucket = ll_reformer_buckets(j, round);
    memset(j->start, 0, (size_t)(buckets + 1) * sizeof *j->start);
    for (int t = 0; t < j->n; t++) j->start[bucket[t] + 1]++;
    for (int a = 0; a < buckets; a++) j->start[a + 1] += j->start[a];
    for (int t = 0; t < j->n; t++) j->order[j->start[bucket[t]]++] = t;
    for (int a = buckets; a > 0; a--) j->start[a] = j->start[a - 1];
    j->start[0] = 0;
}

int ll_reformer_past_of(const ll_reformer_tile *j, int bucket) {
    return j->state.count ? (int)j->state.count[bucket] : 0;
}

int ll_reformer_next(const ll_reformer_tile *j, ll_reformer_run *r) {
    const int causal = j->x->op->c.causal, chunk = j->x->chunk, from = r->from + r->rows;
    if (from >= j->n) return 0;
    while (causal && j->start[r->bucket + 1] <= from) ++r->bucket;
    r->begin = causal ? j->start[r->bucket] : 0;
    r->past = causal ? ll_reformer_past_of(j, r->bucket) : 0;
    const int end = causal ? j->start[r->bucket + 1] : j->n, number = r->past + from - r->begin;
    const int left = chunk - number % chunk;
    r->from = from;
    r->rows = ll_min_int(end - from, left);
    r->back = number % chunk + (number >= chunk ? chunk : 0);
    return 1;
}

int ll_reformer_key_at(const ll_reformer_tile *j, const ll_reformer_run *r, int i, size_t *slot) {
    const int at = r->from - r->back + i, slots = 2 * j->x->chunk;
    *slot = 0;
    if (at >= r->begin) return j->order[at];
    *slot = (size_t)r->bucket * (size_t)slots + (size_t)((r->past + at - r->begin) % slots);
    return -1;
}

/* ---- A tile ---- */

void ll_reformer_logits(const ll_reformer_tile *j, const ll_reformer_run *r) {
    const ll_reformer *x = j->x;
    const int D = x->op->D, E = x->op->c.E, keys = r->back + r->rows;
    for (int i = 0; i < keys; i++) {
        size_t slot;
        const int t = ll_reformer_key_at(j, r, i, &slot);
        float *k = j->k + (size_t)i * x->ldd, *v = j->v + (size_t)i * x->lde;
        if (t < 0) {
            memcpy(k, j->state.keys + slot * (size_t)D, (size_t)D * sizeof *k);
            memcpy(v, j->state.values + slot * (size_t)E, (size_t)E * sizeof *v);
            continue;
        }
        x->k->scaled((size_t)D, j->inverse[t], ll_reformer_at(j, &x->c->q, t), k);
        memcpy(v, ll_reformer_at(j, &x->c->v, t), (size_t)E * sizeof *v);
    }
    for (int i = 0; i < r->rows; i++) {
        const float *q = ll_reformer_at(j, &x->c->q, j->order[r->from + i]);
        x->k->scaled((size_t)D, x->op->c.input_scale, q, j->q + (size_t)i * x->ldd);
    }
    x->k->transpose(keys, D, j->k, x->ldd, j->kt, x->lds);
    x->k->gemm(r->rows, keys, D, j->q, x->ldd, 1, j->kt, x->lds, j->P, x->lds, 0);
}

void ll_reformer_exponentials(const ll_reformer_tile *j, const ll_reformer_run *r, int i, float shift, float *row) {
    const int keys = r->back + r->rows, self = r->back + i, seen = j->x->op->c.causal ? self : keys;
    j->x->k->exp_shift((size_t)seen, shift, 1, 0, row, row);
    memset(row + seen, 0, (size_t)(keys - seen) * sizeof *row);
    row[self] = 0;
}

/* ---- Calls ---- */

ll_reformer ll_reformer_of(const ll_attention *op, const ll_attention_call *c) {
    ll_reformer x = {.op = op, .c = c, .k = ll_kernel_table(), .chunk = op->c.approximate.chunk};
    ll_reformer_tile unused;
    x.ldd = ll_round_up((size_t)op->D, 16) + 16;
    x.lde = ll_round_up((size_t)op->c.E, 16) + 16;
    x.lds = ll_round_up(2 * (size_t)x.chunk, 16) + 16;
    x.scratch = cut(&x, &unused, NULL);
    x.pool = c->scratch;
    return x;
}
