/* The tree that sums gradients. Its order depends only on the number of leaves, not on how ranks share them. */
#include "test.h"

#include "base/bf16.h"
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
        cmocka_unit_test(bf16_is_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
