/* Rotates pairs of channels by angles that grow with the position (RoPE, Su et al. 2021). Angles are products in
 * double, because in float they are off by 0.03 at token one million. */
#include <math.h>
#include <string.h>

#include "attention/position/postmap.h"
#include "attention/position/premap.h"
#include "base/integer.h"
#include "base/memory.h"

void ll_cos_sin(double w, int64_t t, double phase, double *c, double *s) {
    const double product = w * (double)t, angle = phase + product, added = angle - product;
    const double lost = fma(w, (double)t, -product) + ((product - (angle - added)) + (phase - added));
    const double x = cos(angle), y = sin(angle);
    *c = lost != 0 ? x * cos(lost) - y * sin(lost) : x;
    *s = lost != 0 ? y * cos(lost) + x * sin(lost) : y;
}

/* sin and cos are called at multiples of ANCHOR. Between these a rotation by w costs four products. */
enum { ANCHOR = 64, BLOCK = 64 };

void ll_rotations(size_t n, const double *w, const double *size, const double *phase, int64_t t0, int C, float *out,
              size_t ldo) {
    const ll_kernels *k = ll_kernel_table();
    double c1[BLOCK], s1[BLOCK], c[BLOCK], s[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK, out += 2 * BLOCK) {
        const size_t m = ll_min_size(n - first, BLOCK);
        for (size_t j = 0; j < m; j++) c1[j] = cos(w[first + j]), s1[j] = sin(w[first + j]);
        for (int i = 0, run; i < C; i += run) {
            const int past = (int)((t0 + i) % ANCHOR);
            run = ll_min_int(C - i, ANCHOR - past);
            for (size_t j = 0; j < m; j++) {
                const double r = size ? size[first + j] : 1;
                ll_cos_sin(w[first + j], t0 + i - past, phase ? phase[first + j] : 0, &c[j], &s[j]);
                c[j] *= r, s[j] *= r;
            }
            k->sinusoids(m, c1, s1, c, s, past, NULL, 0);
            k->sinusoids(m, c1, s1, c, s, run, out + (size_t)i * ldo, ldo);
        }
    }
}

/* ---- Tables ---- */

/* The rotations of n angles for any position take a product for each digit of base 16 in position / ANCHOR. The rows of
 * n numbers are: angles, cosines and sines of a token, and cosines and sines of LEVELS digits. */
enum { DIGITS = 16, LEVELS = 3, ROW_COS = 1, ROW_SIN, ROW_DIGITS, ROWS = ROW_DIGITS + 2 * LEVELS * DIGITS };
enum { REACH = ANCHOR * DIGITS * DIGITS * DIGITS /* tokens of all digits */ };

static void fill_rotations(double *row, size_t n) {
    for (size_t j = 0; j < n; j++) {
        const double w = row[j];
        row[ROW_COS * n + j] = cos(w), row[ROW_SIN * n + j] = sin(w);
        double tokens = ANCHOR;
        for (size_t level = 0; level < LEVELS; level++, tokens *= DIGITS)
            for (size_t digit = 0; digit < DIGITS; digit++) {
                double *to = row + (ROW_DIGITS + 2 * (level * DIGITS + digit)) * n + j;
                to[0] = cos(w * tokens * (double)digit), to[n] = sin(w * tokens * (double)digit);
            }
    }
}

/* The table of n angles: the given ones, or those of RoPE over so many channels. What lies behind these has the angle
 * 0. NULL: no memory. */
static double *create_rotations(size_t n, const float *given, double base, int channels) {
    double *rows = ll_alloc(ROWS * n, sizeof *rows);
    if (!rows) return NULL;
    for (size_t t = 0; t < n; t++)
        rows[t] = given ? (double)given[t] : 2 * t < (size_t)channels ? pow(base, -2 * (double)t / channels) : 0;
    fill_rotations(rows, n);
    return rows;
}

static void rotate_phases(size_t n, const double *cosine, const double *sine, double *c, double *s) {
    for (size_t j = 0; j < n; j++) {
        const double x = c[j] * cosine[j] - s[j] * sine[j];
        s[j] = s[j] * cosine[j] + c[j] * sine[j], c[j] = x;
    }
}

