/* Reformer (Kitaev, Kaiser, Levskaya 2020): each token attends to those that a random hash puts near it.
 *
 * Queries are keys: k_j = q_j / |q_j|. A round hashes every token, h_j = argmax [q_j R; -q_j R] with R (D, buckets / 2)
 * normal, sorts the tokens by (h_j, j) and cuts them into runs of `chunk`; a token sees the tokens of its own run and
 * of the one before, but not itself. y_i is the softmax mean over what i sees in any round, a token seen twice counting
 * twice; a token that sees nothing has y_i = v_i.
 *
 * In both directions the runs are cut from the whole sorted sequence, as the paper has it. There a later token moves
 * the cuts of earlier ones. Causal attention therefore cuts each bucket by itself, from its first token on, and
 * sees only tokens of its own bucket: those before it.
 *
 * A run and what it sees is one tile, on which softmax goes as in exact.c. One (sequence, head) is one task. */
#include "attention/approximate/reformer.h"

#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"

enum { HASHED = 64 }; /* tokens that are hashed together */

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    const ll_kernels *k;
    int backward, chunk;
    size_t ldd, lde, lds; /* distances of packed rows of D, E, keys */
    float *pool;
    size_t scratch;
} reformer;

/* One (sequence, head), and one worker's memory. */
typedef struct {
    const reformer *x;
    int row, h, first, n, room;   /* the sequence's row and first token there; tokens in use, and there is room for */
    float *lse, *m, *l, *inverse; /* (T) each; lse of saved, or m; 1 / |q| */
    int *bucket, *order, *start;  /* (rounds or 1, T), (T), (buckets + 1) */
    float *hashes;                /* (HASHED, buckets / 2) */
    float *q, *g, *sum;           /* (chunk, D), (chunk, E) twice */
    float *k, *kt, *v, *vt;       /* (2 chunk, D), (D, 2 chunk), (2 chunk, E), (E, 2 chunk) */
    float *P, *dP, *dk, *dv;      /* (chunk, 2 chunk) twice; (2 chunk, D), (2 chunk, E) */
} head;

/* A run of sorted tokens: `rows` of them from `from` on, and `back` before them that they see, too. */
typedef struct {
    int from, rows, back;
} run;

/* ---- The operator ---- */

/* Hash rotations, where none are given: functions of (seed, layer, head, round). */
static ll_status create(ll_attention *op, const ll_attention_config *engine) {
    const ll_approximate_config *r = &op->c.baseline;
    const size_t n = (size_t)op->D * (size_t)(r->buckets / 2), H = (size_t)op->c.H, rounds = (size_t)r->rounds;
    (void)engine;
    if (r->rotations) return LL_OK;
    float *all = ll_alloc(rounds * H * n, sizeof *all);
    if (!all) return LL_ENOMEM;
    op->c.baseline.rotations = all;
    for (size_t i = 0; i < rounds * H; i++)
        ll_normal_fill(all + i * n, n, r->seed,
                       ll_stream_id(LL_RANDOM_HASH, (uint32_t)r->layer, (uint32_t)(i % H << 8 | i / H)), 0);
    return LL_OK;
}

/* ---- Memory ---- */

static size_t saved_floats(const ll_attention *op, int T) {
    return ((size_t)(1 + op->c.baseline.rounds) * (size_t)T + 15) / 16 * 16; /* lse, buckets of all rounds */
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return (size_t)B * (size_t)op->c.H * saved_floats(op, T);
}

/* Cuts a worker's memory into pieces; without memory it only measures. */
static size_t cut(const reformer *x, head *j, float *pool) {
    const size_t T = (size_t)x->c->T, C = (size_t)x->chunk, buckets = (size_t)x->op->c.baseline.buckets;
    ll_arena a = {.base = pool};
    j->m = ll_arena_take(&a, T), j->l = ll_arena_take(&a, T), j->inverse = ll_arena_take(&a, T);
    j->order = ll_arena_bytes(&a, T, sizeof *j->order);
    j->bucket = ll_arena_bytes(&a, T, sizeof *j->bucket);
    j->start = ll_arena_bytes(&a, buckets + 1, sizeof *j->start);
    j->hashes = ll_arena_take(&a, HASHED * (buckets / 2));
    j->q = ll_arena_take(&a, C * x->ldd);
    j->g = ll_arena_take(&a, C * x->lde), j->sum = ll_arena_take(&a, C * x->lde);
    j->k = ll_arena_take(&a, 2 * C * x->ldd), j->kt = ll_arena_take(&a, (size_t)x->op->D * x->lds);
    j->v = ll_arena_take(&a, 2 * C * x->lde), j->vt = ll_arena_take(&a, (size_t)x->op->c.E * x->lds);
    j->P = ll_arena_take(&a, C * x->lds), j->dP = ll_arena_take(&a, C * x->lds);
    j->dk = ll_arena_take(&a, 2 * C * x->ldd), j->dv = ll_arena_take(&a, 2 * C * x->lde);
    return a.used;
}

