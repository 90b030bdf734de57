/* Sinusoids, rotated pairs, scaled blocks and random numbers of every tier against double precision and Random123:
 * sizes around the vector width, unaligned addresses, guard bytes, and gaps between rows, which must not change. */
#include "guard.h"

#include <float.h>

#include "base/random.h"

enum { ROWS = 5, GAP = 3 };
static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 70};
static const double EPS = FLT_EPSILON;

typedef void check_fn(const ll_kernels *k, size_t n, size_t shift, uint64_t seed);

static void everywhere(check_fn *check) {
    uint64_t seed = 3;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t shift = 0; shift < 4; shift++) check(k, (size_t)sizes[s], shift, next64(&seed));
}

/* Checks that the gaps between rows of `used` numbers, ld apart, still hold 7. */
static void check_gaps(const ll_kernels *k, const char *what, guarded x, size_t used, size_t ld) {
    for (size_t i = 0; i < x.n; i++)
        if (i % ld >= used) near(k->name, what, x.n, i, 0, x.p[i], 7, 0);
}
static guarded sevens(size_t n, size_t shift) {
    guarded x = guard(n, shift);
    for (size_t i = 0; i < n; i++) x.p[i] = 7;
    return x;
}

/* Forty tokens, of which the first ten are skipped. */
static void sinusoids(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    enum { TOKENS = 40, SKIPPED = 10 };
    const size_t ld = 2 * n + GAP;
    double w[70], c1[70], s1[70], c[70], s[70], size[70];
    for (size_t j = 0; j < n; j++) {
        w[j] = 3 * (double)signed_one(&seed), size[j] = 1 + (double)signed_one(&seed) / 2;
        c1[j] = cos(w[j]), s1[j] = sin(w[j]), c[j] = size[j], s[j] = 0;
    }
    guarded out = sevens((TOKENS - SKIPPED) * ld, shift);
    k->sinusoids(n, c1, s1, c, s, SKIPPED, NULL, 0);
    k->sinusoids(n, c1, s1, c, s, TOKENS - SKIPPED, out.p, ld);
    for (size_t t = SKIPPED; t < TOKENS; t++)
        for (size_t j = 0; j < n; j++) {
            const float *got = out.p + (t - SKIPPED) * ld + 2 * j;
            near(k->name, "sinusoids", n, j, seed, got[0], size[j] * cos(w[j] * (double)t), EPS);
            near(k->name, "sinusoids", n, j, seed, got[1], size[j] * sin(w[j] * (double)t), EPS);
        }
    for (size_t j = 0; j < n; j++) {
        near(k->name, "sinusoids", n, j, seed, c[j], size[j] * cos(w[j] * TOKENS), 1e-13);
        near(k->name, "sinusoids", n, j, seed, s[j], size[j] * sin(w[j] * TOKENS), 1e-13);
    }
    check_gaps(k, "sinusoids", out, 2 * n, ld);
    guard_end(out, "sinusoids", k->name);
}
static void test_sinusoids(void **state) {
    (void)state;
    everywhere(sinusoids);
}

static void rotate_pairs(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    const size_t ld = 2 * n, ldo = ld + GAP;
    guarded x = guard_random(ROWS * ld, shift, &from), cs = guard_random(ROWS * ld, 3 - shift, &from);
    for (int back = 0; back < 2; back++) {
        guarded out = sevens(ROWS * ldo, shift);
        k->rotate_pairs(ROWS, n, back, cs.p, ld, x.p, ld, out.p, ldo);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < n; j++) {
                const float *t = cs.p + i * ld + 2 * j, *a = x.p + i * ld + 2 * j, *got = out.p + i * ldo + 2 * j;
                const double s = (back ? -1 : 1) * (double)t[1], size = 2 * EPS * hypot(t[0], t[1]) * hypot(a[0], a[1]);
                near(k->name, "rotate_pairs", n, j, seed, got[0], (double)t[0] * a[0] - s * a[1], size);
                near(k->name, "rotate_pairs", n, j, seed, got[1], (double)t[0] * a[1] + s * a[0], size);
            }
        check_gaps(k, "rotate_pairs", out, 2 * n, ldo);
        guard_end(out, "rotate_pairs", k->name);
    }
    guarded apart = guard(ROWS * ld, shift);
    k->rotate_pairs(ROWS, n, 0, cs.p, ld, x.p, ld, apart.p, ld);
    k->rotate_pairs(ROWS, n, 0, cs.p, ld, x.p, ld, x.p, ld);
    for (size_t i = 0; i < x.n; i++) near(k->name, "rotate_pairs in place", n, i, seed, x.p[i], apart.p[i], 0);
    guard_end(apart, "rotate_pairs", k->name);
    guard_end(x, "rotate_pairs", k->name);
    guard_end(cs, "rotate_pairs", k->name);
}
static void test_rotate_pairs(void **state) {
    (void)state;
    everywhere(rotate_pairs);
}

