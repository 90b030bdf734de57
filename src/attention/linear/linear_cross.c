/* Linear attention as the source of cross attention. The cache has the sums of the forward pass, S = sum phi(k) v^T and
 * z = sum phi(k). They are m (E + 1) numbers a head for any length of the source. */
#include "attention/cross_cache.h"
#include "attention/linear/linear.h"
#include "base/memory.h"

typedef struct {
    float *state; /* (H, state floats) */
} sums;

static ll_status can(const ll_attention *op) {
    if (ll_linear_map(op)->phi[LL_QUERY] == LL_PHI_FIXED && op->c.query_max == LL_MAX_SEQUENCE)
        return ll_fail(LL_EINVAL,
                       "cross-attention cache: a query maximum over the sequence needs later queries; use token");
    return LL_OK;
}

static ll_status create(ll_cross_cache *m) {
    sums *own = m->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->state = ll_alloc((size_t)m->op->c.H * ll_state_floats(m->op), sizeof *own->state);
    return own->state ? LL_OK : LL_ENOMEM;
}

static void destroy(ll_cross_cache *m) {
    sums *own = m->own;
    if (own) ll_free(own->state);
    ll_free(own);
}

static size_t scratch(const ll_cross_cache *m) {
    ll_head j = {.op = m->op, .map = ll_linear_map(m->op), .tile = ll_attention_tile(m->op)};
    return ll_bidirectional_floats(&j, 0);
}

static size_t bytes(const ll_cross_cache *m) {
    return (size_t)m->op->c.H * ll_state_floats(m->op) * sizeof(float);
}

static ll_status fill(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const sums *own = m->own;
    const ll_attention_call call = {.B = 1, .S = S, .k = k, .v = v, .saved = own->state};
    return ll_operator_forward(m->op, &call);
}

static int state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const sums *own = m->own;
    (void)S;
    tensor[0] = (ll_state_tensor){"state", LL_F32, 2, {(size_t)m->op->c.H, ll_state_floats(m->op)}, own->state};
    return 1;
}

typedef struct {
    const ll_cross_cache *m;
    int n;
    int64_t first;
    ll_view q, y;
} reading;

static void read_head(void *arg, size_t h, int worker) {
    const reading *r = arg;
    const ll_attention *op = r->m->op;
    const sums *own = r->m->own;
    const ll_span all = {.queries = r->n};
    const ll_attention_call call = {.q = r->q, .y = r->y};
    ll_head j = {.op = op, .map = ll_linear_map(op), .k = ll_kernel_table(), .at = ll_views_at(&call, &all, (int)h)};
    j.h = (int)h;
    j.n = r->n;
    j.first[LL_QUERY] = r->first;
    j.keys = r->m->S;
    j.tile = ll_attention_tile(op);
    j.pool.base = r->m->pool + (size_t)worker * r->m->scratch;
    ll_bidirectional_read(&j, own->state + h * ll_state_floats(op));
}

static ll_status read(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    reading r = {m, n, first, q, y};
    const ll_attention *op = m->op;
    const double work = (double)ll_linear_map(op)->features * n * (op->D + op->c.E) * op->c.H;
    ll_stream_share(work, m->workers, (size_t)op->c.H, read_head, &r);
    return LL_OK;
}

const ll_cross_kind ll_cross_linear = {
    .can = can,
    .create = create,
    .free = destroy,
    .scratch = scratch,
    .bytes = bytes,
    .fill = fill,
    .state = state,
    .read = read,
};
