/* All allocation goes through here, so that tests can make it fail. */
#ifndef LL_MEMORY_H
#define LL_MEMORY_H

#include <stddef.h>

/* `count * size` bytes, zeroed and aligned to 64. NULL (with the error text set) if memory is refused
 * or the product overflows; count = 0 gives a valid pointer. */
void *ll_alloc(size_t count, size_t size);
void ll_free(void *p);
char *ll_strdup(const char *s);

/* The n-th allocation from now (1 = the next) fails, and all after it; 0 = none. Tests only. */
void ll_memory_fail_at(long n);

#endif
