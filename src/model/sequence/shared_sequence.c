/* Attention over sequences that several processes share (shared_sequence.h).
 *
 * Causal: part p waits for the state of part p - 1 and sends its own to part p + 1. Backward runs the other way, with
 * the gradients of states.
 *
 * Bidirectional: first each part adds its keys to the state of the parts before it, one part after the other. The last
 * part then has the state of all keys and sends it to all; with it all parts compute their queries, side by side.
 * Backward: the gradients at that state are summed over all parts, and go back through the keys from the last part to
 * the first. */
#include "model/sequence/ring_attention.h"

#include <string.h>

#include "attention/operator.h"
#include "base/memory.h"
#include "model/network.h"

/* States of all sequences of a batch, (B, floats) each. */
typedef struct {
    const ll_attention *op;
    float *in, *out;       /* before and after this part's keys */
    float *all;            /* bidirectional: after the keys of all parts */
    float *keys, *queries; /* ... and what the two calls save for backward, or NULL; of all layers,
                            * if blocks are computed again */
} layer_state;

struct ll_shared {
    ll_sharing how;
    int layers, causal;
    size_t floats; /* floats of one state, the largest of all layers */
    size_t capacity;   /* floats of the states of a batch */
    layer_state *layer;
    float *gradient[2];
    float *block; /* has all states */
    size_t bytes; /* of it */
    ll_ring *ring; /* softmax: in place of all states */
};

static ll_status check_model(const ll_model *m) {
    const int task = m->c->model.task;
    size_t floats;
    if (task != LL_TASK_LM && task != LL_TASK_MLM)
        return ll_fail(LL_EINVAL, "dist.sequence: ranks can share only sequences of tasks lm and mlm");
    if (m->c->model.separator >= 0)
        return ll_fail(LL_EINVAL, "dist.sequence: ranks cannot share sequences of documents (model.separator)");
    if (m->c->model.token_types || m->c->model.mask_token >= 0)
        return ll_fail(LL_EINVAL,
                       "dist.sequence: model.token-types and model.mask-token look at whole sequences, which "
                       "ranks cannot share; set dist.sequence=1");
    for (int i = 0; i < m->operators; i++)
        if (!ll_ring_serves(m->attention[i]) && ll_attention_state_floats(m->attention[i], &floats))
            return ll_fail(LL_EINVAL, "dist.sequence: attention.kernel = %s: %s",
                           ll_kernel_at(m->c->attention.kernel)->name, ll_error());
    return LL_OK;
}

/* Divides a block; without one (base NULL) its floats are only counted. Layers that are computed again share what their
 * calls save. */
static size_t lay_out(ll_shared *s, float *base, const ll_workspace *ws) {
    const ll_attention_call keys = {.B = ws->B, .S = ws->T}, queries = {.B = ws->B, .T = ws->T};
    const int saves = !s->causal && ws->mode == LL_TRAIN;
    ll_arena a = {.base = base};
    for (int i = 0; i < s->layers; i++) {
        layer_state *l = &s->layer[i];
        const int own = ws->keeps || !i;
        l->in = ll_arena_take(&a, s->capacity);
        l->out = ll_arena_take(&a, s->capacity);
        l->all = s->causal ? NULL : ll_arena_take(&a, s->capacity);
        if (!saves) continue;
        l->keys = own ? ll_arena_take(&a, ll_attention_saved(l->op, &keys)) : s->layer->keys;
        l->queries = own ? ll_arena_take(&a, ll_attention_saved(l->op, &queries)) : s->layer->queries;
    }
    for (int i = 0; i < 2; i++) s->gradient[i] = ll_arena_take(&a, s->capacity);
    return a.used;
}

static ll_status plan_states(ll_shared *s, const ll_workspace *ws) {
    ll_status status = LL_OK;
    for (int i = 0; i < s->layers && !status; i++) {
        size_t floats = 0;
        status = ll_attention_state_floats(s->layer[i].op, &floats);
        if (floats > s->floats) s->floats = floats;
    }
    s->capacity = s->floats * (size_t)ws->B;
    if (!status) s->bytes = lay_out(s, NULL, ws) * sizeof(float);
    return status;
}

