/* Standard output that goes to a file, which is complete or unchanged. It may be larger than memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static ll_text_file *file;
static const char *name; /* of it: an argument of the program */
static int before = -1; /* what standard output was */

int ll_stdout_begin(const char *path) {
    int fd;
    const ll_status status = ll_text_file_create(&file, path, &fd);
    if (status) return ll_failed(status, NULL);
    name = path;
    fflush(stdout);
    before = dup(STDOUT_FILENO);
    return before >= 0 && dup2(fd, STDOUT_FILENO) >= 0 ? -1
                                                       : ll_fail_message("cannot write %s: %s", path, strerror(errno));
}

int ll_stdout_end(int code) {
    if (!file) return code;
    const int bad = fflush(stdout) || ferror(stdout);
    if (bad && !code) code = ll_fail_message("cannot write %s: %s", name, strerror(errno));
    clearerr(stdout);
    if (before >= 0) {
        dup2(before, STDOUT_FILENO);
        close(before);
        before = -1;
    }
    if (code) {
        ll_text_file_abandon(file);
    } else {
        const ll_status status = ll_text_file_commit(file);
        if (status) code = ll_failed(status, NULL);
    }
    file = NULL;
    return code;
}
