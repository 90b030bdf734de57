/* Ring attention (ring_attention.h). Block b is the keys and values of part b. In step s part p has block p - s, and
 * hands it on to part p + 1:
 *
 *   forward    Each step gives outputs y' and logarithms of sums l' over one block. They are merged with those of the
 *              blocks before: l = ln(e^l + e^l'), y = e^(l_old - l) y + e^(l' - l) y' (Milakov and Gimelshein 2018).
 *   backward   With y and l of the whole row, a block's gradients do not depend on other blocks. Those of keys and
 *              values travel one step behind their block, each part adds its own, and the last one sends them home.
 *
 * A causal part sees blocks 0 .. p alone, so that blocks do not go round: they end at the last part. Part p computes
 * p + 1 blocks; the last one takes the time of all. Messages of a step are on their way while the step is computed. */
#include "model/ring_attention.h"

#include <math.h>
#include <string.h>

#include "attention/operator.h"
#include "attention/table.h"
#include "base/memory.h"

/* Messages that may be on their way at a time. */
enum { SEND_BLOCK, TAKE_BLOCK, SEND_GRADIENT, TAKE_GRADIENT, SEND_HOME, TAKE_HOME };

struct ll_ring {
    ll_sharing how;
    int causal;
    size_t H, D, E; /* of what goes round */
    float *block[2];    /* lengths (B) as int, keys (B, H, T, D), values (B, H, T, E) */
    float *gradient[2]; /* the same, without lengths */
    float *work;        /* ... of this part alone; forward: y' (B, H, T, E), l' (B, H, T), which keys leave room for */
    float *dq;          /* (B, H, T, D) */
    float *sums;        /* l, where the call does not save it */
    int *lengths;       /* of a block's sequences */
};

int ll_ring_serves(const ll_attention *op) { return op->kind == &ll_operator_softmax; }

static size_t rows_of(const ll_ring *r, const ll_attention_call *c) { return (size_t)c->B * r->H * (size_t)c->T; }

ll_status ll_ring_create(ll_ring **out, const ll_sharing *how, const ll_attention *op, int B, int T, int training) {
    ll_ring *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    *r = (ll_ring){.how = *how, .causal = op->c.causal, .H = (size_t)op->c.H};
    r->D = (size_t)op->c.D, r->E = (size_t)op->c.E;
    const size_t rows = rows_of(r, &(ll_attention_call){.B = B, .T = T}), size = rows * (r->D + r->E);
    int made = 1;
    for (int i = 0; i < 2; i++) made &= !!(r->block[i] = ll_alloc((size_t)B + size, sizeof(float)));
    for (int i = 0; i < 2 && training; i++) made &= !!(r->gradient[i] = ll_alloc(size, sizeof(float)));
    made &= !!(r->work = ll_alloc(size, sizeof(float)));
    if (training) made &= !!(r->dq = ll_alloc(rows * r->D, sizeof(float)));
    made &= !!(r->sums = ll_alloc(rows, sizeof(float)));
    made &= !!(r->lengths = ll_alloc((size_t)B, sizeof *r->lengths));
    if (!made) {
        ll_ring_free(r);
        return LL_ENOMEM;
    }
    *out = r;
    return LL_OK;
}

/* Two blocks, two gradients and work; dq and sums. */
size_t ll_ring_bytes(const ll_attention *op, int B, int T) {
    const size_t rows = (size_t)B * (size_t)op->c.H * (size_t)T, D = (size_t)op->c.D, E = (size_t)op->c.E;
    return (3 * (size_t)B + rows * (5 * (D + E) + D + 1)) * sizeof(float);
}

void ll_ring_free(ll_ring *r) {
    if (!r) return;
    for (int i = 0; i < 2; i++) {
        ll_free(r->block[i]);
        ll_free(r->gradient[i]);
    }
    ll_free(r->work);
    ll_free(r->dq);
    ll_free(r->sums);
    ll_free(r->lengths);
    ll_free(r);
}

/* ---- Blocks ---- */

/* Copies (B, H, T, n) from one layout to another, or adds to what is there. */
static void copy(const ll_ring *r, const ll_attention_call *c, ll_view from, ll_view to, size_t n, int add) {
    const ll_kernels *k = ll_kernel_table();
    for (size_t i = 0; i < (size_t)c->B * r->H; i++)
        for (size_t t = 0; t < (size_t)c->T; t++) {
            const float *x = ll_element(&from, i / r->H, i % r->H, t);
            float *y = ll_element(&to, i / r->H, i % r->H, t);
            if (add)
                k->add(n, x, y);
            else
                memcpy(y, x, n * sizeof *y);
        }
}

