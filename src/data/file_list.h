/* The files that a path of a recipe names. */
#ifndef LL_FILE_LIST_H
#define LL_FILE_LIST_H

#include <stddef.h>

#include "base/status.h"

/* All files of a path: the file itself, or those of a folder (sorted), or of several paths with ":" between them. */
LL_MUST_USE ll_status ll_files_list(char ***paths, int *count, const char *path);
/* LL_EINVAL where one of these paths is a pipe or a device. */
LL_MUST_USE ll_status ll_files_check(const char *path);
/* Does a split read this file of a path? split: LL_SPLIT_... (format.h). */
typedef int ll_files_pick(const char *path, const char *file, int split);
/* Is a file of `path` one of `other`, too, by whatever name, and read for both splits? `first` becomes the name of the
 * first one. pick NULL: all files are read. 0 also where they cannot be listed, which reading them reports. */
int ll_files_shared(char *first, size_t size, ll_files_pick *pick, const char *path, int split, const char *other,
                    int other_split);

#endif
