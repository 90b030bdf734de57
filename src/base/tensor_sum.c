/* Checksums of tensors and headers in safetensors files. XXH3 finds accidents, such as a flipped bit or a lost block of
 * the disk, at the speed of memory. It does not protect against intent; no checksum within the file could. */
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL /* nothing to link; the function is fixed since xxHash 0.8 */
#include <xxhash.h>

#include "base/memory.h"
#include "base/safetensors_format.h"

char *ll_st_checksum_key(const char *name) {
    static const char prefix[] = "xxh3.";
    const size_t size = sizeof prefix + strlen(name);
    char *key = ll_alloc(size, 1);
    if (key) snprintf(key, size, "%s%s", prefix, name);
    return key;
}

uint64_t ll_st_item_sum(const char *key, const char *value, const size_t *shape, int rank) {
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    XXH3_64bits_update(&hash, key, strlen(key) + 1);
    XXH3_64bits_update(&hash, value, strlen(value) + 1);
    for (int i = 0; i < rank; i++) {
        const uint64_t n = shape[i];
        XXH3_64bits_update(&hash, &n, sizeof n);
    }
    return XXH3_64bits_digest(&hash);
}

void ll_st_checksum(char hex[LL_CHECKSUM_TEXT], const void *data, size_t size) {
    snprintf(hex, LL_CHECKSUM_TEXT, "%016llx", (unsigned long long)XXH3_64bits(data, size));
}
