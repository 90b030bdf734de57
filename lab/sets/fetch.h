/* Downloads: what is the same with and without the library that makes them. */
#ifndef LL_FETCH_H
#define LL_FETCH_H

#include <stdio.h>

#include "base/status.h"
#include "longline-lab.h"

/* Appends to `file` what the URL has from byte `from` on; a file that the server can only send whole is emptied first.
 */
LL_MUST_USE ll_status ll_fetch_into(FILE *file, const char *url, int64_t from, ll_done_fn *progress, void *arg);

#endif
