/* Errors: one sentence that a user can act on, stored per thread. */
#ifndef LL_STATUS_H
#define LL_STATUS_H

#include "longline.h"

/* Sets the text of the last error and returns `status`: return ll_fail(LL_EINVAL, "...", ...); */
LL_MUST_USE ll_status ll_fail(ll_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "where: " before the text of the last error and returns `status`. */
LL_MUST_USE ll_status ll_fail_in(ll_status status, const char *where);

/* Reports progress to the callback, which may be NULL. LL_ESTOPPED if the callback asks to stop. */
LL_MUST_USE ll_status ll_progress_done(ll_done_fn *progress, void *arg, int64_t done, int64_t total);

#endif
