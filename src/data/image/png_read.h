/* PNG files as bytes in memory; `name` is how errors call them. */
#ifndef LL_PNG_H
#define LL_PNG_H

#include "base/status.h"

/* Width and height, from the first bytes. LL_EFORMAT if it is not PNG or a side is above 4096. */
LL_MUST_USE ll_status ll_png_size(int *width, int *height, const uint8_t *data, size_t size, const char *name);
/* Pixels (height, width, channels), gray (1) or red, green and blue (3); ll_png_size gives the size. */
LL_MUST_USE ll_status ll_png_pixels(uint8_t *pixels, int channels, const uint8_t *data, size_t size, const char *name);

#endif
