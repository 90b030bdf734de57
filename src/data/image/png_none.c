/* A build without libpng (make PNG=) reads no PNG files. */
#include "data/image/png_read.h"

static ll_status refuse(const char *name) {
    return ll_fail(LL_EINVAL,
                   "%s: this build of longline reads no PNG; build it with libpng, or make idx files of the images",
                   name);
}

ll_status ll_png_size(int *width, int *height, const uint8_t *data, size_t size, const char *name) {
    return (void)width, (void)height, (void)data, (void)size, refuse(name);
}

ll_status ll_png_pixels(uint8_t *pixels, int channels, const uint8_t *data, size_t size, const char *name) {
    return (void)pixels, (void)channels, (void)data, (void)size, refuse(name);
}
