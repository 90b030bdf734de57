/* All allocation goes through these functions, so that tests can make it fail. */
#ifndef LL_MEMORY_H
#define LL_MEMORY_H

#include <stddef.h>

/* `count * size` bytes, zeroed and aligned to 64. NULL, with the error text set, if there is no memory or the product
 * overflows. count = 0 gives a valid pointer. */
void *ll_alloc(size_t count, size_t size);
/* The same for a block of which parts are never written: it has small pages, and takes memory only for those. */
void *ll_alloc_sparse(size_t count, size_t size);
void ll_free(void *p);
/* From now on ll_free frees nothing: another library may still use memory of this process, which is about to end. */
void ll_memory_keep(void);
/* Gives the pages of a block back, which are taken anew where they are written. Its contents are lost. */
void ll_memory_rest(void *block, size_t bytes);
char *ll_strdup(const char *s);

/* Cuts a block into pieces. If the block begins on a cache line, so does each piece. Without a block (base NULL) the
 * pieces are only counted, so that the same code computes the size of the block and divides it. */
typedef struct {
    float *base;
    size_t used; /* floats */
} ll_arena;
enum { LL_LINE = 16 /* floats */ };
static inline float *ll_arena_take(ll_arena *a, size_t floats) {
    float *const piece = a->base ? a->base + a->used : NULL;
    a->used += (floats + LL_LINE - 1) / LL_LINE * LL_LINE;
    return piece;
}
/* The same for other types. */
static inline void *ll_arena_bytes(ll_arena *a, size_t count, size_t size) {
    return ll_arena_take(a, (count * size + sizeof(float) - 1) / sizeof(float));
}

/* Makes the n-th allocation from now (1 = the next) and all later ones fail; -n: the n-th alone; 0: none. For tests
 * only. */
void ll_memory_fail_at(long n);

#endif
