/* Downloads: what is the same with and without libcurl. */
#ifndef LL_FETCH_H
#define LL_FETCH_H

#include <stdio.h>

#include "base/status.h"
#include "longline-lab.h"

enum { LL_VERSION_TEXT = 256 };

/* The part of a file that is here. The version is its ETag or the date of its last change, as the server told it; "" if
 * unknown. It is stored beside the part, with the address. */
typedef struct {
    FILE *file; /* opened for appending */
    int64_t bytes;
    const char *url, *note;
    char version[LL_VERSION_TEXT];
} ll_partial;

/* LL_EIO with the reason in errno. */
LL_MUST_USE ll_status ll_partial_unwritable(const char *path);
/* The file starts from its beginning, in this version: empties the part and stores the version. */
LL_MUST_USE ll_status ll_partial_begin(ll_partial *part, const char *version);
/* Reads the version; leaves it empty if none is stored, or if it belongs to another address. */
void ll_partial_note_read(ll_partial *part);

/* Appends what is missing. If the server can only send the whole file, or if the file has changed, it starts from the
 * beginning. */
LL_MUST_USE ll_status ll_fetch_into(ll_partial *part, ll_done_fn *progress, void *arg);

#endif
