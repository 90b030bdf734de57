/* Reads a file from front to back and unpacks it meanwhile, in memory that does not grow. */
#ifndef LL_UNPACK_H
#define LL_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ll_unpack ll_unpack;

/* path NULL: standard input. The first bytes tell the format: plain, gzip, xz or zstd. If there is no file of this
 * name, the same file packed or unpacked is opened: "x.gz", "x.xz" or "x.zst" for "x", "x" or "x.xz" for "x.gz".
 * LL_ESTOPPED, here and below, if a signal arrives during a wait (for a pipe or a terminal) and its handler does not
 * restart calls. */
LL_MUST_USE ll_status ll_unpack_open(ll_unpack **u, const char *path);
void ll_unpack_close(ll_unpack *u);
/* The name of the file that is opened for this one, in new memory; NULL, with errno, where there is none. */
char *ll_unpack_find(const char *path);
/* The next bytes, at least one and at most `most`; *got = 0 at the end. A truncated or damaged archive is LL_EFORMAT
 * with the file's name. */
LL_MUST_USE ll_status ll_unpack_read(ll_unpack *u, size_t *got, void *to, size_t most);

/* Do n bytes begin like a packed file? */
int ll_packed_bytes(const uint8_t *data, size_t n);

/* The path, or "standard input". */
const char *ll_unpack_name(const ll_unpack *u);
int ll_unpack_is_packed(const ll_unpack *u);
/* The size of the file on disk, packed or not (-1: unknown), and the bytes read so far. */
int64_t ll_unpack_size(const ll_unpack *u);
int64_t ll_unpack_taken(const ll_unpack *u);

#endif
