/* The state that consecutive windows of a document pass on in training: for each layer and each row of a batch, the
 * state of attention after the tokens before (operator.h). Forward reads `in` and writes `out`; backward reads `in`
 * again. Gradients end at the window (truncated backpropagation through time), but for chunks of one sequence
 * (chunks.c), which pass gradients on, too. */
#include "model/sequence/carry.h"

#include <string.h>

#include "attention/operator.h"
#include "base/memory.h"
#include "model/network.h"

/* Divides a block; without one (base NULL) its floats are only counted. */
static size_t lay_out(ll_carry *c, float *base, int T, int batches) {
    const size_t B = (size_t)c->B;
    ll_arena a = {.base = base};
    c->offset = ll_arena_bytes(&a, B, sizeof *c->offset);
    c->first_offset = ll_arena_bytes(&a, B, sizeof *c->first_offset);
    c->segment_offset = ll_arena_bytes(&a, B * (size_t)T, sizeof *c->segment_offset);
    c->in = ll_arena_take(&a, c->count);
    c->out = ll_arena_take(&a, c->count);
    c->third = batches > 1 ? ll_arena_take(&a, c->count) : NULL;
    return a.used;
}

/* Everything but the memory; gives the bytes of that. */
static ll_status plan(ll_carry *c, size_t *bytes, const ll_model *model, int B, int T, int batches) {
    size_t floats;
    const ll_status status = ll_attention_state_floats(model->attention[0], &floats);
    if (status == LL_EINVAL) return ll_fail_in(LL_EINVAL, "train.carry-state = on");
    if (status) return status;
    *c = (ll_carry){.model = model, .B = B, .floats = floats};
    c->count = (size_t)model->operators * (size_t)B * floats;
    *bytes = lay_out(c, NULL, T, batches) * sizeof(float);
    return LL_OK;
}

ll_status ll_carry_create(ll_carry **out, const ll_model *model, int B, int T, int batches) {
    ll_carry planned;
    size_t bytes = 0;
    const ll_status status = plan(&planned, &bytes, model, B, T, batches);
    if (status) return status;
    ll_carry *c = ll_alloc(1, sizeof *c);
    if (!c) return LL_ENOMEM;
    *c = planned;
    c->block = ll_alloc(bytes, 1);
    if (!c->block) {
        ll_carry_free(c);
        return LL_ENOMEM;
    }
    lay_out(c, c->block, T, batches);
    for (int b = 0; b < B; b++) ll_carry_clear(c, b);
    *out = c;
    return LL_OK;
}

ll_status ll_carry_measure(size_t *bytes, const ll_model *model, int B, int T, int batches) {
    ll_carry planned;
    return plan(&planned, bytes, model, B, T, batches);
}

void ll_carry_free(ll_carry *c) {
    if (!c) return;
    ll_free(c->block);
    ll_free(c);
}

static float *state_at(const ll_carry *c, float *all, int op, int b) {
    return all + ((size_t)op * (size_t)c->B + (size_t)b) * c->floats;
}

void ll_carry_clear(ll_carry *c, int b) {
    for (int op = 0; op < c->model->operators; op++)
        ll_attention_state_clear(c->model->attention[op], state_at(c, c->in, op, b));
}

ll_status ll_carry_check(const ll_carry *c) {
    ll_status status = LL_OK;
    for (int i = 0; i < c->model->operators * c->B && !status; i++)
        status = ll_attention_state_check(c->model->attention[i / c->B], state_at(c, c->in, i / c->B, i % c->B));
    return status;
}

static int separates(const ll_carry *c, int token) {
    const int separator = c->model->c->model.separator;
    return separator >= 0 && token == separator;
}

void ll_carry_take(const ll_carry *c, int b, float *state) {
    for (int op = 0; op < c->model->operators; op++)
        memcpy(state + (size_t)op * c->floats, state_at(c, c->in, op, b), c->floats * sizeof *state);
}

void ll_carry_give(ll_carry *c, int b, const float *state) {
    for (int op = 0; op < c->model->operators; op++)
        memcpy(state_at(c, c->out, op, b), state + (size_t)op * c->floats, c->floats * sizeof *state);
}

void ll_carry_begin(ll_carry *c, const ll_batch *x, const int64_t *before) {
    for (int b = 0; b < x->B; b++) {
        if (c->model->c->model.separator < 0 || !before[b]) c->offset[b] = before[b];
        if (separates(c, x->tokens[(size_t)b * (size_t)x->T])) c->offset[b] = 0;
        if (!c->offset[b]) ll_carry_clear(c, b);
    }
}

void ll_carry_segment(ll_carry *c, int i, const ll_segment *s) {
    c->segment_offset[i] = s->query ? 0 : c->offset[s->row];
}

int64_t ll_carry_after(const ll_carry *c, const int *tokens, int n, int64_t before) {
    int last = n;
    while (last > 0 && !separates(c, tokens[last - 1])) last--;
    return last ? n - (last - 1) : before + n;
}

void ll_carry_advance(ll_carry *c, const ll_batch *x) {
    float *in = c->in;
    c->in = c->out, c->out = in;
    if (in == c->first && c->third) c->out = c->third, c->third = in; /* the step may have to begin again with it */
    for (int b = 0; b < x->B; b++)
        c->offset[b] = ll_carry_after(c, x->tokens + (size_t)b * (size_t)x->T, x->lengths ? x->lengths[b] : x->T,
                                      c->offset[b]);
}

void ll_carry_begin_step(ll_carry *c) {
    c->first = c->in;
    memcpy(c->first_offset, c->offset, (size_t)c->B * sizeof *c->offset);
}

void ll_carry_undo_step(ll_carry *c) {
    if (c->third == c->first) c->third = c->in;
    if (c->out == c->first) c->out = c->in;
    c->in = c->first;
    memcpy(c->offset, c->first_offset, (size_t)c->B * sizeof *c->offset);
}

void ll_workspace_carry(ll_workspace *ws, ll_carry *carry) {
    ws->carry = carry;
}

ll_attention_call ll_carry_call(const ll_carry *c, int op, const ll_attention_call *call) {
    ll_attention_call with = *call;
    with.offsets = call->segment ? c->segment_offset : c->offset;
    with.states_of_rows = 1;
    with.state_in = state_at(c, c->in, op, 0);
    with.state_out = state_at(c, c->out, op, 0);
    if (c->dout) with.dstate_out = state_at(c, c->dout, op, 0);
    if (c->din) with.dstate_in = state_at(c, c->din, op, 0);
    return with;
}
