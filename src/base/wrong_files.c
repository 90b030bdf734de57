/* Files of a folder that cannot be read (wrong_files.h). */
#include "base/wrong_files.h"

#include <stdio.h>
#include <string.h>

ll_status ll_wrong_files_add(ll_wrong_files *files, ll_status status, const char *path) {
    if (status != LL_EFORMAT) return status;
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    if (!files->count)
        snprintf(files->first, sizeof files->first, "%s", ll_error());
    else if (files->count < 4)
        snprintf(files->next[files->count - 1], sizeof *files->next, "%s", name);
    files->count++;
    return LL_OK;
}

ll_status ll_wrong_files_end(const ll_wrong_files *files) {
    const int64_t more = files->count - 1;
    if (more < 0) return LL_OK;
    if (!more) return ll_fail(LL_EFORMAT, "%s", files->first);
    return ll_fail(LL_EFORMAT, "%.700s; %lld more file%s cannot be read: %s%s%s%s%s%s", files->first, (long long)more,
                   more > 1 ? "s" : "", files->next[0], more > 1 ? ", " : "", files->next[1], more > 2 ? ", " : "",
                   files->next[2], more > 3 ? ", .." : "");
}
