/* Nystroemformer (Xiong et al. 2021): softmax attention through m landmarks, the means Q~, K~ of m runs of queries and
 * of keys.
 *
 *   Y = softmax(Q K~^T) Z softmax(Q~ K^T) V        Z near the inverse of A = softmax(Q~ K~^T), m x m
 *
 * Logits are multiplied by `input_scale`. Each sequence goes through three steps: X = softmax(Q~ K^T) V; W = Z X; Y =
 * softmax(Q K~^T) W. The first and the last are exact attention (op->own) between tokens and landmarks, so memory is
 * linear in the length. This file computes the second. `iterations` steps of third order compute Z from Z_0 = A^T / c.
 * c is the largest sum of a column of this head. (Released code takes the largest of the whole batch, so that the
 * result of a sequence depends on the others.)
 *
 *   N = A Z_t    Z_(t+1) = Z_t R / 4    R = 13 - N (15 - N (7 - N))
 *
 * Sequences with no more tokens than landmarks have exact softmax attention. */
#include <string.h>

#include "attention/exact/exact.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/parallel.h"

/* The sequence that is computed now, with memory for all of its heads. */
typedef struct {
    const ll_attention *op;
    const ll_kernels *k;
    ll_attention_call c; /* of this sequence alone */
    int m, backward;
    float *q, *kk, *X, *W;    /* (H, m, D) twice: landmarks; (H, m, E) twice */
    float *gather, *spread;   /* what the exact kernel saves */
    float *dq, *dk, *dX, *dW; /* gradients of those */
    float *other;             /* (H, m, D): the part of dq from the second step */
    int threads;
    float *pool;
    size_t scratch;
} sequence;

static float *at(const ll_view *view, int h, int64_t token) {
    return view->data + (size_t)h * view->head + (size_t)token * view->token;
}

/* ---- Memory ---- */

/* What is kept of a sequence. */
static void lay_out(sequence *x, int T, ll_arena *a) {
    const size_t H = (size_t)x->op->c.H, m = (size_t)x->m, D = (size_t)x->op->D, E = (size_t)x->op->c.E;
    x->spread = ll_arena_take(a, H * (size_t)T); /* first: all there is where attention is exact */
    x->gather = ll_arena_take(a, H * m);
    x->q = ll_arena_take(a, H * m * D);
    x->kk = ll_arena_take(a, H * m * D);
    x->X = ll_arena_take(a, H * m * E);
    x->W = ll_arena_take(a, H * m * E);
}

static size_t saved_floats(const ll_attention *op, int T) {
    sequence x = {.op = op, .m = op->c.approximate.landmarks};
    ll_arena a = {0};
    lay_out(&x, T, &a);
    return a.used;
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S, (void)segments;
    return (size_t)B * saved_floats(op, T);
}

/* ---- Landmarks ---- */

/* The first of n tokens that belongs to landmark r. */
static int64_t begin(const sequence *x, int r, int n) { return (int64_t)r * n / x->m; }

/* Means of runs of tokens. Backward: adds the share of every token to its gradient. */
static void landmarks(const sequence *x, int h, const ll_view *tokens, int n, float *mean) {
    const size_t D = (size_t)x->op->D;
    mean += (size_t)h * (size_t)x->m * D;
    for (int r = 0; r < x->m; r++, mean += D) {
        const int64_t from = begin(x, r, n), to = begin(x, r + 1, n);
        if (!x->backward) memset(mean, 0, D * sizeof *mean);
        if (x->backward) x->k->scale(D, 1 / (float)(to - from), mean);
        for (int64_t t = from; t < to; t++) {
            float *token = at(tokens, h, t);
            x->backward ? x->k->add(D, mean, token) : x->k->add(D, token, mean);
        }
        if (!x->backward) x->k->scale(D, 1 / (float)(to - from), mean);
    }
}

static void landmarks_of_head(void *arg, size_t h, int worker) {
    const sequence *x = arg;
    (void)worker;
    landmarks(x, (int)h, x->backward ? &x->c.dq : &x->c.q, x->c.T, x->backward ? x->dq : x->q);
    landmarks(x, (int)h, x->backward ? &x->c.dk : &x->c.k, x->c.S, x->backward ? x->dk : x->kk);
}

/* ---- The middle ---- */

/* Matrices m x m of one head; Z[0..iterations]. */
typedef struct {
    const ll_kernels *k;
    int m, steps, column;
    size_t size;
    float largest; /* sum of a column of A, of column `column` */
    float *A, *Z, *N, *R1, *R2, *R3, *dZ, *dN, *dR, *dA, *transposed, *wide_D, *wide_E;
} middle;