/* Keys or their gradients, and the values behind them. */
static ll_view keys_in(const ll_ring *r, const ll_attention_call *c, float *x) {
    return ll_view_packed(x, (int)r->H, c->T, (int)r->D);
}
static ll_view values_in(const ll_ring *r, const ll_attention_call *c, float *x) {
    return ll_view_packed(x + rows_of(r, c) * r->D, (int)r->H, c->T, (int)r->E);
}

static void pack_own(const ll_ring *r, const ll_attention_call *c) {
    float *x = r->block[0];
    for (int b = 0; b < c->B; b++) r->lengths[b] = c->lengths ? c->lengths[b] : c->T;
    memcpy(x, r->lengths, (size_t)c->B * sizeof *x);
    x += c->B;
    copy(r, c, c->k, keys_in(r, c, x), r->D, 0);
    copy(r, c, c->v, values_in(r, c, x), r->E, 0);
}

/* The call of this part's queries with block number b. */
static ll_attention_call call_with(const ll_ring *r, const ll_attention_call *call, int b, float *block) {
    ll_attention_call c = *call;
    memcpy(r->lengths, block, (size_t)c.B * sizeof *block);
    c.query_lengths = call->lengths;
    c.lengths = r->lengths;
    c.key_offset = (int64_t)b * call->T;
    c.k = keys_in(r, call, block + c.B);
    c.v = values_in(r, call, block + c.B);
    return c;
}

/* ---- Steps ---- */

static ll_status begin(const ll_ring *r, float *x, size_t n, int peer, int message) {
    return r->how.begin(r->how.arg, x, n, peer, message);
}
static ll_status wait(const ll_ring *r, int message) { return r->how.wait(r->how.arg, message); }

static int next_part(const ll_ring *r) { return (r->how.part + 1) % r->how.parts; }
static int last_part(const ll_ring *r) { return (r->how.part + r->how.parts - 1) % r->how.parts; }
/* Does a part have a block in step s? */
static int computes(const ll_ring *r, int part, int s) { return s < r->how.parts && (!r->causal || s <= part); }
static int block_of(const ll_ring *r, int s) { return (r->how.part - s + r->how.parts) % r->how.parts; }
/* Does the next part need the block of step s? */
static int hands_on(const ll_ring *r, int s) {
    return (!r->causal || r->how.part + 1 < r->how.parts) && computes(r, next_part(r), s + 1);
}

/* The block of step s goes on, and that of the next step comes. */
static ll_status begin_step(const ll_ring *r, const ll_attention_call *c, int s) {
    const size_t n = (size_t)c->B + rows_of(r, c) * (r->D + r->E);
    ll_status status = LL_OK;
    if (hands_on(r, s)) status = begin(r, r->block[s % 2], n, next_part(r), SEND_BLOCK);
    if (!status && computes(r, r->how.part, s + 1))
        status = begin(r, r->block[(s + 1) % 2], n, last_part(r), TAKE_BLOCK);
    return status;
}
static ll_status end_step(const ll_ring *r, int s) {
    ll_status status = hands_on(r, s) ? wait(r, SEND_BLOCK) : LL_OK;
    const ll_status taken = computes(r, r->how.part, s + 1) ? wait(r, TAKE_BLOCK) : LL_OK;
    return status ? status : taken;
}

/* ---- Forward ---- */

/* A row without keys has the sum 0; its logarithm is written as INFINITY, for which backward has weights of 0. */
static float as_log(float l) { return l == INFINITY ? -INFINITY : l; }

/* What one block gave, (B, H, T): into what the blocks before gave. */
static void merge(const ll_ring *r, const ll_attention_call *c, const float *y, const float *l, float *sums) {
    const ll_kernels *k = ll_kernel_table();
    for (size_t i = 0; i < (size_t)c->B * r->H; i++) {
        const int n = c->query_lengths ? c->query_lengths[i / r->H] : c->T;
        for (size_t t = 0; t < (size_t)n; t++) {
            const size_t row = i * (size_t)c->T + t;
            const float a = as_log(sums[row]), b = as_log(l[row]), most = fmaxf(a, b);
            float *to = ll_element(&c->y, i / r->H, i % r->H, t);
            if (b == -INFINITY) continue;
            const float sum = most + logf(expf(a - most) + expf(b - most));
            k->scale(r->E, expf(a - sum), to);
            k->axpy(r->E, expf(b - sum), y + row * r->E, to);
            sums[row] = sum;
        }
    }
}

