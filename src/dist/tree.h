/* The order of a sum: a binary tree over leaves 0 .. n-1. Node (l, i) is the sum of the leaves i 2^l .. (i + 1) 2^l - 1
 * that exist. Its operands are the nodes (l - 1, 2i) and (l - 1, 2i + 1). The tree depends only on the number of
 * leaves, so a sum has the same bits whichever rank adds which part. */
#ifndef LL_TREE_H
#define LL_TREE_H

enum { LL_TREE_NODES = 64 };

typedef struct {
    int level, index;
} ll_node;

/* Neighbouring nodes, from left to right. The caller keeps their sums, in as many buffers. */
typedef struct {
    int leaves, n;
    ll_node node[LL_TREE_NODES];
} ll_tree;

/* Appends a node that begins where the last one ends. Returns how often the last two nodes are joined; each time the
 * caller adds the last sum to the one before. */
int ll_tree_push(ll_tree *tree, ll_node node);
/* The nodes that the leaves first .. first + count - 1 form. */
ll_tree ll_tree_of(int leaves, int first, int count);
/* The most nodes at a time while these leaves are pushed one by one, with the one being pushed. */
int ll_tree_capacity(int leaves, int first, int count);

#endif
