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

/* Names come from files and may contain any bytes. So control characters, which could steer a terminal, and bytes that
 * are no UTF-8 are replaced. A long text is not cut within a character. */
static void keep(const char *text) {
    size_t n = 0, size;
    for (; *text; text += size) {
        const unsigned char *s = (const unsigned char *)text;
        const size_t left = strnlen(text, 4);
        const int kept = ll_utf8_length(s, left) > 0;
        (void)ll_char_at(s, left, &size);
        if (n + (kept ? size : 1) > TEXT - 1) break;
        memcpy(last + n, kept ? text : "?", kept ? size : 1);
        n += kept ? size : 1;
    }
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
