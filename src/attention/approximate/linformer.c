/* Linformer (Wang et al. 2020): keys and values of a sequence are mixed to `rank` keys and values, and queries attend
 * to these by softmax.
 *
 *   K' = E^T K (rank x D)        V' = F^T V (rank x E)        y_i = softmax(scale <q_i, K'>) V'
 *
 * E and F (length, rank) are learnt, and all heads of a layer share them. Row j belongs to token j. So sequences have a
 * longest length, and every row of K' contains every token. Tokens after the end of a sequence are not in K' and V'.
 * This file computes K' and V'. Exact attention (op->own) on these rank keys follows, sequence by sequence. */
#include <math.h>
#include <string.h>

#include "attention/exact/exact.h"
#include "attention/parameter.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/parallel.h"

enum { TOKENS = 128 }; /* that are mixed together */

/* One side of it: keys by E, or values by F. */
typedef struct {
    const ll_attention_call *c;
    const ll_kernels *k;
    const float *weight; /* (length, rank) */
    float *dweight;
    ll_view in, din;   /* (B, H, S, width) */
    float *mixed;      /* (B, H, rank, width), or its gradient */
    float *transposed; /* (B, H, width, rank) */
    int H, rank, width;
} side;

static size_t mixed_floats(const ll_attention *op, int B, int width) {
    return ll_round_up((size_t)B * (size_t)op->c.H * (size_t)op->c.approximate.rank * (size_t)width, LL_LINE);
}

static side side_of(const ll_attention *op, const ll_attention_call *c, int keys, float *mixed) {
    const ll_approximate_config *l = &op->c.approximate;
    side x = {.c = c, .k = ll_kernel_table(), .mixed = mixed, .H = op->c.H, .rank = l->rank};
    x.weight = keys ? l->linformer_k : l->linformer_v;
    x.dweight = keys ? c->dapproximate.linformer_k : c->dapproximate.linformer_v;
    x.in = keys ? c->k : c->v;
    x.din = keys ? c->dk : c->dv;
    x.width = keys ? op->D : op->c.E;
    return x;
}

static float *mixed_at(const side *x, float *of, size_t index) {
    return of + index * (size_t)x->rank * (size_t)x->width;
}

/* mixed (rank, width) = weight^T in, of one sequence and head. */
static void mix(void *arg, size_t index, int worker) {
    const side *x = arg;
    const size_t b = index / (size_t)x->H, h = index % (size_t)x->H, rank = (size_t)x->rank, width = (size_t)x->width;
    const int n = ll_sequence_keys(x->c, (int)b);
    float *out = mixed_at(x, x->mixed, index);
    (void)worker;
    memset(out, 0, rank * width * sizeof *out);
    for (int t0 = 0; t0 < n; t0 += TOKENS)
        x->k->gemm(x->rank, x->width, ll_min_int(TOKENS, n - t0), x->weight + (size_t)t0 * rank, 1, rank,
                   ll_element(&x->in, b, h, t0), x->in.token, out, width, 1);
}

/* din (tokens, width) = weight dmixed. */
static void unmix(void *arg, size_t index, int worker) {
    const side *x = arg;
    const size_t b = index / (size_t)x->H, h = index % (size_t)x->H, rank = (size_t)x->rank, width = (size_t)x->width;
    const int n = ll_sequence_keys(x->c, (int)b);
    const float *d = mixed_at(x, x->mixed, index);
    (void)worker;
    for (int t0 = 0; t0 < n; t0 += TOKENS)
        x->k->gemm(ll_min_int(TOKENS, n - t0), x->width, x->rank, x->weight + (size_t)t0 * rank, rank, 1, d, width,
                   ll_element(&x->din, b, h, t0), x->din.token, 0);
    x->k->transpose(x->rank, x->width, d, width, mixed_at(x, x->transposed, index), rank);
}

/* dweight (tokens, rank) += in dmixed^T, the sum over sequences and heads in their order. */
static void weigh(void *arg, size_t index, int worker) {
    const side *x = arg;
    const int t0 = (int)index * TOKENS;
    const size_t rank = (size_t)x->rank;
    (void)worker;
    for (size_t i = 0; i < (size_t)x->c->B * (size_t)x->H; i++) {
        const int n = ll_min_int(TOKENS, ll_sequence_keys(x->c, (int)(i / (size_t)x->H)) - t0);
        if (n > 0)
            x->k->gemm(n, x->rank, x->width, ll_element(&x->in, i / (size_t)x->H, i % (size_t)x->H, t0), x->in.token, 1,
                       mixed_at(x, x->transposed, i), rank, x->dweight + (size_t)t0 * rank, rank, 1);
    }
}

/* Sequence b as a call of the exact operator: its queries, and its mixed keys and values. */
static ll_attention_call call_of(const ll_attention *op, const ll_attention_call *c, int b, float *keys, float *values,
                                 float *saved) {
    ll_attention_call one = ll_sequence_call(c, b);
    const size_t heads = (size_t)b * (size_t)op->c.H, rank = (size_t)op->c.approximate.rank;
    one.S = op->c.approximate.rank;
    one.k = ll_view_packed(keys + heads * rank * (size_t)op->D, op->c.H, one.S, op->D);
    one.v = ll_view_packed(values + heads * rank * (size_t)op->c.E, op->c.H, one.S, op->c.E);
    one.saved = saved ? saved + heads * (size_t)c->T : NULL;
    return one;
}

static ll_status check_length(const ll_attention *op, const ll_attention_call *c) {
    int most = 0; /* tokens in use: padding has no row of the projections */
    for (int b = 0; b < c->B; b++) most = ll_sequence_keys(c, b) > most ? ll_sequence_keys(c, b) : most;
    if (most <= op->c.approximate.length) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: %d tokens, but linformer's projections end at %d", most,
                   op->c.approximate.length);
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return mixed_floats(op, B, op->D) + mixed_floats(op, B, op->c.E) +
           ll_attention_saved(op->own, &(ll_attention_call){.B = B, .T = T, .S = op->c.approximate.rank});
}

