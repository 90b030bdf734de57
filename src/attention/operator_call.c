/* Calls of the operator: checks, scratch, the stage before the feature map, and the call of the kind. */
#include <string.h>

#include "attention/position/premap.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/versioned.h"

static ll_status check_call(const ll_attention *op, const ll_attention_call *c) {
    const ll_operator_kind *kind = op->kind;
    if (c->B < 0 || c->T < 0 || c->S < 0) return ll_fail(LL_EINVAL, "attention: a size is negative");
    if (c->threads < 0) return ll_fail(LL_EINVAL, "attention: %d threads; 0 takes those of ll_threads()", c->threads);
    if (op->c.causal && c->S != c->T)
        return ll_fail(LL_EINVAL, "attention: causal needs as many keys as queries, got %d and %d", c->S, c->T);
    if (kind->itself && c->S != c->T)
        return ll_fail(LL_EINVAL, "attention: %s is attention of a sequence to itself, got %d keys for %d queries",
                       kind->name, c->S, c->T);
    if (kind->itself && c->query_lengths)
        return ll_fail(LL_EINVAL, "attention: %s is attention of a sequence to itself; give lengths alone", kind->name);
    if (c->segment) {
        const ll_status status = ll_segments_check(c, op->c.causal || kind->itself);
        if (status) return status;
    }
    for (int b = 0; c->lengths && b < c->B; b++)
        if (c->lengths[b] < 0 || c->lengths[b] > c->S)
            return ll_fail(LL_EINVAL, "attention: length %d of sequence %d is not in 0..%d", c->lengths[b], b, c->S);
    if (op->c.causal && c->query_lengths)
        return ll_fail(LL_EINVAL, "attention: causal sequences have as many queries as keys; give lengths alone");
    for (int b = 0; c->query_lengths && b < c->B; b++)
        if (c->query_lengths[b] < 0 || c->query_lengths[b] > c->T)
            return ll_fail(LL_EINVAL, "attention: query length %d of sequence %d is not in 0..%d", c->query_lengths[b],
                           b, c->T);
    if (!op->features && c->key_mask)
        return ll_fail(LL_EINVAL, "attention: key masks are for linear kernels; give %s lengths", kind->name);
    return LL_OK;
}

static ll_status check_gate(const ll_attention *op, const ll_attention_call *c) {
    if (!c->gate.data && op->gated)
        return ll_fail(LL_EINVAL, "attention: %s needs a gate for every token; the call has none", op->gated);
    if (!c->gate.data && c->dgate.data)
        return ll_fail(LL_EINVAL, "attention: dgate is the gradient of a gate, and the call has none; give a gate of "
                                  "zeros, or no dgate");
    if (!c->gate.data) return LL_OK;
    if (!op->kind->gates || !op->c.causal)
        return ll_fail(LL_EINVAL, "attention: a gate is for causal linear attention; %s has no state that could decay",
                       op->kind->gates ? "attention in both directions" : op->kind->name);
    return LL_OK;
}

/* ---- State ---- */

int ll_call_has_state(const ll_attention_call *c) {
    return c->state_in || c->state_out || c->dstate_in || c->dstate_out;
}

ll_attention_call ll_with_state_rows(const ll_attention *op, const ll_attention_call *call) {
    ll_attention_call c = *call;
    size_t floats = 0;
    if (!c.state_row && ll_call_has_state(&c) && ll_attention_state_floats(op, &floats) == LL_OK) c.state_row = floats;
    return c;
}

/* Positions are counted in 64 bits, and multiplied: this leaves room. */
static int is_position(int64_t offset) { return offset >= 0 && offset <= LL_POSITION_MOST; }

/* A call trusts the counts of a state: they say where in it to read. Its other numbers may be any. */
static ll_status check_counts(const ll_attention *op, const ll_attention_call *c, size_t floats) {
    for (int i = 0; op->kind->check_counts && i < ll_sequence_count(c); i++) {
        const float *state = ll_carried_at(c, floats, i, 0).in;
        if (state && op->kind->check_counts(op, state))
            return ll_fail(LL_EINVAL, "attention: state_in of sequence %d: %s; give what a call of this operator left",
                           i, ll_error());
    }
    return LL_OK;
}

