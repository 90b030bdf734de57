/* The parallel loop, on a small pool of threads. Each thread has a share of the pieces, and one that is free takes
 * from the others'. The result of a piece does not depend on the thread.
 *
 * Why not OpenMP: its threads spin for milliseconds between loops. If two programs share the cores, each takes time
 * from the other; a training step then used 16 times the processor time. Threads of this pool spin for some ten
 * microseconds. Then they check for some hundred microseconds more and yield the core between checks, which covers the
 * time between two loops of one generated token. Then they sleep. */
#include "base/integer.h"
#include "base/parallel.h"
#include "base/float_mode.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"

enum { SPINS = 60000, YIELDS = 1000, CLOSED = 1 << 30 };

static _Thread_local int within; /* this thread runs a piece; loops inside it are serial */
static atomic_int chosen; /* 0: as many as ll_count_cpus returns */
static atomic_int cpus;   /* 0: not counted yet */

void ll_set_threads(int threads) {
    atomic_store(&chosen, threads < 0 ? 0 : threads > LL_THREADS_MOST ? LL_THREADS_MOST : threads);
}

int ll_threads(void) {
    if (within) return 1;
    const int threads = atomic_load(&chosen);
    if (threads) return threads;
    int n = atomic_load(&cpus);
    if (!n) atomic_store(&cpus, n = ll_count_cpus());
    return ll_min_int(n, LL_THREADS_MOST);
}

/* ---- The pool ---- */

/* The current loop and the workers. The thread that holds `loop_lock` describes the loop while it is closed, then opens
 * it. A worker that wakes too late finds the loop closed, and nobody waits for it: on a busy machine a thread may need
 * milliseconds to wake. */
static struct {
    pthread_mutex_t loop_lock; /* held by the thread whose loop runs */
    pthread_mutex_t lock;    /* guards sleep and wake-up */
    pthread_cond_t work, done;
    int started;             /* number of workers, without the caller */
    atomic_uint loop;        /* increases by one with every loop */
    atomic_int inside;       /* number of workers in the loop; plus CLOSED if no more may enter */
    int threads;             /* the caller and the workers that the current loop may use */
    unsigned first_seen[LL_THREADS_MOST + 1]; /* value of `loop` when a worker was made */
    size_t n;
    ll_task *task;
    void *arg;
} pool = {.loop_lock = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .inside = CLOSED};

/* The next piece of each worker's share, on a cache line of its own. */
static struct {
    _Alignas(64) atomic_size_t next;
} share[LL_THREADS_MOST];

static size_t share_begin(int worker) { return pool.n * (size_t)worker / (size_t)pool.threads; }

/* A worker takes its own share first, and then what is left of the others'. So from loop to loop it meets the rows that
 * it has in its cache. */
static void take_pieces(int worker) {
    within = 1;
    for (int i = 0; i < pool.threads; i++) {
        const int whose = (worker + i) % pool.threads;
        const size_t end = share_begin(whose + 1);
        for (size_t p; (p = atomic_fetch_add(&share[whose].next, 1)) < end;) pool.task(pool.arg, p, worker);
    }
    within = 0;
}

/* Is called between two checks. Returns 0 when the thread should sleep. */
static int keep_waiting(int *tries) {
    if (++*tries >= SPINS) sched_yield();
    return *tries < SPINS + YIELDS;
}

static unsigned wait_for_loop(unsigned seen) {
    int tries = 0;
    do
        if (atomic_load(&pool.loop) != seen) return atomic_load(&pool.loop);
    while (keep_waiting(&tries));
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.loop) == seen) pthread_cond_wait(&pool.work, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return atomic_load(&pool.loop);
}

static int enter(void) {
    int inside = atomic_load(&pool.inside);
    while (!(inside & CLOSED))
        if (atomic_compare_exchange_weak(&pool.inside, &inside, inside + 1)) return 1;
    return 0;
}

static void *work(void *arg) {
    const int worker = (int)(size_t)arg;
    LL_FLOAT_MODE;
    for (unsigned seen = pool.first_seen[worker];;) {
        seen = wait_for_loop(seen);
        if (!enter()) continue;
        if (worker < pool.threads) take_pieces(worker);
        if (atomic_fetch_sub(&pool.inside, 1) == CLOSED + 1) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    return NULL;
}

/* A child process has only the thread that called fork, so its pool starts anew. */
static void after_fork(void) {
    pthread_mutex_init(&pool.loop_lock, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.started = 0;
    atomic_store(&pool.loop, 0);
    atomic_store(&pool.inside, CLOSED);
}

/* Starts workers up to `wanted`; fewer if the system refuses. Returns how many there are. */
static int start_workers(int wanted) {
    static int registered;
    if (!registered) registered = !pthread_atfork(NULL, NULL, after_fork);
    pthread_attr_t attr;
    if (pool.started >= wanted || pthread_attr_init(&attr)) return ll_min_int(pool.started, wanted);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, (size_t)4 << 20);
    while (pool.started < wanted) {
        pthread_t thread;
        const int worker = pool.started + 1;
        pool.first_seen[worker] = atomic_load(&pool.loop);
        if (pthread_create(&thread, &attr, work, (void *)(size_t)worker)) break;
        pool.started = worker;
    }
    pthread_attr_destroy(&attr);
    return ll_min_int(pool.started, wanted);
}

static void wait_for_workers(void) {
    int tries = 0;
    do
        if (atomic_load(&pool.inside) == CLOSED) return;
    while (keep_waiting(&tries));
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.inside) != CLOSED) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void ll_parallel_among(int workers, size_t n, ll_task *task, void *arg) {
    LL_FLOAT_MODE;
    const int most = ll_min_int(workers, LL_THREADS_MOST), threads = n < (size_t)most ? (int)n : most;
    /* If another thread's loop has the workers, or if this is a nested loop, the caller does all pieces. */
    if (threads < 2 || within || pthread_mutex_trylock(&pool.loop_lock)) {
        for (size_t i = 0; i < n; i++) task(arg, i, 0);
        return;
    }
    pool.threads = 1 + start_workers(threads - 1);
    pool.n = n;
    pool.task = task;
    pool.arg = arg;
    for (int i = 0; i < pool.threads; i++) atomic_store(&share[i].next, share_begin(i) + (i == 0));
    atomic_store(&pool.inside, 0);
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.loop, 1);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    within = 1;
    task(arg, 0, 0);
    take_pieces(0);
    atomic_fetch_add(&pool.inside, CLOSED);
    wait_for_workers();
    pthread_mutex_unlock(&pool.loop_lock);
}

typedef struct {
    ll_piece_task *task;
    void *arg;
} pieces;

static void run_piece(void *arg, size_t i, int worker) {
    const pieces *p = arg;
    (void)worker;
    p->task(p->arg, i);
}

void ll_parallel_for(size_t n, ll_piece_task *task, void *arg) {
    ll_parallel_among(ll_threads(), n, run_piece, &(pieces){task, arg});
}