static middle cut(const sequence *x, ll_arena *p) {
    const size_t m = (size_t)x->m;
    middle a = {.k = x->k, .m = x->m, .steps = x->op->c.approximate.iterations, .size = ll_round_up(m * m, LL_LINE)};
    a.Z = ll_arena_take(p, a.size * (size_t)(a.steps + 1));
    float **const squares[] = {&a.A, &a.N, &a.R1, &a.R2, &a.R3, &a.dZ, &a.dN, &a.dR, &a.dA, &a.transposed};
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) *squares[i] = ll_arena_take(p, a.size);
    a.wide_D = ll_arena_take(p, m * (size_t)x->op->D);
    a.wide_E = ll_arena_take(p, m * (size_t)x->op->c.E);
    return a;
}

static middle middle_of(const sequence *x, int worker) {
    ll_arena p = {.base = x->pool + (size_t)worker * x->scratch};
    return cut(x, &p);
}

/* C (m x m) = or += A B; transposes where ta, tb. */
static void product(const middle *a, int ta, int tb, const float *A, const float *B, float *C, int add) {
    const size_t m = (size_t)a->m;
    if (tb) a->k->transpose(a->m, a->m, B, m, a->transposed, m);
    a->k->gemm(a->m, a->m, a->m, A, ta ? 1 : m, ta ? m : 1, tb ? a->transposed : B, m, C, m, add);
}

/* C = c - N R. */
static void step_down(const middle *a, float c, const float *R, float *C) {
    product(a, 0, 0, a->N, R, C, 0);
    a->k->scale((size_t)a->m * (size_t)a->m, -1, C);
    for (int i = 0; i < a->m; i++) C[i * (a->m + 1)] += c;
}

/* N, R1, R2, R3 of step t. */
static void polynomial(const middle *a, int t) {
    const size_t n = (size_t)a->m * (size_t)a->m;
    product(a, 0, 0, a->A, a->Z + (size_t)t * a->size, a->N, 0);
    a->k->scaled(n, -1, a->N, a->R1);
    for (int i = 0; i < a->m; i++) a->R1[i * (a->m + 1)] += 7;
    step_down(a, 15, a->R1, a->R2);
    step_down(a, 13, a->R2, a->R3);
}

/* A = softmax(scale q k^T), then Z_0 .. Z_steps; returns the last. */
static float *invert(middle *a, const sequence *x, const float *q, const float *kk) {
    const size_t m = (size_t)a->m, D = (size_t)x->op->D;
    a->k->transpose(a->m, (int)D, kk, D, a->wide_D, m);
    a->k->gemm(a->m, a->m, (int)D, q, D, 1, a->wide_D, m, a->A, m, 0);
    float *sums = a->N; /* of columns */
    memset(sums, 0, m * sizeof *sums);
    for (size_t i = 0; i < m; i++) {
        float *row = a->A + i * m;
        a->k->scale(m, x->op->c.input_scale, row);
        a->k->scale(m, 1 / a->k->exp_sum(m, a->k->max(m, row), row, row), row);
        a->k->add(m, row, sums);
    }
    a->column = 0;
    for (int j = 1; j < a->m; j++)
        if (sums[j] > sums[a->column]) a->column = j;
    a->largest = sums[a->column];
    a->k->transpose(a->m, a->m, a->A, m, a->Z, m);
    a->k->scale(m * m, 1 / a->largest, a->Z);
    for (int t = 0; t < a->steps; t++) {
        float *next = a->Z + (size_t)(t + 1) * a->size;
        polynomial(a, t);
        product(a, 0, 0, a->Z + (size_t)t * a->size, a->R3, next, 0);
        a->k->scale(m * m, 0.25f, next);
    }
    return a->Z + (size_t)a->steps * a->size;
}

/* From dZ, the gradient at the last Z, to dA. */
static void invert_back(middle *a) {
    const size_t n = (size_t)a->m * (size_t)a->m;
    memset(a->dA, 0, n * sizeof *a->dA);
    for (int t = a->steps; t-- > 0;) {
        const float *Z = a->Z + (size_t)t * a->size;
        polynomial(a, t);
        a->k->scale(n, 0.25f, a->dZ);
        product(a, 1, 0, Z, a->dZ, a->dR, 0); /* of R3 */
        product(a, 0, 1, a->dZ, a->R3, a->dN, 0);
        memcpy(a->dZ, a->dN, n * sizeof *a->dZ);
        a->k->scale(n, -1, a->dR);
        product(a, 0, 1, a->dR, a->R2, a->dN, 0);
        product(a, 1, 0, a->N, a->dR, a->R3, 0); /* of R2; R3 is not needed any more */
        a->k->scale(n, -1, a->R3);
        product(a, 0, 1, a->R3, a->R1, a->dN, 1);
        product(a, 1, 0, a->N, a->R3, a->dR, 0); /* of R1 = 7 - N */
        a->k->axpy(n, -1, a->dR, a->dN);
        product(a, 0, 1, a->dN, Z, a->dA, 1);
        product(a, 1, 0, a->A, a->dN, a->dZ, 1);
    }
    const float dlargest = -a->k->dot(n, a->dZ, a->Z) / a->largest;
    a->k->transpose(a->m, a->m, a->dZ, (size_t)a->m, a->transposed, (size_t)a->m);
    a->k->axpy(n, 1 / a->largest, a->transposed, a->dA);
    for (int i = 0; i < a->m; i++) a->dA[i * a->m + a->column] += dlargest;
}

