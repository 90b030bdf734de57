/* The states that are kept before each chunk of a sequence, and the gradient that passes between two chunks. */
#include "attention/operator.h"
#include "base/integer.h"
#include "base/memory.h"
#include "model/sequence/chunks.h"

int ll_chunks_wanted(const ll_model *m, int T) { return m->c->chunk > 0 && T > m->c->chunk; }

/* Divides a block; without one (base NULL) its floats are only counted. */
static size_t lay_out(ll_chunks *c, float *base, int training) {
    const size_t count = (size_t)c->count, state = c->carry.count;
    ll_arena a = {.base = base};
    c->state = ll_arena_take(&a, (count + 1) * state);
    c->gradient = training ? ll_arena_take(&a, 2 * state) : NULL;
    c->before = ll_arena_bytes(&a, count, sizeof *c->before);
    c->carry.offset = ll_arena_bytes(&a, 1, sizeof *c->carry.offset);
    c->carry.segment_offset = ll_arena_bytes(&a, (size_t)c->tokens, sizeof *c->carry.segment_offset);
    return a.used;
}

/* Everything but the memory. */
static ll_status plan(ll_chunks *c, const ll_model *m, int T, int training) {
    size_t floats;
    const ll_status status = ll_attention_state_floats(m->attention[0], &floats);
    if (status) return status;
    *c = (ll_chunks){.tokens = m->c->chunk, .count = ll_ceil_div(T, m->c->chunk)};
    c->carry = (ll_carry){.model = m, .B = 1, .floats = floats, .count = (size_t)m->operators * floats, .within = 1};
    c->bytes = lay_out(c, NULL, training) * sizeof(float);
    return LL_OK;
}

ll_status ll_chunks_create(ll_chunks **out, const ll_model *m, int T, int training) {
    ll_chunks planned;
    const ll_status status = plan(&planned, m, T, training);
    if (status) return status;
    ll_chunks *c = ll_alloc(1, sizeof *c);
    if (!c) return LL_ENOMEM;
    *c = planned;
    c->block = ll_alloc(c->bytes, 1);
    if (!c->block) {
        ll_chunks_free(c);
        return LL_ENOMEM;
    }
    lay_out(c, c->block, training);
    *out = c;
    return LL_OK;
}

void ll_chunks_free(ll_chunks *c) {
    if (!c) return;
    ll_free(c->block);
    ll_free(c);
}

ll_status ll_chunks_measure(size_t *bytes, const ll_model *m, int T, int training) {
    ll_chunks planned;
    const ll_status status = plan(&planned, m, T, training);
    if (!status) *bytes += planned.bytes;
    return status;
}
