/* Heads without keys on whole sequences, forward and backward. One head of a row, with all sequences of the row, is one
 * task. The heads with keys are the operator `keyed`, which runs first.
 *
 *   dnum_i = g_i / den_i        dden_i = -<g_i, y_i> / den_i        s_ij = <v_j, dnum_i> + dden_i
 *   da_t = sum_{j: D = t} s_ij,  t < k        da_k = <V, dnum_i> + count dden_i - sum_{j: D < k} s_ij
 *   dv_j = sum_i a_k dnum_i + sum_{i: D < k} (a_D - a_k) dnum_i
 *
 * Saved are what keyed saves, and den_i and the a_k that counted (B, keyless, 2, T). */
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/relative_s2/relative_s2.h"
#include "attention/linear/linear.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    const ll_kernels *k;
    ll_vectors w;
    int tile, first; /* first: of the heads without keys */
    float *saved;    /* or NULL */
    int threads;
    float *pool; /* (threads, scratch) */
    size_t scratch;
    float *dphi, *dvectors; /* (B, keyless, n, ld); (n, D) */
    size_t state, keyed;    /* floats of a sequence's state, and of those the heads' with keys; 0: the call has none */
} keyless_call;

/* One head of one sequence. */
typedef struct {
    const keyless_call *x;
    size_t h;
    int n, s, queries, keys; /* queries and keys in use, and their capacity */
    ll_views at;             /* of this sequence */
    ll_value_rows v;
    float *den, *far;                        /* (T) or NULL */
    float *phi, *work, *dphi, *a, *da, *num; /* (tile, ld) three times, (tile, ldt) twice, (E) */
    double *V;                               /* (E) */
    ll_neighbours near;
    float **dvalue; /* rows of gradients of the neighbours' values; NULL: not wanted */
    int sequence;
    int64_t query, key; /* positions of the first */
    ll_s2_state state;
} head;

static size_t keyed_saved(const ll_attention *op, int B, int T, int S, int segments) {
    const ll_attention_call call = {.B = B, .T = T, .S = S, .segments = segments};
    return ll_s2_has_keys(op) ? ll_round_up(ll_attention_saved(ll_s2_parts(op)->keyed, &call), LL_LINE) : 0;
}

size_t ll_s2_saved(const ll_attention *op, int B, int T, int S, int segments) {
    return keyed_saved(op, B, T, S, segments) + 2 * (size_t)B * (size_t)op->c.encoding.keyless * (size_t)T;
}

/* ---- Heads ---- */

/* Divides the memory of a worker. Without memory it only counts floats. */
static size_t cut(const keyless_call *x, head *j, float *pool) {
    const size_t tile = (size_t)x->tile, E = (size_t)x->op->c.E;
    ll_arena a = {.base = pool};
    j->phi = ll_arena_take(&a, tile * x->w.ld);
    j->work = ll_arena_take(&a, tile * x->w.ld);
    j->dphi = ll_arena_take(&a, tile * x->w.ld);
    j->a = ll_arena_take(&a, tile * x->w.ldt);
    j->da = ll_arena_take(&a, tile * x->w.ldt);
    j->num = ll_arena_take(&a, E);
    j->V = ll_arena_bytes(&a, E, sizeof *j->V);
    ll_neighbours_take(&j->near, x->op, &a);
    j->dvalue = ll_arena_bytes(&a, ll_neighbours_most(x->op), sizeof *j->dvalue);
    return a.used;
}

/* Task number `index`: a row and one of the heads. */
static head head_at(const keyless_call *x, size_t index, int worker) {
    head j = {.x = x, .h = (size_t)x->first + index % (size_t)x->op->c.encoding.keyless};
    cut(x, &j, x->pool + (size_t)worker * x->scratch);
    return j;
}

/* Goes to the next sequence of the task's row. *i: the number of the last (at first -1). Returns 0 if there are no
 * more. */
