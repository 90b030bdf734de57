/* The cross-attention cache (ll_cross_cache): queries that read it get what a whole call gives. */
#include "ragged.h"
#include "attention/cross_cache.h"

/* However the queries are divided among calls, the cache gives what a whole call gives. Filling it anew replaces the
 * source before. */
static void test_every_pair(void **state) {
    (void)state;
    enum { T = 80, S = 45 };
    make_numbers();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int position = 0; position < POSITIONS; position++) {
            ll_attention_config c;
            ll_attention *op = NULL;
            ll_cross_cache *cache = NULL;
            char what[100];
            if (!describe(&c, kernel, position, 0, 1)) continue;
            snprintf(what, sizeof what, "%s %s cache", kernel_names[kernel], position_names[position]);
            CHECK_OK(ll_attention_create(&op, &c));
            if (kernel > LINEAR || (position >= LL_POSITION_RELATIVE_S2 && position <= LL_POSITION_SHAW)) {
                CHECK_FAILS(ll_cross_cache_create(&cache, op), LL_EINVAL, "use ");
                ll_attention_free(op);
                continue;
            }
            CHECK_OK(ll_cross_cache_create(&cache, op));
            arrays a = arrays_of(op, 1, T, S, 1);
            const ll_segment all = {0, 0, T, 0, S};
            fill_sequence(&a.call, &all, 9);
            CHECK_OK(ll_cross_cache_fill(cache, 7, a.call.v, a.call.v)); /* another source first */
            CHECK_OK(ll_cross_cache_fill(cache, S, a.call.k, a.call.v));
            CHECK_OK(ll_attention_forward(op, &a.call));
            double wanted[T * H * E];
            float got[T * H * E];
            for (int i = 0; i < T * H * E; i++) wanted[i] = (double)a.call.y.data[i], a.call.y.data[i] = NAN;
            for (int t = 0, n; t < T; t += n) {
                ll_view q = a.call.q, y = a.call.y;
                n = T - t < 1 + t ? T - t : 1 + t; /* 1, 2, 4, .. */
                q.data += (size_t)t * q.token, y.data += (size_t)t * y.token;
                CHECK_OK(ll_cross_cache_read(cache, t, n, q, y));
            }
            memcpy(got, a.call.y.data, sizeof got);
            check_close(what, T * H * E, got, wanted, 1e-5);
            assert_true(ll_cross_cache_bytes(cache) > 0);
            arrays_free(&a);
            ll_cross_cache_free(cache);
            ll_attention_free(op);
        }
    ll_attention_config c;
    ll_attention *op = NULL;
    ll_cross_cache *cache = NULL;
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_NONE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_cross_cache_create(&cache, op), LL_EINVAL, "causal");
    ll_attention_free(op);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
