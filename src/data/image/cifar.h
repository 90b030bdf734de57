/* The binary form of CIFAR-10 (Krizhevsky 2009), as bytes in memory; `name` is how errors call them. */
#ifndef LL_CIFAR_H
#define LL_CIFAR_H

#include "base/file.h"

enum { LL_CIFAR_SIDE = 32, LL_CIFAR_PIXELS = LL_CIFAR_SIDE * LL_CIFAR_SIDE, LL_CIFAR_RECORD = 1 + 3 * LL_CIFAR_PIXELS };

/* The number of images; LL_EFORMAT names the byte that is wrong. */
LL_MUST_USE ll_status ll_cifar_check(int64_t *count, const ll_bytes *file, const char *name);
/* Pixels (count, 1024, channels) and labels (count) of checked bytes. channels: 1 gray, 3 colours. */
void ll_cifar_pixels(uint8_t *pixels, int channels, uint8_t *labels, const uint8_t *data, int64_t count);

#endif
