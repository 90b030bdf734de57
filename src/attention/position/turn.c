/* Turning pairs of channels by angles that grow with the position (RoPE, Su et al. 2021). Angles are products in
 * double: in float they are wrong by 1e-3 at token one million. */
#include <math.h>

#include "attention/position/before.h"
#include "base/memory.h"

enum { ANCHOR = 16 }; /* sines are exact at its multiples; between them a turn by w costs four products */

void ll_turns(double a, double w, int64_t t0, int C, double *cs, size_t step) {
    const double c1 = cos(w), s1 = sin(w);
    double c = 1, s = 0;
    int64_t at = -1;
    for (int i = 0; i < C; i++, cs += step) {
        const int64_t t = t0 + i, anchor = t - t % ANCHOR;
        if (at < anchor) {
            c = cos(a + w * (double)anchor);
            s = sin(a + w * (double)anchor);
            at = anchor;
        }
        for (; at < t; at++) {
            const double next = c * c1 - s * s1;
            s = s * c1 + c * s1;
            c = next;
        }
        cs[0] = c;
        cs[1] = s;
    }
}

ll_status ll_theta_create(double **theta, const float *given, int n) {
    const size_t pairs = (size_t)n / 2;
    *theta = ll_alloc(pairs, sizeof **theta);
    if (!*theta) return LL_ENOMEM;
    for (size_t t = 0; t < pairs; t++) (*theta)[t] = given ? (double)given[t] : pow(10000, -2 * (double)t / n);
    return LL_OK;
}

/* (a, b) -> (a cos - b sin, b cos + a sin); sign -1 turns back. */
static void turn_pair(const double *cs, double sign, const float *in, float *out) {
    const float c = (float)cs[0], s = (float)(sign * cs[1]), a = in[0], b = in[1];
    out[0] = a * c - b * s;
    out[1] = b * c + a * s;
}

void ll_turn_features(const ll_attention *op, int head, int back, int C, const int64_t *position, const float *in,
                      size_t ldi, float *out, size_t ldo) {
    double cs[2 * LL_TILE_MOST];
    const double *turn = op->turn + (op->basis ? (size_t)head * (size_t)(op->features / 2) : 0);
    for (int t = 0; t < op->features / 2; t++) {
        ll_turns(0, turn[t], position[0], C, cs, 2);
        for (int i = 0; i < C; i++)
            turn_pair(cs + 2 * i, back ? -1 : 1, in + (size_t)i * ldi + 2 * t, out + (size_t)i * ldo + 2 * t);
    }
}

/* ---- Before the feature map ---------------------------------------------------------------------- */

static ll_status check(const ll_attention_config *c) {
    if (c->D % 2) return ll_fail(LL_EINVAL, "attention: rope turns pairs, a query size of %d is odd", c->D);
    return LL_OK;
}

static int width(const ll_attention_config *c) {
    return c->D;
}
static ll_status create(ll_before *b) {
    return ll_theta_create(&b->theta, b->c.where.theta, b->c.D);
}
static size_t scratch(const ll_before *b) {
    return 2 * LL_BEFORE_TILE * (size_t)b->c.D;
}
static size_t parameters(const ll_before *b) {
    (void)b;
    return 0;
}

/* work: cos and sin of each pair and token. */
static void prepare(const ll_before_tile *t) {
    const size_t pairs = (size_t)t->b->c.D / 2;
    double *cs = (double *)(void *)t->work;
    for (size_t p = 0; p < pairs; p++) ll_turns(0, t->b->theta[p], t->t0, t->C, cs + 2 * p, 2 * pairs);
}

static void turn_rows(const ll_before_tile *t, double sign, int n, const float *in, size_t ldi, float *out,
                      size_t ldo) {
    const size_t pairs = (size_t)t->b->c.D / 2;
    const double *cs = (const double *)(const void *)t->work;
    for (int i = 0; i < n; i++)
        for (size_t p = 0; p < pairs; p++)
            turn_pair(cs + 2 * ((size_t)i * pairs + p), sign, in + (size_t)i * ldi + 2 * p,
                      out + (size_t)i * ldo + 2 * p);
}

static void forward(const ll_before_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    (void)side;
    turn_rows(t, 1, n, in, token, out, ldo);
}

static void back(const ll_before_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    (void)side, (void)in, (void)token, (void)sum;
    turn_rows(t, -1, n, dout, ldd, din, dtoken);
}

static void collect(const ll_before *b, int head, const double *sum, const ll_position_gradients *d) {
    (void)b, (void)head, (void)sum, (void)d;
}

const ll_before_kind ll_before_rope = {.check = check,
                                       .width = width,
                                       .create = create,
                                       .scratch = scratch,
                                       .parameters = parameters,
                                       .prepare = prepare,
                                       .forward = forward,
                                       .back = back,
                                       .collect = collect};