/* W = Z X. */
static void middle_forward(void *arg, size_t h, int worker) {
    const sequence *x = arg;
    const size_t m = (size_t)x->m, E = (size_t)x->op->c.E, D = (size_t)x->op->D;
    middle a = middle_of(x, worker);
    const float *Z = invert(&a, x, x->q + h * m * D, x->kk + h * m * D);
    x->k->gemm(x->m, (int)E, x->m, Z, m, 1, x->X + h * m * E, E, x->W + h * m * E, E, 0);
}

/* From dW to dX, and to the gradients of Q~ (`other`) and of K~ (added to dk). */
static void middle_backward(void *arg, size_t h, int worker) {
    const sequence *x = arg;
    const int m = x->m, E = x->op->c.E, D = x->op->D;
    const size_t ldm = (size_t)m, ldE = (size_t)E, ldD = (size_t)D;
    const float *q = x->q + h * ldm * ldD, *kk = x->kk + h * ldm * ldD, *dW = x->dW + h * ldm * ldE;
    middle a = middle_of(x, worker);
    const float *Z = invert(&a, x, q, kk);
    x->k->gemm(m, E, m, Z, 1, ldm, dW, ldE, x->dX + h * ldm * ldE, ldE, 0);
    x->k->transpose(m, E, x->X + h * ldm * ldE, ldE, a.wide_E, ldm);
    x->k->gemm(m, m, E, dW, ldE, 1, a.wide_E, ldm, a.dZ, ldm, 0);
    invert_back(&a);
    for (size_t i = 0; i < ldm; i++) { /* through the softmax: dA becomes the gradient of <q, k> */
        float *d = a.dA + i * ldm;
        const float *p = a.A + i * ldm, sum = x->k->dot(ldm, d, p);
        for (size_t j = 0; j < ldm; j++) d[j] = x->op->c.input_scale * p[j] * (d[j] - sum);
    }
    x->k->gemm(m, D, m, a.dA, ldm, 1, kk, ldD, x->other + h * ldm * ldD, ldD, 0);
    x->k->gemm(m, D, m, a.dA, 1, ldm, q, ldD, x->dk + h * ldm * ldD, ldD, 1);
}

/* ---- Calls ---- */

/* The two calls of the exact operator: from keys to landmarks, and from landmarks to queries. */
static ll_attention_call gather_call(const sequence *x) {
    const int H = x->op->c.H, m = x->m, D = x->op->D, E = x->op->c.E;
    ll_attention_call c = x->c;
    c.T = m, c.saved = x->c.saved ? x->gather : NULL;
    c.q = ll_view_packed(x->q, H, m, D), c.y = ll_view_packed(x->X, H, m, E);
    if (x->backward) c.g = ll_view_packed(x->dX, H, m, E), c.dq = ll_view_packed(x->dq, H, m, D);
    return c;
}

static ll_attention_call spread_call(const sequence *x) {
    const int H = x->op->c.H, m = x->m, D = x->op->D, E = x->op->c.E;
    ll_attention_call c = x->c;
    c.S = m, c.saved = x->c.saved ? x->spread : NULL;
    c.k = ll_view_packed(x->kk, H, m, D), c.v = ll_view_packed(x->W, H, m, E);
    if (x->backward) c.dk = ll_view_packed(x->dk, H, m, D), c.dv = ll_view_packed(x->dW, H, m, E);
    return c;
}

/* Softmax attention as it is? */
static int is_small(const sequence *x) { return x->c.T <= x->m || x->c.S <= x->m; }

static ll_status forward_sequence(sequence *x) {
    const size_t H = (size_t)x->op->c.H;
    ll_attention_call gather = gather_call(x), spread = is_small(x) ? x->c : spread_call(x);
    if (is_small(x)) {
        spread.saved = x->c.saved ? x->spread : NULL;
        return ll_attention_forward(x->op->own, &spread);
    }
    ll_parallel_among(x->threads, H, landmarks_of_head, x);
    const ll_status status = ll_attention_forward(x->op->own, &gather);
    if (status) return status;
    ll_parallel_among(x->threads, H, middle_forward, x);
    return ll_attention_forward(x->op->own, &spread);
}