static float *at(const head *j, const ll_view *view, int token) {
    return ll_element(view, j->row, j->h, j->first + token);
}

static head head_at(const reformer *x, size_t index, int worker) {
    const size_t H = (size_t)x->op->c.H;
    const ll_span s = ll_sequence_at(x->c, (int)(index / H));
    head j = {.x = x, .row = s.row, .h = (int)(index % H), .first = s.query, .n = s.queries, .room = s.query_room};
    cut(x, &j, x->pool + (size_t)worker * x->scratch);
    j.lse = j.m;
    if (x->c->saved) {
        j.lse = x->c->saved + ((size_t)s.row * H + (size_t)j.h) * saved_floats(x->op, x->c->T) + s.query;
        j.bucket = (int *)(void *)(j.lse + x->c->T);
    }
    for (int t = 0; t < j.n; t++) j.inverse[t] = ll_reformer_inverse(x->op, x->k, at(&j, &x->c->q, t));
    return j;
}

/* ---- Sorting ---- */

/* Buckets of a round: in saved those of all rounds, else of one. */
static int *buckets_of(const head *j, int round) {
    return j->bucket + (j->x->c->saved ? (size_t)round * (size_t)j->x->c->T : 0);
}

static void hash(const head *j, int round) {
    const ll_view *q = &j->x->c->q;
    for (int t = 0; t < j->n; t += HASHED)
        ll_reformer_hash(j->x->op, j->x->k, round, j->h, j->n - t < HASHED ? j->n - t : HASHED, at(j, q, t), q->token,
                         j->hashes, buckets_of(j, round) + t);
}

/* Tokens by (bucket, token); bucket a has those from start[a] on. */
static void sort(const head *j, int round) {
    const int buckets = j->x->op->c.baseline.buckets, *bucket = buckets_of(j, round);
    memset(j->start, 0, (size_t)(buckets + 1) * sizeof *j->start);
    for (int t = 0; t < j->n; t++) j->start[bucket[t] + 1]++;
    for (int a = 0; a < buckets; a++) j->start[a + 1] += j->start[a];
    for (int t = 0; t < j->n; t++) j->order[j->start[bucket[t]]++] = t;
    for (int a = buckets; a > 0; a--) j->start[a] = j->start[a - 1];
    j->start[0] = 0;
}

/* The run after this one (first: rows = 0); 0: there is none. */
static int next(const head *j, int *bucket, run *r) {
    const int causal = j->x->op->c.causal, chunk = j->x->chunk, from = r->from + r->rows;
    if (from >= j->n) return 0;
    while (causal && j->start[*bucket + 1] <= from) ++*bucket;
    const int begin = causal ? j->start[*bucket] : 0, end = causal ? j->start[*bucket + 1] : j->n;
    *r = (run){from, end - from < chunk ? end - from : chunk, from > begin ? chunk : 0};
    return 1;
}

/* ---- A tile ---- */

/* Keys and values of a run, and logits (rows, back + rows) of its queries. */
static void logits(const head *j, const run *r) {
    const reformer *x = j->x;
    const int D = x->op->D, E = x->op->c.E, keys = r->back + r->rows;
    for (int i = 0; i < keys; i++) {
        const int t = j->order[r->from - r->back + i];
        float *k = j->k + (size_t)i * x->ldd;
        x->k->scaled((size_t)D, j->inverse[t], at(j, &x->c->q, t), k);
        memcpy(j->v + (size_t)i * x->lde, at(j, &x->c->v, t), (size_t)E * sizeof(float));
    }
    for (int i = 0; i < r->rows; i++) {
        const float *q = at(j, &x->c->q, j->order[r->from + i]);
        x->k->scaled((size_t)D, x->op->c.input_scale, q, j->q + (size_t)i * x->ldd);
    }
    x->k->transpose(keys, D, j->k, x->ldd, j->kt, x->lds);
    x->k->gemm(r->rows, keys, D, j->q, x->ldd, 1, j->kt, x->lds, j->P, x->lds, 0);
}

