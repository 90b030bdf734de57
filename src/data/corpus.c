/* Bytes of one or several files (corpus.h). */
#include "data/corpus.h"

#include "base/memory.h"
#include "data/file_list.h"

/* Is file i one of those that were joined? */
static int is_joined(const ll_corpus *o, int i) {
    const uint8_t *data = o->file[i].data;
    return o->joined.data && data >= o->joined.data && data < o->joined.data + o->joined.size;
}

void ll_corpus_close(ll_corpus *o) {
    for (int i = 0; o->file && i < o->files; i++)
        if (!is_joined(o, i)) ll_bytes_free(&o->file[i]);
    ll_bytes_free(&o->joined);
    ll_free(o->file);
    ll_free(o->begin);
    ll_names_free(o->name, o->files);
    *o = (ll_corpus){0};
}

/* Adds a file to those that are joined. */
static ll_status join(ll_spill *joined, ll_bytes *file, const char *name) {
    const size_t before = joined->bytes.size;
    const ll_status status = ll_spill_add_file(joined, name);
    file->size = joined->bytes.size - before;
    return status ? status : ll_spill_add(joined, "", 1);
}

static ll_status take_files(ll_corpus *o, ll_spill *joined) {
    ll_status status = LL_OK;
    for (int i = 0; !status && i < o->files; i++) {
        status = ll_file_is_large(o->name[i]) ? ll_file_map(&o->file[i], o->name[i])
                                              : join(joined, &o->file[i], o->name[i]);
        o->begin[i + 1] = o->begin[i] + (int64_t)o->file[i].size;
    }
    if (!status) status = ll_spill_end(joined, &o->joined);
    uint8_t *at = o->joined.data;
    for (int i = 0; !status && i < o->files; i++) {
        if (o->file[i].data) continue;
        o->file[i] = (ll_bytes){at, o->file[i].size, o->joined.mapped};
        at += o->file[i].size + 1;
    }
    return status;
}

ll_status ll_corpus_open(ll_corpus *o, const char *path) {
    *o = (ll_corpus){0};
    ll_spill joined = {.name = path};
    ll_status status = ll_files_list(&o->name, &o->files, path);
    if (status) return status;
    o->file = ll_alloc((size_t)o->files, sizeof *o->file);
    o->begin = ll_alloc((size_t)o->files + 1, sizeof *o->begin);
    status = o->file && o->begin ? take_files(o, &joined) : LL_ENOMEM;
    ll_spill_free(&joined);
    if (status) ll_corpus_close(o);
    return status;
}

ll_status ll_text_take(ll_bytes *text, const char *path) {
    char **names = NULL;
    int count = 0;
    ll_spill all = {.name = path};
    ll_status status = ll_files_list(&names, &count, path);
    if (status) return status;
    if (count == 1) {
        status = ll_file_take(text, names[0]);
    } else {
        for (int i = 0; i < count && !status; i++) {
            if (i) status = ll_spill_add(&all, "", 1);
            if (!status) status = ll_spill_add_file(&all, names[i]);
        }
        if (!status) status = ll_spill_end(&all, text);
    }
    ll_spill_free(&all);
    ll_names_free(names, count);
    return status;
}

void ll_corpus_touch(ll_corpus *o, size_t size) {
    if (ll_pages_due(&o->touched, size)) ll_corpus_leave(o);
}

void ll_corpus_leave(const ll_corpus *o) {
    for (int i = 0; i < o->files; i++)
        if (!is_joined(o, i)) ll_bytes_leave(&o->file[i]);
    ll_bytes_leave(&o->joined);
}

int ll_corpus_file(const ll_corpus *o, int64_t byte, int gap) {
    int low = 0, high = o->files;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (o->begin[middle] + (int64_t)gap * middle <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}
