/* The idx format of MNIST and Fashion-MNIST, as bytes in memory; `name` is how errors call them. */
#ifndef LL_IDX_H
#define LL_IDX_H

#include "base/status.h"

typedef struct {
    int64_t count;
    int width, height, channels;
    const uint8_t *pixels; /* (count, height, width, channels), inside the parsed bytes */
} ll_idx;

/* Bytes of a header of images: the shorter one tells by its magic whether it is the longer one. */
enum { LL_IDX_HEADER = 16, LL_IDX_HEADER_COLOURS = 20 };
size_t ll_idx_header_size(const uint8_t header[LL_IDX_HEADER]);
/* Parses the first bytes of a file: the header of images (pixels are then NULL), or 8 bytes of labels. */
LL_MUST_USE ll_status ll_idx_images_header(ll_idx *images, const uint8_t *data, size_t size, const char *name);
LL_MUST_USE ll_status ll_idx_labels_header(int64_t *count, const uint8_t *data, size_t size, const char *name);
LL_MUST_USE ll_status ll_idx_images(ll_idx *images, const uint8_t *data, size_t size, const char *name);
/* labels: (count), inside the data. If classes is not 0, every label must be below it. most: the largest label. */
LL_MUST_USE ll_status ll_idx_labels(const uint8_t **labels, int *most, const uint8_t *data, size_t size,
                                    const char *name, int64_t count, const char *images, int classes);

#endif