static ll_status check_state(const ll_attention *op, const ll_attention_call *c) {
    size_t floats;
    for (int i = 0; c->offsets && i < ll_sequence_count(c); i++)
        if (!is_position(c->offsets[i]))
            return ll_fail(LL_EINVAL, "attention: positions begin at 0 to 2^52, and those of sequence %d at %lld", i,
                           (long long)c->offsets[i]);
    if (c->offsets && !op->c.causal && !op->kind->itself)
        return ll_fail(LL_EINVAL, "attention: offsets of each sequence are for attention of a sequence to itself; give "
                                  "query_offset and key_offset");
    if (!is_position(c->query_offset) || !is_position(c->key_offset))
        return ll_fail(LL_EINVAL, "attention: positions begin at 0 to 2^52, not at %lld and %lld",
                       (long long)c->query_offset, (long long)c->key_offset);
    if (op->c.causal && c->query_offset != c->key_offset)
        return ll_fail(LL_EINVAL, "attention: causal queries and keys are the same tokens; give them the same offset");
    if (c->dstate_out && !c->state_out)
        return ll_fail(LL_EINVAL, "attention: a gradient at the state that a call leaves needs that state, too");
    if (!ll_call_has_state(c)) return LL_OK;
    if (c->segment && c->states_of_rows && c->state_in && c->state_in == c->state_out)
        return ll_fail(LL_EINVAL, "attention: with states of rows and several sequences in a row, state_out cannot be "
                                  "state_in; give it memory of its own");
    const ll_status status = ll_attention_state_floats(op, &floats);
    if (!status && c->state_row && c->state_row < floats)
        return ll_fail(LL_EINVAL, "attention: states %zu floats apart, and one has %zu", c->state_row, floats);
    return status ? status : check_counts(op, c, floats);
}

/* Rows of a packed batch in which no sequence lies pass their states on, and the gradients of these. */
static void pass_states(const ll_attention *op, const ll_attention_call *c, int backward) {
    size_t floats = 0;
    if (!c->segment || !c->states_of_rows || !ll_call_has_state(c) || ll_attention_state_floats(op, &floats)) return;
    const float *from = backward ? c->dstate_out : c->state_in;
    float *to = backward ? c->dstate_in : c->state_out;
    for (int row = 0, i = 0; to && row < c->B; row++) {
        const size_t at = (size_t)row * (c->state_row ? c->state_row : floats);
        const int empty = i == c->segments || c->segment[i].row != row;
        while (i < c->segments && c->segment[i].row == row) i++;
        if (empty && from) {
            memmove(to + at, from + at, floats * sizeof *to);
        } else if (empty && backward) {
            memset(to + at, 0, floats * sizeof *to);
        } else if (empty) {
            ll_attention_state_clear(op, to + at);
        }
    }
}

/* Floats that the kind saves of a call. A kind that is called for each segment saves a constant for a sequence, numbers
 * for its tokens, and less than 16 floats for each array that is rounded up. So all sequences save no more than
 * sequences of one token and the tokens in whole rows. */
static size_t kind_saved(const ll_attention *op, const ll_attention_call *c) {
    const int sequences = (int)ll_most_sequences(c);
    if (op->kind->packs) return op->kind->saved(op, c->B, c->T, c->S, sequences);
    return op->kind->saved(op, c->B, c->T, c->S, c->B) + (size_t)c->segments * op->kind->saved(op, 1, 1, 1, 1);
}

/* The caller's call, which may be of another version, copied into `own`; NULL: the last error has the reason. */
static const ll_attention_call *known(ll_attention_call *own, const ll_attention_call *call) {
    return ll_struct_take(own, sizeof *own, call, "ll_attention_call") ? NULL : own;
}

size_t ll_attention_saved(const ll_attention *op, const ll_attention_call *call) {
    ll_attention_call own;
    const ll_attention_call *c = known(&own, call);
    return !c ? 0 : ll_premap_floats(op, c->B, c->T, c->S) + kind_saved(op, c);
}

