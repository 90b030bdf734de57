/* Reformer (Kitaev, Kaiser, Levskaya 2020): each token attends to tokens with the same random hash.
 *
 * Keys are normalised queries: k_j = q_j / |q_j|. A round hashes every token, h_j = argmax [q_j R; -q_j R], with R (D,
 * buckets / 2) normal. It sorts the tokens by (h_j, j), and cuts them into runs of `chunk` tokens. A token sees the
 * tokens of its run and of the run before, but not itself. y_i is the softmax mean over the tokens that i sees in all
 * rounds. A token that i sees twice counts twice. If i sees nothing, y_i = v_i.
 *
 * In both directions the whole sorted sequence is cut into runs, as in the paper. Then a later token moves the cuts of
 * earlier tokens. So causal attention cuts each bucket on its own, from its first token on, and a token sees only
 * earlier tokens of its bucket.
 *
 * A run and the tokens that it sees are one tile, whose softmax is as in exact.c. One (sequence, head) is one task. */
#include <math.h>
#include <string.h>

#include "attention/approximate/reformer_tile.h"
#include "attention/attention_stream.h"
#include "attention/constant.h"
#include "attention/table.h"
#include "attention/tile_product.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"

static void hash(const ll_reformer_tile *j, int round) {
    const ll_view *q = &j->x->c->q;
    for (int t = 0; t < j->n; t += LL_HASHED)
        ll_reformer_hash(j->x->op, j->x->k, round, j->h, ll_min_int(j->n - t, LL_HASHED), ll_reformer_at(j, q, t),
                         q->token, j->hashes, ll_reformer_buckets(j, round) + t);
}

/* The largest logit that row i sees; -INFINITY: it sees nothing. */
static float largest(const ll_reformer_tile *j, const ll_reformer_run *r, int i, const float *row) {
    const int keys = r->back + r->rows, self = r->back + i;
    const float before = j->x->k->max((size_t)self, row);
    return j->x->op->c.causal ? before : fmaxf(before, j->x->k->max((size_t)(keys - self - 1), row + self + 1));
}

/* The sums of a run, from its weights. Where values are not finite, only rows that see them take them. */
static void sum_run(const ll_reformer_tile *j, const ll_reformer_run *r) {
    const ll_reformer *x = j->x;
    const int E = x->op->c.E, keys = r->back + r->rows;
    x->k->gemm(r->rows, E, keys, j->P, x->lds, 1, j->v, x->lde, j->sum, x->lde, 0);
    if (isfinite(x->k->sum((size_t)E, j->sum))) return; /* every row takes the same values */
    ll_zero_nonfinite(keys, E, j->v, x->lde);
    x->k->gemm(r->rows, E, keys, j->P, x->lds, 1, j->v, x->lde, j->sum, x->lde, 0);
    for (int i = 0; i < keys; i++) {
        size_t slot;
        const int t = ll_reformer_key_at(j, r, i, &slot);
        const float *v = t < 0 ? j->state.values + slot * (size_t)E : ll_reformer_at(j, &x->c->v, t);
        ll_add_nonfinite(r->rows, E, j->P + i, x->lds, v, j->sum, x->lde);
    }
}

static void forward_run(const ll_reformer_tile *j, const ll_reformer_run *r) {
    const ll_reformer *x = j->x;
    const int E = x->op->c.E, keys = r->back + r->rows;
    ll_reformer_logits(j, r);
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
            x->k->scale((size_t)E, factor, ll_reformer_at(j, &x->c->y, t));
        }
        j->m[t] = top;
        ll_reformer_exponentials(j, r, i, top, row);
        j->l[t] += x->k->sum((size_t)keys, row);
    }
    sum_run(j, r);
    for (int i = 0; i < r->rows; i++)
        x->k->add((size_t)E, j->sum + (size_t)i * x->lde, ll_reformer_at(j, &x->c->y, j->order[r->from + i]));
}

/* The rings of the round after the call. `from`: the rings before the call. Each token of the call takes the next slot
 * of its bucket. */
static void leave(const ll_reformer_tile *j) {
    const ll_reformer *x = j->x;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E, slots = 2 * (size_t)x->chunk;
    const size_t buckets = (size_t)x->op->c.approximate.buckets, rows = buckets * slots;
    const ll_bucket_state *s = &j->state;
    if (!s->count) {
        memset(s->count_out, 0, buckets * sizeof(float));
        memset(s->keys_out, 0, rows * D * sizeof(float));
        memset(s->values_out, 0, rows * E * sizeof(float));
    } else if (s->count != s->count_out) {
        memcpy(s->count_out, s->count, buckets * sizeof(float));
        memcpy(s->keys_out, s->keys, rows * D * sizeof(float));
        memcpy(s->values_out, s->values, rows * E * sizeof(float));
    }
    for (size_t a = 0; a < buckets; a++) {
        size_t number = (size_t)s->count_out[a];
        for (int i = j->start[a]; i < j->start[a + 1]; i++, number++) {
            const size_t slot = a * slots + number % slots;
            const int t = j->order[i];
            x->k->scaled(D, j->inverse[t], ll_reformer_at(j, &x->c->q, t), s->keys_out + slot * D);
            memcpy(s->values_out + slot * E, ll_reformer_at(j, &x->c->v, t), E * sizeof(float));
        }
        s->count_out[a] = ll_bucket_count(number, slots);
    }
}