/* c, s (count): of angles first.. of the n ones, at a position that is a multiple of ANCHOR. */
static void rotations_at(const double *rows, size_t n, size_t first, size_t count, int64_t position, double *c,
                         double *s) {
    const int64_t far = position / REACH * REACH;
    for (size_t j = 0; j < count; j++) {
        c[j] = 1, s[j] = 0;
        if (far > 0) ll_cos_sin(rows[first + j], far, 0, &c[j], &s[j]);
    }
    int64_t rest = position % REACH / ANCHOR;
    for (size_t level = 0; rest; level++, rest /= DIGITS) {
        const double *row = rows + (ROW_DIGITS + 2 * (level * DIGITS + (size_t)(rest % DIGITS))) * n + first;
        if (rest % DIGITS) rotate_phases(count, row, row + n, c, s);
    }
}

/* out (C, 2 count), rows ldo apart: cosine and sine of angles first.. of the n ones, from a position on. */
static void rotations_from(const double *rows, size_t n, size_t first, size_t count, int64_t position, int C,
                           float *out, size_t ldo) {
    const ll_kernels *k = ll_kernel_table();
    const double *c1 = rows + ROW_COS * n + first, *s1 = rows + ROW_SIN * n + first;
    double c[BLOCK], s[BLOCK];
    for (int i = 0, run; i < C; i += run) {
        const int past = (int)((position + i) % ANCHOR);
        run = ll_min_int(C - i, ANCHOR - past);
        rotations_at(rows, n, first, count, position + i - past, c, s);
        k->sinusoids(count, c1, s1, c, s, past, NULL, 0);
        k->sinusoids(count, c1, s1, c, s, run, out + (size_t)i * ldo, ldo);
    }
}

/* ---- After the feature map: rope-linear ---- */

ll_status ll_feature_rotations_create(ll_feature_map *map, size_t heads, const double *angles) {
    const size_t n = (size_t)map->features / 2;
    map->rotations = ll_alloc(heads * ROWS * n, sizeof *map->rotations);
    if (!map->rotations) return LL_ENOMEM;
    for (size_t h = 0; h < heads; h++) {
        memcpy(map->rotations + h * ROWS * n, angles + h * n, n * sizeof *angles);
        fill_rotations(map->rotations + h * ROWS * n, n);
    }
    return LL_OK;
}

void ll_rotate_features(const ll_feature_map *map, int head, int back, int C, const int64_t *position, const float *in,
                        size_t ldi, float *out, size_t ldo) {
    enum { TOKENS = 16, PAIRS = 64 };
    const ll_kernels *k = ll_kernel_table();
    const size_t n = (size_t)map->features / 2;
    const double *rows = map->rotations + (map->basis ? (size_t)head * ROWS * n : 0);
    double c[PAIRS], s[PAIRS];
    float cs[TOKENS * 2 * PAIRS];
    for (size_t p = 0; p < n; p += PAIRS) {
        const size_t count = ll_min_size(n - p, PAIRS);
        const double *c1 = rows + ROW_COS * n + p, *s1 = rows + ROW_SIN * n + p;
        for (int i = 0, tokens; i < C; i += tokens) {
            const int past = (int)((position[0] + i) % ANCHOR);
            tokens = ll_min_int(ll_min_int(C - i, ANCHOR - past), TOKENS);
            if (!i || !past) {
                rotations_at(rows, n, p, count, position[0] + i - past, c, s);
                k->sinusoids(count, c1, s1, c, s, past, NULL, 0);
            }
            k->sinusoids(count, c1, s1, c, s, tokens, cs, 2 * PAIRS);
            k->rotate_pairs(tokens, count, back, cs, 2 * PAIRS, in + (size_t)i * ldi + 2 * p, ldi,
                            out + (size_t)i * ldo + 2 * p, ldo);
        }
    }
}

/* Features of a running maximum are e^(u - c) + eps e^-c: a rotation would change the second part, too. */
static ll_status check_features(const ll_attention_config *c) {
    const int features = ll_feature_count(c);
    if (features % 2) return ll_fail(LL_EINVAL, "attention: rope rotates pairs, %d features are odd", features);
    if (c->den == LL_DEN_EPS_PHI)
        return ll_fail(LL_EINVAL, "attention: rope-linear has no divisor with the query's features; use another one");
    if (!ll_scale_cancels(c) && c->kernel == LL_KERNEL_FAVOR && c->causal && c->key_max == LL_MAX_PREFIX &&
        c->feature_eps > 0)
        return ll_fail(LL_EINVAL, "attention: rope-linear would rotate the eps of features under a running maximum; "
                                  "use eps 0");
    return LL_OK;
}

