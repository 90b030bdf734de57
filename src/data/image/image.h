/* Images with a class each, from any file: row by row, pixel by pixel, channel by channel, a byte each. */
#ifndef LL_IMAGE_H
#define LL_IMAGE_H

#include "base/spill.h"
#include "data/format.h"

enum { LL_SIDE_MOST = 4096 /* of an image in a file, in pixels */ };

/* r->own of these formats. */
typedef struct {
    const uint8_t *pixels, *labels; /* of this split */
    ll_bytes changed;               /* owns what pixels points to, or is empty: they are in r->file[0] */
    int64_t *chosen;                /* (size) numbers of the used images, or NULL: all */
    int shift;                      /* shift in pixels to the right */
    size_t touched;                 /* for ll_bytes_touch */
} ll_images;

/* `count` images of a file. */
typedef struct {
    const uint8_t *pixels, *labels; /* (count, height, width, channels); (count) */
    int64_t count;
    int width, height, channels;
    int resized; /* data.resize was applied */
} ll_image_set;

/* Makes r read these images, which lie somewhere in r->file. Selects the split, and applies model.channels,
 * data.resize, data.margin, data.only and data.shift. `name` is how errors call the file. */
LL_MUST_USE ll_status ll_images_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                                    const ll_image_set *set);
/* Numbers of a pixel that the recipe asks for. */
static inline int ll_channels(const ll_reader_options *c) { return c->channels ? c->channels : 1; }
void ll_images_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);
void ll_images_close(const ll_reader *r);

/* n pixels of `from` channels as pixels of `to` channels, each 1 (gray) or 3 (red, green, blue). Colours become gray
 * with the weights 0.299, 0.587, 0.114. */
void ll_recolour(uint8_t *out, int to, const uint8_t *in, int from, size_t n);

/* What images become. */
typedef struct {
    int width, height;
    int side;    /* they are resized to a square of this side, whose middle is taken; 0: to width x height */
    int bicubic; /* the filter; else bilinear */
} ll_resizing;

/* Resizes one image. Pixels are weighted means, bilinear with triangles two pixels of the larger image wide, or bicubic
 * (Keys 1981), first along rows, then along columns, each rounded to a byte, as in Pillow and torchvision. The
 * middle begins at half the difference of the sides, rounded down. LL_EINVAL if side is too small. */
typedef struct ll_resizer ll_resizer;
LL_MUST_USE ll_status ll_resizer_create(ll_resizer **resizer, int channels, int width, int height,
                                        const ll_resizing *to);
void ll_resizer_free(ll_resizer *resizer);
void ll_resize(ll_resizer *resizer, const uint8_t *from, uint8_t *to);

#endif
