/* Images as sequences of pixels: the part of a file that is a split, resized, selected and shifted. */
#include "data/image/image.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"

void ll_images_close(const ll_reader *r) {
    const ll_images *own = r->own;
    ll_free(own->resized);
    ll_free(own->chosen);
}

void ll_reader_shift(ll_reader *r, int pixels) {
    ll_images *own = r->format->fill == ll_images_fill ? r->own : NULL;
    if (own) own->shift = pixels;
}

/* Resizes all images of the split to data.resize by data.resize pixels, into new memory. */
static ll_status resize(ll_reader *r, const ll_reader_options *c) {
    ll_images *own = r->own;
    ll_resizer *resizer = NULL;
    const size_t from = (size_t)r->width * (size_t)r->height, to = (size_t)c->data.resize * (size_t)c->data.resize;
    uint8_t *pixels = ll_alloc((size_t)r->size, to);
    ll_status status =
        pixels ? ll_resizer_create(&resizer, r->width, r->height, c->data.resize, c->data.resize) : LL_ENOMEM;
    for (int64_t i = 0; !status && i < r->size; i++)
        ll_resize(resizer, own->pixels + (size_t)i * from, pixels + (size_t)i * to);
    ll_resizer_free(resizer);
    if (status) {
        ll_free(pixels);
        return status;
    }
    own->pixels = own->resized = pixels;
    r->width = r->height = c->data.resize;
    return LL_OK;
}

/* Are the first and last `margin` columns empty? */
static int has_margin(const uint8_t *image, int width, int height, int margin) {
    if (2 * margin > width) return 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < margin; x++)
            if (image[y * width + x] || image[y * width + width - 1 - x]) return 0;
    return 1;
}

/* Lists the images that data.margin and data.only select. */
static ll_status choose(ll_reader *r, const ll_reader_options *c, const char *name) {
    const size_t pixels = (size_t)r->width * (size_t)r->height;
    ll_images *own = r->own;
    own->chosen = ll_alloc((size_t)r->size, sizeof *own->chosen);
    if (!own->chosen) return LL_ENOMEM;
    int64_t n = 0;
    for (int64_t i = 0; i < r->size; i++)
        if ((c->data.only < 0 || own->labels[i] == c->data.only) &&
            has_margin(own->pixels + (size_t)i * pixels, r->width, r->height, c->data.margin))
            own->chosen[n++] = i;
    if (!n)
        return ll_fail(LL_EINVAL,
                       "%s: of %" PRId64
                       " images none is left that has %d empty columns on both sides (data.margin)%s; "
                       "shift by fewer pixels",
                       name, r->size, c->data.margin, c->data.only >= 0 ? " and the class data.only" : "");
    r->size = n;
    return LL_OK;
}

ll_status ll_images_use(ll_reader *r, const ll_reader_options *c, int split, const char *name, const uint8_t *pixels,
                        const uint8_t *labels, int64_t count, int width, int height) {
    const int side = c->data.resize;
    const int64_t length = side ? (int64_t)side * side : (int64_t)width * height;
    int64_t first = 0;
    if (c->length > 0 && c->length < length)
        return ll_fail(LL_EINVAL,
                       "%s: images of %d x %d are %" PRId64 " tokens, train.length is %d; set train.length=%" PRId64,
                       name, side ? side : width, side ? side : height, length, c->length, length);
    ll_split_range(&first, &r->size, c, split, count);
    if (r->size < 1)
        return ll_fail(LL_EINVAL, "%s: no example of %" PRId64 " is left for this split; change data.valid-fraction",
                       name, count);
    r->vocab = 256;
    r->width = width;
    r->height = height;
    ll_images *own = r->own;
    own->pixels = pixels + (size_t)first * (size_t)width * (size_t)height;
    own->labels = labels + first;
    r->examples = 1;
    own->shift = c->data.shift;
    ll_status status = side && (side != width || side != height) ? resize(r, c) : LL_OK;
    if (!status && c->data.margin) status = choose(r, c, name);
    r->rows = r->size;
    r->stride = 1;
    return status;
}

/* New columns at the side are empty. */
void ll_images_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const ll_images *own = r->own;
    const int64_t number = own->chosen ? own->chosen[index] : index;
    const size_t T = (size_t)batch->T, pixels = (size_t)r->width * (size_t)r->height, n = pixels < T ? pixels : T;
    const uint8_t *image = own->pixels + (size_t)number * pixels;
    int *tokens = batch->tokens + (size_t)row * T;
    for (size_t t = 0; t < n; t++) {
        const int x = (int)(t % (size_t)r->width) - own->shift;
        tokens[t] = x < 0 || x >= r->width ? 0 : image[t - (size_t)(int64_t)own->shift];
    }
    memset(tokens + n, 0, (T - n) * sizeof *tokens);
    batch->targets[row] = own->labels[number];
    batch->lengths[row] = (int)n;
}
