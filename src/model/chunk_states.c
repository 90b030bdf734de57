/* The states that are kept before each chunk of a sequence, and the gradient that passes between two chunks. */
#include "attention/operator.h"
#include "base/integer.h"
#include "base/memory.h"
#include "model/chunks.h"

int ll_chunks_wanted(const ll_model *m, int T) { return m->c->chunk > 0 && T > m->c->chunk; }

/* Floats of one state of all layers, and of all memory for a sequence of T tokens. */
static ll_status measure(const ll_model *m, int T, int training, size_t *state, size_t *all) {
    const ll_status status = ll_attention_state_floats(m->attention[0], state);
    if (status) return status;
    *state *= (size_t)m->operators;
    *all = *state * ((size_t)ll_ceil_div(T, m->c->chunk) + 1 + (training ? 2 : 0));
    return LL_OK;
}

ll_status ll_chunks_create(ll_chunks **out, const ll_model *m, int T, int training) {
    size_t state, all;
    const ll_status status = measure(m, T, training, &state, &all);
    if (status) return status;
    ll_chunks *c = ll_alloc(1, sizeof *c);
    if (!c) return LL_ENOMEM;
    *c = (ll_chunks){.tokens = m->c->chunk, .count = ll_ceil_div(T, m->c->chunk), .bytes = all * sizeof(float)};
    c->carry = (ll_carry){.model = m, .B = 1, .floats = state / (size_t)m->operators, .count = state, .within = 1};
    c->state = ll_alloc(all, sizeof *c->state);
    c->before = ll_alloc((size_t)c->count, sizeof *c->before);
    c->carry.offset = ll_alloc(1, sizeof *c->carry.offset);
    c->carry.segment_offset = ll_alloc((size_t)c->tokens, sizeof *c->carry.segment_offset);
    if (!c->state || !c->before || !c->carry.offset || !c->carry.segment_offset) {
        ll_chunks_free(c);
        return LL_ENOMEM;
    }
    if (training) c->gradient = c->state + state * ((size_t)c->count + 1);
    *out = c;
    return LL_OK;
}

void ll_chunks_free(ll_chunks *c) {
    if (!c) return;
    ll_free(c->state);
    ll_free(c->before);
    ll_free(c->carry.offset);
    ll_free(c->carry.segment_offset);
    ll_free(c);
}

ll_status ll_chunks_measure(size_t *bytes, const ll_model *m, int T, int training) {
    size_t state, all;
    const ll_status status = measure(m, T, training, &state, &all);
    if (!status) *bytes += all * sizeof(float);
    return status;
}
