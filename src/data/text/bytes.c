/* Any file, or all files of a folder, as text: every byte is a token.
 *
 * The files of a folder follow each other in the order of their names, with one zero byte between two of them. Text
 * does not contain that byte, so a model can learn that another text begins after it. */
#include <string.h>

#include "base/memory.h"
#include "data/text/coder.h"
#include "data/text/text_reader.h"

/* Memory alone limits the size of a text. */
static const size_t ANY_SIZE = SIZE_MAX / 2;

/* Joins all files in one block of memory. Each is freed as soon as it is copied. */
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
        at += part[i].size + 1; /* after the zero byte, which ll_alloc has written */
        ll_bytes_free(&part[i]);
    }
    *bytes = (ll_bytes){data, size};
    return LL_OK;
}

ll_status ll_files_read(ll_bytes *bytes, const char *path) {
    char **names = NULL;
    int count = 0;
    ll_status status = ll_files_list(&names, &count, path);
    if (status) return status;
    ll_bytes *part = ll_alloc((size_t)count, sizeof *part);
    if (!part) status = LL_ENOMEM;
    for (int i = 0; !status && i < count; i++) status = ll_file_read(&part[i], names[i], ANY_SIZE);
    if (!status && count == 1) {
        *bytes = part[0];
        part[0] = (ll_bytes){0};
    } else if (!status) {
        status = join(bytes, part, count);
    }
    for (int i = 0; part && i < count; i++) ll_bytes_free(&part[i]);
    ll_free(part);
    ll_names_free(names, count);
    return status;
}

ll_status ll_text_take(ll_bytes *text, int *mapped, const char *path) {
    *mapped = 0;
    return ll_file_plain_size(path) >= 0 ? ll_file_take(text, mapped, path) : ll_files_read(text, path);
}

static ll_status open_bytes(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    int64_t first = 0, count = 0;
    ll_bytes *file = &r->file[0];
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = ll_text_take(file, &r->mapped, from.path);
    if (status) return ll_fail_in(status, from.key);
    if (file->size == 0)
        return ll_fail(LL_EFORMAT, "%s: %s has 0 bytes; name a file that holds some text", from.key, from.path);
    ll_split_range(&first, &count, c, split, (int64_t)file->size);
    if (first > 0 && !r->mapped) status = ll_bytes_keep(file, first, count);
    if (status) return status;
    const uint8_t *text = file->data + (r->mapped ? first : 0);
    ll_text_windows *own = r->own;
    own->words = -1; /* counted on the first request */
    own->bytes = count;
    return ll_text_use(r, c, split, from.path, text, count);
}

const ll_format ll_format_bytes = {
    "bytes", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_bytes, ll_text_fill, sizeof(ll_text_windows), ll_text_close};
