/* Allocation. Blocks come from calloc, which returns large ones as untouched pages. A page costs nothing until a thread
 * writes to it, and the first write decides which memory it gets. Large blocks request huge pages, because rows of a
 * head lie so far apart that each would be on a small page of its own. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

static atomic_int kept;       /* nothing is freed */
static atomic_long countdown; /* 0: none; 1: this allocation and all later ones fail; -1: this one */

void ll_memory_fail_at(long n) {
    atomic_store(&countdown, n);
}

static int must_fail(void) {
    long n = atomic_load(&countdown);
    while (n > 1 || n < 0)
        if (atomic_compare_exchange_weak(&countdown, &n, n > 0 ? n - 1 : n + 1)) return n == -1;
    return n == 1;
}

/* This is a request. A system without huge pages, or with none left, ignores it. */
static void ask_for_pages(char *block, size_t bytes, int advice) {
    char *const first = block + (-(uintptr_t)block & (HUGE_PAGE - 1));
    if (bytes < 2 * (size_t)HUGE_PAGE) return;
    (void)madvise(first, (size_t)(block + bytes - first) / HUGE_PAGE * HUGE_PAGE, advice);
}

static void *allocate(size_t count, size_t size, int advice) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - 2 * ALIGN) {
        (void)!ll_fail(LL_ENOMEM, "%zu times %zu bytes are more than any machine has; use smaller sizes", count, size);
        return NULL;
    }
    /* The pointer that free needs is stored before the aligned block. */
    char *const raw = must_fail() ? NULL : calloc(1, bytes + sizeof(void *) + ALIGN);
    if (!raw) {
        (void)!ll_fail(LL_ENOMEM, "no memory for %zu bytes; use smaller sizes or a machine with more", bytes);
        return NULL;
    }
    char *block = raw + sizeof(void *);
    block += -(uintptr_t)block & (ALIGN - 1);
    memcpy(block - sizeof(void *), &raw, sizeof(void *));
    ask_for_pages(block, bytes, advice);
    return block;
}

void *ll_alloc(size_t count, size_t size) { return allocate(count, size, MADV_HUGEPAGE); }

void *ll_alloc_sparse(size_t count, size_t size) { return allocate(count, size, MADV_NOHUGEPAGE); }

void ll_memory_keep(void) {
    atomic_store(&kept, 1);
}

void ll_free(void *p) {
    void *raw;
    if (!p || atomic_load(&kept)) return;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    free(raw);
}

void ll_memory_rest(void *block, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)block & (page - 1);
    if (bytes < before + page) return;
    (void)madvise((char *)block + before, (bytes - before) / page * page, MADV_DONTNEED);
}

char *ll_strdup(const char *s) {
    const size_t n = strlen(s) + 1;
    char *copy = ll_alloc(n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}
