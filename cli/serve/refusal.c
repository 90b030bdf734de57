/* Refusals: what is wrong with a request, as text and as JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/show.h"
#include "serve/request.h"

int ll_shown(const char *text, int most) {
    int n = (int)strnlen(text, (size_t)most + 1);
    if (n <= most) return n;
    for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;) n--;
    return n;
}

int ll_refuse(ll_refusal *why, int status, const char *param, const char *format, ...) {
    va_list values;
    why->status = status;
    snprintf(why->param, sizeof why->param, "%.*s", ll_shown(param, sizeof why->param - 1), param);
    va_start(values, format);
    vsnprintf(why->message, sizeof why->message, format, values);
    va_end(values);
    return -1;
}

static const char *type_of(int status) {
    if (status == 401 || status == 403) return "authentication_error";
    if (status == 429) return "rate_limit_error";
    return status < 500 ? "invalid_request_error" : "server_error";
}

/* A message may have bytes of a path, or be cut within a character. What is not UTF-8 becomes U+FFFD. */
static json_t *message_of(const ll_refusal *why) {
    char whole[3 * sizeof why->message], *to = whole;
    for (const char *from = why->message; *from;) {
        const size_t n = ll_utf8_character(from, strlen(from)), size = n ? n : 3;
        memcpy(to, n ? from : "\xef\xbf\xbd", size);
        to += size, from += n ? n : 1;
    }
    return json_stringn(whole, (size_t)(to - whole));
}

char *ll_refusal_text(const ll_refusal *why) {
    json_t *e = json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", message_of(why), "type",
                          type_of(why->status), "param", *why->param ? why->param : NULL, "code", why->code);
    char *text = json_dumps(e, JSON_COMPACT);
    json_decref(e);
    return text;
}
