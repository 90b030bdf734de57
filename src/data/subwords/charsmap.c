/* The map of characters that a SentencePiece model brings (its compiled rules, nmt_nfkc and the like): a double-array
 * trie as Darts-clone lays it out, of which the longest match is replaced. */
#include <string.h>

#include "data/subwords/parts.h"

static uint32_t number_at(const ll_grown *map, size_t i) {
    const uint8_t *p = map->at + i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

ll_status ll_charsmap_check(const ll_grown *map, const char *name) {
    const uint32_t size = map->n >= 4 ? number_at(map, 0) : 0;
    if (size >= 4 && size % 4 == 0 && size < map->n - 4 && !map->at[map->n - 1]) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: the precompiled_charsmap of its tokenizer is damaged", name);
}

/* Unit number i; 0, which has no label that anything matches, where there is none. */
static uint32_t unit(const ll_grown *map, uint32_t units, uint32_t i) {
    return i < units ? number_at(map, 4 + 4 * (size_t)i) : 0;
}

static uint32_t offset_of(uint32_t u) { return u >> 10 << ((u & 1u << 9) >> 6); }

/* The text that the longest match becomes, and how many bytes that match has; NULL: none. */
static const char *longest(const ll_grown *map, const uint8_t *text, size_t n, size_t *length) {
    const uint32_t size = number_at(map, 0), units = size / 4;
    const char *found = NULL;
    uint32_t at = offset_of(unit(map, units, 0));
    for (size_t i = 0; i < n && text[i]; i++) {
        at ^= text[i];
        const uint32_t u = unit(map, units, at);
        if ((u & (0x80000000u | 0xff)) != text[i]) break;
        at ^= offset_of(u);
        if (!(u >> 8 & 1)) continue;
        const size_t value = unit(map, units, at) & 0x7fffffff;
        if (value >= map->n - 4 - size) break;
        found = (const char *)map->at + 4 + size + value;
        *length = i + 1;
    }
    return found;
}

ll_status ll_charsmap_apply(const ll_grown *map, ll_grown *out, const uint8_t *text, size_t n) {
    ll_status status = LL_OK;
    for (size_t i = 0, length = 0; i < n && !status; i += length) {
        const char *to = longest(map, text + i, n - i, &length);
        if (to) {
            status = ll_grown_add(out, to, strlen(to));
        } else {
            (void)ll_char_at(text + i, n - i, &length);
            status = ll_grown_add(out, text + i, length);
        }
    }
    return status;
}
