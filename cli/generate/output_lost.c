/* Standard output that failed before the text ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "generate/generate_output.h"

static int lost; /* exit code of lost output */

void ll_output_lost(void) {
    if (errno != EPIPE) lost = ll_fail_message("cannot write to standard output: %s", strerror(errno));
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDOUT_FILENO), close(null);
    fflush(stdout);
    clearerr(stdout);
}

int ll_output_code(int code) {
    return code ? code : lost;
}
