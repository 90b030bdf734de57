/* A trie whose edges lie in one hash table: a step is a multiplication and mostly one look. */
#include "data/subwords/trie.h"

#include <string.h>

#include "base/memory.h"

enum { FIRST_NODES = 1024 };

static size_t slot_of(const ll_trie *t, uint64_t edge) {
    size_t i = (size_t)(edge * 0x9e3779b97f4a7c15u >> 20) & t->mask;
    while (t->edge[i] && t->edge[i] != edge) i = (i + 1) & t->mask;
    return i;
}

static ll_status allocate(ll_trie *t, size_t capacity) {
    *t = (ll_trie){.mask = 2 * capacity - 1, .capacity = capacity};
    t->edge = ll_alloc(2 * capacity, sizeof *t->edge);
    t->child = ll_alloc(2 * capacity, sizeof *t->child);
    t->value = ll_alloc(capacity, sizeof *t->value);
    if (t->edge && t->child && t->value) return LL_OK;
    ll_trie_free(t);
    return LL_ENOMEM;
}

ll_status ll_trie_create(ll_trie *t) {
    const ll_status status = allocate(t, FIRST_NODES);
    if (status) return status;
    t->value[0] = -1;
    t->nodes = 1;
    return LL_OK;
}

void ll_trie_free(ll_trie *t) {
    ll_free(t->edge);
    ll_free(t->child);
    ll_free(t->value);
    *t = (ll_trie){0};
}

static ll_status grow(ll_trie *t) {
    ll_trie bigger;
    const ll_status status = allocate(&bigger, 2 * t->capacity);
    if (status) return status;
    for (size_t i = 0; i <= t->mask; i++) {
        if (!t->edge[i]) continue;
        const size_t slot = slot_of(&bigger, t->edge[i]);
        bigger.edge[slot] = t->edge[i];
        bigger.child[slot] = t->child[i];
    }
    memcpy(bigger.value, t->value, t->nodes * sizeof *t->value);
    bigger.nodes = t->nodes;
    ll_trie_free(t);
    *t = bigger;
    return LL_OK;
}

ll_status ll_trie_add(ll_trie *t, const uint8_t *text, size_t n, int value) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t edge = ((uint64_t)node << 8 | text[i]) + 1;
        size_t slot = slot_of(t, edge);
        if (!t->edge[slot]) {
            if (t->nodes == t->capacity) {
                const ll_status status = grow(t);
                if (status) return status;
                slot = slot_of(t, edge);
            }
            t->edge[slot] = edge;
            t->child[slot] = (uint32_t)t->nodes;
            t->value[t->nodes++] = -1;
        }
        node = t->child[slot];
    }
    if (t->value[node] < 0) t->value[node] = value;
    return LL_OK;
}

uint32_t ll_trie_step(const ll_trie *t, uint32_t node, uint8_t byte) {
    const size_t slot = slot_of(t, ((uint64_t)node << 8 | byte) + 1);
    return t->edge[slot] ? t->child[slot] : 0;
}

int ll_trie_find(const ll_trie *t, const uint8_t *text, size_t n) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++)
        if (!(node = ll_trie_step(t, node, text[i]))) return -1;
    return n ? t->value[node] : -1;
}

int ll_trie_longest(const ll_trie *t, uint32_t node, const uint8_t *text, size_t n, size_t *length) {
    int found = -1;
    *length = 0;
    for (size_t i = 0; i < n && (node = ll_trie_step(t, node, text[i])); i++)
        if (t->value[node] >= 0) {
            found = t->value[node];
            *length = i + 1;
        }
    return found;
}
