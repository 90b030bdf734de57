/* Reformer, backward: the runs of each round again, and the gradient at the state. */
#include <math.h>
#include <string.h>

#include "attention/approximate/reformer_tile.h"
#include "base/integer.h"

/* Adds dk of k = q / |q| (destroyed) and dv to the gradients of token t. */
static void give(const ll_reformer_tile *j, int t, const float *k, float *dk, const float *dv) {
    const ll_reformer *x = j->x;
    const size_t D = (size_t)x->op->D;
    x->k->axpy(D, -x->k->dot(D, k, dk), k, dk);
    x->k->axpy(D, j->inverse[t], dk, ll_reformer_at(j, &x->c->dq, t));
    x->k->add((size_t)x->op->c.E, dv, ll_reformer_at(j, &x->c->dv, t));
}

/* The gradients of keys and values that come through the state after the call: of its own tokens, and of the state
 * before it. */
static void begin_gradients(const ll_reformer_tile *j) {
    const ll_reformer *x = j->x;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E, slots = 2 * (size_t)x->chunk;
    const ll_bucket_state *s = &j->state;
    if (s->dcount) memset(s->dcount, 0, (size_t)x->op->c.approximate.buckets * sizeof *s->dcount);
    for (size_t a = 0; a < (size_t)x->op->c.approximate.buckets; a++) {
        const size_t past = (size_t)ll_reformer_past_of(j, (int)a), own = (size_t)(j->start[a + 1] - j->start[a]);
        const size_t kept = ll_min_size(own, slots); /* of its own, the last */
        for (size_t i = 0; i < slots; i++) {
            const size_t slot = a * slots + (past + own - kept + i) % slots, passes = i >= kept && s->dkeys_out;
            if (i < kept && s->dkeys_out) {
                const int t = j->order[(size_t)j->start[a + 1] - kept + i];
                x->k->scaled(D, j->inverse[t], ll_reformer_at(j, &x->c->q, t), j->k);
                memcpy(j->dk, s->dkeys_out + slot * D, D * sizeof *j->dk);
                give(j, t, j->k, j->dk, s->dvalues_out + slot * E);
            }
            if (!s->dkeys) continue;
            memset(s->dkeys + slot * D, 0, D * sizeof(float));
            memset(s->dvalues + slot * E, 0, E * sizeof(float));
            if (passes) memcpy(s->dkeys + slot * D, s->dkeys_out + slot * D, D * sizeof(float));
            if (passes) memcpy(s->dvalues + slot * E, s->dvalues_out + slot * E, E * sizeof(float));
        }
    }
}

/* Adds gradients of the run's keys and values to those of their tokens, or of the state. */
static void scatter(const ll_reformer_tile *j, const ll_reformer_run *r) {
    const ll_reformer *x = j->x;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    for (int i = 0; i < r->back + r->rows; i++) {
        size_t slot;
        const int t = ll_reformer_key_at(j, r, i, &slot);
        float *dk = j->dk + (size_t)i * x->ldd;
        const float *dv = j->dv + (size_t)i * x->lde;
        if (t >= 0) {
            give(j, t, j->k + (size_t)i * x->ldd, dk, dv);
        } else if (j->state.dkeys) {
            x->k->add(D, dk, j->state.dkeys + slot * D);
            x->k->add(E, dv, j->state.dvalues + slot * E);
        }
    }
}

static void backward_run(const ll_reformer_tile *j, const ll_reformer_run *r) {
    const ll_reformer *x = j->x;
    const int D = x->op->D, E = x->op->c.E, keys = r->back + r->rows;
    ll_reformer_logits(j, r);
    x->k->transpose(keys, E, j->v, x->lde, j->vt, x->lds);
    for (int i = 0; i < r->rows; i++) {
        const int t = j->order[r->from + i];
        float *row = j->P + (size_t)i * x->lds, *g = j->g + (size_t)i * x->lde;
        memcpy(g, ll_reformer_at(j, &x->c->g, t), (size_t)E * sizeof *g);
        ll_reformer_exponentials(j, r, i, j->lse[t], row);
    }
    x->k->gemm(r->rows, keys, E, j->g, x->lde, 1, j->vt, x->lds, j->dP, x->lds, 0);
    x->k->gemm(keys, E, r->rows, j->P, 1, x->lds, j->g, x->lde, j->dv, x->lde, 0);
    for (int i = 0; i < r->rows; i++) {
        const float *y = ll_reformer_at(j, &x->c->y, j->order[r->from + i]);
        const float delta = x->k->dot((size_t)E, j->g + (size_t)i * x->lde, y);
        x->k->softmax_back((size_t)keys, delta, j->P + (size_t)i * x->lds, j->dP + (size_t)i * x->lds);
    }
    x->k->gemm(keys, D, r->rows, j->dP, 1, x->lds, j->q, x->ldd, j->dk, x->ldd, 0);
    x->k->gemm(r->rows, D, keys, j->dP, x->lds, 1, j->k, x->ldd, j->q, x->ldd, 0); /* now dq */
    for (int i = 0; i < r->rows; i++)
        x->k->axpy((size_t)D, x->op->c.input_scale, j->q + (size_t)i * x->ldd,
                   ll_reformer_at(j, &x->c->dq, j->order[r->from + i]));
    scatter(j, r);
}

void ll_reformer_backward_head(void *arg, size_t index, int worker) {
    const ll_reformer *x = arg;
    ll_reformer_tile j = ll_reformer_head(x, index, worker);
    const ll_attention_call *c = x->c;
    const size_t D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    for (int t = 0; t < j.capacity; t++) {
        memset(ll_reformer_at(&j, &c->dq, t), 0, D * sizeof(float));
        memset(ll_reformer_at(&j, &c->dv, t), 0, E * sizeof(float));
        if (c->dk.data) memset(ll_reformer_at(&j, &c->dk, t), 0, D * sizeof(float));
    }
    for (int round = 0; round < x->op->c.approximate.rounds; round++) {
        ll_reformer_run r = {0};
        j.state = ll_bucket_state_at(x->op, x->c, j.sequence, j.h, round);
        ll_reformer_sort(&j, round);
        begin_gradients(&j);
        while (ll_reformer_next(&j, &r)) backward_run(&j, &r);
    }
    for (int t = 0; t < j.n; t++) /* tokens that see nothing */
        if (isinf(j.lse[t])) x->k->add(E, ll_reformer_at(&j, &c->g, t), ll_reformer_at(&j, &c->dv, t));
}
