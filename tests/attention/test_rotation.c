/* Rotations at any position: their angles are exact, and no bit depends on where a block begins. */
#include <math.h>

#include "attention/position/rotation.h"
#include "test.h"

static void test_angles_far_out(void **state) {
    (void)state;
    static const double w[] = {1, 0.3535533905932738, 1e-4}, phase = 0.25;
    const int64_t t0 = 1000000007;
    float all[2 * 140], one[2];
    for (int i = 0; i < 3; i++) {
        ll_rotations(1, w + i, NULL, &phase, t0, 140, all, 2);
        for (int t = 0; t < 140; t++) {
            const long double angle = 0.25L + (long double)w[i] * (long double)(t0 + t);
            ll_rotations(1, w + i, NULL, &phase, t0 + t, 1, one, 2);
            assert_memory_equal(one, all + 2 * t, sizeof one);
            assert_true(fabs((double)(cosl(angle) - one[0])) < 2e-7 && fabs((double)(sinl(angle) - one[1])) < 2e-7);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_angles_far_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