static void forward_head(void *arg, size_t index, int worker) {
    const ll_reformer *x = arg;
    ll_reformer_tile j = ll_reformer_head(x, index, worker);
    const size_t E = (size_t)x->op->c.E;
    for (int t = 0; t < j.capacity; t++) memset(ll_reformer_at(&j, &x->c->y, t), 0, E * sizeof(float));
    for (int t = 0; t < j.n; t++) j.m[t] = -INFINITY, j.l[t] = 0;
    for (int round = 0; round < x->op->c.approximate.rounds; round++) {
        ll_reformer_run r = {0};
        j.state = ll_bucket_state_at(x->op, x->c, j.sequence, j.h, round);
        hash(&j, round);
        ll_reformer_sort(&j, round);
        while (ll_reformer_next(&j, &r)) forward_run(&j, &r);
        if (j.state.count_out) leave(&j);
    }
    for (int t = 0; t < j.n; t++) {
        float *y = ll_reformer_at(&j, &x->c->y, t);
        if (j.l[t] > 0) x->k->scale(E, 1 / j.l[t], y);
        if (!(j.l[t] > 0)) memcpy(y, ll_reformer_at(&j, &x->c->v, t), E * sizeof *y);
        if (x->c->saved) j.lse[t] = j.l[t] > 0 ? j.m[t] + logf(j.l[t]) : INFINITY;
    }
}

/* ---- Calls ---- */

static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    (void)backward;
    return (size_t)c->threads * ll_reformer_of(op, c).scratch;
}

static ll_status shared_out(const ll_attention *op, const ll_attention_call *c, ll_task *task) {
    ll_reformer x = ll_reformer_of(op, c);
    ll_parallel_among(c->threads, (size_t)ll_sequence_count(c) * (size_t)op->c.H, task, &x);
    return LL_OK;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) { return shared_out(op, c, forward_head); }
static ll_status backward(const ll_attention *op, const ll_attention_call *c) {
    return shared_out(op, c, ll_reformer_backward_head);
}

/* ---- The kind ---- */

/* Draws the rotations of the hash, if none are given. They are functions of (seed, layer, head, round). */
static ll_status create(ll_attention *op, const ll_attention_config *engine) {
    const ll_approximate_config *r = &op->c.approximate;
    const size_t n = (size_t)op->D * (size_t)(r->buckets / 2), H = (size_t)op->c.H, rounds = (size_t)r->rounds;
    (void)engine;
    if (r->rotations) return LL_OK;
    float *all = ll_alloc(rounds * H * n, sizeof *all);
    if (!all) return LL_ENOMEM;
    op->c.approximate.rotations = all;
    for (size_t i = 0; i < rounds * H; i++)
        ll_normal_fill(all + i * n, n, r->seed,
                       ll_stream_id(LL_RANDOM_HASH, (uint32_t)r->layer, (uint32_t)(i % H << 8 | i / H)), 0);
    return LL_OK;
}

static int constants(const ll_attention_config *c, ll_constant *list) {
    const ll_approximate_config *r = &c->approximate;
    list[0] = (ll_constant){
        "rotations", LL_F32, r->rounds * c->H * c->D, r->buckets / 2, LL_CONSTANT_AT(approximate.rotations), NULL};
    return 1;
}

static ll_status check(const ll_attention_config *c) {
    enum { BUCKETS_MOST = 1 << 16, CHUNK_MOST = 1 << 12, ROUNDS_MOST = 64 };
    const ll_approximate_config *b = &c->approximate;
    if (b->buckets < 2 || b->buckets > BUCKETS_MOST || b->buckets % 2)
        return ll_fail(LL_EINVAL, "attention: %d buckets, must be an even number from 2 to %d", b->buckets,
                       BUCKETS_MOST);
    if (b->chunk < 1 || b->chunk > CHUNK_MOST || b->rounds < 1 || b->rounds > ROUNDS_MOST)
        return ll_fail(LL_EINVAL, "attention: %d rounds in chunks of %d tokens, must be 1 to %d and 1 to %d", b->rounds,
                       b->chunk, ROUNDS_MOST, CHUNK_MOST);
    return LL_OK;
}

/* Each round hashes a token, which then sees its chunk and the one before: causal, half of its own on average. */
static ll_cost cost(const ll_attention *op, double keys) {
    const ll_approximate_config *r = &op->c.approximate;
    const double row = op->D + op->c.E, seen = fmin(keys, (op->c.causal ? 1.5 : 2) * r->chunk);
    const double bucket = 2.0 * r->chunk * row * sizeof(float) + sizeof(double);
    return (ll_cost){(double)op->c.H * r->rounds * (op->D * (r->buckets / 2) + seen * row),
                     (double)op->c.H * r->rounds * r->buckets * bucket};
}

const ll_operator_kind ll_operator_reformer = {
    .name = "reformer",
    .reads = 1,
    .itself = 1,
    .packs = 1,
    .check = check,
    .constants = constants,
    .create = create,
    .saved = ll_reformer_saved,
    .scratch = scratch,
    .state = ll_bucket_tensors,
    .check_counts = ll_bucket_check,
    .forward = forward,
    .backward = backward,
    .cost = cost,
    .recurrence = &ll_recurrence_reformer,
};
