/* Any file, or all files of a folder, as text of bytes: every byte is a token, nothing is interpreted.
 * A window of T tokens predicts the byte after each of them.
 *
 * The files of a folder follow each other in the order of their names with one zero byte between two of
 * them: text does not contain that byte, so a model can learn that what follows is another text.
 *
 * In an evaluation window number i has bytes iT .. iT + T - 1 as tokens. So every byte of the split
 * but the first, which nothing precedes, is predicted exactly once, from at most T bytes before it. */
#include <string.h>

#include "base/memory.h"
#include "data/reader.h"

/* No text is too long but one that memory cannot hold. */
static const size_t ANY_SIZE = SIZE_MAX / 2;

ll_status ll_text_use(ll_reader *r, const ll_config *c, int split, const char *name, const uint8_t *text,
                      int64_t size) {
    const int64_t least = split == LL_SPLIT_TRAIN ? (int64_t)c->length + 1 : 2;
    if (c->length < 1)
        return ll_fail(LL_EINVAL, "train.length is %d; a window of text has at least 1 token", c->length);
    if (size < least)
        return ll_fail(LL_EINVAL,
                       "%s: %lld bytes for this split, which is too little: windows of train.length=%d need %lld; "
                       "give it more text%s",
                       name, (long long)size, c->length, (long long)least,
                       split == LL_SPLIT_TRAIN ? " or set a smaller train.length" : "");
    r->vocab = 256;
    r->data = text;
    r->size = size;
    r->stride = c->length;
    r->rows = (size - 2) / c->length + 1;
    return LL_OK;
}

void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t place) {
    const size_t T = (size_t)batch->T, left = (size_t)(r->size - 1 - place), n = left < T ? left : T;
    const uint8_t *text = r->data + place;
    int *tokens = batch->tokens + (size_t)row * T, *targets = batch->targets + (size_t)row * T;
    for (size_t t = 0; t < n; t++) {
        tokens[t] = text[t];
        targets[t] = text[t + 1];
    }
    for (size_t t = n; t < T; t++) {
        tokens[t] = 0;
        targets[t] = -1;
    }
    batch->lengths[row] = (int)n;
}

/* All files in one piece of memory; each is let go as soon as it is copied. */
static ll_status join(ll_bytes *bytes, ll_bytes *part, int count) {
    size_t size = (size_t)count - 1, at = 0;
    for (int i = 0; i < count; i++) {
        if (part[i].size > ANY_SIZE - size) return ll_fail(LL_ENOMEM, "the files together are larger than memory");
        size += part[i].size;
    }
    uint8_t *data = ll_alloc(size + 1, 1);
    if (!data) return LL_ENOMEM;
    for (int i = 0; i < count; i++) {
        memcpy(data + at, part[i].data, part[i].size);
        at += part[i].size + 1; /* past the zero byte, which ll_alloc wrote */
        ll_bytes_free(&part[i]);
    }
    *bytes = (ll_bytes){data, size};
    return LL_OK;
}

static ll_status read_folder(ll_bytes *bytes, const char *path) {
    char **names = NULL;
    int count = 0;
    ll_status status = ll_folder_list(&names, &count, path);
    if (status) return status;
    ll_bytes *part = ll_alloc((size_t)count, sizeof *part);
    if (!part)
        status = LL_ENOMEM;
    else if (count == 0)
        status = ll_fail(LL_EINVAL, "%s: no files in this folder (hidden ones do not count); put text in it", path);
    for (int i = 0; !status && i < count; i++) status = ll_file_read(&part[i], names[i], ANY_SIZE);
    if (!status) status = join(bytes, part, count);
    for (int i = 0; part && i < count; i++) ll_bytes_free(&part[i]);
    ll_free(part);
    ll_names_free(names, count);
    return status;
}

/* Lets go of all but `count` bytes from `first`: the end of a large file is small. */
static ll_status keep(ll_bytes *bytes, int64_t first, int64_t count) {
    uint8_t *data = ll_alloc((size_t)count + 1, 1);
    if (!data) return LL_ENOMEM;
    memcpy(data, bytes->data + first, (size_t)count);
    ll_bytes_free(bytes);
    *bytes = (ll_bytes){data, (size_t)count};
    return LL_OK;
}

static ll_status open_bytes(ll_reader *r, const ll_config *c, int split) {
    ll_source from = {0};
    int64_t first = 0, count = 0;
    ll_bytes *file = &r->file[0];
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = ll_is_folder(from.path) ? read_folder(file, from.path) : ll_file_read(file, from.path, ANY_SIZE);
    if (status) return ll_fail_in(status, from.key);
    if (file->size == 0) return ll_fail(LL_EFORMAT, "%s: %s has 0 bytes; it is empty", from.key, from.path);
    ll_split_range(&first, &count, c, split, (int64_t)file->size);
    if (first > 0) status = keep(file, first, count);
    return status ? status : ll_text_use(r, c, split, from.path, file->data, count);
}

const ll_format ll_format_bytes = {"bytes", LL_TASK_LM, LL_ORDER_WINDOWS, open_bytes, ll_text_fill};