static int next(head *j, size_t index, int *i) {
    const keyless_call *x = j->x;
    const ll_attention_call *c = x->c;
    const int row = (int)(index / (size_t)x->op->c.encoding.keyless), count = ll_sequence_count(c);
    ll_span s = {.row = -1};
    for (++*i; *i < count && (s = ll_sequence_at(c, *i)).row < row;) ++*i;
    if (s.row != row) return 0; /* behind the last sequence it is less */
    j->at = ll_views_at(c, &s, (int)j->h);
    j->n = s.queries, j->s = s.keys, j->queries = s.query_capacity, j->keys = s.key_capacity;
    j->sequence = *i, j->query = ll_sequence_offset(c, LL_QUERY, *i), j->key = ll_sequence_offset(c, LL_KEY, *i);
    if (x->state) j->state = ll_s2_state_at(x->op, c, x->state, x->keyed, *i, (int)j->h - x->first);
    j->v = (ll_value_rows){.data = j->at.v.data, .token = c->v.token, .begin = j->key - j->state.tokens};
    j->v.first = j->key, j->v.keep = ll_s2_keep(x->op), j->v.token_past = (size_t)x->op->c.E;
    j->v.past = j->state.values, j->v.past_kept = j->state.kept;
    if (c->key_mask) j->v.mask = c->key_mask + (size_t)row * (size_t)c->S + (size_t)s.key;
    if (x->saved) j->den = x->saved + 2 * index * (size_t)c->T + (size_t)s.query, j->far = j->den + c->T;
    return 1;
}

static int keeps(const head *j, int t) { return ll_value_counts(&j->v, j->key + t); }

/* Key t among those seen. */
static void see(const head *j, int t, double *count) {
    const float *v = ll_value_row(&j->v, j->key + t);
    if (!keeps(j, t)) return;
    for (int e = 0; e < j->x->op->c.E; e++) j->V[e] += (double)v[e];
    *count += 1;
}

/* V and the number of keys before the first query. */
static double begin(const head *j) {
    double count = j->state.count;
    memset(j->V, 0, (size_t)j->x->op->c.E * sizeof *j->V);
    if (j->state.sum) memcpy(j->V, j->state.sum, (size_t)j->x->op->c.E * sizeof *j->V);
    for (int t = 0; t < j->s && !j->x->op->c.causal; t++) see(j, t, &count);
    return count;
}

static void forward_sequence(head *j) {
    const keyless_call *x = j->x;
    const ll_attention *op = x->op;
    double count = begin(j);
    ll_zero_rows(&j->at.y, j->n, j->queries, op->c.E);
    for (int t0 = 0; t0 < j->n; t0 += x->tile) {
        const int C = ll_min_int(j->n - t0, x->tile);
        ll_s2_weights(&x->w, op, C, ll_at(&j->at.q, t0), j->at.q.token, j->phi, j->work, j->a, x->w.ldt);
        for (int i = t0; i < t0 + C; i++) {
            const size_t row = (size_t)(i - t0);
            if (op->c.causal) see(j, i, &count);
            ll_neighbours_find(&j->near, op, j->query + i, j->key + j->s, &j->v);
            float far, *y = ll_at(&j->at.y, i), *a = j->a + row * x->w.ldt;
            ll_s2_exponentials(op, x->k, a, &j->near, count);
            const float sum = ll_s2_row(op, x->k, a, &j->near, j->V, count, j->num, &far);
            const float den = ll_s2_divisor(op, sum, j->phi + row * x->w.ld, count);
            x->k->scaled((size_t)op->c.E, ll_inverse(den), j->num, y);
            if (j->den) j->den[i] = den, j->far[i] = far;
        }
    }
    if (x->c->state_out)
        ll_s2_leave(op, x->c, x->state, x->keyed, j->sequence, (int)j->h - x->first, &j->v, j->key, j->s, j->V, count);
}

static void forward_head(void *arg, size_t index, int worker) {
    head j = head_at(arg, index, worker);
    for (int i = -1; next(&j, index, &i);) forward_sequence(&j);
}

/* Where the gradient of a value is: among those of the call, or of the state before it; NULL: not wanted. */
static float *value_gradient(const head *j, int64_t key) {
    if (key >= j->key) return ll_at(&j->at.dv, (size_t)(key - j->key));
    return j->state.dvalues ? j->state.dvalues + (size_t)(key % j->v.keep) * (size_t)j->x->op->c.E : NULL;
}

/* Row i of a tile: makes `a` the weights of the distances, and adds their gradients to da, and those of the neighbours'
 * values. */
