/* The state that consecutive windows of a document pass on in training: for each layer and each row of a batch, the
 * state of attention after the tokens before (operator.h). Forward reads `in` and writes `out`; backward reads `in`
 * again. Gradients end at the window (truncated backpropagation through time). */
#include <string.h>

#include "attention/operator.h"
#include "base/memory.h"
#include "model/network.h"

ll_status ll_carry_create(ll_carry **out, const ll_model *model, int B) {
    size_t floats;
    const ll_status status = ll_attention_state_floats(model->attention[0], &floats);
    if (status == LL_EINVAL) return ll_fail_in(LL_EINVAL, "train.carry-state = on");
    if (status) return status;
    ll_carry *c = ll_alloc(1, sizeof *c);
    if (!c) return LL_ENOMEM;
    *c = (ll_carry){.model = model, .B = B, .floats = floats};
    c->count = (size_t)model->operators * (size_t)B * floats;
    c->offset = ll_alloc((size_t)B, sizeof *c->offset);
    c->in = ll_alloc(c->count, sizeof *c->in);
    c->out = ll_alloc(c->count, sizeof *c->out);
    if (!c->offset || !c->in || !c->out) {
        ll_carry_free(c);
        return LL_ENOMEM;
    }
    for (int b = 0; b < B; b++) ll_carry_clear(c, b);
    *out = c;
    return LL_OK;
}

void ll_carry_free(ll_carry *c) {
    if (!c) return;
    ll_free(c->offset);
    ll_free(c->in);
    ll_free(c->out);
    ll_free(c);
}

static float *state_at(const ll_carry *c, float *all, int op, int b) {
    return all + ((size_t)op * (size_t)c->B + (size_t)b) * c->floats;
}

void ll_carry_clear(ll_carry *c, int b) {
    for (int op = 0; op < c->model->operators; op++)
        ll_attention_state_clear(c->model->attention[op], state_at(c, c->in, op, b));
}

void ll_carry_advance(ll_carry *c) {
    float *in = c->in;
    c->in = c->out, c->out = in;
}

void ll_workspace_carry(ll_workspace *ws, ll_carry *carry) {
    ws->carry = carry;
}

static void shift(ll_view *view, int b) {
    if (view->data) view->data += (size_t)b * view->batch;
}

/* Rows b .. b + n - 1 of a call, which have the same offset. */
static ll_attention_call part_of(const ll_carry *c, int op, const ll_attention_call *call, int b, int n, size_t saved) {
    ll_attention_call part = *call;
    ll_view *const views[] = {&part.q,  &part.k,  &part.v,  &part.y,    &part.g,
                              &part.dq, &part.dk, &part.dv, &part.gate, &part.dgate};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) shift(views[i], b);
    part.B = n;
    if (part.lengths) part.lengths += b;
    if (part.saved) part.saved += (size_t)b * saved;
    part.query_offset = part.key_offset = c->offset[b];
    part.state_in = state_at(c, c->in, op, b);
    part.state_out = state_at(c, c->out, op, b);
    return part;
}

ll_status ll_carry_call(const ll_carry *c, int op, const ll_attention_call *call, int backward) {
    const ll_attention *of = c->model->attention[op];
    const ll_attention_call row = {.B = 1, .T = call->T, .S = call->S};
    const size_t saved = call->saved ? ll_attention_saved(of, &row) : 0;
    ll_status status = LL_OK;
    for (int b = 0, n; b < call->B && !status; b += n) {
        for (n = 1; b + n < call->B && c->offset[b + n] == c->offset[b];) n++;
        const ll_attention_call part = part_of(c, op, call, b, n, saved);
        status = backward ? ll_attention_backward(of, &part) : ll_attention_forward(of, &part);
    }
    return status;
}
