/* Images from PNG files, decoded by libpng. Transparent pixels are blended with black. Of 16-bit colours the upper 8
 * bits are used. */
#include "data/image/png_read.h"

#include <png.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/image/image.h"

enum { HEAD = 33 /* signature and IHDR */ };

ll_status ll_png_size(int *width, int *height, const uint8_t *data, size_t size, const char *name) {
    static const uint8_t magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    if (size < HEAD || memcmp(data, magic, sizeof magic)) return ll_fail(LL_EFORMAT, "%s: not a PNG file", name);
    const uint32_t w = ll_big_endian(data + 16, 4), h = ll_big_endian(data + 20, 4);
    if (w < 1 || h < 1 || w > LL_SIDE_MOST || h > LL_SIDE_MOST)
        return ll_fail(LL_EFORMAT, "%s: a PNG file of %u x %u pixels; sides may be 1..%d", name, w, h, LL_SIDE_MOST);
    *width = (int)w;
    *height = (int)h;
    return LL_OK;
}

/* A file that is being decoded. It lives outside of the function to which setjmp returns. */
typedef struct {
    const uint8_t *data;
    size_t left;
    png_struct *png;
    png_info *info;
    uint8_t *colour; /* (height, row): red, green, blue, and alpha if the file has it */
    size_t row;
    int channels;
    int no_memory;
} decoder;

static void give(png_struct *png, uint8_t *to, size_t size) {
    decoder *d = png_get_io_ptr(png);
    if (size > d->left) png_error(png, "too short");
    memcpy(to, d->data, size);
    d->data += size;
    d->left -= size;
}

static void *allocate(png_struct *png, size_t size) {
    decoder *d = png_get_mem_ptr(png);
    void *memory = ll_alloc(size, 1);
    if (!memory) d->no_memory = 1;
    return memory;
}

static void release(png_struct *png, void *memory) {
    (void)png;
    ll_free(memory);
}

static void fail(png_struct *png, const char *text) {
    (void)text;
    png_longjmp(png, 1);
}

static void ignore(png_struct *png, const char *text) {
    (void)png, (void)text;
}

/* Makes libpng convert any kind of image into 3 or 4 bytes a pixel. */
static void ask_for_bytes(decoder *d) {
    const int kind = png_get_color_type(d->png, d->info);
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(d->png);
    if (kind == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(d->png);
    if (png_get_valid(d->png, d->info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(d->png);
    if (png_get_bit_depth(d->png, d->info) == 16) png_set_strip_16(d->png);
    if (!(kind & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(d->png);
}

/* Returns 0 if the file is damaged or if there is no memory. */
static int decode(decoder *d, int width, int height) {
    if (setjmp(png_jmpbuf(d->png))) return 0;
    png_set_read_fn(d->png, d, give);
    png_read_info(d->png, d->info);
    if (png_get_image_width(d->png, d->info) != (uint32_t)width ||
        png_get_image_height(d->png, d->info) != (uint32_t)height)
        png_error(d->png, "another size");
    ask_for_bytes(d);
    const int passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    d->row = png_get_rowbytes(d->png, d->info);
    d->channels = png_get_channels(d->png, d->info);
    d->colour = allocate(d->png, (size_t)height * d->row);
    if (!d->colour) png_error(d->png, "no memory");
    for (int i = 0; i < passes; i++)
        for (int y = 0; y < height; y++) png_read_row(d->png, d->colour + (size_t)y * d->row, NULL);
    png_read_end(d->png, NULL);
    return 1;
}

/* c a / 255, rounded. */
static uint32_t over_black(uint32_t c, uint32_t a) {
    const uint32_t product = c * a + 128;
    return (product + (product >> 8)) >> 8;
}

static void take_pixels(uint8_t *pixels, int channels, const decoder *d, int width, int height) {
    for (int y = 0; y < height; y++) {
        const uint8_t *p = d->colour + (size_t)y * d->row;
        for (int x = 0; x < width; x++, p += d->channels, pixels += channels) {
            const uint32_t a = d->channels == 4 ? p[3] : 255;
            const uint8_t colour[3] = {(uint8_t)over_black(p[0], a), (uint8_t)over_black(p[1], a),
                                       (uint8_t)over_black(p[2], a)};
            ll_recolour(pixels, channels, colour, 3, 1);
        }
    }
}

ll_status ll_png_pixels(uint8_t *pixels, int channels, const uint8_t *data, size_t size, const char *name) {
    int width = 0, height = 0, whole = 0;
    ll_status status = ll_png_size(&width, &height, data, size, name);
    if (status) return status;
    decoder d = {.data = data, .left = size};
    d.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, NULL, fail, ignore, &d, allocate, release);
    if (d.png) d.info = png_create_info_struct(d.png);
    if (d.info) whole = decode(&d, width, height);
    if (!d.info || d.no_memory)
        status = ll_fail(LL_ENOMEM, "no memory for the image %s", name);
    else if (!whole)
        status = ll_fail(LL_EFORMAT, "%s: a damaged PNG file", name);
    else
        take_pixels(pixels, channels, &d, width, height);
    ll_free(d.colour);
    if (d.png) png_destroy_read_struct(&d.png, &d.info, NULL);
    return status;
}