/* Row i of logits becomes e^(s - shift) where it is seen, else 0. */
static void exponentials(const head *j, const run *r, int i, float shift, float *row) {
    const int keys = r->back + r->rows, self = r->back + i, seen = j->x->op->c.causal ? self : keys;
    j->x->k->exp_shift((size_t)seen, shift, 1, 0, row, row);
    memset(row + seen, 0, (size_t)(keys - seen) * sizeof *row);
    row[self] = 0;
}

/* The largest logit that row i sees; -INFINITY: it sees nothing. */
static float largest(const head *j, const run *r, int i, const float *row) {
    const int keys = r->back + r->rows, self = r->back + i;
    const float before = j->x->k->max((size_t)self, row);
    return j->x->op->c.causal ? before : fmaxf(before, j->x->k->max((size_t)(keys - self - 1), row + self + 1));
}

static void forward_run(const head *j, const run *r) {
    const reformer *x = j->x;
    const int E = x->op->c.E, keys = r->back + r->rows;
    logits(j, r);
    for (int i = 0; i < r->rows; i++) {
        const int t = j->order[r->from + i];
        float *row = j->P + (size_t)i * x->lds;
        const float here = largest(j, r, i, row), top = fmaxf(j->m[t], here);
        if (here == -INFINITY) {
            memset(row, 0, (size_t)keys * sizeof *row);
            continue;
        }
        if (top > j->m[t] && j->l[t] > 0) {
            const float factor = expf(j->m[t] - top);
            j->l[t] *= factor;
            x->k->scale((size_t)E, factor, at(j, &x->c->y, t));
        }
        j->m[t] = top;
        exponentials(j, r, i, top, row);
        j->l[t] += x->k->sum((size_t)keys, row);
    }
    x->k->gemm(r->rows, E, keys, j->P, x->lds, 1, j->v, x->lde, j->sum, x->lde, 0);
    for (int i = 0; i < r->rows; i++)
        x->k->add((size_t)E, j->sum + (size_t)i * x->lde, at(j, &x->c->y, j->order[r->from + i]));
}

static void forward_head(void *arg, size_t index, int worker) {
    const reformer *x = arg;
    const head j = head_at(x, index, worker);
    const size_t E = (size_t)x->op->c.E;
    for (int t = 0; t < j.room; t++) memset(at(&j, &x->c->y, t), 0, E * sizeof(float));
    for (int t = 0; t < j.n; t++) j.m[t] = -INFINITY, j.l[t] = 0;
    for (int round = 0; round < x->op->c.baseline.rounds; round++) {
        run r = {0};
        hash(&j, round);
        sort(&j, round);
        for (int bucket = 0; next(&j, &bucket, &r);) forward_run(&j, &r);
    }
    for (int t = 0; t < j.n; t++) {
        float *y = at(&j, &x->c->y, t);
        if (j.l[t] > 0) x->k->scale(E, 1 / j.l[t], y);
        if (!(j.l[t] > 0)) memcpy(y, at(&j, &x->c->v, t), E * sizeof *y);
        if (x->c->saved) j.lse[t] = j.l[t] > 0 ? j.m[t] + logf(j.l[t]) : INFINITY;
    }
}

/* ---- Backward ---- */

/* Gradients of the run's keys, dk of k = q / |q|, and values, back to their tokens. */
static void scatter(const head *j, const run *r) {
    const reformer *x = j->x;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    for (int i = 0; i < r->back + r->rows; i++) {
        const int t = j->order[r->from - r->back + i];
        const float *k = j->k + (size_t)i * x->ldd;
        float *dk = j->dk + (size_t)i * x->ldd;
        x->k->axpy(D, -x->k->dot(D, k, dk), k, dk);
        x->k->axpy(D, j->inverse[t], dk, at(j, &x->c->dq, t));
        x->k->add(E, j->dv + (size_t)i * x->lde, at(j, &x->c->dv, t));
    }
}

