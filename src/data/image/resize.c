/* Resizes images with the arithmetic of Pillow's bilinear and bicubic filters (Resample.c), which torchvision's Resize
 * uses: whole numbers, weights in units of 2^-22. */
#include <math.h>

#include "base/memory.h"
#include "data/image/image.h"

enum { BITS = 22 };

/* For each pixel of the new row: the old pixels it is a mean of, and their weights. */
typedef struct {
    int *first, *count;
    int32_t *weight; /* (size, most) */
    int most;
} axis;

struct ll_resizer {
    int channels, width, height;
    ll_resizing to;
    axis x, y;
    uint8_t *rows; /* (height, to.width, channels) */
};

/* A function of the distance in pixels, and how far it reaches. */
typedef struct {
    double (*at)(double x);
    double reach;
} filter;

static double triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys 1981, with a = -1/2. */
static double cubic(double x) {
    x = fabs(x);
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static const filter bilinear = {triangle, 1}, bicubic = {cubic, 2};

/* The middle `to` of the pixels of an axis that is resized to `scaled`. */
static void axis_fill(axis *a, int from, int scaled, int to, const filter *f) {
    const double scale = (double)from / scaled, spread = scale > 1 ? scale : 1, reach = spread * f->reach;
    for (int i = 0; i < to; i++) {
        const double centre = (i + (scaled - to) / 2 + 0.5) * scale;
        int first = (int)(centre - reach + 0.5), end = (int)(centre + reach + 0.5);
        double sum = 0;
        if (first < 0) first = 0;
        if (end > from) end = from;
        for (int k = first; k < end; k++) sum += f->at((k - centre + 0.5) / spread);
        for (int k = first; k < end; k++) {
            const double w = f->at((k - centre + 0.5) / spread) / sum * (1 << BITS);
            a->weight[(size_t)i * (size_t)a->most + (size_t)(k - first)] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
        }
        a->first[i] = first;
        a->count[i] = end - first;
    }
}

static ll_status axis_create(axis *a, int from, int scaled, int to, const filter *f) {
    const double scale = (double)from / scaled;
    a->most = 2 * (int)ceil(f->reach * (scale > 1 ? scale : 1)) + 1;
    a->first = ll_alloc((size_t)to, sizeof *a->first);
    a->count = ll_alloc((size_t)to, sizeof *a->count);
    a->weight = ll_alloc((size_t)to * (size_t)a->most, sizeof *a->weight);
    if (!a->first || !a->count || !a->weight) return LL_ENOMEM;
    axis_fill(a, from, scaled, to, f);
    return LL_OK;
}

static void axis_free(axis *a) {
    ll_free(a->first);
    ll_free(a->count);
    ll_free(a->weight);
}

ll_status ll_resizer_create(ll_resizer **resizer, int channels, int width, int height, const ll_resizing *to) {
    const filter *f = to->bicubic ? &bicubic : &bilinear;
    const int side = to->side;
    if (side && (side < to->width || side < to->height))
        return ll_fail(LL_EINVAL, "data.resize-side = %d is smaller than the images of %d x %d that are cut out of it",
                       side, to->width, to->height);
    ll_resizer *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    *r = (ll_resizer){channels, width, height, *to, .rows = NULL};
    ll_status status = axis_create(&r->x, width, side ? side : to->width, to->width, f);
    if (!status) status = axis_create(&r->y, height, side ? side : to->height, to->height, f);
    if (!status && !(r->rows = ll_alloc((size_t)height * (size_t)to->width, (size_t)channels))) status = LL_ENOMEM;
    if (status) {
        ll_resizer_free(r);
        return status;
    }
    *resizer = r;
    return LL_OK;
}

void ll_resizer_free(ll_resizer *r) {
    if (!r) return;
    axis_free(&r->x);
    axis_free(&r->y);
    ll_free(r->rows);
    ll_free(r);
}

/* Pixel i of an axis whose pixels lie `stride` bytes apart. */
static uint8_t mix(const axis *a, int i, const uint8_t *from, size_t stride) {
    const int32_t *weight = a->weight + (size_t)i * (size_t)a->most;
    const uint8_t *p = from + (size_t)a->first[i] * stride;
    int64_t sum = 1 << (BITS - 1);
    for (int k = 0; k < a->count[i]; k++, p += stride) sum += (int64_t)weight[k] * *p;
    sum >>= BITS;
    return (uint8_t)(sum > 255 ? 255 : sum < 0 ? 0 : sum);
}

void ll_resize(ll_resizer *r, const uint8_t *from, uint8_t *to) {
    const size_t n = (size_t)r->channels, row = (size_t)r->width * n, to_row = (size_t)r->to.width * n;
    for (int y = 0; y < r->height; y++)
        for (int x = 0; x < r->to.width; x++)
            for (size_t c = 0; c < n; c++)
                r->rows[(size_t)y * to_row + (size_t)x * n + c] = mix(&r->x, x, from + (size_t)y * row + c, n);
    for (int y = 0; y < r->to.height; y++)
        for (size_t x = 0; x < to_row; x++) to[(size_t)y * to_row + x] = mix(&r->y, y, r->rows + x, to_row);
}
