/* Attention whose products round to bfloat16 (call.bf16): near the definition, but not equal, and with the same bits
 * for any number of threads. test_precision.c trains with it. */
#include "drawn.h"

/* Exact attention, also in windows, or smooth and positive features. A slope that jumps (relu, a maximum) can jump
 * elsewhere after rounding, and where features have two signs, sums come near 0. */
static ll_attention_config smooth_config(uint64_t *seed) {
    for (;;) {
        ll_attention_config c = draw_config(seed);
        if (c.kernel == LL_KERNEL_SOFTMAX && draw_int(seed, 0, 1))
            c.kernel = LL_KERNEL_LOCAL, c.approximate.window = draw_int(seed, 1, 40);
        const int exact = c.kernel == LL_KERNEL_SOFTMAX || c.kernel == LL_KERNEL_LOCAL;
        const int favor = c.kernel == LL_KERNEL_FAVOR && c.features < LL_FEATURES_TRIGONOMETRIC && !c.max_gradient;
        if (favor || exact || c.kernel == LL_KERNEL_ELU1) return c;
        draw_config_free(&c);
    }
}

/* y and the gradients of a call; the caller frees them. */
static float *results(drawn *d, int tile, int bf16, size_t *size) {
    d->call.bf16 = bf16;
    drawn_run(d, tile, 1);
    return drawn_results(d, size);
}

static void test_near_the_definition(void **state) {
    (void)state;
    uint64_t seed = 11;
    int rounded = 0, equal = 0;
    for (int n = 0; n < rounds(150); n++) {
        ll_attention_config c = smooth_config(&seed);
        const int T = draw_int(&seed, 1, 150), own = c.causal || c.kernel == LL_KERNEL_LOCAL;
        const int S = own ? T : draw_int(&seed, 1, 150), tile = draw_int(&seed, 0, 40);
        const int rounds_products = c.M || !c.causal || c.kernel == LL_KERNEL_SOFTMAX || c.kernel == LL_KERNEL_LOCAL;
        const int how = draw_int(&seed, 0, 7), unmasked = c.kernel == LL_KERNEL_LOCAL ? ~DRAW_MASK : ~0;
        drawn *d = drawn_create(c, draw_int(&seed, 1, 3), T, S, 0.8, how & unmasked, &seed);
        size_t size;
        char what[40];
        snprintf(what, sizeof what, "case %d, tile %d", n, tile);
        drawn_solve(d, 1);
        float *whole = results(d, tile, 0, &size), *half = results(d, tile, 1, &size);
        drawn_check(d, what, 1, 0.05, 0.08); /* a rounding is off by 2^-9 at most, and an exponential has several */
        const int same = memcmp(whole, half, size) == 0;
        if (!rounds_products && !same) fail_msg("%s: nothing is to be rounded: %s", what, drawn_name(d));
        rounded += rounds_products, equal += rounds_products && same; /* as without any keys */
        free(whole), free(half);
        drawn_free(d);
    }
    if (equal * 10 > rounded) fail_msg("%d of %d calls have the bits of float", equal, rounded);
}

/* Sequences so long that threads share a head. */
static void test_threads(void **state) {
    (void)state;
    uint64_t seed = 12;
    static const ll_kernel kernels[] = {LL_KERNEL_FAVOR, LL_KERNEL_ELU1, LL_KERNEL_SOFTMAX};
    for (int n = 0; n < 12; n++) {
        ll_attention_config c = {.kernel = kernels[n % 3], .causal = n / 3 % 2, .H = 1};
        c.D = 13, c.E = 9, c.M = n % 3 ? 0 : 20, c.input_scale = 0.5f;
        draw_parts(&c, c.causal && n / 6 && n % 3 < 2, &seed);
        drawn *d = drawn_create(c, 1, c.causal ? 700 : 2500, c.causal ? 700 : 2500, 0.8, 0, &seed);
        size_t size;
        ll_set_threads(1);
        float *one = results(d, 0, 1, &size);
        ll_set_threads(3);
        float *three = results(d, 0, 1, &size);
        ll_set_threads(0);
        if (memcmp(one, three, size) != 0) fail_msg("other bits on three threads: %s", drawn_name(d));
        free(one), free(three);
        drawn_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_near_the_definition), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