/* Three blocks of n numbers. */
static void scale_blocks(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    enum { M = 3 };
    const size_t ld = M * n, ldo = ld + GAP;
    guarded x = guard_random(ROWS * M, shift, &from), a = guard_random(ROWS * ld, 3 - shift, &from);
    guarded out = sevens(ROWS * ldo, shift);
    k->scale_blocks(ROWS, M, (int)n, x.p, M, a.p, ld, out.p, ldo);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ld; j++)
            near(k->name, "scale_blocks", n, j, seed, out.p[i * ldo + j], x.p[i * M + j / n] * a.p[i * ld + j], 0);
    check_gaps(k, "scale_blocks", out, ld, ldo);
    guard_end(x, "scale_blocks", k->name);
    guard_end(a, "scale_blocks", k->name);
    guard_end(out, "scale_blocks", k->name);
}
static void test_scale_blocks(void **state) {
    (void)state;
    everywhere(scale_blocks);
}

static void scale_blocks_back(const ll_kernels *k, size_t half, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    enum { M = 3 };
    const size_t n = 2 * half, ld = M * n, ldx = M + GAP;
    guarded x = guard_random(ROWS * M, shift, &from), a = guard_random(ROWS * ld, 3 - shift, &from);
    guarded dout = guard_random(ROWS * ld, shift, &from), dx = sevens(ROWS * ldx, 1), sum = guard(3 * ld, 3 - shift);
    memset(sum.p, 0, 3 * ld * sizeof *sum.p);
    k->scale_blocks_back(ROWS, M, (int)n, x.p, M, a.p, ld, dout.p, ld, dx.p, ldx, sum.p);
    for (size_t j = 0; j < ld; j++) {
        double expect[3] = {0};
        for (size_t i = 0; i < ROWS; i++) {
            const double weight = (double)x.p[i * M + j / n] * dout.p[i * ld + j];
            expect[0] += weight * a.p[i * ld + j];
            expect[1] += weight * a.p[i * ld + (j ^ 1)];
            expect[2] += weight * a.p[i * ld + (j ^ 1)] * (double)i;
        }
        for (size_t s = 0; s < 3; s++)
            near(k->name, "scale_blocks_back", n, j, seed, sum.p[s * ld + j], expect[s], 40 * EPS);
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t c = 0; c < M; c++) {
            double expect = 0;
            for (size_t j = c * n; j < (c + 1) * n; j++) expect += (double)a.p[i * ld + j] * dout.p[i * ld + j];
            near(k->name, "scale_blocks_back", n, c, seed, dx.p[i * ldx + c], expect, 8 * EPS * sqrt((double)n));
        }
    check_gaps(k, "scale_blocks_back", dx, M, ldx);
    guard_end(x, "scale_blocks_back", k->name);
    guard_end(a, "scale_blocks_back", k->name);
    guard_end(dout, "scale_blocks_back", k->name);
    guard_end(dx, "scale_blocks_back", k->name);
    guard_end(sum, "scale_blocks_back", k->name);
}
static void test_scale_blocks_back(void **state) {
    (void)state;
    everywhere(scale_blocks_back);
}

/* Numbers of blocks on both sides of 2^32. */
static void random_words(const ll_kernels *k, size_t blocks, size_t shift, uint64_t seed) {
    const uint64_t index = 0xfffffff0 + shift, stream = next64(&seed);
    guarded x = guard(4 * blocks, shift);
    k->random_words(blocks, seed, stream, index, (uint32_t *)(void *)x.p);
    for (size_t i = 0; i < blocks; i++) {
        uint32_t expect[4];
        ll_random4(expect, seed, stream, index + i);
        assert_memory_equal(expect, x.p + 4 * i, sizeof expect);
    }
    guard_end(x, "random_words", k->name);
}
static void test_random_words(void **state) {
    (void)state;
    everywhere(random_words);
}

/* Words at both ends and in between. */
static void normals(const ll_kernels *k, size_t half, size_t shift, uint64_t seed) {
    static const uint32_t edge[] = {0,          1,          0x40000000, 0x7fffffff, 0x80000000,
                                    0xb504f333, 0xb504f334, 0xffffff00, 0xffffffff};
    enum { EDGES = sizeof edge / sizeof edge[0] };
    uint64_t from = seed;
    const size_t n = 2 * half;
    uint32_t word[140];
    for (size_t i = 0; i < n; i++) {
        const uint64_t draw = next64(&from);
        word[i] = draw % 3 ? (uint32_t)(draw >> 32) : edge[(draw >> 32) % EDGES];
    }
    guarded x = guard(n, shift);
    k->normals(n, word, x.p);
    for (size_t i = 0; i < n; i++) {
        const double radius = sqrt(-2 * log((word[i / 2 * 2] + 0.5) * 0x1p-32));
        const double angle = 2 * acos(-1) * 0x1p-32 * word[i / 2 * 2 + 1];
        near(k->name, "normals", n, i, seed, x.p[i], radius * (i % 2 ? sin(angle) : cos(angle)),
             2.5e-7 * fmax(1, radius));
    }
    guard_end(x, "normals", k->name);
}
static void test_normals(void **state) {
    (void)state;
    everywhere(normals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinusoids),    cmocka_unit_test(test_rotate_pairs),
        cmocka_unit_test(test_scale_blocks), cmocka_unit_test(test_scale_blocks_back),
        cmocka_unit_test(test_random_words), cmocka_unit_test(test_normals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
