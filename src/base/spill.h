/* Bytes that are larger than memory. They are collected one after the other: in memory while they are few, and else in
 * a temporary file without a name, which is mapped at the end. The file is in the folder $TMPDIR, or in /var/tmp, or
 * else in /tmp, and disappears with the program. */
#ifndef LL_SPILL_H
#define LL_SPILL_H

#include <stdio.h>

#include "base/file.h"

/* Plain files of at least this size are mapped, and as many bytes are collected in memory. */
enum { LL_LARGE_FILE = 1 << 26 };
/* Another size from now on; 0: the usual one. For tests only. */
void ll_large_file_is(size_t size);

typedef struct {
    const char *name; /* of what is collected, for errors; set by the caller, and all else zero */
    ll_bytes bytes;   /* (capacity + 1) in memory */
    size_t capacity;
    FILE *file; /* NULL: all bytes are in memory */
} ll_spill;

/* LL_EIO if the temporary file cannot be written; the text names its folder and says that TMPDIR changes it. */
LL_MUST_USE ll_status ll_spill_add(ll_spill *s, const void *data, size_t size);
/* Hands over what was added; a zero byte follows. Free with ll_bytes_free. */
LL_MUST_USE ll_status ll_spill_end(ll_spill *s, ll_bytes *bytes);
/* Adds a file, unpacked. */
LL_MUST_USE ll_status ll_spill_add_file(ll_spill *s, const char *path);
void ll_spill_free(ll_spill *s);

/* Reads a file that is not changed: maps a large plain one, unpacks a large packed one into a temporary file, and reads
 * others into memory. Free with ll_bytes_free. */
LL_MUST_USE ll_status ll_file_take(ll_bytes *bytes, const char *path);
int ll_file_is_large(const char *path); /* a plain one */

#endif
