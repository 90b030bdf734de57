/* Rotations by angles that grow with the position, in double: in float they are off by 0.03 at token one million. */
#include "attention/position/rotation.h"

#include <math.h>
#include <string.h>

#include "attention/feature/feature_map.h"
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

static void fill(double *row, size_t n) {
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

ll_status ll_rotation_table_create(ll_rotation_table *t, size_t heads, size_t n, const double *angles) {
    *t = (ll_rotation_table){.heads = heads, .n = n, .rows = ll_alloc(heads * ROWS * n, sizeof *t->rows)};
    if (!t->rows) return LL_ENOMEM;
    for (size_t h = 0; h < heads; h++) {
        memcpy(t->rows + h * ROWS * n, angles + h * n, n * sizeof *angles);
        fill(t->rows + h * ROWS * n, n);
    }
    return LL_OK;
}

void ll_rotation_table_free(ll_rotation_table *t) { ll_free(t->rows); }

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

void ll_rotation_table_at(const ll_rotation_table *t, int64_t position, int C, float *out, size_t ldo) {
    const ll_kernels *k = ll_kernel_table();
    const size_t n = t->n;
    double c[BLOCK], s[BLOCK];
    for (size_t p = 0; p < n; p += BLOCK) {
        const size_t count = ll_min_size(n - p, BLOCK);
        const double *c1 = t->rows + ROW_COS * n + p, *s1 = t->rows + ROW_SIN * n + p;
        for (int i = 0, run; i < C; i += run) {
            const int past = (int)((position + i) % ANCHOR);
            run = ll_min_int(C - i, ANCHOR - past);
            rotations_at(t->rows, n, p, count, position + i - past, c, s);
            k->sinusoids(count, c1, s1, c, s, past, NULL, 0);
            k->sinusoids(count, c1, s1, c, s, run, out + (size_t)i * ldo + 2 * p, ldo);
        }
    }
}

void ll_rotation_table_apply(const ll_rotation_table *t, int head, int back, int C, const int64_t *position,
                             const float *in, size_t ldi, float *out, size_t ldo) {
    enum { TOKENS = 16, PAIRS = 64 };
    const ll_kernels *k = ll_kernel_table();
    const size_t n = t->n;
    const double *rows = t->rows + (t->heads > 1 ? (size_t)head * ROWS * n : 0);
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
ll_status ll_rotation_check(const ll_attention_config *c, const char *name) {
    const int running = c->kernel == LL_KERNEL_FAVOR && c->causal && c->key_max == LL_MAX_PREFIX;
    if (c->den == LL_DEN_EPS_PHI)
        return ll_fail(LL_EINVAL, "attention: %s has no divisor with the query's features; use another one", name);
    if (running && c->feature_eps > 0 && !ll_scale_cancels(c))
        return ll_fail(LL_EINVAL, "attention: %s would rotate the eps of features under a running maximum; use eps 0",
                       name);
    return LL_OK;
}