static ll_status backward_sequence(sequence *x) {
    const size_t H = (size_t)x->op->c.H, D = (size_t)x->op->D;
    ll_attention_call gather = gather_call(x), spread = is_small(x) ? x->c : spread_call(x);
    spread.saved = x->spread;
    ll_status status = ll_attention_backward(x->op->own, &spread);
    if (status || is_small(x)) return status;
    ll_parallel_among(x->threads, H, middle_backward, x);
    status = ll_attention_backward(x->op->own, &gather);
    if (status) return status;
    x->k->add(H * (size_t)x->m * D, x->other, x->dq);
    ll_parallel_among(x->threads, H, landmarks_of_head, x);
    return LL_OK;
}

/* Scratch, which sequences use one after the other: what forward saves of one, if it is not saved; then that of the
 * exact operator. */
static sequence sequence_of(const ll_attention *op, const ll_attention_call *c, int backward, ll_arena *a) {
    const size_t H = (size_t)op->c.H, m = (size_t)op->c.approximate.landmarks, D = (size_t)op->D, E = (size_t)op->c.E;
    sequence x = {.op = op, .k = ll_kernel_table(), .m = (int)m, .backward = backward, .threads = c->threads};
    ll_arena worker = {0};
    (void)cut(&x, &worker);
    x.scratch = worker.used;
    x.pool = ll_arena_take(a, (size_t)c->threads * x.scratch);
    if (backward) {
        x.dq = ll_arena_take(a, H * m * D), x.dk = ll_arena_take(a, H * m * D), x.other = ll_arena_take(a, H * m * D);
        x.dX = ll_arena_take(a, H * m * E), x.dW = ll_arena_take(a, H * m * E);
    }
    if (!c->saved) lay_out(&x, c->T, a);
    return x;
}

/* The exact operator needs most scratch for all queries and keys at once. */
static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    const int m = op->c.approximate.landmarks;
    ll_arena a = {0};
    ll_attention_call one = *c;
    (void)sequence_of(op, c, backward, &a);
    one.B = 1, one.T = ll_max_int(c->T, m), one.S = ll_max_int(c->S, m);
    return a.used + ll_attention_scratch(op->own, &one, backward);
}

static ll_status run(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_status status = LL_OK;
    ll_arena a = {.base = c->scratch};
    sequence x = sequence_of(op, c, backward, &a);
    const ll_attention_call inner = ll_inner_call(c, &a);
    for (int b = 0; b < c->B && !status; b++) {
        x.c = ll_sequence_call(&inner, b);
        ll_arena kept = {.base = c->saved ? c->saved + (size_t)b * saved_floats(op, c->T) : NULL};
        if (c->saved) lay_out(&x, c->T, &kept);
        status = backward ? backward_sequence(&x) : forward_sequence(&x);
    }
    return status;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) {
    const ll_status status = run(op, c, 0);
    ll_clear_output(c, op->c.H, op->c.E);
    return status;
}

static ll_status backward(const ll_attention *op, const ll_attention_call *c) {
    const ll_status status = run(op, c, 1);
    ll_clear_gradients(c, op->c.H, op->D, op->c.E);
    return status;
}

/* ---- The kind ---- */

static ll_status check(const ll_attention_config *c) {
    enum { LANDMARKS_MOST = 1 << 10, ITERATIONS_MOST = 64 };
    const ll_approximate_config *b = &c->approximate;
    if (b->landmarks < 1 || b->landmarks > LANDMARKS_MOST)
        return ll_fail(LL_EINVAL, "attention: %d landmarks, must be 1 to %d", b->landmarks, LANDMARKS_MOST);
    if (b->iterations < 1 || b->iterations > ITERATIONS_MOST)
        return ll_fail(LL_EINVAL, "attention: %d iterations of the inverse, must be 1 to %d", b->iterations,
                       ITERATIONS_MOST);
    return LL_OK;
}

/* Each query and each key has a product with every landmark. Products between landmarks come once a sequence, 4 for
 * each step of the inverse. A sequence that is no longer than its landmarks costs what softmax costs. */
static ll_cost cost(const ll_attention *op, double keys) {
    const double m = op->c.approximate.landmarks, row = op->D + op->c.E;
    const double inverse = m * m * (row + 4 * m * op->c.approximate.iterations);
    return (ll_cost){op->c.H * (keys <= m ? keys * row : 2 * m * row + inverse / keys), 0};
}

const ll_operator_kind ll_operator_nystrom = {
    .name = "nystrom",
    .reads = 2,
    .not_causal = 1,
    .check = check,
    .create = ll_inner_exact_create,
    .free = ll_inner_exact_free,
    .set_tile = ll_inner_exact_set_tile,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};
