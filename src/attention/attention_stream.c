/* Streams of operators: creating, feeding and copying them, and their state for files. How tokens are cut into calls
 * changes no bit of an output. */
#include "attention/attention_stream.h"

#include <string.h>

#include "attention/position/premap.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/versioned.h"

enum { WORTH = 1 << 16 /* multiply-adds below which one thread is faster */ };

static const ll_recurrence *recurrence_of(const ll_attention_stream *s) {
    return s->op->kind->recurrence;
}

ll_status ll_attention_can_stream(const ll_attention *op) {
    if (!op->c.causal) return ll_fail(LL_EINVAL, "attention stream: the operator is not causal: it needs later tokens");
    return op->kind->can_stream ? op->kind->can_stream(op) : LL_OK;
}

/* ---- Created ---- */

/* Numbers of q and k after the stage. */
static size_t encoded_floats(const ll_attention_stream *s) {
    return s->op->premap ? 2 * ll_stream_heads(s) * LL_PREMAP_TILE * (size_t)s->op->D : 0;
}

static size_t scratch_floats(const ll_attention_stream *s) {
    return recurrence_of(s)->scratch ? ll_round_up(recurrence_of(s)->scratch(s), LL_LINE) : 0;
}

static ll_status build_stage(ll_attention_stream *s) {
    const ll_status status = ll_premap_stream_create(&s->stage, s->op->premap);
    if (status || !s->op->premap || s->lean) return status;
    s->encoded = ll_alloc(encoded_floats(s), sizeof *s->encoded);
    return s->encoded ? LL_OK : LL_ENOMEM;
}

static ll_status build(ll_attention_stream *s) {
    ll_status status = build_stage(s);
    if (!status && recurrence_of(s)->create) status = recurrence_of(s)->create(s);
    return status ? status : ll_attention_stream_reserve(s, 1);
}

static ll_status create(ll_attention_stream **stream, const ll_attention *op, int B, int lean) {
    ll_status status = ll_attention_can_stream(op);
    if (status) return status;
    if (B < 1) return ll_fail(LL_EINVAL, "attention stream: %d sequences, must be at least 1", B);
    ll_attention_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->op = op;
    s->B = B;
    s->lean = lean;
    status = build(s);
    if (status) {
        ll_attention_stream_free(s);
        return status;
    }
    ll_attention_stream_reset(s);
    *stream = s;
    return LL_OK;
}

ll_status ll_attention_stream_create(ll_attention_stream **stream, const ll_attention *op, int B) {
    return create(stream, op, B, 0);
}

ll_status ll_attention_stream_create_lean(ll_attention_stream **stream, const ll_attention *op, int B) {
    return create(stream, op, B, 1);
}

size_t ll_attention_stream_lent_floats(const ll_attention_stream *s) {
    return ll_round_up(encoded_floats(s), LL_LINE) + scratch_floats(s);
}

void ll_attention_stream_lend(ll_attention_stream *s, float *scratch, int workers) {
    s->encoded = scratch;
    s->pool = scratch + ll_round_up(encoded_floats(s), LL_LINE);
    s->scratch = scratch_floats(s), s->workers = workers;
}

void ll_attention_stream_free(ll_attention_stream *s) {
    if (!s) return;
    if (recurrence_of(s)->free) recurrence_of(s)->free(s);
    ll_premap_stream_free(&s->stage);
    if (!s->lean) {
        ll_free(s->encoded);
        ll_free(s->pool);
    }
    ll_free(s);
}

void ll_attention_stream_reset(ll_attention_stream *s) {
    s->position = 0;
    ll_premap_stream_reset(&s->stage);
    if (recurrence_of(s)->reset) recurrence_of(s)->reset(s);
}

