/* GPT-2's vocabulary (Radford et al. 2019) writes each byte as a character that can be seen: those of Latin-1 that can
 * be as themselves, the others, in order, as U+0100 and on. */
#include "data/subwords/parts.h"

static int is_seen(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

/* The byte of a character; -1: it is of none. */
static int byte_of(int32_t c) {
    if (c >= 0 && c < 256 && is_seen(c)) return c;
    int next = 256;
    for (int byte = 0; byte < 256 && c >= 256 && c < 256 + 68; byte++)
        if (!is_seen(byte) && next++ == c) return byte;
    return -1;
}

ll_status ll_from_byte_level(ll_grown *out, const char *text, int *all) {
    const size_t before = out->n;
    ll_status status = LL_OK;
    *all = 1;
    for (size_t i = 0, size; text[i] && !status && *all; i += size) {
        size_t left = 0;
        while (left < 4 && text[i + left]) left++;
        const int byte = byte_of(ll_char_at((const uint8_t *)text + i, left, &size));
        const uint8_t one = (uint8_t)byte;
        *all = byte >= 0;
        if (*all) status = ll_grown_add(out, &one, 1);
    }
    if (!*all) out->n = before;
    return status;
}
