/* What the formats of the input share: bytes of the open file, names and errors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/input.h"

/* ---- Bytes ---- */

int ll_input_peek(ll_input *in) {
    if (in->at < in->size) return in->block[in->at];
    in->at = in->size = 0;
    if (!in->status) in->status = ll_unpack_read(in->source, &in->size, in->block, sizeof in->block);
    return in->size ? in->block[0] : -1;
}

int ll_input_take(ll_input *in) {
    const int c = ll_input_peek(in);
    if (c >= 0) in->at++;
    if (c == '\n') in->line++;
    return c;
}

size_t ll_input_bytes(ll_input *in, uint8_t *to, size_t n) {
    size_t done = 0;
    while (done < n && ll_input_peek(in) >= 0) {
        const size_t left = in->size - in->at, some = ll_min_size(left, n - done);
        memcpy(to + done, in->block + in->at, some);
        in->at += some;
        done += some;
    }
    return done;
}

ll_status ll_input_reserve(ll_input *in, size_t n, size_t keep) {
    if (n <= in->capacity) return LL_OK;
    const size_t capacity = ll_max_size(n, in->capacity * 2);
    uint8_t *buffer = ll_alloc(capacity, 1);
    if (!buffer) return LL_ENOMEM;
    if (keep) memcpy(buffer, in->buffer, keep);
    ll_free(in->buffer);
    in->buffer = buffer;
    in->capacity = capacity;
    return LL_OK;
}

/* ---- Names and errors ---- */

static ll_status set_text(char **to, size_t *capacity, const char *text, size_t n) {
    if (n >= *capacity) {
        char *more = ll_alloc(2 * n + 64, 1);
        if (!more) return LL_ENOMEM;
        ll_free(*to);
        *to = more;
        *capacity = 2 * n + 64;
    }
    memcpy(*to, text, n);
    (*to)[n] = 0;
    return LL_OK;
}

ll_status ll_input_name(ll_input *in, const char *id, size_t n) { return set_text(&in->id, &in->id_capacity, id, n); }

ll_status ll_input_label(ll_input *in, const char *label, size_t n) {
    const ll_status status = set_text(&in->label_text, &in->label_capacity, label, n);
    if (!status) in->label = in->label_text;
    return status;
}

ll_status ll_input_number(ll_input *in, int64_t number) {
    char text[4200];
    const char *file = in->files > 1 ? ll_unpack_name(in->source) : "";
    snprintf(text, sizeof text, "%.4100s%s%lld", file, *file ? ":" : "", (long long)number);
    return ll_input_name(in, text, strlen(text));
}

ll_status ll_input_wrong(const ll_input *in, const char *format, ...) {
    char text[600];
    va_list list;
    va_start(list, format);
    ll_format_text_list(text, sizeof text, format, list);
    va_end(list);
    return ll_fail(LL_EFORMAT, "%s: line %lld: %s", ll_unpack_name(in->source), (long long)in->line, text);
}
