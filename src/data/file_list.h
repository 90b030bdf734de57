/* The files that a path of a recipe names. */
#ifndef LL_FILE_LIST_H
#define LL_FILE_LIST_H

#include <stddef.h>

#include "base/status.h"

/* All files of a path: the file itself, or those of a folder (sorted), or of several paths with ":" between them. */
LL_MUST_USE ll_status ll_files_list(char ***paths, int *count, const char *path);
/* LL_EINVAL where one of these paths is a pipe or a device. */
LL_MUST_USE ll_status ll_files_check(const char *path);
/* Is a file of `path` one of `other`, too, by whatever name? `first` becomes the name of the first one. 0 also where
 * they cannot be listed, which reading them reports. */
int ll_files_shared(char *first, size_t size, const char *path, const char *other);

#endif
