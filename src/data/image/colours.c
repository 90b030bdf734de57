/* Pixels of one kind as pixels of another. */
#include <string.h>

#include "data/image/image.h"

static uint8_t gray(const uint8_t *c) { return (uint8_t)((299u * c[0] + 587u * c[1] + 114u * c[2] + 500) / 1000); }

void ll_recolour(uint8_t *out, int to, const uint8_t *in, int from, size_t n) {
    if (to == from) {
        memcpy(out, in, n * (size_t)to);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (to == 1) {
            out[i] = gray(in + 3 * i);
        } else {
            memset(out + 3 * i, in[i], 3);
        }
    }
}