static void backward_run(const head *j, const run *r) {
    const reformer *x = j->x;
    const int D = x->op->D, E = x->op->c.E, keys = r->back + r->rows;
    logits(j, r);
    x->k->transpose(keys, E, j->v, x->lde, j->vt, x->lds);
    for (int i = 0; i < r->rows; i++) {
        const int t = j->order[r->from + i];
        float *row = j->P + (size_t)i * x->lds, *drow = j->dP + (size_t)i * x->lds, *g = j->g + (size_t)i * x->lde;
        memcpy(g, at(j, &x->c->g, t), (size_t)E * sizeof *g);
        const float delta = x->k->dot((size_t)E, g, at(j, &x->c->y, t));
        exponentials(j, r, i, j->lse[t], row);
        for (int e = 0; e < keys; e++) drow[e] = -delta;
    }
    x->k->gemm(r->rows, keys, E, j->g, x->lde, 1, j->vt, x->lds, j->dP, x->lds, 1);
    x->k->gemm(keys, E, r->rows, j->P, 1, x->lds, j->g, x->lde, j->dv, x->lde, 0);
    for (int i = 0; i < r->rows; i++) x->k->mul((size_t)keys, j->P + (size_t)i * x->lds, j->dP + (size_t)i * x->lds);
    x->k->gemm(keys, D, r->rows, j->dP, 1, x->lds, j->q, x->ldd, j->dk, x->ldd, 0);
    x->k->gemm(r->rows, D, keys, j->dP, x->lds, 1, j->k, x->ldd, j->q, x->ldd, 0); /* now dq */
    for (int i = 0; i < r->rows; i++)
        x->k->axpy((size_t)D, x->op->c.input_scale, j->q + (size_t)i * x->ldd, at(j, &x->c->dq, j->order[r->from + i]));
    scatter(j, r);
}

static void backward_head(void *arg, size_t index, int worker) {
    const reformer *x = arg;
    const head j = head_at(x, index, worker);
    const ll_attention_call *c = x->c;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    for (int t = 0; t < j.room; t++) {
        memset(at(&j, &c->dq, t), 0, D * sizeof(float));
        memset(at(&j, &c->dv, t), 0, E * sizeof(float));
        if (c->dk.data) memset(at(&j, &c->dk, t), 0, D * sizeof(float));
    }
    for (int round = 0; round < x->op->c.baseline.rounds; round++) {
        run r = {0};
        sort(&j, round);
        for (int bucket = 0; next(&j, &bucket, &r);) backward_run(&j, &r);
    }
    for (int t = 0; t < j.n; t++) /* those that saw nothing but themselves */
        if (isinf(j.lse[t])) x->k->add(E, at(&j, &c->g, t), at(&j, &c->dv, t));
}

/* ---- Calls ---- */

static reformer reformer_of(const ll_attention *op, const ll_attention_call *c) {
    reformer x = {.op = op, .c = c, .k = ll_kernel_table(), .chunk = op->c.baseline.chunk};
    head unused;
    x.ldd = ll_round_up((size_t)op->D, 16) + 16;
    x.lde = ll_round_up((size_t)op->c.E, 16) + 16;
    x.lds = ll_round_up(2 * (size_t)x.chunk, 16) + 16;
    x.scratch = cut(&x, &unused, NULL);
    x.pool = c->scratch;
    return x;
}

static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    (void)backward;
    return (size_t)c->threads * reformer_of(op, c).scratch;
}

static ll_status shared_out(const ll_attention *op, const ll_attention_call *c, ll_task *task) {
    reformer x = reformer_of(op, c);
    ll_parallel_among(c->threads, (size_t)ll_sequence_count(c) * (size_t)op->c.H, task, &x);
    return LL_OK;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) { return shared_out(op, c, forward_head); }
static ll_status backward(const ll_attention *op, const ll_attention_call *c) {
    return shared_out(op, c, backward_head);
}

/* ---- The kind ---- */

static ll_status check(const ll_attention_config *c) {
    enum { BUCKETS_MOST = 1 << 16, CHUNK_MOST = 1 << 12, ROUNDS_MOST = 64 };
    const ll_approximate_config *b = &c->baseline;
    if (b->buckets < 2 || b->buckets > BUCKETS_MOST || b->buckets % 2)
        return ll_fail(LL_EINVAL, "attention: %d buckets, must be an even number from 2 to %d", b->buckets,
                       BUCKETS_MOST);
    if (b->chunk < 1 || b->chunk > CHUNK_MOST || b->rounds < 1 || b->rounds > ROUNDS_MOST)
        return ll_fail(LL_EINVAL, "attention: %d rounds in chunks of %d tokens, must be 1 to %d and 1 to %d", b->rounds,
                       b->chunk, ROUNDS_MOST, CHUNK_MOST);
    return LL_OK;
}

const ll_operator ll_operator_reformer = {
    .name = "reformer",
    .reads = 1,
    .itself = 1,
    .packs = 1,
    .check = check,
    .create = create,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .recurrence = &ll_recurrence_reformer,
};
