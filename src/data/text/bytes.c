/* Any file, or all files of a folder, as text: every byte is a token.
 *
 * The files of a folder follow each other in the order of their names, with one zero byte between two of them. Text
 * does not contain that byte, so a model can learn that another text begins after it. */
#include "data/file_list.h"
#include "data/text/text_reader.h"

/* ---- Several files, one of which is large ---- */

typedef struct {
    ll_text_windows text;
    ll_corpus files; /* else there is one text in memory, or mapped */
} texts;

/* The number of the first byte of a file, with the zero bytes before it. */
static int64_t begin_of(const ll_corpus *o, int i) { return o->begin[i] + i; }

/* Token i is byte i, so that nothing is gone through. */
static void scan(const ll_reader *r, ll_text_cursor *at, int64_t until, int next_text, int *out) {
    texts *own = r->own;
    const ll_corpus *o = &own->files;
    const int64_t from = at->token;
    (void)next_text; /* the files are one text */
    at->token = until;
    if (!out) return;
    for (int64_t i = from, k = ll_corpus_file(o, i, 1); i < until; i++) {
        const int64_t byte = i - begin_of(o, (int)k), size = (int64_t)o->file[k].size;
        *out++ = byte < size ? o->file[k].data[byte] : 0;
        if (byte >= size && k + 1 < o->files) k++;
    }
    ll_corpus_touch(&own->files, (size_t)(until - from));
}

/* Has this list of files a large plain one, which should not be copied? */
static int has_large(const char *path) {
    char **names = NULL;
    int count = 0, large = 0;
    if (ll_files_list(&names, &count, path)) return 0; /* reading says why */
    for (int i = 0; i < count && count > 1; i++) large |= ll_file_is_large(names[i]);
    ll_names_free(names, count);
    return large;
}

/* ---- Reader ---- */

static ll_status open_bytes(ll_reader *r, const ll_reader_options *c, int split) {
    texts *own = r->own;
    ll_text_windows *w = &own->text;
    ll_source from = {0};
    int64_t first = 0, count = 0, size = 0;
    ll_bytes *file = &r->file[0];
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    if (has_large(from.path)) {
        own->text.scan = scan;
        status = ll_corpus_open(&own->files, from.path);
        if (!status) size = begin_of(&own->files, own->files.files) - 1;
    } else {
        status = ll_text_take(file, from.path);
        size = (int64_t)file->size;
    }
    if (status) return ll_fail_in(status, from.key);
    if (!size)
        return ll_fail(LL_EFORMAT, "%s: %s has 0 bytes; name a file that holds some text", from.key, from.path);
    ll_split_range(&first, &count, c, split, size);
    w->words = -1; /* counted on the first request */
    w->bytes = count;
    r->vocab = 256;
    if (w->scan) {
        w->offset = first;
        return ll_text_use(r, c, split, from.path, NULL, count);
    }
    if (first > 0 && !file->mapped) status = ll_bytes_keep(file, first, count);
    if (status) return status;
    return ll_text_use(r, c, split, from.path, file->data + (file->mapped ? first : 0), count);
}

static void close_bytes(const ll_reader *r) {
    texts *own = r->own;
    ll_corpus_close(&own->files);
    ll_text_close(r);
}

const ll_format ll_format_bytes = {
    "bytes", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_bytes, ll_text_fill, sizeof(texts), close_bytes,
    .unit = "byte", .cut = LL_CUT_BYTE};
