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

/* ---- Several files, one of which is large ---- */

typedef struct {
    ll_text_windows text;
    ll_corpus files; /* else there is one text in memory, or mapped */
} texts;

/* The number of the first byte of a file, with the zero bytes before it. */
static int64_t begin_of(const ll_corpus *o, int i) { return o->begin[i] + i; }

static int file_of(const ll_corpus *o, int64_t byte) {
    int low = 0, high = o->files;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (begin_of(o, middle) <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Token i is byte i, so that nothing is gone through. */
static void scan(const ll_reader *r, ll_text_cursor *at, int64_t until, int next_text, int *out) {
    texts *own = r->own;
    const ll_corpus *o = &own->files;
    const int64_t from = at->token;
    (void)next_text; /* the files are one text */
    at->token = until;
    if (!out) return;
    for (int64_t i = from, k = file_of(o, i); i < until; i++) {
        const int64_t byte = i - begin_of(o, (int)k), size = (int64_t)o->file[k].size;
        *out++ = byte < size ? o->file[k].data[byte] : 0;
        if (byte >= size && k + 1 < o->files) k++;
    }
    if (ll_pages_due(&own->text.touched, until - from)) ll_corpus_leave(o);
}

/* Keeps the files if one of them is mapped. *size is that of the text; 0: there is no such file. */
static ll_status open_files(ll_reader *r, int64_t *size, const char *path) {
    texts *own = r->own;
    ll_corpus *o = &own->files;
    int mapped = 0;
    *size = 0;
    if (ll_file_plain_size(path) >= 0) return LL_OK;
    const ll_status status = ll_corpus_open(o, path);
    for (int i = 0; i < o->files && !status; i++) mapped |= o->mapped[i];
    if (!mapped) ll_corpus_close(o);
    if (!mapped) return status;
    *size = begin_of(o, o->files) - 1;
    own->text.scan = scan;
    return LL_OK;
}

/* ---- Reader ---- */

static ll_status open_bytes(ll_reader *r, const ll_reader_options *c, int split) {
    ll_text_windows *own = r->own;
    ll_source from = {0};
    int64_t first = 0, count = 0, size = 0;
    ll_bytes *file = &r->file[0];
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    status = open_files(r, &size, from.path);
    if (!status && !size) status = ll_text_take(file, &r->mapped, from.path);
    if (status) return ll_fail_in(status, from.key);
    if (!size) size = (int64_t)file->size;
    if (!size)
        return ll_fail(LL_EFORMAT, "%s: %s has 0 bytes; name a file that holds some text", from.key, from.path);
    ll_split_range(&first, &count, c, split, size);
    own->words = -1; /* counted on the first request */
    own->bytes = count;
    r->vocab = 256;
    if (own->scan) {
        own->offset = first;
        return ll_text_use(r, c, split, from.path, NULL, count);
    }
    if (first > 0 && !r->mapped) status = ll_bytes_keep(file, first, count);
    if (status) return status;
    return ll_text_use(r, c, split, from.path, file->data + (r->mapped ? first : 0), count);
}

static void close_bytes(const ll_reader *r) {
    texts *own = r->own;
    ll_corpus_close(&own->files);
    ll_text_close(r);
}

const ll_format ll_format_bytes = {
    "bytes", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_bytes, ll_text_fill, sizeof(texts), close_bytes};