size_t ll_attention_stream_bytes(const ll_attention_stream *s) {
    const size_t own = s->lean ? 0 : (size_t)s->workers * s->scratch + encoded_floats(s);
    const size_t floats = own + ll_premap_stream_floats(&s->stage);
    return sizeof *s + (recurrence_of(s)->bytes ? recurrence_of(s)->bytes(s) : 0) + floats * sizeof(float);
}

/* Scratch for the threads there are now. */
static ll_status ready(ll_attention_stream *s) {
    const int threads = ll_threads();
    if (s->lean || s->workers >= threads) return LL_OK;
    const size_t scratch = scratch_floats(s);
    float *pool = ll_alloc((size_t)threads * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(s->pool);
    s->pool = pool, s->scratch = scratch, s->workers = threads;
    return LL_OK;
}

ll_status ll_attention_stream_reserve(ll_attention_stream *s, int64_t n) {
    ll_status status = recurrence_of(s)->reserve ? recurrence_of(s)->reserve(s, n) : LL_OK;
    if (!status && s->op->premap) status = ll_premap_reaches(s->op->premap, s->position + n);
    return status ? status : ready(s);
}

/* ---- Fed ---- */

void ll_stream_share(double work, int workers, size_t n, ll_task *task, void *arg) {
    if (work >= WORTH) {
        const int threads = ll_threads(); /* fewer than there is scratch for, where the number fell */
        ll_parallel_among(ll_min_int(threads, workers), n, task, arg);
        return;
    }
    for (size_t i = 0; i < n; i++) task(arg, i, 0);
}

void ll_stream_share_heads(ll_feed *f, double rows, ll_task *task) {
    const ll_attention *op = f->s->op;
    const size_t heads = ll_stream_heads(f->s);
    ll_stream_share(rows * f->n * (op->D + op->c.E) * (double)heads, f->s->workers, heads, task, f);
}

/* At most LL_PREMAP_TILE tokens through the stage before the feature map. */
static void encode(const ll_attention_stream *s, ll_feed *f) {
    const ll_attention *op = s->op;
    const size_t side_size = ll_stream_heads(s) * LL_PREMAP_TILE * (size_t)op->D;
    const ll_view in[2] = {f->q, f->key};
    const ll_view out[2] = {ll_view_packed(s->encoded, op->c.H, LL_PREMAP_TILE, op->D),
                            ll_view_packed(s->encoded + side_size, op->c.H, LL_PREMAP_TILE, op->D)};
    ll_premap_stream_encode(&s->stage, s->B, s->position, f->n, in, out);
    f->q = out[LL_QUERY], f->key = out[LL_KEY];
}

ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view gate,
                                   ll_view y) {
    LL_FLOAT_MODE;
    if (gate.data && !s->op->kind->gates)
        return ll_fail(LL_EINVAL, "attention stream: %s has no state that a gate could make decay", s->op->kind->name);
    if (!gate.data && s->op->gated)
        return ll_fail(LL_EINVAL, "attention stream: %s needs a gate for every token", s->op->gated);
    if (n < 0) return ll_fail(LL_EINVAL, "attention stream: %d tokens, must not be negative", n);
    ll_status status = ll_attention_stream_reserve(s, n);
    const int most = s->op->premap ? LL_PREMAP_TILE : n;
    for (int t = 0, now; t < n && !status; t += now) {
        now = ll_min_int(n - t, most);
        ll_feed f = {s, ll_kernel_table(), now, ll_view_from(q, t), ll_view_from(k, t), ll_view_from(v, t),
                     ll_view_from(y, t), ll_view_from(gate, t)};
        if (s->op->premap) encode(s, &f);
        status = recurrence_of(s)->step(&f);
        if (!status) s->position += now;
    }
    return status;
}

/* ---- Prompts, by the tiles of a call ---- */