static void row_back(head *j, int i, float *a, double count, float *da) {
    const keyless_call *x = j->x;
    const ll_attention *op = x->op;
    const ll_neighbours *near = &j->near;
    const size_t E = (size_t)op->c.E;
    const float *g = ll_at(&j->at.g, i), *y = ll_at(&j->at.y, i);
    const float inverse = ll_inverse(j->den[i]), far = j->far[i];
    const float dden =
        op->c.den == LL_DEN_NONE && op->c.kernel != LL_KERNEL_SOFTMAX ? 0 : -x->k->dot(E, g, y) * inverse;
    double rest = count * (double)dden;
    ll_neighbours_find(&j->near, op, j->query + i, j->key + j->s, &j->v);
    ll_s2_exponentials(op, x->k, a, near, count);
    for (size_t e = 0; e < E; e++) {
        j->num[e] = g[e] * inverse;
        rest += j->V[e] * (double)j->num[e];
    }
    x->k->gather_dots(near->n, E, j->num, near->value, near->number);
    for (int n = 0; n < near->n; n++) {
        const int distance = near->distance[n];
        const float s = near->number[n] + dden;
        da[distance] += s;
        rest -= (double)s;
        near->number[n] = a[distance] - far;
        j->dvalue[n] = value_gradient(j, near->key[n]);
    }
    x->k->scatter(near->n, E, near->number, j->num, j->dvalue);
    if (count > near->n) da[op->c.encoding.clip] += (float)rest;
}

/* From the gradients of the weights of a tile to dq, and to the features of the vectors. */
static void weights_back(const head *j, const ll_feature_tile *tile, int t0, float *dphi_w) {
    const keyless_call *x = j->x;
    const ll_attention *op = x->op;
    const ll_vectors *w = &x->w;
    const int m = ll_s2_parts(op)->map->features, C = tile->C, softmax = op->c.kernel == LL_KERNEL_SOFTMAX;
    const size_t dtoken = j->at.dq.token;
    float *dq = ll_at(&j->at.dq, t0);
    for (int i = 0; i < C && softmax; i++)
        x->k->mul((size_t)w->n, j->a + (size_t)i * w->ldt, j->da + (size_t)i * w->ldt);
    x->k->gemm(w->n, m, C, j->da, 1, w->ldt, j->phi, w->ld, dphi_w, w->ld, 1);
    x->k->gemm(C, m, w->n, j->da, w->ldt, 1, w->phi, w->ld, j->dphi, w->ld, 0);
    for (int i = 0; i < C; i++) {
        float *d = j->dphi + (size_t)i * w->ld;
        if (softmax) {
            x->k->scaled((size_t)m, op->c.input_scale, d, dq + (size_t)i * dtoken);
        } else if (op->c.den == LL_DEN_EPS_PHI) {
            const float *g = ll_at(&j->at.g, t0 + i), *y = ll_at(&j->at.y, t0 + i);
            const float dden = -x->k->dot((size_t)op->c.E, g, y) * ll_inverse(j->den[t0 + i]);
            for (int f = 0; f < m; f++) d[f] += op->c.den_eps * dden;
        }
    }
    if (!softmax) ll_features_back(tile, j->phi, j->dphi, dq, dtoken, NULL);
}

/* Gradients of values as far ones; of near ones, the difference. Queries are taken from the last to the first. */
static void far_back(const head *j) {
    const int E = j->x->op->c.E, causal = j->x->op->c.causal;
    double *G = j->V;
    memset(G, 0, (size_t)E * sizeof *G);
    if (j->state.dsum_out) memcpy(G, j->state.dsum_out, (size_t)E * sizeof *G);
    for (int i = j->n - 1; i >= 0; i--) {
        const float *g = ll_at(&j->at.g, i), weight = j->far[i] * ll_inverse(j->den[i]);
        float *dv = ll_at(&j->at.dv, causal ? i : 0);
        for (int e = 0; e < E; e++) G[e] += (double)(weight * g[e]);
        for (int e = 0; e < E && causal && keeps(j, i); e++) dv[e] += (float)G[e];
    }
    for (int t = 0; t < j->s && !causal; t++) {
        float *dv = ll_at(&j->at.dv, t);
        for (int e = 0; e < E && keeps(j, t); e++) dv[e] += (float)G[e];
    }
    if (j->state.dsum) memcpy(j->state.dsum, G, (size_t)E * sizeof *G);
}

static void backward_sequence(head *j, float *dphi_w) {
    const keyless_call *x = j->x;
    const ll_attention *op = x->op;
    double count = begin(j);
    ll_zero_rows(&j->at.dq, j->n, j->queries, op->c.D);
    ll_zero_rows(&j->at.dv, 0, j->keys, op->c.E);
    if (x->state) ll_s2_gradients(op, &j->state, j->key, j->s, &j->at.dv);
    for (int t0 = 0; t0 < j->n; t0 += x->tile) {
        const int C = ll_min_int(j->n - t0, x->tile);
        const ll_feature_tile tile =
            ll_s2_weights(&x->w, op, C, ll_at(&j->at.q, t0), j->at.q.token, j->phi, j->work, j->a, x->w.ldt);
        memset(j->da, 0, (size_t)C * x->w.ldt * sizeof *j->da);
        for (int i = t0; i < t0 + C; i++) {
            const size_t row = (size_t)(i - t0) * x->w.ldt;
            if (op->c.causal) see(j, i, &count);
            row_back(j, i, j->a + row, count, j->da + row);
        }
        weights_back(j, &tile, t0, dphi_w);
    }
    far_back(j);
}

