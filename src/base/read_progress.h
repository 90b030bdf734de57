/* Progress of long reads, for a program that shows it: files that are read and unpacked, and texts that are passed
 * through once they are in memory. */
#ifndef LL_READ_PROGRESS_H
#define LL_READ_PROGRESS_H

#include <stddef.h>

#include "base/status.h"

/* From now on `watch` is called while this thread reads; NULL: no longer. */
void ll_read_progress_watch(ll_reading_fn *watch, void *arg);
/* `done` of `total` units are read. name NULL: of a text in memory. total 0: a long call goes on that does not say. */
void ll_read_progress(const char *name, int64_t done, int64_t total);
/* The same for a pass over `size` bytes in memory that is at byte `at`. May be called for each word. */
void ll_read_progress_pass(size_t at, size_t size);

#endif
