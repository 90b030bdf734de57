/* Bytes of one or several files (corpus.h). */
#include "data/corpus.h"

#include "base/memory.h"
#include "data/reader.h"

static const size_t ANY_SIZE = SIZE_MAX / 4;

ll_status ll_file_take(ll_bytes *bytes, int *mapped, const char *path) {
    *mapped = ll_file_plain_size(path) >= LL_LARGE_FILE;
    return *mapped ? ll_file_map(bytes, path) : ll_file_read(bytes, path, ANY_SIZE);
}

void ll_corpus_close(ll_corpus *o) {
    for (int i = 0; o->file && o->mapped && i < o->files; i++) {
        if (o->mapped[i]) ll_bytes_unmap(&o->file[i]);
        ll_bytes_free(&o->file[i]);
    }
    ll_free(o->file);
    ll_free(o->mapped);
    ll_free(o->begin);
    ll_names_free(o->name, o->files);
    *o = (ll_corpus){0};
}

ll_status ll_corpus_open(ll_corpus *o, const char *path) {
    *o = (ll_corpus){0};
    ll_status status = ll_files_list(&o->name, &o->files, path);
    if (status) return status;
    const size_t files = (size_t)o->files;
    o->file = ll_alloc(files, sizeof *o->file);
    o->mapped = ll_alloc(files, sizeof *o->mapped);
    o->begin = ll_alloc(files + 1, sizeof *o->begin);
    if (!o->file || !o->mapped || !o->begin) status = LL_ENOMEM;
    for (int i = 0; !status && i < o->files; i++) {
        status = ll_file_take(&o->file[i], &o->mapped[i], o->name[i]);
        o->begin[i + 1] = o->begin[i] + (int64_t)o->file[i].size;
    }
    if (status) ll_corpus_close(o);
    return status;
}

void ll_corpus_leave(const ll_corpus *o) {
    for (int i = 0; i < o->files; i++)
        if (o->mapped[i]) ll_bytes_leave(&o->file[i]);
}

int ll_corpus_file(const ll_corpus *o, int64_t byte) {
    int low = 0, high = o->files;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (o->begin[middle] <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}
