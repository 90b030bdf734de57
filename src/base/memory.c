/* Allocation. Blocks come from calloc, which hands out large ones as untouched pages: what is never
 * written costs nothing, and the thread that first writes a page places it. (Huge pages were tried: one
 * percent of a training step's time, less than they cost to fill.) */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { ALIGN = 64 };

static atomic_long countdown; /* 0: none; 1: this allocation and all that follow fail */

void ll_memory_fail_at(long n) {
    atomic_store(&countdown, n > 0 ? n : 0);
}

static int must_fail(void) {
    long n = atomic_load(&countdown);
    while (n > 1)
        if (atomic_compare_exchange_weak(&countdown, &n, n - 1)) return 0;
    return n == 1;
}

void *ll_alloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - 2 * ALIGN) {
        (void)!ll_fail(LL_ENOMEM, "%zu times %zu bytes are more than any machine has; use smaller sizes", count, size);
        return NULL;
    }
    /* The pointer that free needs lies in front of the aligned block. */
    char *const raw = must_fail() ? NULL : calloc(1, bytes + sizeof(void *) + ALIGN);
    if (!raw) {
        (void)!ll_fail(LL_ENOMEM, "no memory for %zu bytes; use smaller sizes or a machine with more", bytes);
        return NULL;
    }
    char *block = raw + sizeof(void *);
    block += -(uintptr_t)block & (ALIGN - 1);
    memcpy(block - sizeof(void *), &raw, sizeof(void *));
    return block;
}

void ll_free(void *p) {
    void *raw;
    if (!p) return;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    free(raw);
}

char *ll_strdup(const char *s) {
    const size_t n = strlen(s) + 1;
    char *copy = ll_alloc(n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}