/* ---- Scratch ---- */

/* Scratch of the kind. If it is called for each segment, one segment is no longer than a row. */
static size_t kind_scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_attention_call one = *c;
    if (!op->kind->scratch) return 0;
    if (!op->kind->packs && c->segment) one.B = 1, one.segment = NULL, one.segments = 0;
    return op->kind->scratch(op, &one, backward);
}

/* Encoded queries and keys that are not saved, or their gradients. */
static size_t encoded_floats(const ll_attention *op, const ll_attention_call *c, int backward) {
    return backward || !c->saved ? ll_premap_floats(op, c->B, c->T, c->S) : 0;
}

static int threads_of(const ll_attention_call *c) {
    return c->threads < 1 ? ll_threads() : ll_min_int(c->threads, LL_THREADS_MOST);
}

/* The kind and the stage before it use the same scratch, one after the other. One line more, for alignment. */
size_t ll_attention_scratch(const ll_attention *op, const ll_attention_call *call, int backward) {
    ll_attention_call own, c;
    if (!(call = known(&own, call))) return 0;
    c = *call;
    c.threads = threads_of(&c);
    const size_t stage = op->premap ? ll_premap_scratch(op, &c, backward) : 0;
    return LL_LINE + encoded_floats(op, &c, backward) + ll_max_size(stage, kind_scratch(op, &c, backward));
}

/* The call with scratch, of the caller or its own, that begins at a cache line, and with as many threads as it is
 * for. */
static ll_status with_scratch(const ll_attention *op, const ll_attention_call *call, int backward,
                              ll_attention_call *out, float **own) {
    ll_attention_call c = *call;
    c.threads = threads_of(&c);
    size_t need = ll_attention_scratch(op, &c, backward);
    *own = NULL;
    if (!c.scratch) {
        c.scratch = *own = ll_alloc(need, sizeof *c.scratch);
        if (!*own) return LL_ENOMEM;
        c.scratch_floats = need;
    }
    while (need > c.scratch_floats && c.threads > 1) {
        c.threads--;
        need = ll_attention_scratch(op, &c, backward);
    }
    if (need > c.scratch_floats)
        return ll_fail(LL_EINVAL, "attention: this call takes %zu floats of scratch, not %zu; ask ll_attention_scratch",
                       need, c.scratch_floats);
    const size_t skip = (size_t)(-(uintptr_t)c.scratch / sizeof(float)) % LL_LINE;
    c.scratch += skip, c.scratch_floats -= skip;
    *out = c;
    return LL_OK;
}

/* ---- By the kind ---- */

/* Forward or backward, of rows or of segments. The saved floats of a segment follow those of the segment before. */
static ll_status run(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_status (*const compute)(const ll_attention *, const ll_attention_call *) =
        backward ? op->kind->backward : op->kind->forward;
    ll_status status = LL_OK;
    float *saved = c->saved;
    if (!c->segment || op->kind->packs) return compute(op, c);
    for (int i = 0; i < c->segments && !status; i++) {
        ll_attention_call one = ll_sequence_call(c, i);
        one.saved = saved;
        status = compute(op, &one);
        if (saved) saved += op->kind->saved(op, 1, one.T, one.S, 1);
    }
    return status;
}

ll_status ll_operator_forward(const ll_attention *op, const ll_attention_call *call) {
    LL_FLOAT_MODE;
    ll_attention_call c;
    float *own;
    ll_status status = with_scratch(op, call, 0, &c, &own);
    if (!status) status = run(op, &c, 0);
    ll_free(own);
    return status;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *call) {
    if (!op->premap) return run(op, call, 0);
    const ll_status status = ll_premap_reaches_call(op->premap, call);
    if (status) return status;
    ll_arena a = {.base = call->scratch};
    float *const own = ll_arena_take(&a, encoded_floats(op, call, 0));
    const ll_attention_call rest = ll_inner_call(call, &a);
    const ll_attention_call c = ll_premap_call(op, &rest, call->saved ? call->saved : own);
    ll_premap_forward(op, &rest, &c);
    return run(op, &c, 0);
}