/* Scratch. Forward: the mixed keys and values of all sequences, if they are not saved. Backward: their gradients, and
 * these transposed. Then the scratch of the exact operator for one sequence. */
typedef struct {
    float *mixed[2], *transposed[2]; /* of keys and of values */
} memory;

static memory lay_out(const ll_attention *op, const ll_attention_call *c, int backward, ll_arena *a) {
    const size_t keys = mixed_floats(op, c->B, op->D), values = mixed_floats(op, c->B, op->c.E);
    const int own = backward || !c->saved;
    memory m = {.mixed = {c->saved, c->saved ? c->saved + keys : NULL}};
    if (own) m.mixed[0] = ll_arena_take(a, keys), m.mixed[1] = ll_arena_take(a, values);
    if (backward) m.transposed[0] = ll_arena_take(a, keys), m.transposed[1] = ll_arena_take(a, values);
    return m;
}

static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_arena a = {0};
    ll_attention_call one = *c;
    one.B = 1, one.S = op->c.approximate.rank;
    (void)lay_out(op, c, backward, &a);
    return a.used + ll_attention_scratch(op->own, &one, backward);
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) {
    const size_t heads = (size_t)c->B * (size_t)op->c.H;
    const size_t both = mixed_floats(op, c->B, op->D) + mixed_floats(op, c->B, op->c.E);
    ll_status status = check_length(op, c);
    if (status) return status;
    ll_arena a = {.base = c->scratch};
    const memory m = lay_out(op, c, 0, &a);
    const ll_attention_call inner = ll_inner_call(c, &a);
    for (int s = 0; s < 2; s++) {
        side x = side_of(op, c, !s, m.mixed[s]);
        ll_parallel_among(c->threads, heads, mix, &x);
    }
    for (int b = 0; b < c->B && !status; b++) {
        ll_attention_call one = call_of(op, &inner, b, m.mixed[0], m.mixed[1], c->saved ? c->saved + both : NULL);
        status = ll_attention_forward(op->own, &one);
    }
    ll_clear_output(c, op->c.H, op->c.E);
    return status;
}

static ll_status backward(const ll_attention *op, const ll_attention_call *c) {
    const size_t heads = (size_t)c->B * (size_t)op->c.H, keys = mixed_floats(op, c->B, op->D),
                 both = keys + mixed_floats(op, c->B, op->c.E);
    ll_status status = LL_OK;
    ll_arena a = {.base = c->scratch};
    const memory m = lay_out(op, c, 1, &a);
    const ll_attention_call inner = ll_inner_call(c, &a);
    for (int b = 0; b < c->B && !status; b++) {
        ll_attention_call one = call_of(op, &inner, b, c->saved, c->saved + keys, c->saved + both);
        const ll_attention_call gradient = call_of(op, c, b, m.mixed[0], m.mixed[1], NULL);
        one.dk = gradient.k, one.dv = gradient.v;
        status = ll_attention_backward(op->own, &one);
    }
    for (int s = 0; s < 2 && !status; s++) {
        side x = side_of(op, c, !s, m.mixed[s]);
        x.transposed = m.transposed[s];
        ll_parallel_among(c->threads, heads, unmix, &x);
        if (x.dweight) ll_parallel_among(c->threads, ((size_t)c->S + TOKENS - 1) / TOKENS, weigh, &x);
    }
    ll_clear_gradients(c, op->c.H, op->D, op->c.E);
    return status;
}

/* ---- The kind ---- */

static ll_status check(const ll_attention_config *c) {
    enum { LENGTH_MOST = 1 << 24, RANK_MOST = 1 << 16 };
    const ll_approximate_config *b = &c->approximate;
    if (b->length < 1 || b->length > LENGTH_MOST || b->rank < 1 || b->rank > RANK_MOST)
        return ll_fail(LL_EINVAL, "attention: linformer from %d tokens to %d, must be 1 to %d and 1 to %d", b->length,
                       b->rank, LENGTH_MOST, RANK_MOST);
    if (!b->linformer_k || !b->linformer_v)
        return ll_fail(LL_EINVAL, "attention: linformer needs its projections linformer_k and linformer_v");
    return LL_OK;
}

/* Each key and value is added to `rank` sums, and each query reads these. */
static ll_cost cost(const ll_attention *op, double keys) {
    (void)keys;
    return (ll_cost){op->c.H * 2.0 * op->c.approximate.rank * (op->D + op->c.E), 0};
}

/* A variance such that a sum of keys over the longest sequence is as large as one key. */
static void init(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    (void)c;
    ll_parameter_normal(p, draw, 1 / sqrtf((float)ll_parameter_rows(p)), x);
}

static int parameters(const ll_attention_config *c, ll_parameter *list) {
    list[0] = (ll_parameter){LL_KERNEL_PARAMETER(linformer_k), .init = init};
    list[1] = (ll_parameter){LL_KERNEL_PARAMETER(linformer_v), .init = init};
    for (int i = 0; i < 2; i++) {
        list[i].rank = 2, list[i].lead = 1;
        list[i].shape[0] = c->approximate.length, list[i].shape[1] = c->approximate.rank;
    }
    return 2;
}

const ll_operator_kind ll_operator_linformer = {
    .name = "linformer",
    .reads = 2,
    .not_causal = 1,
    .check = check,
    .parameters = parameters,
    .create = ll_inner_exact_create,
    .free = ll_inner_exact_free,
    .set_tile = ll_inner_exact_set_tile,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};
