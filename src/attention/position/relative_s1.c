/* Relative positions for random features (S1). A learnt function of the distance is added to the logits. It is a
 * product of channels that are appended to queries and keys. For every axis and angular frequency w, at coordinate p,
 * with s = sin w p, c = cos w p:
 *
 *   q~ = [q; a s - b c, b s + a c]      k~ = [k; s, c]      q~.k~ = q.k + sum a cos w(p_i - p_j) + b sin w(p_i - p_j)
 *
 * a and b are learnt for each head, and all heads share the frequencies. Tokens before the first position have no
 * position, and get zeros. In two dimensions the first axis is the row. */
#include <math.h>
#include <string.h>

#include "attention/position/premap.h"
#include "attention/position/rotation.h"

enum { ANCHOR = 64 }; /* sin and cos are called at its multiples */

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    if (w->scales < 1 || w->scales > 1 << 12)
        return ll_fail(LL_EINVAL, "attention: relative-s1 needs 1 to 4096 scales, got %d", w->scales);
    if (w->axes != 1 && w->axes != 2)
        return ll_fail(LL_EINVAL, "attention: relative-s1 has 1 or 2 axes, not %d", w->axes);
    if (!w->inv_freq || !w->alpha || !w->beta)
        return ll_fail(LL_EINVAL, "attention: relative-s1 needs its frequencies, alpha and beta");
    if (c->before < 0) return ll_fail(LL_EINVAL, "attention: %d tokens without position", c->before);
    if (w->axes == 2 && (c->width < 1 || c->height < 1))
        return ll_fail(LL_EINVAL, "attention: relative-s1 in two dimensions needs the image size, got %d x %d",
                       c->width, c->height);
    return LL_OK;
}

/* Angular frequencies 64^(-t/n), the highest first. */
static void init_frequencies(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw,
                             float *x) {
    const size_t n = ll_parameter_size(p);
    (void)c, (void)draw;
    for (size_t t = 0; t < n; t++) x[t] = (float)pow(64, -(double)t / (double)n);
}

static int parameters(const ll_attention_config *c, ll_parameter *list) {
    const int scales = c->encoding.scales, pairs = scales * c->encoding.axes;
    list[0] = (ll_parameter){LL_POSITION_PARAMETER(inv_freq), .rank = 1, .lead = 1, .shape = {scales}, .shared = 1,
                             .init = init_frequencies};
    list[1] = (ll_parameter){LL_POSITION_PARAMETER(alpha), .rank = 2, .lead = 1, .shape = {c->H, pairs}};
    list[2] = (ll_parameter){LL_POSITION_PARAMETER(beta), .rank = 2, .lead = 1, .shape = {c->H, pairs}};
    return 3;
}

static size_t pairs_of(const ll_premap *b) {
    return (size_t)b->c.encoding.scales * (size_t)b->c.encoding.axes;
}
static int width(const ll_attention_config *c) {
    return c->D + 2 * c->encoding.scales * c->encoding.axes;
}
static size_t scratch(const ll_premap *b) {
    return 4 * (LL_PREMAP_TILE + 1) * pairs_of(b);
}
static size_t sums(const ll_premap *b) {
    return 2 * pairs_of(b) + (size_t)b->c.encoding.scales;
}

/* Coordinate of a token along an axis. */
static int64_t coordinate(const ll_premap *b, int64_t token, int axis) {
    const int64_t p = token - b->c.before, W = b->c.width;
    return b->c.encoding.axes == 1 ? p : axis ? p % W : p / W;
}

/* cos and sin of all angles of an axis at a coordinate. */
static void angles_at(const ll_premap *b, int64_t at, double *to) {
    for (int w = 0; w < b->c.encoding.scales; w++, to += 2)
        ll_cos_sin((double)b->c.encoding.inv_freq[w], at, 0, &to[0], &to[1]);
}

/* The same for the coordinate after that of `last`; step: those of coordinate 1. In place, too. */
static void angles_after(size_t n, const double *step, const double *last, double *to) {
    for (size_t i = 0; i < 2 * n; i += 2) {
        const double c = last[i], s = last[i + 1];
        to[i] = c * step[i] - s * step[i + 1];
        to[i + 1] = s * step[i] + c * step[i + 1];
    }
}

/* Those of a multiple of ANCHOR, moved on. So they are a function of the coordinate alone, wherever a tile begins. */
static void angles_from_anchor(const ll_premap *b, const double *step, int64_t at, double *to) {
    const int past = (int)(at % ANCHOR);
    angles_at(b, at - past, to);
    for (int i = 0; i < past; i++) angles_after((size_t)b->c.encoding.scales, step, to, to);
}