static ll_status backward(const ll_attention *op, const ll_attention_call *call) {
    if (!op->premap) return run(op, call, 1);
    ll_arena a = {.base = call->scratch};
    float *const gradient = ll_arena_take(&a, encoded_floats(op, call, 1));
    const ll_attention_call rest = ll_inner_call(call, &a);
    ll_attention_call c = ll_premap_call(op, &rest, call->saved);
    const ll_attention_call d = ll_premap_call(op, &rest, gradient);
    c.dq = d.q, c.dk = d.k;
    const ll_status status = run(op, &c, 1);
    if (!status) ll_premap_backward(op, &rest, &c);
    return status;
}

ll_status ll_attention_block(const ll_attention *op, const ll_attention_call *call, int backward) {
    LL_FLOAT_MODE;
    ll_attention_call rest = *call;
    rest.threads = ll_threads();
    const size_t encoded = ll_premap_floats(op, call->B, call->T, call->S);
    const size_t stage = op->premap ? ll_premap_scratch(op, &rest, backward) : 0;
    const size_t need = 2 * encoded + LL_LINE + ll_max_size(stage, kind_scratch(op, &rest, backward));
    float *const own = ll_alloc(need, sizeof *own);
    if (!own) return LL_ENOMEM;
    ll_arena a = {.base = own};
    rest.scratch = own + 2 * encoded, rest.scratch_floats = need - 2 * encoded;
    ll_attention_call c = rest;
    if (op->premap) {
        c = ll_premap_call(op, &rest, ll_arena_take(&a, encoded));
        const ll_attention_call gradient = ll_premap_call(op, &rest, ll_arena_take(&a, encoded));
        c.saved = call->saved, c.dq = gradient.q, c.dk = gradient.k;
        ll_premap_forward(op, &rest, &c);
    }
    const ll_status status = run(op, &c, backward);
    if (op->premap && backward && !status) ll_premap_backward(op, &rest, &c);
    ll_free(own);
    return status;
}

static ll_status check_all(const ll_attention *op, const ll_attention_call *call) {
    ll_status status = check_call(op, call);
    if (!status) status = check_gate(op, call);
    return status ? status : check_state(op, call);
}

ll_status ll_attention_forward(const ll_attention *op, const ll_attention_call *call) {
    LL_FLOAT_MODE;
    ll_attention_call whole;
    if (!(call = known(&whole, call))) return LL_EINVAL;
    ll_status status = check_all(op, call);
    if (status) return status;
    ll_attention_call c;
    float *own;
    status = with_scratch(op, call, 0, &c, &own);
    if (call->segment && !status) ll_segments_clear(call, 0, &call->y, op->c.H, op->c.E);
    if (!status) status = forward(op, &c);
    if (!status) pass_states(op, call, 0);
    ll_free(own);
    return status;
}

/* Does a call of the operator save anything? That of value does not. */
static int saves(const ll_attention *op) {
    const ll_attention_call one = {.B = 1, .T = 1, .S = 1};
    return ll_attention_saved(op, &one) > 0;
}

ll_status ll_attention_backward(const ll_attention *op, const ll_attention_call *call) {
    LL_FLOAT_MODE;
    ll_attention_call whole;
    if (!(call = known(&whole, call))) return LL_EINVAL;
    ll_status status = check_all(op, call);
    if (!status && !call->saved && saves(op))
        status = ll_fail(LL_EINVAL, "attention: backward needs what forward saved");
    if (status) return status;
    ll_attention_call c;
    float *own;
    status = with_scratch(op, call, 1, &c, &own);
    if (call->segment && !status) {
        if (call->dq.data) ll_segments_clear(call, 0, &call->dq, op->c.H, op->c.D);
        if (call->dk.data) ll_segments_clear(call, 1, &call->dk, ll_keyed_heads(&op->c), op->c.D);
        ll_segments_clear(call, 1, &call->dv, op->c.H, op->c.E);
        if (call->dgate.data) ll_segments_clear(call, 0, &call->dgate, op->c.H, 1);
    }
    if (!status) status = backward(op, &c);
    if (!status) pass_states(op, call, 1);
    ll_free(own);
    return status;
}