static ll_status create_angles(ll_feature_map *map) {
    map->rotations = create_rotations((size_t)map->features / 2, map->c.encoding.theta, 10000, map->features);
    return map->rotations ? LL_OK : LL_ENOMEM;
}

static void rotate(const ll_feature_map *map, const ll_kernels *k, int head, int C, const int64_t *x, const int64_t *y,
                   const ll_epilogue *epilogue, const float *in, size_t ldi, float *out, size_t ldo) {
    (void)k, (void)y, (void)epilogue;
    ll_rotate_features(map, head, 0, C, x, in, ldi, out, ldo);
}

static void rotate_back(const ll_feature_map *map, const ll_kernels *k, int head, int C, const int64_t *x,
                        const int64_t *y, const ll_epilogue *epilogue, float *in, size_t ldi, float *out, size_t ldo) {
    (void)k, (void)y, (void)epilogue;
    ll_rotate_features(map, head, 1, C, x, in, ldi, out, ldo);
}

static double cost_of_features(const ll_feature_map *map) {
    return 2.0 * map->features;
}

const ll_postmap_kind ll_postmap_rope = {.in_place = 1,
                                         .numerator = 1,
                                         .check = check_features,
                                         .create = create_angles,
                                         .cost = cost_of_features,
                                         .forward = rotate,
                                         .back = rotate_back};

/* ---- Before the feature map: rope ---- */

static ll_status check(const ll_attention_config *c) {
    if (c->encoding.rotary < 0 || c->encoding.rotary > c->D || c->encoding.rotary % 2)
        return ll_fail(LL_EINVAL, "attention: rope rotates an even number of channels up to %d, not %d", c->D,
                       c->encoding.rotary);
    if (!(c->encoding.base >= 0 && isfinite(c->encoding.base)))
        return ll_fail(LL_EINVAL, "attention: rope's base is %g; it must be above 0, or 0 for 10000", c->encoding.base);
    if (c->D % 2 && !c->encoding.rotary)
        return ll_fail(LL_EINVAL,
                       "attention: rope rotates pairs, and a query size of %d is odd; set rotary to a smaller, "
                       "even number",
                       c->D);
    return LL_OK;
}

static int width(const ll_attention_config *c) {
    return c->D;
}
static ll_status create(ll_premap *b) {
    const ll_position_config *w = &b->c.encoding;
    b->rotations =
        create_rotations((size_t)b->c.D / 2, w->theta, w->base > 0 ? w->base : 10000, w->rotary ? w->rotary : b->c.D);
    return b->rotations ? LL_OK : LL_ENOMEM;
}
static size_t scratch(const ll_premap *b) {
    return LL_PREMAP_TILE * (size_t)b->c.D;
}

/* work: cos and sin of each token and pair. */
static void prepare(const ll_premap_tile *t) {
    const size_t D = (size_t)t->b->c.D, n = D / 2;
    for (size_t p = 0; p < n; p += BLOCK)
        rotations_from(t->b->rotations, n, p, ll_min_size(n - p, BLOCK), t->t0, t->C, t->work + 2 * p, D);
}

/* An odd channel is the last, and stays. */
static void rotate_rows(const ll_premap_tile *t, int n, int back, const float *in, size_t token, float *out,
                        size_t ldo) {
    const size_t D = (size_t)t->b->c.D;
    t->k->rotate_pairs(n, D / 2, back, t->work, D, in, token, out, ldo);
    for (size_t i = 0; i < (size_t)n && D % 2; i++) out[i * ldo + D - 1] = in[i * token + D - 1];
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    (void)side;
    rotate_rows(t, n, 0, in, token, out, ldo);
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    (void)side, (void)in, (void)token, (void)sum;
    rotate_rows(t, n, 1, dout, ldd, din, dtoken);
}

/* Pairs of channels, four products each. */
static double cost(const ll_premap *b) {
    return 4.0 * (b->c.encoding.rotary ? b->c.encoding.rotary : b->c.D);
}

const ll_premap_kind ll_premap_rope = {
    .same = 1,
    .check = check,
    .width = width,
    .create = create,
    .scratch = scratch,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
};
