/* Row kernels of many rows at once, in every tier: a row has the bits that it has alone, and what lies between rows
 * stays as it is. test_kernels.c compares single rows with double precision. */
#include "everywhere.h"

enum { ROWS = 5, GAP = 3 };

/* What one of the kernels makes of `rows` rows. x and d are what it reads, y what it writes. */
typedef void kernel(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                    float *y, size_t ldy);

static const float factor[ROWS] = {1, -2.5f, 0, 0.3f, 7}, equal[ROWS] = {3.3f, 3.3f, 3.3f, 3.3f, 3.3f};

static void scaled(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                   float *y, size_t ldy) {
    (void)d, (void)ldd;
    k->scaled_rows(rows, n, equal, x, ldx, y, ldy);
}
static void copied(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                   float *y, size_t ldy) {
    (void)d, (void)ldd;
    k->scaled_rows(rows, n, NULL, x, ldx, y, ldy);
}
static void relu(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                 float *y, size_t ldy) {
    (void)d, (void)ldd;
    k->relu(rows, n, 1e-3f, x, ldx, y, ldy);
}
static void relu_back(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                      float *y, size_t ldy) {
    k->relu_back(rows, n, 0.25f, x, ldx, d, ldd, y, ldy);
}
static void elu1(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                 float *y, size_t ldy) {
    (void)d, (void)ldd;
    k->elu1(rows, n, 1e-3f, x, ldx, y, ldy);
}
static void elu1_back(const ll_kernels *k, int rows, size_t n, const float *x, size_t ldx, const float *d, size_t ldd,
                      float *y, size_t ldy) {
    k->elu1_back(rows, n, 0.25f, x, ldx, d, ldd, y, ldy);
}

static void one_kernel(const ll_kernels *k, size_t n, size_t shift, uint64_t seed, const char *name, kernel *make) {
    const size_t ldx = n + GAP, ldd = n + 1, ldy = n + 2 * GAP;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * ldx, shift, &from), d = guard_random(ROWS * ldd, 3 - shift, &from);
    guarded y = guard(ROWS * ldy, shift), alone = guard(n, 1);
    for (size_t i = 0; i < ROWS * ldy; i++) y.p[i] = 42;
    make(k, ROWS, n, x.p, ldx, d.p, ldd, y.p, ldy);
    for (size_t r = 0; r < ROWS; r++) {
        make(k, 1, n, x.p + r * ldx, ldx, d.p + r * ldd, ldd, alone.p, n);
        for (size_t i = 0; i < n; i++) near(k->name, name, n, i, seed, y.p[r * ldy + i], alone.p[i], 0);
        for (size_t i = n; i < ldy; i++) near(k->name, "between rows", n, i, seed, y.p[r * ldy + i], 42, 0);
    }
    guard_end(x, name, k->name), guard_end(d, name, k->name), guard_end(y, name, k->name);
    guard_end(alone, name, k->name);
}

static void rows(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    one_kernel(k, n, shift, seed, "scaled_rows", scaled);
    one_kernel(k, n, shift, seed, "scaled_rows without factors", copied);
    one_kernel(k, n, shift, seed, "relu", relu);
    one_kernel(k, n, shift, seed, "relu_back", relu_back);
    one_kernel(k, n, shift, seed, "elu1", elu1);
    one_kernel(k, n, shift, seed, "elu1_back", elu1_back);
}
static void test_rows(void **state) {
    (void)state;
    everywhere(rows);
}

static void factors(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    const size_t ldx = n + GAP, ldy = n + 1;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * ldx, shift, &from), y = guard_random(ROWS * ldy, 3 - shift, &from);
    float product[ROWS];
    k->dot_rows(ROWS, n, x.p, ldx, y.p, ldy, product);
    for (size_t r = 0; r < ROWS; r++)
        near(k->name, "dot_rows", n, r, seed, product[r], k->dot(n, x.p + r * ldx, y.p + r * ldy), 0);
    k->scaled_rows(ROWS, n, factor, x.p, ldx, y.p, ldy);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < n; i++)
            near(k->name, "scaled_rows", n, i, seed, y.p[r * ldy + i], factor[r] * x.p[r * ldx + i], 0);
    guard_end(x, "factors", k->name), guard_end(y, "factors", k->name);
}
static void test_factors(void **state) {
    (void)state;
    everywhere(factors);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_factors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
