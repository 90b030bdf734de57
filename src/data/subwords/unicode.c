/* Bytes that grow, and UTF-8. */
#include "data/subwords/unicode.h"

#include <string.h>

#include "base/memory.h"

ll_status ll_grown_add(ll_grown *b, const void *data, size_t n) {
    if (b->most && n > b->most - b->n) return ll_fail(LL_EINVAL, "a text becomes more than %zu bytes", b->most);
    if (n > b->capacity - b->n) {
        const size_t capacity = 2 * (b->n + n) + 64;
        uint8_t *more = ll_alloc(capacity, 1);
        if (!more) return LL_ENOMEM;
        if (b->n) memcpy(more, b->at, b->n);
        ll_free(b->at);
        b->at = more;
        b->capacity = capacity;
    }
    if (n) memcpy(b->at + b->n, data, n);
    b->n += n;
    return LL_OK;
}

ll_status ll_grown_add_char(ll_grown *b, int32_t c) {
    const uint32_t u = (uint32_t)c;
    uint8_t out[4] = {(uint8_t)u};
    size_t n = 1;
    if (u >= 0x80) {
        n = u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
        for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(0x80 | (u >> 6 * (n - 1 - i) & 0x3f));
        out[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | u >> 6 * (n - 1));
    }
    return ll_grown_add(b, out, n);
}

void ll_grown_free(ll_grown *b) {
    ll_free(b->at);
    *b = (ll_grown){0};
}

int ll_is_white(int32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
