/* Downloads: what is the same with and without the library that makes them. */
#ifndef LL_FETCH_H
#define LL_FETCH_H

#include <stdio.h>

#include "base/status.h"
#include "longline-lab.h"

enum { LL_VERSION_TEXT = 256 };

/* What there is of a file so far. The version is what the server said of the file it came from: its ETag, or the date
 * of its last change; "" where nothing is known. It is kept in a note beside the part, with the address. */
typedef struct {
    FILE *file; /* opened for appending */
    int64_t bytes;
    const char *url, *note;
    char version[LL_VERSION_TEXT];
} ll_partial;

/* The file comes from its beginning, in this version: the part is emptied, and the note written. */
LL_MUST_USE ll_status ll_partial_begin(ll_partial *part, const char *version);
/* Reads the version from the note; leaves it empty where there is none, or it is of another address. */
void ll_partial_note_read(ll_partial *part);

/* Appends what is missing. A file that the server can only send whole, or that is not the same any more, comes from its
 * beginning. */
LL_MUST_USE ll_status ll_fetch_into(ll_partial *part, ll_done_fn *progress, void *arg);

#endif
