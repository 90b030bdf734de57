/* The loss of a row of logits against a teacher's, and its gradient, against the formula in double. */
#include "test.h"

#include "base/random.h"
#include "model/layer/soft_loss.h"

enum { MOST = 700 };

static double log_sum(int n, const double *x, double t) {
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) top = fmax(top, x[i] / t);
    for (int i = 0; i < n; i++) sum += exp(x[i] / t - top);
    return top + log(sum);
}

/* (1 - w) H + w t^2 KL(softmax(z / t) || softmax(x / t)) */
static double definition(int n, const double *x, const double *z, int target, double w, double t) {
    const double a = log_sum(n, x, t), b = log_sum(n, z, t);
    double divergence = 0;
    for (int i = 0; i < n; i++) divergence += exp(z[i] / t - b) * ((z[i] / t - b) - (x[i] / t - a));
    return (1 - w) * (log_sum(n, x, 1) - x[target]) + w * t * t * divergence;
}

static void fill(int n, double *x, double size, uint64_t seed) {
    for (int i = 0; i < n; i++) x[i] = (double)(float)(size * (2 * (double)ll_uniform(seed, 1, (uint64_t)i) - 1));
}

static void test_loss_and_gradient(void **state) {
    (void)state;
    static const int sizes[] = {2, 11, 256, 257, MOST};
    static const double weights[] = {0, 0.3, 1}, temperatures[] = {1, 0.5, 4}, scales[] = {1, 30};
    for (int s = 0; s < 5; s++)
        for (int w = 0; w < 3; w++)
            for (int t = 0; t < 3; t++)
                for (int k = 0; k < 2; k++) {
                    const int n = sizes[s], target = n / 3;
                    double x[MOST], z[MOST], expected[MOST + 1];
                    float got[MOST + 1], a[MOST], b[MOST];
                    fill(n, x, scales[k], 3), fill(n, z, scales[k], 4);
                    for (int i = 0; i < n; i++) a[i] = (float)x[i], b[i] = (float)z[i];
                    const float loss = (float)ll_soft_loss(ll_kernel_table(), n, a, b, target, weights[w],
                                                           temperatures[t], 0.7f);
                    const double whole = definition(n, x, z, target, weights[w], temperatures[t]);
                    check_close("loss", 1, &loss, &whole, 2e-5);
                    for (int i = 0; i < n; i++) {
                        const double at = x[i], h = 1e-5;
                        x[i] = at + h;
                        expected[i] = definition(n, x, z, target, weights[w], temperatures[t]);
                        x[i] = at - h;
                        expected[i] -= definition(n, x, z, target, weights[w], temperatures[t]);
                        expected[i] *= 0.7 / (2 * h);
                        x[i] = at;
                        got[i] = a[i];
                    }
                    check_close("gradient", (size_t)n, got, expected, 2e-5);
                }
}

/* A student with the logits of its teacher has a gradient of 0. */
static void test_the_same_logits(void **state) {
    (void)state;
    float x[40], z[40];
    for (int i = 0; i < 40; i++) x[i] = z[i] = (float)i * 0.3f;
    const double loss = ll_soft_loss(ll_kernel_table(), 40, x, z, 3, 1, 2, 1);
    if (!(fabs(loss) < 1e-6)) fail_msg("%g", loss);
    for (int i = 0; i < 40; i++) assert_true(fabsf(x[i]) < 1e-7f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_and_gradient),
        cmocka_unit_test(test_the_same_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
