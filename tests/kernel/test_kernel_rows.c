/* Row kernels of many rows at once, in every tier: a row has the bits that it has alone, and what lies between rows
 * stays as it is. test_kernels.c compares single rows with double precision. And the choice of a tier. */
#include <float.h>

#include "everywhere.h"

enum { ROWS = 5, GAP = 3 };
static const float factor[ROWS] = {1, -2.5f, 0, 0.3f, 7};

/* Rows of n numbers, ld apart, among numbers that nobody writes. */
static guarded rows_of(size_t n, size_t ld, size_t shift) {
    guarded y = guard(ROWS * ld, shift);
    assert_true(n < ld);
    for (size_t i = 0; i < ROWS * ld; i++) y.p[i] = 42;
    return y;
}
static void check_between(const ll_kernels *k, const char *name, size_t n, size_t ld, uint64_t seed, guarded y) {
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = n; i < ld; i++) near(k->name, name, n, i, seed, y.p[r * ld + i], 42, 0);
}

static void one_map(const ll_kernels *k, size_t n, size_t shift, uint64_t seed, int map, int backward) {
    const ll_row_map *f = &k->map[map];
    char name[32];
    snprintf(name, sizeof name, "map %d%s", map, backward ? ", back" : "");
    const size_t ldx = n + GAP, ldd = n + 1, ldy = n + 2 * GAP;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * ldx, shift, &from), d = guard_random(ROWS * ldd, 3 - shift, &from);
    guarded y = rows_of(n, ldy, shift), alone = guard(n, 1);
    if (!backward) f->forward(ROWS, n, 0.25f, x.p, ldx, y.p, ldy);
    if (backward) f->back(ROWS, n, 0.25f, x.p, ldx, d.p, ldd, y.p, ldy);
    for (size_t r = 0; r < ROWS; r++) {
        if (!backward) f->forward(1, n, 0.25f, x.p + r * ldx, ldx, alone.p, n);
        if (backward) f->back(1, n, 0.25f, x.p + r * ldx, ldx, d.p + r * ldd, ldd, alone.p, n);
        for (size_t i = 0; i < n; i++) near(k->name, name, n, i, seed, y.p[r * ldy + i], alone.p[i], 0);
    }
    check_between(k, name, n, ldy, seed, y);
    guard_end(x, name, k->name), guard_end(d, name, k->name), guard_end(y, name, k->name);
    guard_end(alone, name, k->name);
}

static void rows(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    for (int i = 0; i < 2 * LL_MAPS; i++) one_map(k, n, shift, seed, i / 2, i % 2);
}
static void test_rows(void **state) {
    (void)state;
    everywhere(rows);
}

/* tanh and cos of small and large numbers, NaN and infinity, against the C library in double. */
static void values(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    static const float size[] = {1e-3f, 1, 9, 300, 8000, 1e6f};
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), d = guard_random(n, 1, &from), y = guard(n, 3 - shift);
    for (size_t i = 0; i < n; i++) x.p[i] *= size[(i + seed) % 6];
    if (n > 4) x.p[1] = NAN, x.p[2] = INFINITY, x.p[3] = 0;
    k->map[LL_MAP_TANH].forward(1, n, 0, x.p, n, y.p, n);
    for (size_t i = 0; i < n; i++)
        near(k->name, "tanh", n, i, seed, y.p[i], tanh(x.p[i]), 4 * (double)FLT_EPSILON * fabs(tanh(x.p[i])));
    k->map[LL_MAP_COS].forward(1, n, 0, x.p, n, y.p, n);
    for (size_t i = 0; i < n; i++) near(k->name, "cos", n, i, seed, y.p[i], cos(x.p[i]), 3e-7);
    k->map[LL_MAP_COS].back(1, n, 0, x.p, n, d.p, n, y.p, n);
    for (size_t i = 0; i < n; i++)
        near(k->name, "cos, back", n, i, seed, y.p[i], -d.p[i] * sin(x.p[i]), 3e-7 * fabs(d.p[i]));
    guard_end(x, "values", k->name), guard_end(d, "values", k->name), guard_end(y, "values", k->name);
}
static void test_values(void **state) {
    (void)state;
    everywhere(values);
}

static void factors(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    const size_t ldx = n + GAP, ldy = n + 1;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * ldx, shift, &from);
    for (int copies = 0; copies < 2; copies++) {
        guarded y = rows_of(n, ldy, 3 - shift);
        k->scaled_rows(ROWS, n, copies ? NULL : factor, x.p, ldx, y.p, ldy);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t i = 0; i < n; i++)
                near(k->name, "scaled_rows", n, i, seed, y.p[r * ldy + i], (copies ? 1 : factor[r]) * x.p[r * ldx + i],
                     0);
        check_between(k, "scaled_rows", n, ldy, seed, y);
        guard_end(y, "scaled_rows", k->name);
    }
    guard_end(x, "factors", k->name);
}
static void test_factors(void **state) {
    (void)state;
    everywhere(factors);
}

