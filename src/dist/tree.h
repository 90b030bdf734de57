/* The order of a sum: a binary tree over leaves 0 .. n-1. Node (l, i) is the sum of leaves i 2^l .. (i + 1) 2^l - 1, as
 * far as there are that many, and its operands are the nodes (l - 1, 2i) and (l - 1, 2i + 1). The tree depends on the
 * number of leaves alone, so that a sum of floats is the same bits, whoever adds which part of it. */
#ifndef LL_TREE_H
#define LL_TREE_H

enum { LL_TREE_NODES = 64 };

typedef struct {
    int level, index;
} ll_node;

/* Nodes side by side, from the left; their sums are kept by the caller, in as many places. */
typedef struct {
    int leaves, n;
    ll_node node[LL_TREE_NODES];
} ll_tree;

/* Appends a node that begins where the last one ends. Returns how often the last two nodes then become one: each time
 * the caller adds the last sum to the one before. */
int ll_tree_push(ll_tree *tree, ll_node node);
/* The nodes that leaves first .. first + count - 1 come to. */
ll_tree ll_tree_of(int leaves, int first, int count);
/* Most nodes that there are at a time while these leaves are pushed one by one, the one that comes included. */
int ll_tree_room(int leaves, int first, int count);

#endif
