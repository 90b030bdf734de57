/* Public structs of any version. */
#include "base/versioned.h"

#include <string.h>

/* struct_size, with what 0 stands for. */
static size_t size_of(const void *given, size_t size) {
    size_t n;
    memcpy(&n, given, sizeof n);
    return n ? n : size;
}

ll_status ll_struct_check(const void *theirs, size_t size, const char *name) {
    const size_t n = size_of(theirs, size);
    if (n > sizeof n && n <= size) return LL_OK; /* no more than its first field: sizeof of a pointer */
    return ll_fail(LL_EINVAL,
                   "struct_size of %s is %zu, and this library knows %zu: set it to sizeof(%s), or clear the struct",
                   name, n, size, name);
}

ll_status ll_struct_take(void *ours, size_t size, const void *given, const char *name) {
    const ll_status status = ll_struct_check(given, size, name);
    if (status) return status;
    memset(ours, 0, size);
    memcpy(ours, given, size_of(given, size));
    memcpy(ours, &size, sizeof size);
    return LL_OK;
}

void ll_struct_give(void *theirs, size_t size, const void *ours) {
    const size_t n = size_of(theirs, size), own = sizeof n;
    memcpy((char *)theirs + own, (const char *)ours + own, n - own);
}
