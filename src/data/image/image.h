/* Images with a class each, from any file: one byte a pixel, row by row. */
#ifndef LL_IMAGE_H
#define LL_IMAGE_H

#include "data/reader.h"

/* r->own of these formats. */
typedef struct {
    const uint8_t *pixels, *labels; /* of this split */
    uint8_t *resized;               /* owns what pixels points to, or NULL */
    int64_t *chosen;                /* (size) numbers of the used images, or NULL: all */
    int shift;                      /* shift in pixels to the right */
} ll_images;

/* Makes r read `count` images and their labels, which lie somewhere in r->file. Selects the split, and applies
 * data.resize, data.margin, data.only and data.shift. `name` is how errors call the file. */
LL_MUST_USE ll_status ll_images_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                                    const uint8_t *pixels, const uint8_t *labels, int64_t count, int width, int height);
void ll_images_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);
void ll_images_close(const ll_reader *r);

/* Resizes one image. Pixels are weighted means with triangles two pixels of the larger image wide, first along rows,
 * then along columns, each rounded to a byte. Pillow and torchvision call this bilinear. */
typedef struct ll_resizer ll_resizer;
LL_MUST_USE ll_status ll_resizer_create(ll_resizer **resizer, int width, int height, int to_width, int to_height);
void ll_resizer_free(ll_resizer *resizer);
void ll_resize(ll_resizer *resizer, const uint8_t *from, uint8_t *to);

#endif
