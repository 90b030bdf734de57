/* train.chunk: a sequence goes through the network in chunks of tokens. Memory for activations is that of one chunk,
 * whatever the length; attention's state is what one chunk leaves to the next.
 *
 *   forward    chunks 0 .. n-2 in order. The state before each chunk is kept, and nothing else.
 *   backward   chunks n-1 .. 0. The chunk goes forward again from its state; then come its loss and its gradient, which
 *              begins with the gradient at the state that it left, and gives the one at the state that it took.
 *
 * So the gradient is that of the whole sequence: backpropagation through time with checkpoints of the state (Gruslys et
 * al. 2016). It costs one more forward pass, without the last layer's part above attention. The sequences of a batch
 * follow one another. */
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "model/layer/head_layers.h"
#include "model/layer/soft_loss.h"
#include "model/sequence/chunks.h"

/* One sequence of a batch on its way through the network. */
typedef struct {
    const ll_model *model;
    ll_workspace *ws;
    const ll_batch *batch;
    int row, chunks;
    ll_carry *outer;     /* states that windows pass on (train.carry-state), or NULL */
    int64_t part, parts; /* of the sequence, for the report of progress */
    float *grad;
    float scale;
    int64_t draw;
    ll_tally *tally;
} sequence;

/* ---- One sequence ---- */

static int first_of(const sequence *s, int i) { return i * s->ws->chunks->tokens; }

static int length_of(const sequence *s) { return s->batch->lengths ? s->batch->lengths[s->row] : s->batch->T; }

/* Chunk i as a batch of one row; *length is its length. */
static ll_batch chunk_of(const sequence *s, int i, int *length) {
    const ll_batch *x = s->batch;
    const int first = first_of(s, i), left = x->T - first, n = ll_min_int(left, s->ws->chunks->tokens);
    const size_t at = (size_t)s->row * (size_t)x->T + (size_t)first;
    *length = ll_min_int(n, length_of(s) - first);
    return (ll_batch){.B = 1,
                      .T = n,
                      .tokens = x->tokens + at,
                      .targets = x->targets ? x->targets + at : NULL,
                      .lengths = length,
                      .first = x->first + s->row};
}

/* Sets how many tokens of its document come before each chunk, and the state before the first one. */
static void locate(const sequence *s) {
    ll_chunks *c = s->ws->chunks;
    int64_t before = s->outer ? s->outer->offset[s->row] : 0;
    c->carry.in = c->state;
    if (s->outer) {
        ll_carry_take(s->outer, s->row, c->state);
    } else {
        ll_carry_clear(&c->carry, 0);
    }
    for (int i = 0; i < s->chunks; i++) {
        int length;
        const ll_batch x = chunk_of(s, i, &length);
        c->before[i] = before;
        before = ll_carry_after(&c->carry, x.tokens, length, before);
    }
}

/* Which part of the work of this batch chunk i is, for ll_model_watch. With gradients every chunk goes forward, which
 * is one part; then, from the last chunk on, each goes forward and back, which takes four times as long. */
static void report_chunk(const sequence *s, int i, int back) {
    const int64_t n = s->ws->chunks->count, parts = s->grad ? 5 * n : n;
    const int64_t at = back ? n + 4 * (s->chunks - 1 - i) : i;
    ll_workspace_part(s->ws, s->part * parts + at, s->parts * parts);
    s->ws->span = back ? 4 : 1;
}

/* Chunk i through the network. grad: NULL, or training, which goes back if `back`. */
static ll_status run_chunk(const sequence *s, int i, int back) {
    ll_workspace *ws = s->ws;
    ll_chunks *c = ws->chunks;
    int length;
    const ll_batch x = chunk_of(s, i, &length);
    c->carry.in = c->state + (size_t)i * c->carry.count;
    c->carry.out = c->carry.in + c->carry.count;
    c->carry.offset[0] = c->before[i];
    report_chunk(s, i, back);
    ll_carry_begin(&c->carry, &x, &c->before[i]);
    ll_batch_run run = ll_network_begin(s->model, ws, &x);
    run.position = first_of(s, i);
    run.grad = s->grad;
    run.draw = s->draw;
    if (s->grad && !back) run.reads = LL_READS_NONE; /* but for its states */
    ll_status status = ll_network_forward(&run);
    if (status || run.reads == LL_READS_NONE) return status;
    float *const each = s->tally->each;
    if (each) s->tally->each = each + (size_t)s->row * (size_t)s->batch->T + (size_t)first_of(s, i);
    ll_head_loss(&run, x.targets, s->scale, s->tally);
    s->tally->each = each;
    return s->grad ? ll_network_backward(&run) : LL_OK;
}

/* The gradient at the state before a chunk becomes that after the chunk before it. */
static void pass_gradient(ll_chunks *c) {
    float *const next = c->carry.din;
    c->carry.din = c->carry.dout ? c->carry.dout : c->gradient + c->carry.count;
    c->carry.dout = next;
    if (!c->carry.offset[0]) memset(next, 0, c->carry.count * sizeof *next); /* a document began */
}

static ll_status run_sequence(const sequence *s, int last) {
    ll_workspace *ws = s->ws;
    ll_chunks *c = ws->chunks;
    ll_ready_fn *const ready = ws->ready;
    ll_status status = LL_OK;
    locate(s);
    c->carry.dout = NULL;
    c->carry.din = c->gradient;
    for (int i = 0; i < s->chunks - (s->grad != NULL) && !status; i++) status = run_chunk(s, i, 0);
    ws->ready = NULL;
    for (int i = s->chunks; s->grad && i-- > 0 && !status;) {
        if (!i && last) ws->ready = ready; /* the gradients of blocks are complete only now */
        status = run_chunk(s, i, 1);
        pass_gradient(c);
    }
    ws->ready = ready;
    if (!status && s->outer) ll_carry_give(s->outer, s->row, c->state + (size_t)s->chunks * c->carry.count);
    return status;
}

static ll_status run_chunks(const ll_model *m, ll_workspace *ws, const ll_batch *batch, float *grad, float scale,
                            int64_t draw, ll_tally *tally) {
    ll_carry *const outer = ws->carry;
    const int64_t part = ws->part, parts = ws->parts;
    ll_chunks *c = ws->chunks;
    sequence s = {.model = m, .ws = ws, .batch = batch, .outer = outer, .grad = grad, .scale = scale, .draw = draw};
    ll_status status = LL_OK;
    s.tally = tally;
    s.parts = parts * batch->B;
    c->carry.within = !outer;
    ws->carry = &c->carry;
    for (s.row = 0; s.row < batch->B && !status; s.row++) {
        const int length = length_of(&s);
        s.part = part * batch->B + s.row;
        s.chunks = length ? ll_ceil_div(length, c->tokens) : 1;
        status = run_sequence(&s, s.row + 1 == batch->B);
    }
    ll_workspace_part(ws, part, parts);
    ws->carry = outer;
    return status;
}

ll_status ll_model_run(const ll_model *m, ll_workspace *ws, const ll_batch *batch, float *grad, float scale,
                       int64_t draw, ll_tally *tally) {
    LL_FLOAT_MODE;
    return ws->chunks ? run_chunks(m, ws, batch, grad, scale, draw, tally)
                      : ll_model_run_soft(m, ws, batch, NULL, grad, scale, draw, tally);
}
