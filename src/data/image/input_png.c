/* Pictures in PNG files, each a sequence of numbers; and what pictures of all formats become: of another size, gray or
 * coloured. */
#include <string.h>

#include "base/memory.h"
#include "data/image/image.h"
#include "data/image/png_read.h"
#include "data/input.h"

enum { FILE_MOST = 1 << 28 };

ll_status ll_input_picture(ll_input *in, const uint8_t *pixels, int width, int height, int channels) {
    const int W = in->width ? in->width : width, H = in->height ? in->height : height,
              C = in->channels ? in->channels : channels;
    const size_t n = (size_t)width * (size_t)height, all = (size_t)W * (size_t)H * (size_t)C;
    ll_resizer *resizer = NULL;
    uint8_t *coloured = ll_alloc(n, (size_t)C);
    ll_status status = coloured ? ll_input_reserve(in, all, 0) : LL_ENOMEM;
    if (!status) status = ll_resizer_create(&resizer, C, width, height, &(ll_resizing){W, H, in->side, in->bicubic});
    if (!status) {
        ll_recolour(coloured, C, pixels, channels, n);
        ll_resize(resizer, coloured, in->buffer);
        in->text = in->buffer;
        in->n = all;
    }
    ll_resizer_free(resizer);
    ll_free(coloured);
    return status;
}

/* A file is one picture. */
static ll_status begin(ll_input *in, int *found) {
    *found = !in->image++;
    in->begin_line = 0;
    const char *name = in->path[in->file - 1];
    return ll_input_name(in, name, strlen(name));
}

/* All bytes of the file, in in->buffer. */
static ll_status read_file(ll_input *in, size_t *size) {
    size_t got = LL_INPUT_BLOCK;
    for (*size = 0; got == LL_INPUT_BLOCK && !in->status; *size += got) {
        if (*size > FILE_MOST)
            return ll_fail(LL_EFORMAT, "%s: a picture of more than %d bytes", ll_unpack_name(in->source), FILE_MOST);
        const ll_status status = ll_input_reserve(in, *size + LL_INPUT_BLOCK, *size);
        if (status) return status;
        got = ll_input_bytes(in, in->buffer + *size, LL_INPUT_BLOCK);
    }
    return in->status;
}

static ll_status more(ll_input *in, int *ends) {
    int width = 0, height = 0;
    size_t size = 0;
    const char *name = ll_unpack_name(in->source);
    *ends = 1;
    ll_status status = read_file(in, &size);
    if (!status) status = ll_png_size(&width, &height, in->buffer, size, name);
    if (status) return status;
    uint8_t *pixels = ll_alloc((size_t)width * (size_t)height, 3);
    status = pixels ? ll_png_pixels(pixels, 3, in->buffer, size, name) : LL_ENOMEM;
    if (!status) status = ll_input_picture(in, pixels, width, height, 3);
    ll_free(pixels);
    return status;
}

const ll_input_kind ll_input_png = {begin, more, 0};
