/* Images as sequences of numbers: the part of a file that is a split, recoloured, resized, selected and shifted. */
#include "base/integer.h"
#include "data/image/image.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/memory.h"

void ll_images_close(const ll_reader *r) {
    ll_images *own = r->own;
    ll_bytes_free(&own->changed);
    ll_free(own->chosen);
}

void ll_reader_shift(ll_reader *r, int pixels) {
    ll_images *own = r->format->fill == ll_images_fill ? r->own : NULL;
    if (own) own->shift = pixels;
}

static size_t numbers_of(const ll_reader *r) { return (size_t)r->width * (size_t)r->height * (size_t)r->channels; }

/* What own->pixels points into. */
static const ll_bytes *pixels_of(const ll_reader *r) {
    const ll_images *own = r->own;
    return own->changed.data ? &own->changed : &r->file[0];
}

/* All images of the split, changed one by one. They become own->changed. */
typedef struct {
    const char *name;
    int width, height, channels;
    ll_resizer *resizer; /* NULL: they are recoloured */
} change;

static void change_one(const change *to, const ll_reader *r, uint8_t *out, const uint8_t *image) {
    if (to->resizer)
        ll_resize(to->resizer, image, out);
    else
        ll_recolour(out, to->channels, image, r->channels, (size_t)r->width * (size_t)r->height);
}

static ll_status change_all(ll_reader *r, const change *to) {
    ll_images *own = r->own;
    ll_bytes changed = {0};
    ll_spill all = {.name = to->name};
    const size_t from = numbers_of(r), n = (size_t)to->width * (size_t)to->height * (size_t)to->channels;
    size_t touched = 0;
    uint8_t *image = ll_alloc(n, 1);
    ll_status status = image ? LL_OK : LL_ENOMEM;
    for (int64_t i = 0; !status && i < r->size; i++) {
        change_one(to, r, image, own->pixels + (size_t)i * from);
        status = ll_spill_add(&all, image, n);
        ll_bytes_touch(pixels_of(r), from, &touched);
    }
    if (!status) status = ll_spill_end(&all, &changed);
    ll_spill_free(&all);
    ll_free(image);
    if (status) return status;
    ll_bytes_free(&own->changed);
    own->changed = changed;
    own->pixels = changed.data;
    r->width = to->width;
    r->height = to->height;
    r->channels = to->channels;
    return LL_OK;
}

/* Gray images become coloured, or coloured ones gray. */
static ll_status recolour(ll_reader *r, int channels, const char *name) {
    return change_all(r, &(change){name, r->width, r->height, channels, NULL});
}

/* All become data.resize by data.resize pixels. */
static ll_status resize(ll_reader *r, const ll_reader_options *c, const char *name) {
    const int side = c->data.resize;
    const ll_resizing how = {side, side, c->data.resize_side, c->data.resize_filter};
    ll_resizer *resizer = NULL;
    ll_status status = ll_resizer_create(&resizer, r->channels, r->width, r->height, &how);
    if (!status) status = change_all(r, &(change){name, side, side, r->channels, resizer});
    ll_resizer_free(resizer);
    return status;
}

/* Are the first and last `margin` columns empty? */
static int has_margin(const ll_reader *r, const uint8_t *image, int margin) {
    const size_t row = (size_t)r->width * (size_t)r->channels, n = (size_t)margin * (size_t)r->channels;
    if (2 * margin > r->width) return 0;
    for (int y = 0; y < r->height; y++, image += row)
        for (size_t x = 0; x < n; x++)
            if (image[x] || image[row - 1 - x]) return 0;
    return 1;
}

/* Lists the images that data.margin and data.only select. */
static ll_status choose(ll_reader *r, const ll_reader_options *c, const char *name) {
    const size_t pixels = numbers_of(r);
    ll_images *own = r->own;
    own->chosen = ll_alloc((size_t)r->size, sizeof *own->chosen);
    if (!own->chosen) return LL_ENOMEM;
    int64_t n = 0;
    for (int64_t i = 0; i < r->size; i++)
        if ((c->data.only < 0 || own->labels[i] == c->data.only) &&
            has_margin(r, own->pixels + (size_t)i * pixels, c->data.margin))
            own->chosen[n++] = i;
    if (!n)
        return ll_fail(LL_EINVAL,
                       "%s: of %" PRId64
                       " images none is left that has %d empty column%s on both sides (data.margin)%s; "
                       "shift by fewer pixels",
                       name, r->size, c->data.margin, c->data.margin == 1 ? "" : "s",
                       c->data.only >= 0 ? " and the class data.only" : "");
    r->size = n;
    return LL_OK;
}

ll_status ll_images_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                        const ll_image_set *set) {
    const int side = c->data.resize, width = side ? side : set->width, height = side ? side : set->height;
    const int channels = ll_channels(c);
    const int64_t length = (int64_t)width * height * channels;
    int64_t first = 0;
    if (length > INT_MAX)
        return ll_fail(LL_EINVAL, "%s: images of %d x %d are too large; set data.resize", name, width, height);
    if (c->length > 0 && c->length < length)
        return ll_fail(LL_EINVAL,
                       "%s: images of %d x %d are %" PRId64 " tokens, train.length is %d; set train.length=%" PRId64,
                       name, width, height, length, c->length, length);
    ll_status status = ll_split_examples(&first, &r->size, c, split, set->count, "image", name);
    if (status) return status;
    r->vocab = 256;
    r->width = set->width;
    r->height = set->height;
    r->channels = set->channels;
    ll_images *own = r->own;
    own->pixels = set->pixels + (size_t)first * numbers_of(r);
    own->labels = set->labels + first;
    r->examples = 1;
    own->shift = c->data.shift;
    status = channels != r->channels ? recolour(r, channels, name) : LL_OK;
    const int whole = c->data.resize_side ? c->data.resize_side : side;
    if (!status && side && !set->resized && (whole != r->width || whole != r->height || whole != side))
        status = resize(r, c, name);
    if (!status && c->data.margin) status = choose(r, c, name);
    r->rows = r->size;
    r->stride = 1;
    return status;
}

/* New columns at the side are empty. */
void ll_images_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    ll_images *own = r->own;
    const int64_t number = own->chosen ? own->chosen[index] : index;
    const size_t T = (size_t)batch->T, all = numbers_of(r), n = ll_min_size(all, T);
    const uint8_t *image = own->pixels + (size_t)number * all;
    const int64_t across = (int64_t)r->width * r->channels, shift = (int64_t)own->shift * r->channels;
    int *tokens = batch->tokens + (size_t)row * T;
    for (size_t t = 0; t < n; t++) {
        const int64_t x = (int64_t)t % across - shift;
        tokens[t] = x < 0 || x >= across ? 0 : image[(int64_t)t - shift];
    }
    memset(tokens + n, 0, (T - n) * sizeof *tokens);
    batch->targets[row] = own->labels[number];
    batch->lengths[row] = (int)n;
    ll_bytes_touch(pixels_of(r), all, &own->touched);
}