static void backward_head(void *arg, size_t index, int worker) {
    const keyless_call *x = arg;
    head j = head_at(x, index, worker);
    for (int i = -1; next(&j, index, &i);) backward_sequence(&j, x->dphi + index * (size_t)x->w.n * x->w.ld);
}

/* ---- Calls ---- */

static size_t heads(const keyless_call *x) { return (size_t)x->c->B * (size_t)x->op->c.encoding.keyless; }

/* The heads without keys. Those with keys have used the same scratch before. */
static keyless_call call_of(const ll_attention *op, const ll_attention_call *c, int backward, ll_arena *a) {
    keyless_call x = {.op = op, .c = c, .k = ll_kernel_table(), .tile = ll_attention_tile(op), .threads = c->threads};
    head unused;
    x.first = ll_keyed_heads(&op->c);
    if (ll_call_has_state(c)) {
        size_t floats = 0; /* if there is none, the call was refused */
        if (ll_attention_state_floats(op, &floats) == LL_OK) x.state = floats;
        if (ll_s2_has_keys(op) && ll_attention_state_floats(ll_s2_parts(op)->keyed, &floats) == LL_OK) x.keyed = floats;
    }
    if (c->saved) x.saved = c->saved + keyed_saved(op, c->B, c->T, c->S, ll_sequence_count(c));
    ll_vectors_take(&x.w, op, a);
    x.scratch = cut(&x, &unused, NULL);
    x.pool = ll_arena_take(a, (size_t)x.threads * x.scratch);
    if (!backward) return x;
    x.dphi = ll_arena_take(a, heads(&x) * (size_t)x.w.n * x.w.ld);
    x.dvectors = ll_arena_take(a, (size_t)x.w.n * (size_t)ll_s2_parts(op)->map->c.D);
    return x;
}

size_t ll_s2_scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_arena a = {0};
    (void)call_of(op, c, backward, &a);
    const size_t keyed = ll_s2_has_keys(op) ? ll_attention_scratch(ll_s2_parts(op)->keyed, c, backward) : 0;
    return ll_max_size(keyed, a.used);
}

ll_status ll_s2_forward(const ll_attention *op, const ll_attention_call *call) {
    const ll_attention_call keyed = ll_with_state_rows(op, call);
    const ll_status status = ll_s2_has_keys(op) ? ll_attention_forward(ll_s2_parts(op)->keyed, &keyed) : LL_OK;
    if (status) return status;
    ll_arena a = {.base = call->scratch};
    keyless_call x = call_of(op, call, 0, &a);
    ll_vectors_set(&x.w, op);
    ll_parallel_among(x.threads, heads(&x), forward_head, &x);
    return LL_OK;
}

/* The gradient of the vectors is the sum over rows and heads, in order. */
static void collect(keyless_call *x) {
    const size_t size = (size_t)x->w.n * x->w.ld;
    if (!x->c->dposition.rpe || !heads(x)) return;
    for (size_t at = 0; at < size; at++) {
        double sum = 0;
        for (size_t i = 0; i < heads(x); i++) sum += (double)x->dphi[i * size + at];
        x->dphi[at] = (float)sum;
    }
    ll_vectors_back(&x->w, x->op, x->dphi, x->dvectors, x->c->dposition.rpe);
}

ll_status ll_s2_backward(const ll_attention *op, const ll_attention_call *call) {
    const ll_attention_call keyed = ll_with_state_rows(op, call);
    const ll_status status = ll_s2_has_keys(op) ? ll_attention_backward(ll_s2_parts(op)->keyed, &keyed) : LL_OK;
    if (status) return status;
    ll_arena a = {.base = call->scratch};
    keyless_call x = call_of(op, call, 1, &a);
    ll_vectors_set(&x.w, op);
    memset(x.dphi, 0, heads(&x) * (size_t)x.w.n * x.w.ld * sizeof *x.dphi);
    ll_parallel_among(x.threads, heads(&x), backward_head, &x);
    collect(&x);
    return LL_OK;
}
