/* Public structs that grow. Their first field is struct_size, which the caller sets to sizeof of the struct as its
 * headers have it; 0 stands for the fields of version 0.2. Fields that a caller does not know are 0. */
#ifndef LL_VERSIONED_H
#define LL_VERSIONED_H

#include <stddef.h>

#include "base/status.h"

/* Copies a caller's struct into ours, of `size` bytes, which is then its struct_size. LL_EINVAL: it is larger, or too
 * small for its first field. A field that a later version adds behind those of 0.2 changes what 0 means here. */
LL_MUST_USE ll_status ll_struct_take(void *ours, size_t size, const void *given, const char *name);
/* Checks a struct that the library fills in; then gives it those of our fields that it has, but for its size. */
LL_MUST_USE ll_status ll_struct_check(const void *theirs, size_t size, const char *name);
void ll_struct_give(void *theirs, size_t size, const void *ours);

#endif
