/* Gray images out of PNG files, decoded by cairo. Colours become gray with the weights 0.299, 0.587, 0.114. */
#include "data/image/png_read.h"

#include <cairo/cairo.h>
#include <string.h>

enum { HEAD = 33 /* signature and IHDR */, SIDE_MOST = 4096 };

static uint32_t number(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

ll_status ll_png_size(int *width, int *height, const uint8_t *data, size_t size, const char *name) {
    static const uint8_t magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    if (size < HEAD || memcmp(data, magic, sizeof magic)) return ll_fail(LL_EFORMAT, "%s: not a PNG file", name);
    const uint32_t w = number(data + 16), h = number(data + 20);
    if (w < 1 || h < 1 || w > SIDE_MOST || h > SIDE_MOST)
        return ll_fail(LL_EFORMAT, "%s: a PNG file of %u x %u pixels; sides may be 1..%d", name, w, h, SIDE_MOST);
    *width = (int)w;
    *height = (int)h;
    return LL_OK;
}

typedef struct {
    const uint8_t *data;
    size_t left;
} source;

static cairo_status_t give(void *arg, unsigned char *to, unsigned size) {
    source *s = arg;
    if (size > s->left) return CAIRO_STATUS_READ_ERROR;
    memcpy(to, s->data, size);
    s->data += size;
    s->left -= size;
    return CAIRO_STATUS_SUCCESS;
}

ll_status ll_png_gray(uint8_t *pixels, const uint8_t *data, size_t size, const char *name) {
    int width = 0, height = 0;
    ll_status status = ll_png_size(&width, &height, data, size, name);
    if (status) return status;
    source from = {data, size};
    cairo_surface_t *image = cairo_image_surface_create_from_png_stream(give, &from);
    const cairo_format_t format = cairo_image_surface_get_format(image);
    if (cairo_surface_status(image) == CAIRO_STATUS_NO_MEMORY)
        status = ll_fail(LL_ENOMEM, "no memory for the image %s", name);
    else if (cairo_surface_status(image) || cairo_image_surface_get_width(image) != width ||
             cairo_image_surface_get_height(image) != height ||
             (format != CAIRO_FORMAT_RGB24 && format != CAIRO_FORMAT_ARGB32))
        status = ll_fail(LL_EFORMAT, "%s: a damaged PNG file, or one of more than 8 bits a colour", name);
    for (int y = 0; y < height && !status; y++) {
        const uint8_t *row =
            cairo_image_surface_get_data(image) + (size_t)y * (size_t)cairo_image_surface_get_stride(image);
        for (int x = 0; x < width; x++) {
            uint32_t p;
            memcpy(&p, row + 4 * (size_t)x, sizeof p);
            const uint32_t r = p >> 16 & 255, g = p >> 8 & 255, b = p & 255;
            pixels[(size_t)y * (size_t)width + (size_t)x] = (uint8_t)((299 * r + 587 * g + 114 * b + 500) / 1000);
        }
    }
    cairo_surface_destroy(image);
    return status;
}
