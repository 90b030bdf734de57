/* The idx format of MNIST and Fashion-MNIST, as bytes in memory; `name` is how errors call them. */
#ifndef LL_IDX_H
#define LL_IDX_H

#include "base/status.h"

typedef struct {
    int64_t count;
    int width, height;
    const uint8_t *pixels; /* (count, height, width), inside the parsed bytes */
} ll_idx;

/* Parses the first bytes of a file: 16 of images (pixels are then NULL), 8 of labels. */
LL_MUST_USE ll_status ll_idx_images_header(ll_idx *images, const uint8_t *data, size_t size, const char *name);
LL_MUST_USE ll_status ll_idx_labels_header(int64_t *count, const uint8_t *data, size_t size, const char *name);
LL_MUST_USE ll_status ll_idx_images(ll_idx *images, const uint8_t *data, size_t size, const char *name);
/* labels: (count), inside the data. If classes is not 0, every label must be below it. most: the largest label. */
LL_MUST_USE ll_status ll_idx_labels(const uint8_t **labels, int *most, const uint8_t *data, size_t size,
                                    const char *name, int64_t count, const char *images, int classes);

#endif
