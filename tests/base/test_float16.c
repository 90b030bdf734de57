/* 16-bit numbers against the definition of their bits. */
#include <math.h>

#include "base/safetensors.h"
#include "test.h"

/* The value of a pattern with a sign, E bits of exponent and F bits of fraction. */
static double defined(unsigned bits, int E, int F) {
    const int bias = (1 << (E - 1)) - 1, e = (int)(bits >> F) & ((1 << E) - 1), f = (int)bits & ((1 << F) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (e == (1 << E) - 1) return f ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(1 + ldexp(f, -F), e - bias) : ldexp(f, 1 - bias - F));
}

/* Each pattern is read as defined and written back unchanged. */
static void check_patterns(enum ll_dtype dtype, int E, int F) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        const float x = ll_float16_to_float(dtype, (uint16_t)bits);
        const double exact = defined(bits, E, F);
        if (isnan(exact)) {
            assert_true(isnan(x) && isnan(ll_float16_to_float(dtype, ll_float16_from_float(dtype, x))));
            continue;
        }
        assert_true((double)x == exact && !signbit(x) == !signbit(exact));
        assert_int_equal(ll_float16_from_float(dtype, x), bits);
    }
}

/* Between two neighbours the nearer one is taken, and the even one in the middle. */
static void check_rounding(enum ll_dtype dtype, unsigned infinity) {
    for (unsigned bits = 0; bits + 1 < infinity; bits++) {
        const float a = ll_float16_to_float(dtype, (uint16_t)bits);
        const float b = ll_float16_to_float(dtype, (uint16_t)(bits + 1));
        const float middle = (float)(((double)a + (double)b) / 2);
        assert_int_equal(ll_float16_from_float(dtype, middle), bits + bits % 2);
        assert_int_equal(ll_float16_from_float(dtype, -middle), 0x8000 | (bits + bits % 2));
        assert_int_equal(ll_float16_from_float(dtype, nextafterf(middle, 0)), bits);
        assert_int_equal(ll_float16_from_float(dtype, nextafterf(middle, INFINITY)), bits + 1);
    }
}

static void test_halves(void **state) {
    (void)state;
    check_patterns(LL_ST_F16, 5, 10);
    check_patterns(LL_ST_BF16, 8, 7);
    check_rounding(LL_ST_F16, 0x7c00);
    check_rounding(LL_ST_BF16, 0x7f80);
    assert_int_equal(ll_float16_from_float(LL_ST_F16, 65519), 0x7bff);
    assert_int_equal(ll_float16_from_float(LL_ST_F16, 65520), 0x7c00);
    assert_int_equal(ll_float16_from_float(LL_ST_F16, -1e30f), 0xfc00);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
