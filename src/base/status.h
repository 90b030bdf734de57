/* What went wrong, as one sentence a user can act on, kept per thread. */
#ifndef LL_STATUS_H
#define LL_STATUS_H

#include "longline.h"

/* Writes the text of the last error and returns `status`: return ll_fail(LL_EINVAL, "...", ...); */
LL_MUST_USE ll_status ll_fail(ll_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "where: " in front of the text of the last error and returns `status`. */
LL_MUST_USE ll_status ll_fail_in(ll_status status, const char *where);

/* Tells progress, which may be NULL: LL_ESTOPPED where it asks for that. */
LL_MUST_USE ll_status ll_progress_done(ll_done_fn *progress, void *arg, int64_t done, int64_t total);

#endif