/* work: (C, pairs) of cos and sin, zeros for tokens without position. Then what a step is. Tokens are computed from the
 * token before where they can be. */
static void prepare(const ll_premap_tile *t) {
    const ll_premap *b = t->b;
    const size_t scales = (size_t)b->c.encoding.scales, pairs = pairs_of(b);
    double *cs = (double *)(void *)t->work, *step = cs + 2 * LL_PREMAP_TILE * pairs;
    angles_at(b, 1, step);
    for (int i = 0; i < t->C; i++)
        for (int axis = 0; axis < b->c.encoding.axes; axis++) {
            double *to = cs + 2 * ((size_t)i * pairs + (size_t)axis * scales);
            const double *last = to - 2 * pairs;
            const int64_t token = t->t0 + i, at = coordinate(b, token, axis), before = coordinate(b, token - 1, axis);
            if (token < b->c.before) {
                memset(to, 0, 2 * scales * sizeof *to);
            } else if (i && token > b->c.before && at == before) {
                memcpy(to, last, 2 * scales * sizeof *to);
            } else if (i && token > b->c.before && at == before + 1 && at % ANCHOR) {
                angles_after(scales, step, last, to);
            } else {
                angles_from_anchor(b, step, at, to);
            }
        }
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t D = (size_t)b->c.D, pairs = pairs_of(b);
    const float *alpha = b->c.encoding.alpha + (size_t)t->head * pairs;
    const float *beta = b->c.encoding.beta + (size_t)t->head * pairs;
    const double *cs = (const double *)(const void *)t->work;
    for (int i = 0; i < n; i++, in += token, out += ldo) {
        memcpy(out, in, D * sizeof *out);
        for (size_t p = 0; p < pairs; p++, cs += 2) {
            const double c = cs[0], s = cs[1], A = (double)alpha[p], B = (double)beta[p];
            out[D + 2 * p] = (float)(side == LL_QUERY ? A * s - B * c : s);
            out[D + 2 * p + 1] = (float)(side == LL_QUERY ? B * s + A * c : c);
        }
    }
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_premap *b = t->b;
    const size_t D = (size_t)b->c.D, pairs = pairs_of(b), scales = (size_t)b->c.encoding.scales;
    const float *alpha = b->c.encoding.alpha + (size_t)t->head * pairs;
    const float *beta = b->c.encoding.beta + (size_t)t->head * pairs;
    const double *cs = (const double *)(const void *)t->work;
    (void)in, (void)token;
    for (int i = 0; i < n; i++, dout += ldd, din += dtoken) {
        memcpy(din, dout, D * sizeof *din);
        for (size_t p = 0, axis = 0; p < pairs; axis++) {
            const double at = (double)coordinate(b, t->t0 + i, (int)axis);
            for (size_t w = 0; w < scales; w++, p++, cs += 2) {
                const double first = (double)dout[D + 2 * p], second = (double)dout[D + 2 * p + 1];
                const double c = cs[0], s = cs[1];
                const double A = (double)alpha[p], B = (double)beta[p];
                const double ds = side == LL_QUERY ? A * first + B * second : first;
                const double dc = side == LL_QUERY ? A * second - B * first : second;
                if (side == LL_QUERY) {
                    sum[p] += first * s + second * c;
                    sum[pairs + p] += second * s - first * c;
                }
                sum[2 * pairs + w] += at * (ds * c - dc * s);
            }
        }
    }
}

static void collect(const ll_premap *b, int head, const double *sum, const ll_position_gradients *d) {
    const size_t pairs = pairs_of(b), at = (size_t)head * pairs;
    for (size_t p = 0; p < pairs; p++) {
        if (d->alpha) d->alpha[at + p] += (float)sum[p];
        if (d->beta) d->beta[at + p] += (float)sum[pairs + p];
    }
    for (size_t s = 0; s < (size_t)b->c.encoding.scales && d->inv_freq; s++)
        d->inv_freq[s] += (float)sum[2 * pairs + s];
}

/* Channels are copied, and each angle appends two numbers. */
static double cost(const ll_premap *b) { return 4.0 * (double)pairs_of(b); }

const ll_premap_kind ll_premap_s1 = {
    .check = check,
    .width = width,
    .scratch = scratch,
    .parameters = parameters,
    .sums = sums,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
    .collect = collect,
};
