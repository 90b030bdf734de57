/* Files of a folder that cannot be read. The folder is gone through to its end, so that one error names them all. */
#ifndef LL_WRONG_FILES_H
#define LL_WRONG_FILES_H

#include <stdint.h>

#include "base/status.h"

typedef struct {
    int64_t count;
    char first[1024]; /* the error of the first one */
    char next[3][80]; /* names of the next ones */
} ll_wrong_files;

/* What became of reading a file: LL_EFORMAT is kept, and LL_OK returned in its place. */
LL_MUST_USE ll_status ll_wrong_files_add(ll_wrong_files *files, ll_status status, const char *path);
/* After the last file: LL_EFORMAT if there are any. */
LL_MUST_USE ll_status ll_wrong_files_end(const ll_wrong_files *files);

#endif
