/* Standard output that goes to a file, which is complete or unchanged. It may be larger than memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static ll_text_file *file;
static const char *name; /* of it: an argument of the program */
static int before = -1; /* what standard output was */
static int lost;        /* errno of the first write that failed */

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

int ll_stdout_flush(void) {
    if (!fflush(stdout) && !ferror(stdout)) return 0;
    if (!lost) lost = errno;
    return 1;
}

/* Results that did not reach their file are a failure. */
static int check(const char *where, int code) {
    if (!ll_stdout_flush()) return code;
    const int failed = ll_fail_message("cannot write %s: %s", where, strerror(lost));
    return code ? code : failed;
}

int ll_stdout_check(int code) {
    return check("to standard output", code);
}

int ll_stdout_end(int code) {
    if (!file) return code;
    code = check(name, code);
    clearerr(stdout);
    lost = 0;
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
