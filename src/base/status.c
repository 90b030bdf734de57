/* The text of the last error of each thread. The status goes up through returns; its sentence is stored here. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { TEXT = 1024 };

static _Thread_local char last[TEXT];

const char *ll_error(void) {
    return last[0] ? last : "no error";
}

/* Names come from files and may contain any bytes. So control characters are replaced, which could steer a terminal. */
static void keep(const char *text) {
    size_t n = 0;
    for (; text[n] && n < TEXT - 1; n++) last[n] = (unsigned char)text[n] < 32 || text[n] == 127 ? '?' : text[n];
    /* A long text is not cut within a character. */
    if (text[n])
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    last[n] = 0;
}

ll_status ll_fail(ll_status status, const char *format, ...) {
    char text[TEXT + 8]; /* the arguments may include ll_error() itself */
    va_list args;
    va_start(args, format);
    ll_format_text_list(text, sizeof text, format, args);
    va_end(args);
    keep(text);
    return status;
}

ll_status ll_fail_in(ll_status status, const char *where) {
    char text[TEXT + 8];
    snprintf(text, sizeof text, "%s: %s", where, ll_error());
    keep(text);
    return status;
}

ll_status ll_progress_done(ll_done_fn *progress, void *arg, int64_t done, int64_t total) {
    return progress && progress(done, total, arg) ? ll_fail(LL_ESTOPPED, "stopped on request") : LL_OK;
}
