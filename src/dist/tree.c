/* The order of a sum (tree.h). */
#include "dist/tree.h"

/* Number of nodes of this level in the whole tree. */
static int width(int leaves, int level) {
    return (int)(((long long)leaves + (1LL << level) - 1) >> level);
}

/* A node without a right neighbour is also its own parent, up to the root. */
static void rise(const ll_tree *t, ll_node *x) {
    while (x->index > 0 && x->index % 2 == 0 && x->index == width(t->leaves, x->level) - 1) {
        x->index /= 2;
        x->level++;
    }
}

int ll_tree_push(ll_tree *t, ll_node node) {
    int merges = 0;
    rise(t, &node);
    t->node[t->n++] = node;
    while (t->n > 1) {
        ll_node *left = &t->node[t->n - 2];
        const ll_node *right = &t->node[t->n - 1];
        if (left->level != right->level || left->index % 2 || right->index != left->index + 1) break;
        *left = (ll_node){left->level + 1, left->index / 2};
        t->n--;
        merges++;
        rise(t, left);
    }
    return merges;
}

ll_tree ll_tree_of(int leaves, int first, int count) {
    ll_tree t = {.leaves = leaves};
    for (int i = first; i < first + count; i++) ll_tree_push(&t, (ll_node){0, i});
    return t;
}

int ll_tree_capacity(int leaves, int first, int count) {
    ll_tree t = {.leaves = leaves};
    int most = 0;
    for (int i = first; i < first + count; i++) {
        if (t.n + 1 > most) most = t.n + 1;
        ll_tree_push(&t, (ll_node){0, i});
    }
    return most;
}
