/* The bytes of one or several files, as if they were one after the other. Large plain files are mapped, so that only
 * the pages that are read are in memory. Others are read, and unpacked, into memory. */
#ifndef LL_CORPUS_H
#define LL_CORPUS_H

#include "base/file.h"

/* Plain files of at least this size are mapped. */
enum { LL_LARGE_FILE = 1 << 28 };
/* Maps a large plain file (*mapped = 1; ll_bytes_unmap), or reads a file (ll_bytes_free). */
LL_MUST_USE ll_status ll_file_take(ll_bytes *bytes, int *mapped, const char *path);

/* So many more bytes of a mapped file were read, in one place: is it time to give its pages back? *touched counts them,
 * with what the system reads around them. */
static inline int ll_pages_due(int64_t *touched, int64_t bytes) {
    enum { AROUND = 1 << 16 };
    *touched += bytes + AROUND;
    if (*touched < LL_PAGES_MOST) return 0;
    *touched = 0;
    return 1;
}

typedef struct {
    char **name;
    ll_bytes *file;
    int *mapped;
    int64_t *begin; /* (files + 1) the number of bytes before each file */
    int files;
} ll_corpus;

/* path: a file, a folder, or several with ":" between them. A failure leaves it closed. */
LL_MUST_USE ll_status ll_corpus_open(ll_corpus *o, const char *path);
void ll_corpus_close(ll_corpus *o);
/* Gives the pages of all mapped files back. */
void ll_corpus_leave(const ll_corpus *o);
/* The file that has byte number `byte` of all. */
int ll_corpus_file(const ll_corpus *o, int64_t byte);

#endif