static ll_status check_prompt(const ll_attention_stream *s, const ll_attention_call *c) {
    const int backward = c->saved || c->dgate.data || c->ddecay || c->dstate_in || c->dstate_out;
    const int more =
        c->lengths || c->query_lengths || c->segment || c->key_mask || c->offsets || c->state_in || c->state_out;
    if (c->B != s->B)
        return ll_fail(LL_EINVAL, "attention stream: a prompt of %d sequences for a stream of %d", c->B, s->B);
    if (c->threads < 0)
        return ll_fail(LL_EINVAL, "attention stream: %d threads; 0 takes those of ll_threads()", c->threads);
    if (!more && !backward) return LL_OK;
    return ll_fail(LL_EINVAL, "attention stream: a prompt is T tokens of each sequence, read forward; leave out "
                              "lengths, segments, masks, offsets, saved, states and gradients");
}

ll_status ll_attention_stream_prefill(ll_attention_stream *s, const ll_attention_call *given) {
    LL_FLOAT_MODE;
    ll_attention_call whole;
    const ll_attention_call *const call = &whole;
    const ll_recurrence *r = recurrence_of(s);
    size_t floats = 0;
    ll_status status = ll_struct_take(&whole, sizeof whole, given, "ll_attention_call");
    if (!status) status = check_prompt(s, call);
    if (status) return status;
    if (!r->load_state || ll_attention_state_floats(s->op, &floats))
        return ll_attention_stream_feed(s, call->T, call->q, call->k, call->v, call->gate, call->y);
    float *state = ll_alloc((size_t)s->B * floats, sizeof *state);
    if (!state) return LL_ENOMEM;
    ll_attention_call c = *call;
    c.S = c.T, c.query_offset = c.key_offset = s->position, c.state_row = 0;
    for (int b = 0; b < s->B; b++) {
        ll_attention_state_clear(s->op, state + (size_t)b * floats);
        if (s->position) r->store_state(s, b, state + (size_t)b * floats);
    }
    c.state_in = c.state_out = state;
    status = ll_attention_forward(s->op, &c);
    if (!status) status = ll_attention_stream_seek(s, s->position + c.T);
    for (int b = 0; b < s->B && !status; b++) r->load_state(s, b, state + (size_t)b * floats);
    ll_free(state);
    return status;
}

/* ---- What a stream remembers ---- */

int ll_attention_stream_state(const ll_attention_stream *s, int64_t position,
                              ll_state_tensor tensor[LL_STATE_TENSORS]) {
    return recurrence_of(s)->state ? recurrence_of(s)->state(s, position, tensor) : 0;
}

/* The stage can compute what it keeps again at any position. */
ll_status ll_attention_stream_seek(ll_attention_stream *s, int64_t position) {
    const int64_t more = position - s->position;
    const ll_status status = more > 0 ? ll_attention_stream_reserve(s, more) : LL_OK;
    if (status) return status;
    ll_attention_stream_reset(s);
    if (recurrence_of(s)->seek) recurrence_of(s)->seek(s, position);
    s->position = position;
    return LL_OK;
}

ll_status ll_attention_stream_check(const ll_attention_stream *s) {
    ll_state_tensor t[LL_STATE_TENSORS];
    if (recurrence_of(s)->check) return recurrence_of(s)->check(s);
    return ll_state_check(t, ll_attention_stream_state(s, s->position, t));
}

ll_status ll_attention_stream_clone(ll_attention_stream **copy, const ll_attention_stream *s) {
    ll_attention_stream *new = NULL;
    ll_state_tensor from[LL_STATE_TENSORS], to[LL_STATE_TENSORS];
    ll_status status = create(&new, s->op, s->B, s->lean);
    if (!status) status = ll_attention_stream_seek(new, s->position);
    if (status) {
        ll_attention_stream_free(new);
        return status;
    }
    const int n = ll_attention_stream_state(s, s->position, from);
    (void)ll_attention_stream_state(new, s->position, to);
    for (int i = 0; i < n; i++) memcpy(to[i].data, from[i].data, ll_state_bytes(&from[i]));
    *copy = new;
    return LL_OK;
}
