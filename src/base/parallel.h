/* The parallel loop. Where sums cross pieces, work is divided by shape alone. The number of threads decides who
 * computes a piece, never how a sum is divided, so results do not depend on it. */
#ifndef LL_PARALLEL_H
#define LL_PARALLEL_H

#include <stddef.h>

/* More threads count as this many. */
enum { LL_THREADS_MOST = 256 };

/* Runs task(arg, i, worker) for i = 0..n-1 on up to `workers` threads. worker < workers selects the scratch of a task.
 * Another thread may change ll_threads() at any time. So a call reads it once, sizes its scratch by it, and passes it
 * to each of its loops. Tasks must not fail. The calling thread runs piece 0. Where tasks run at the same time,
 * ll_threads() is 1 in each: a nested loop runs serially, and its worker number is 0, so that each task needs scratch
 * of its own for it. The task of a loop of one piece is called like a function, and its loops use all threads. */
typedef void ll_task(void *arg, size_t i, int worker);
void ll_parallel_among(int workers, size_t n, ll_task *task, void *arg);
/* The same on ll_threads() threads, for tasks without scratch. */
typedef void ll_piece_task(void *arg, size_t i);
void ll_parallel_for(size_t n, ll_piece_task *task, void *arg);

/* The default number of threads: the cores that this process may use, or fewer if its control group limits processor
 * time. */
int ll_count_cpus(void);

#endif
