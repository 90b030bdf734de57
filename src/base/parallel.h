/* The one parallel loop. Where sums cross pieces, work is cut by shape alone: the number of threads decides who
 * does a piece, never what a sum is made of, so results do not depend on it. */
#ifndef LL_PARALLEL_H
#define LL_PARALLEL_H

#include <stddef.h>

/* Runs task(arg, i, worker) for i = 0..n-1 on up to `workers` threads. worker < workers names the scratch that a task
 * may use. Another thread may change ll_threads() at any time, so that a call asks it once: it sizes its scratch by the
 * answer, and passes the answer to each of its loops. Tasks must not fail. Nested calls run serially (worker 0 of the
 * caller's own scratch must not be assumed: do not nest). */
typedef void ll_task(void *arg, size_t i, int worker);
void ll_parallel_among(int workers, size_t n, ll_task *task, void *arg);
/* The same on ll_threads() threads, for tasks without scratch: no worker is named, as nobody could size scratch. */
typedef void ll_piece_task(void *arg, size_t i);
void ll_parallel_for(size_t n, ll_piece_task *task, void *arg);

/* The default number of threads: the cores this process may use, or the processor time that its control group may. */
int ll_count_cpus(void);
/* Processors' worth of time that control groups allow, rounded up; 0: no limit. `groups` is /proc/self/cgroup, `root`
 * is where control groups are mounted. */
int ll_cpu_limit(const char *groups, const char *root);

#endif
