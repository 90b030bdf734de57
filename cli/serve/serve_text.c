/* Growing buffers, UTF-8, base64 and files for the server. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output/show.h"
#include "serve/serve.h"

void ll_buffer_add(ll_buffer *b, const void *data, size_t n) {
    if (b->capacity - b->size < n) {
        const size_t capacity = 2 * (b->size + n) + 64;
        char *more = ll_serve_alloc(capacity, 1);
        if (b->size) memcpy(more, b->data, b->size);
        free(b->data);
        b->data = more, b->capacity = capacity;
    }
    if (n) memcpy(b->data + b->size, data, n);
    b->size += n;
}

void ll_buffer_text(ll_buffer *b, const char *text) { ll_buffer_add(b, text, strlen(text)); }

void ll_buffer_drop(ll_buffer *b, size_t n) {
    if (n) memmove(b->data, b->data + n, b->size - n);
    b->size -= n;
}

void ll_buffer_free(ll_buffer *b) {
    free(b->data);
    *b = (ll_buffer){0};
}

size_t ll_character(const char *text, size_t size) {
    const size_t n = ll_utf8_character(text, size);
    return n ? n : 1;
}

json_t *ll_json_text(const char *text, size_t size) {
    json_t *s = json_stringn(text, size);
    if (s) return s;
    ll_buffer b = {0};
    for (size_t i = 0, n; i < size; i += n ? n : 1)
        if ((n = ll_utf8_character(text + i, size - i)))
            ll_buffer_add(&b, text + i, n);
        else
            ll_buffer_add(&b, "\xef\xbf\xbd", 3);
    s = json_stringn(b.data, b.size);
    ll_buffer_free(&b);
    return s;
}

char *ll_base64(const void *data, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;
    char *text = ll_serve_alloc((n + 2) / 3 * 4 + 1, 1), *to = text;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned a = from[i], b = i + 1 < n ? from[i + 1] : 0, c = i + 2 < n ? from[i + 2] : 0;
        *to++ = digits[a >> 2];
        *to++ = digits[(a & 3) << 4 | b >> 4];
        *to++ = i + 1 < n ? digits[(b & 15) << 2 | c >> 6] : '=';
        *to++ = i + 2 < n ? digits[c & 63] : '=';
    }
    return text;
}

FILE *ll_serve_open(const char *path) {
    struct stat info;
    FILE *file = fopen(path, "r");
    if (!file || fstat(fileno(file), &info) || !S_ISDIR(info.st_mode)) return file;
    fclose(file);
    errno = EISDIR;
    return NULL;
}
