/* Learning rates against the formulas of docs/math.md, which are written out here again. */
#include "test.h"

#include "train/train_internal.h"

static ll_config config(int schedule, int64_t steps, int64_t warmup) {
    ll_config c = {0};
    c.train.schedule = schedule;
    c.train.steps = steps;
    c.train.warmup = warmup;
    c.train.learning_rate = 3e-3;
    c.train.final_rate = 1e-4;
    return c;
}

static void expect(const ll_config *c, int64_t step, double rate) {
    const double got = ll_schedule_rate(c, step);
    if (!(fabs(got - rate) <= 1e-15)) fail_msg("step %lld: %.17g, expected %.17g", (long long)step, got, rate);
}

static void test_warmup_is_the_same_in_all(void **state) {
    (void)state;
    for (int schedule = LL_LR_CONSTANT; schedule <= LL_LR_COSINE; schedule++) {
        const ll_config c = config(schedule, 100, 20);
        for (int64_t s = 1; s <= 20; s++) expect(&c, s, 3e-3 * (double)s / 20);
    }
}

static void test_constant(void **state) {
    (void)state;
    const ll_config c = config(LL_LR_CONSTANT, 100, 0);
    expect(&c, 1, 3e-3);
    expect(&c, 100, 3e-3);
    expect(&c, 1000000, 3e-3);
}

static void test_linear(void **state) {
    (void)state;
    const ll_config c = config(LL_LR_LINEAR, 120, 20);
    expect(&c, 70, (3e-3 + 1e-4) / 2);
    expect(&c, 45, 3e-3 - 0.25 * (3e-3 - 1e-4));
    expect(&c, 120, 1e-4);
    expect(&c, 500, 1e-4);
}

static void test_cosine(void **state) {
    (void)state;
    const ll_config c = config(LL_LR_COSINE, 120, 20);
    expect(&c, 70, (3e-3 + 1e-4) / 2);
    expect(&c, 45, 1e-4 + (3e-3 - 1e-4) * (1 + sqrt(0.5)) / 2);
    expect(&c, 120, 1e-4);
    expect(&c, 500, 1e-4);
}

static void test_inverse_sqrt(void **state) {
    (void)state;
    const ll_config c = config(LL_LR_INVERSE_SQRT, 100, 25);
    expect(&c, 25, 3e-3);
    expect(&c, 100, 3e-3 / 2);
    expect(&c, 2500, 3e-3 / 10);
    const ll_config cold = config(LL_LR_INVERSE_SQRT, 100, 0);
    expect(&cold, 1, 3e-3);
    expect(&cold, 9, 1e-3);
}

/* A warm-up as long as the run must not divide by zero. */
static void test_edges(void **state) {
    (void)state;
    for (int schedule = LL_LR_CONSTANT; schedule <= LL_LR_COSINE; schedule++) {
        const int64_t warmup[3] = {0, 10, 50};
        for (int i = 0; i < 3; i++) {
            const ll_config c = config(schedule, 10, warmup[i]);
            for (int64_t s = 1; s < 70; s++) {
                const double r = ll_schedule_rate(&c, s);
                assert_true(isfinite(r) && r > 0 && r <= 3e-3);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup_is_the_same_in_all),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_inverse_sqrt),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