/* Everything but the memory that calls use. */
static ll_status plan(ll_shared **shared, const ll_workspace *ws) {
    const ll_model *m = ws->model;
    const int layers = ws->stack->layers;
    ll_shared *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    *s = (ll_shared){.layers = layers, .causal = ws->stack->causal};
    s->layer = ll_alloc((size_t)layers, sizeof *s->layer);
    ll_status status = s->layer ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < layers && !status; i++) s->layer[i].op = m->attention[ll_operator_of(ws->stack, i, 0)];
    if (!status && ll_ring_serves(s->layer->op))
        s->bytes = ll_ring_bytes(s->layer->op, ws->B, ws->T);
    else if (!status)
        status = plan_states(s, ws);
    if (status) {
        ll_shared_free(s);
        return status;
    }
    *shared = s;
    return LL_OK;
}

static ll_status allocate(ll_shared *s, const ll_workspace *ws) {
    const ll_attention *op = s->layer->op;
    if (ll_ring_serves(op)) return ll_ring_create(&s->ring, &s->how, op, ws->B, ws->T, ws->mode == LL_TRAIN);
    s->block = ll_alloc(s->bytes, 1);
    if (!s->block) return LL_ENOMEM;
    lay_out(s, s->block, ws);
    return LL_OK;
}

static ll_status make(ll_shared **shared, const ll_workspace *ws, const ll_sharing *how) {
    ll_shared *s = NULL;
    ll_status status = plan(&s, ws);
    if (status) return status;
    s->how = *how;
    status = allocate(s, ws);
    if (status) {
        ll_shared_free(s);
        return status;
    }
    *shared = s;
    return LL_OK;
}

void ll_shared_free(ll_shared *s) {
    if (!s) return;
    ll_ring_free(s->ring);
    ll_free(s->layer);
    ll_free(s->block);
    ll_free(s);
}

ll_status ll_workspace_share(ll_workspace *ws, const ll_sharing *how) {
    const ll_model_config *c = ws->model->c;
    ll_status status = check_model(ws->model);
    if (!status && ws->chunks)
        status = ll_fail(LL_EINVAL,
                         "dist.sequence: each rank has more than train.chunk = %d tokens of a sequence, and the parts "
                         "of ranks do not go in chunks; set train.chunk=0, or start more ranks",
                         c->chunk);
    if (!status && (int64_t)ws->T * how->parts > ll_position_limit(&c->position))
        status = ll_fail(LL_EINVAL, "%lld tokens, but the model has learned positions for %d (position.max-length)",
                         (long long)ws->T * how->parts, (int)ll_position_limit(&c->position));
    if (!status) status = make(&ws->shared, ws, how);
    if (!status && ws->sinus) ll_sinus(ws->model, ws->sinus, ws->T, (int64_t)how->part * ws->T);
    return status;
}

ll_status ll_shared_measure(const ll_workspace *ws, size_t *bytes) {
    ll_shared *s = NULL;
    ll_status status = check_model(ws->model);
    if (!status) status = plan(&s, ws);
    if (!status) *bytes += s->bytes;
    ll_shared_free(s);
    return status;
}

int64_t ll_shared_offset(const ll_shared *s, int T) { return s ? (int64_t)s->how.part * T : 0; }

/* ---- States from one part to the next ---- */

static size_t count_of(const ll_shared *s, const ll_attention_call *c) { return s->floats * (size_t)c->B; }

/* Receives the state of the part before. The first part keeps its own, which is zero. */
static ll_status take(const ll_shared *s, const ll_attention_call *c, float *x, int from) {
    const int there = from >= 0 && from < s->how.parts;
    return there ? s->how.receive(s->how.arg, x, count_of(s, c), from) : LL_OK;
}

static ll_status give(const ll_shared *s, const ll_attention_call *c, const float *x, int to) {
    const int there = to >= 0 && to < s->how.parts;
    return there ? s->how.send(s->how.arg, x, count_of(s, c), to) : LL_OK;
}

static ll_attention_call with_state(const ll_shared *s, const ll_attention_call *call, float *in, float *out) {
    ll_attention_call c = *call;
    c.state_in = in, c.state_out = out;
    c.state_row = s->floats;
    c.scratch = NULL, c.scratch_floats = 0; /* the memory is that of calls without states */
    c.query_offset = c.key_offset = ll_shared_offset(s, call->T);
    return c;
}

/* A call whose states go from one part to the next. */
static ll_status chain_forward(const ll_shared *s, const layer_state *l, const ll_attention_call *call) {
    const int part = s->how.part;
    ll_status status = take(s, call, l->in, part - 1);
    if (!status) status = ll_attention_forward(l->op, call);
    return status ? status : give(s, call, l->out, part + 1);
}

