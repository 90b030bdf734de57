/* Any bytes as PNG: refused, or as many pixels as were announced. */
#include <stdlib.h>

#include "data/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int width = 0, height = 0;
    if (ll_png_size(&width, &height, data, size, "input")) return 0;
    if (width < 1 || height < 1 || width > 4096 || height > 4096) abort();
    uint8_t *pixels = malloc((size_t)width * (size_t)height);
    if (!pixels) abort();
    (void)!ll_png_gray(pixels, data, size, "input");
    free(pixels);
    return 0;
}
