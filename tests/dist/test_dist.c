/* The tree that sums gradients. Its order depends only on the number of leaves, not on how ranks share them. A rank
 * sums each bucket once. */
#include "test.h"

#include "base/bf16.h"
#include "dist/exchange.h"
#include "dist/tree.h"

enum { LEAVES = 40 };

static float leaf(int i) {
    return (float)(i % 7 - 3) * 1.1f + 1.0f / (float)(i + 1);
}

/* The definition: node (level, index) of n leaves, by recursion. */
static float sum_of(int n, int level, int index) {
    const int first = index << level, right = level > 0 ? (2 * index + 1) << (level - 1) : 0;
    if (level == 0) return leaf(first);
    const float left = sum_of(n, level - 1, 2 * index);
    return right < n ? left + sum_of(n, level - 1, 2 * index + 1) : left;
}

static float root_of(int n) {
    int level = 0;
    while (1 << level < n) level++;
    return sum_of(n, level, 0);
}

/* Adds a node with its sum. */
static void push(ll_tree *t, float *sum, ll_node node, float x) {
    int top = t->n;
    sum[top] = x;
    for (int merges = ll_tree_push(t, node); merges > 0; merges--, top--) sum[top - 1] += sum[top];
}

/* Each rank sums its leaves. Then the remaining nodes of all ranks are summed. */
static void divisions_give_the_tree(void **state) {
    (void)state;
    for (int n = 1; n <= LEAVES; n++)
        for (int ranks = 1; ranks <= n; ranks++) {
            ll_tree all = {.leaves = n};
            float sums[LL_TREE_NODES];
            for (int r = 0; r < ranks; r++) {
                const int first = n * r / ranks, end = n * (r + 1) / ranks;
                ll_tree own = {.leaves = n};
                float part[LL_TREE_NODES];
                int largest = 0;
                for (int i = first; i < end; i++) {
                    if (own.n + 1 > largest) largest = own.n + 1;
                    push(&own, part, (ll_node){0, i}, leaf(i));
                }
                const ll_tree nodes = ll_tree_of(n, first, end - first);
                assert_int_equal(nodes.n, own.n);
                assert_int_equal(ll_tree_capacity(n, first, end - first), largest);
                for (int j = 0; j < own.n; j++) push(&all, sums, own.node[j], part[j]);
            }
            assert_int_equal(all.n, 1);
            const float expected = root_of(n);
            assert_memory_equal(&sums[0], &expected, sizeof expected);
        }
}

/* During the last of three leaves, two buckets are announced in parts, the upper one first. Each is summed when it is
 * complete, and not again by a later part of the other one or at the end. */
static void buckets_are_summed_once(void **state) {
    (void)state;
    enum { N = 1 << 18, PART = N / 2 };
    static const size_t bound[] = {0, N, 2 * N};
    static const int first = 0, count = 3;
    const ll_exchange_plan plan = {count, &first, &count, 2, bound, 0, 1};
    ll_exchange *x = NULL;
    CHECK_OK(ll_exchange_create(&x, &plan));
    for (int step = 0; step < 2; step++) {
        ll_exchange_begin(x);
        for (int i = 0; i < count; i++) {
            float *grad = ll_exchange_leaf(x, 0);
            for (size_t j = 0; j < 2 * N; j++) grad[j] = (float)(1 << i);
            for (size_t end = 2 * N; end > 0; end -= PART) ll_exchange_ready(x, end - PART, end);
            ll_exchange_added(x);
        }
        CHECK_OK(ll_exchange_reduce_scatter(x));
        for (size_t j = 0; j < 2 * N; j++) assert_true(ll_exchange_block(x)[j] == 7);
    }
    ll_exchange_free(x);
}

/* bfloat16 rounds to the nearest number, and to the even one if two are equally near. The last
 * case is below the normal numbers, and its nearest one is the smallest of all. */
static void bf16_is_the_nearest(void **state) {
    (void)state;
    static const struct {
        float from, to;
    } cases[] = {{1, 1},
                 {-2.5f, -2.5f},
                 {1.00390625f, 1},
                 {1.01171875f, 1.015625f},
                 {1.00390637f, 1.0078125f},
                 {0, 0},
                 {3.3895314e38f, 3.3895314e38f},
                 {INFINITY, INFINITY},
                 {1e-40f, 0x1p-133f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t rounded;
        float back;
        ll_bf16_round(&rounded, &cases[i].from, 1);
        ll_bf16_floats(&back, &rounded, 1);
        assert_true(back == cases[i].to);
        if (i < 7) assert_true(fabs((double)back - (double)cases[i].from) <= fabs((double)cases[i].from) / 256);
    }
    uint16_t rounded;
    float back, nan = NAN;
    ll_bf16_round(&rounded, &nan, 1);
    ll_bf16_floats(&back, &rounded, 1);
    assert_true(isnan(back));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divisions_give_the_tree),
        cmocka_unit_test(buckets_are_summed_once),
        cmocka_unit_test(bf16_is_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
