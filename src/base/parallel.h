/* The one parallel loop. Where sums cross pieces, work is cut by shape alone: the number of threads decides who
 * does a piece, never what a sum is made of, so results do not depend on it. */
#ifndef LL_PARALLEL_H
#define LL_PARALLEL_H

#include <stddef.h>

/* Runs task(arg, i, worker) for i = 0..n-1 on up to ll_threads() threads, and on up to `workers` of them: worker <
 * workers names the scratch a task may use. ll_threads() may change at any time, from another thread: who takes scratch
 * asks it once. Tasks must not fail. Nested calls run serially (worker 0 of the caller's own scratch must not be
 * assumed: do not nest). */
typedef void ll_task(void *arg, size_t i, int worker);
void ll_parallel_among(int workers, size_t n, ll_task *task, void *arg);
/* The same of tasks that use no scratch. */
void ll_parallel_for(size_t n, ll_task *task, void *arg);

#endif
