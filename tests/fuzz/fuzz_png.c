/* Any bytes as PNG: refused, or as many pixels as were announced. */
#include "data/image/png_read.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int width = 0, height = 0;
    if (ll_png_size(&width, &height, data, size, "input")) return 0;
    check(width >= 1 && height >= 1 && width <= 4096 && height <= 4096);
    uint8_t *pixels = malloc(3 * (size_t)width * (size_t)height);
    check(pixels != NULL);
    (void)!ll_png_pixels(pixels, 1, data, size, "input");
    (void)!ll_png_pixels(pixels, 3, data, size, "input");
    free(pixels);
    return 0;
}
