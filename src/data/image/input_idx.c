/* Images of idx files, one after the other, each with a label if there is a file of labels. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/input.h"

static ll_status read_all(ll_unpack *u, size_t *got, uint8_t *to, size_t n) {
    ll_status status = LL_OK;
    *got = 0;
    for (size_t some = 1; !status && some && *got < n; *got += some)
        status = ll_unpack_read(u, &some, to + *got, n - *got);
    return status;
}

static ll_status open_labels(ll_input *in) {
    uint8_t header[8];
    size_t got = 0;
    int64_t count = 0;
    ll_status status = ll_unpack_open(&in->label_source, in->labels);
    if (!status) status = read_all(in->label_source, &got, header, sizeof header);
    if (!status) status = ll_idx_labels_header(&count, header, got, in->labels);
    if (!status && count != in->images.count)
        status = ll_fail(LL_EFORMAT, "%s: %" PRId64 " labels for the %" PRId64 " images of %s", in->labels, count,
                         in->images.count, ll_unpack_name(in->source));
    return status;
}

static ll_status open_images(ll_input *in) {
    uint8_t header[LL_IDX_HEADER_COLOURS];
    size_t got = ll_input_bytes(in, header, LL_IDX_HEADER);
    if (got == LL_IDX_HEADER && ll_idx_header_size(header) > got)
        got += ll_input_bytes(in, header + got, ll_idx_header_size(header) - got);
    if (in->status) return in->status;
    ll_status status = ll_idx_images_header(&in->images, header, got, ll_unpack_name(in->source));
    return !status && in->labels ? open_labels(in) : status;
}

/* Nothing may follow the last image or the last label. */
static ll_status at_end(ll_input *in) {
    uint8_t byte;
    size_t got = 0;
    if (ll_input_peek(in) >= 0)
        return ll_fail(LL_EFORMAT, "%s: bytes follow the last of its %" PRId64 " images", ll_unpack_name(in->source),
                       in->images.count);
    ll_status status = in->status;
    if (!status && in->label_source) status = ll_unpack_read(in->label_source, &got, &byte, 1);
    if (!status && got) return ll_fail(LL_EFORMAT, "%s: bytes follow the last label", in->labels);
    return status;
}

static ll_status begin(ll_input *in, int *found) {
    ll_status status = in->image ? LL_OK : open_images(in);
    if (status) return status;
    if (in->image == in->images.count) return at_end(in);
    *found = 1;
    return ll_input_number(in, in->image++);
}

static ll_status read_image(ll_input *in) {
    const ll_idx *x = &in->images;
    const size_t n = (size_t)x->width * (size_t)x->height * (size_t)x->channels;
    uint8_t *pixels = ll_alloc(n, 1);
    if (!pixels) return LL_ENOMEM;
    const size_t got = ll_input_bytes(in, pixels, n);
    ll_status status = in->status;
    if (!status && got < n)
        status = ll_fail(LL_EFORMAT, "%s: the file ends in image %" PRId64 " of %" PRId64 "; it is truncated",
                         ll_unpack_name(in->source), in->image - 1, x->count);
    if (!status) status = ll_input_picture(in, pixels, x->width, x->height, x->channels);
    ll_free(pixels);
    return status;
}

static ll_status more(ll_input *in, int *ends) {
    uint8_t label;
    size_t got = 0;
    ll_status status = read_image(in);
    *ends = 1;
    if (status || !in->label_source) return status;
    status = read_all(in->label_source, &got, &label, 1);
    if (status) return status;
    if (!got)
        return ll_fail(LL_EFORMAT, "%s: the file ends before label %" PRId64 " of %" PRId64 "; it is truncated",
                       in->labels, in->image - 1, in->images.count);
    char text[8];
    return ll_input_label(in, text, (size_t)snprintf(text, sizeof text, "%d", label));
}

const ll_input_kind ll_input_idx = {begin, more, 0};