ll_status ll_ring_forward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call) {
    float *sums = call->saved ? call->saved : r->sums, *y = r->work, *l = y + rows_of(r, call) * r->E;
    ll_status status = LL_OK;
    pack_own(r, call);
    for (int s = 0; computes(r, r->how.part, s) && !status; s++) {
        status = begin_step(r, call, s);
        ll_attention_call c = call_with(r, call, block_of(r, s), r->block[s % 2]);
        c.saved = s ? l : sums;
        if (s) c.y = ll_view_packed(y, (int)r->H, c.T, (int)r->E);
        if (!status) status = ll_attention_block(op, &c, 0);
        c.y = call->y;
        if (s && !status) merge(r, &c, y, l, sums);
        if (!status) status = end_step(r, s);
    }
    return status;
}

/* ---- Backward ---- */

/* Is this the part from which the gradient of a block goes home? Then it does not go on to the next one. */
static int ends_here(const ll_ring *r, int s) {
    return r->causal ? r->how.part + 1 == r->how.parts : s + 1 == r->how.parts;
}

static void come_home(const ll_ring *r, const ll_attention_call *c, float *x) {
    copy(r, c, keys_in(r, c, x), c->dk, r->D, 0);
    copy(r, c, values_in(r, c, x), c->dv, r->E, 0);
}

static int stays(const ll_ring *r, int s) { return block_of(r, s) == r->how.part && ends_here(r, s); }

/* Waits until what add_gradient sent in step s has left. */
static ll_status gradient_left(const ll_ring *r, int s) {
    if (s < 0 || stays(r, s)) return LL_OK;
    return wait(r, ends_here(r, s) ? SEND_HOME : SEND_GRADIENT);
}

/* The gradient of the block of step s: what came, and what this part adds, goes on or home. */
static ll_status add_gradient(const ll_ring *r, const ll_attention_call *c, int s) {
    const size_t n = rows_of(r, c) * (r->D + r->E);
    float *sum = r->gradient[s % 2];
    ll_status status = s ? wait(r, TAKE_GRADIENT) : LL_OK;
    if (status) return status;
    if (s)
        ll_kernel_table()->add(n, r->work, sum);
    else
        memcpy(sum, r->work, n * sizeof *sum);
    if (stays(r, s)) come_home(r, c, sum);
    status = gradient_left(r, s - 1);
    if (status || stays(r, s)) return status;
    return ends_here(r, s) ? begin(r, sum, n, block_of(r, s), SEND_HOME)
                           : begin(r, sum, n, next_part(r), SEND_GRADIENT);
}

/* One step: gradients of the block's keys and values into work, and that of the queries added up. */
static ll_status back_step(const ll_ring *r, const ll_attention *op, const ll_attention_call *call, int s) {
    const size_t n = rows_of(r, call) * (r->D + r->E);
    ll_status status = LL_OK;
    if (s) status = begin(r, r->gradient[s % 2], n, last_part(r), TAKE_GRADIENT);
    if (!status) status = begin_step(r, call, s);
    ll_attention_call c = call_with(r, call, block_of(r, s), r->block[s % 2]);
    c.dk = keys_in(r, call, r->work);
    c.dv = values_in(r, call, r->work);
    if (s) c.dq = keys_in(r, call, r->dq);
    if (!status) status = ll_attention_block(op, &c, 1);
    if (s && !status) copy(r, call, c.dq, call->dq, r->D, 1);
    if (!status) status = end_step(r, s);
    return status ? status : add_gradient(r, call, s);
}

ll_status ll_ring_backward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call) {
    float *own = r->block[0];
    int s = 0;
    ll_status status = LL_OK;
    pack_own(r, call);
    for (; computes(r, r->how.part, s) && !status; s++) status = back_step(r, op, call, s);
    const int from = r->causal ? r->how.parts - 1 : last_part(r);
    if (status || from == r->how.part) return status ? status : gradient_left(r, s - 1);
    status = begin(r, own, rows_of(r, call) * (r->D + r->E), from, TAKE_HOME);
    if (!status) status = wait(r, TAKE_HOME);
    if (!status) status = gradient_left(r, s - 1);
    if (!status) come_home(r, call, own);
    return status;
}
