/* Texts to numbers, and the texts that begin another: a trie whose edges lie in one hash table. */
#ifndef LL_TRIE_H
#define LL_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    uint64_t *edge;  /* (node << 8 | byte) + 1; 0: a free slot */
    uint32_t *child; /* of each slot */
    size_t mask;     /* slots - 1 */
    int32_t *value;  /* of each node; -1: no text ends here */
    size_t nodes, capacity;
} ll_trie;

LL_MUST_USE ll_status ll_trie_create(ll_trie *t);
void ll_trie_free(ll_trie *t);
/* Adds a text with value >= 0. A text that is there already keeps its value. */
LL_MUST_USE ll_status ll_trie_add(ll_trie *t, const uint8_t *text, size_t n, int value);
/* The node after this byte; 0 (the root): there is none. */
uint32_t ll_trie_step(const ll_trie *t, uint32_t node, uint8_t byte);
/* The value of a text; -1: it is not there. */
int ll_trie_find(const ll_trie *t, const uint8_t *text, size_t n);
/* The longest text that these bytes begin with, from a node on, and its value; -1: none is longer than 0. */
int ll_trie_longest(const ll_trie *t, uint32_t node, const uint8_t *text, size_t n, size_t *length);

#endif
