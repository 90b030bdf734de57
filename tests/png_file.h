/* PNG files, for tests of their readers. */
#ifndef LL_PNG_FILE_H
#define LL_PNG_FILE_H

#include "inputs.h"

#include <cairo/cairo.h>

/* A gray picture: pixel number i has the value (value + i) % 256. */
static inline void put_png(const char *name, int width, int height, int value) {
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    const int stride = cairo_image_surface_get_stride(s);
    unsigned char *data = cairo_image_surface_get_data(s);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) memset(data + y * stride + 4 * x, (value + y * width + x) % 256, 3);
    cairo_surface_mark_dirty(s);
    assert_int_equal(cairo_surface_write_to_png(s, at(name)), CAIRO_STATUS_SUCCESS);
    cairo_surface_destroy(s);
}

#endif