static void quotients(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    const size_t ldg = n + GAP, ldy = n + 1, ldd = n + 2;
    uint64_t from = seed;
    guarded g = guard_random(ROWS * ldg, shift, &from), y = guard_random(ROWS * ldy, 3 - shift, &from);
    guarded d = rows_of(n + 1, ldd, 3 - shift);
    k->quotient_back(ROWS, n, factor, g.p, ldg, y.p, ldy, d.p, ldd);
    for (size_t r = 0; r < ROWS; r++) {
        double product = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            const double gi = g.p[r * ldg + i], yi = y.p[r * ldy + i];
            near(k->name, "quotient_back", n, i, seed, d.p[r * ldd + i], factor[r] * g.p[r * ldg + i], 0);
            product += gi * yi, size += fabs(gi * yi);
        }
        near(k->name, "quotient_back, divisor", n, r, seed, d.p[r * ldd + n], -(double)factor[r] * product,
             fabs((double)factor[r]) * (size * 1e-6 + 1e-30));
    }
    check_between(k, "quotient_back", n + 1, ldd, seed, d);
    guard_end(d, "quotient_back", k->name);
    guard_end(g, "quotient_back", k->name), guard_end(y, "quotient_back", k->name);
}
static void test_quotients(void **state) {
    (void)state;
    everywhere(quotients);
}

/* Rows in any order, from none to all of them; the last is not wanted by scatter. */
static void gathered(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    static const size_t order[ROWS] = {3, 0, 4, 1, 2};
    const double slack = 1e-6;
    const size_t ld = n + GAP;
    for (int rows = 0; rows <= ROWS; rows++) {
        uint64_t from = seed;
        guarded x = guard_random(ROWS * ld, shift, &from), a = guard_random(n, 3 - shift, &from);
        guarded y = guard_random(n, shift, &from), was = guard(n, 0), moved = rows_of(n, ld, 3 - shift);
        const float *row[ROWS];
        float *to[ROWS], product[ROWS + 1] = {0};
        memcpy(was.p, y.p, n * sizeof(float));
        product[rows] = 42;
        for (int r = 0; r < rows; r++) row[r] = x.p + order[r] * ld, to[r] = moved.p + order[r] * ld;
        if (rows) to[rows - 1] = NULL;
        k->gather(rows, n, factor, row, y.p);
        k->gather_dots(rows, n, a.p, row, product);
        k->scatter(rows, n, factor, a.p, to);
        for (size_t i = 0; i < n; i++) {
            double sum = was.p[i], size = fabs(sum);
            for (int r = 0; r < rows; r++) {
                const double term = (double)factor[r] * row[r][i];
                sum += term, size += fabs(term);
                if (to[r]) near(k->name, "scatter", n, i, seed, to[r][i], 42 + (double)factor[r] * a.p[i], 42 * slack);
            }
            near(k->name, "gather", n, i, seed, y.p[i], sum, slack * size);
        }
        for (int r = 0; r < rows; r++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < n; i++) sum += (double)row[r][i] * a.p[i], size += fabs((double)row[r][i] * a.p[i]);
            near(k->name, "gather_dots", n, (size_t)r, seed, product[r], sum, slack * size);
        }
        near(k->name, "gather_dots", n, (size_t)rows, seed, product[rows], 42, 0);
        for (int r = rows ? rows - 1 : 0; r < ROWS; r++)
            for (size_t i = 0; i < n; i++) near(k->name, "scatter", n, i, seed, moved.p[order[r] * ld + i], 42, 0);
        check_between(k, "scatter", n, ld, seed, moved);
        guard_end(x, "gathered", k->name), guard_end(a, "gathered", k->name), guard_end(y, "gathered", k->name);
        guard_end(was, "gathered", k->name), guard_end(moved, "gathered", k->name);
    }
}
static void test_gathered(void **state) {
    (void)state;
    everywhere(gathered);
}

/* A name selects a tier or is refused. NULL selects the default again. */
static void test_choice(void **state) {
    (void)state;
    const char *best = ll_cpu();
    CHECK_OK(ll_set_cpu("scalar"));
    assert_string_equal(ll_cpu(), "scalar");
    assert_ptr_equal(ll_kernel_table(), ll_kernel_tier("scalar"));
    CHECK_FAILS(ll_set_cpu("avx1024"), LL_EINVAL, "avx1024");
    assert_string_equal(ll_cpu(), "scalar");
    CHECK_OK(ll_set_cpu(NULL));
    assert_string_equal(ll_cpu(), best);
    assert_null(ll_kernel_tier("none"));
    const ll_kernels *k; /* the tests of this program and others reach the table that is used */
    int tested = 0;
    for (int t = 0; (k = tier_at(t)); t++) tested += !strcmp(k->name, best);
    assert_int_equal(tested, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),     cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_factors),  cmocka_unit_test(test_quotients),
                                       cmocka_unit_test(test_gathered), cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