/* last: the gradient at the state that the last part leaves, or NULL. */
static ll_status chain_backward(const ll_shared *s, const layer_state *l, ll_attention_call *call, const float *last) {
    const int part = s->how.part, ends = part + 1 == s->how.parts;
    ll_status status = take(s, call, s->gradient[0], part + 1);
    call->dstate_out = ends ? last : s->gradient[0];
    call->dstate_in = s->gradient[1];
    if (!status) status = ll_attention_backward(l->op, call);
    return status ? status : give(s, call, s->gradient[1], part - 1);
}

/* ---- Calls ---- */

/* A call that sees no tokens of other parts, or sees to them itself. */
static ll_attention_call own_call(const ll_shared *s, const ll_attention_call *call) {
    ll_attention_call c = *call;
    c.query_offset = c.key_offset = ll_shared_offset(s, call->T);
    return c;
}

static float *state_before(const ll_shared *s, const layer_state *l) { return s->how.part ? l->in : NULL; }

/* Bidirectional: a call for the keys, then a call for the queries. */
static ll_attention_call keys_call(const ll_shared *s, const layer_state *l, const ll_attention_call *call) {
    ll_attention_call c = with_state(s, call, state_before(s, l), l->out);
    c.T = 0;
    c.saved = l->keys;
    c.query_lengths = NULL;
    return c;
}

static ll_attention_call queries_call(const ll_shared *s, const layer_state *l, const ll_attention_call *call) {
    ll_attention_call c = with_state(s, call, l->all, NULL);
    c.S = 0;
    c.saved = l->queries;
    c.query_lengths = call->lengths;
    c.lengths = NULL;
    return c;
}

/* The states came already, and have left. */
static ll_status forward_again(const ll_shared *s, const layer_state *l, const ll_attention_call *call) {
    if (s->causal) {
        const ll_attention_call c = with_state(s, call, state_before(s, l), l->out);
        return ll_attention_forward(l->op, &c);
    }
    const ll_attention_call keys = keys_call(s, l, call), queries = queries_call(s, l, call);
    const ll_status status = ll_attention_forward(l->op, &keys);
    return status ? status : ll_attention_forward(l->op, &queries);
}

ll_status ll_shared_forward(const ll_shared *s, int layer, const ll_attention_call *call, int again) {
    const layer_state *l = &s->layer[layer];
    if (s->ring) {
        const ll_attention_call c = own_call(s, call);
        return ll_ring_forward(s->ring, l->op, &c);
    }
    if (!s->floats) { /* value: a token is all it looks at */
        const ll_attention_call c = own_call(s, call);
        return ll_attention_forward(l->op, &c);
    }
    if (again) return forward_again(s, l, call);
    if (s->causal) {
        const ll_attention_call c = with_state(s, call, state_before(s, l), l->out);
        return chain_forward(s, l, &c);
    }
    const ll_attention_call keys = keys_call(s, l, call), queries = queries_call(s, l, call);
    ll_status status = chain_forward(s, l, &keys);
    if (!status && s->how.part + 1 == s->how.parts) memcpy(l->all, l->out, count_of(s, call) * sizeof *l->all);
    if (!status) status = s->how.broadcast(s->how.arg, l->all, count_of(s, call), s->how.parts - 1);
    return status ? status : ll_attention_forward(l->op, &queries);
}

ll_status ll_shared_backward(const ll_shared *s, int layer, const ll_attention_call *call) {
    const layer_state *l = &s->layer[layer];
    if (s->ring) {
        const ll_attention_call c = own_call(s, call);
        return ll_ring_backward(s->ring, l->op, &c);
    }
    if (!s->floats) {
        const ll_attention_call c = own_call(s, call);
        return ll_attention_backward(l->op, &c);
    }
    if (s->causal) {
        ll_attention_call c = with_state(s, call, state_before(s, l), l->out);
        return chain_backward(s, l, &c, NULL);
    }
    ll_attention_call keys = keys_call(s, l, call), queries = queries_call(s, l, call);
    queries.dstate_in = s->gradient[0];
    ll_status status = ll_attention_backward(l->op, &queries);
    if (!status) status = s->how.sum(s->how.arg, s->gradient[0], count_of(s, call));
    return status ? status : chain_backward(s, l, &keys, s->gradient[0]);
}
