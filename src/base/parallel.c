/* The one parallel loop, on a small pool of threads. Pieces are handed out as threads come free; a piece
 * never depends on who takes it.
 *
 * Why not OpenMP: its threads spin between loops for milliseconds, and where two programs share the
 * cores each spins away the other's time (a training step took 16 times the processor time beside a
 * second program). These look for some ten microseconds, then look on for some hundred, but let others have the core
 * in between: as long as what lies between the loops of one token's generation. Then they sleep. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"

enum { MOST = 256, SPINS = 60000, YIELDS = 1000, CLOSED = 1 << 30 };

static atomic_int chosen; /* 0: as many as ll_count_cpus says */
static atomic_int cpus;   /* 0: not counted yet */

void ll_set_threads(int threads) {
    atomic_store(&chosen, threads < 0 ? 0 : threads > MOST ? MOST : threads);
}

int ll_threads(void) {
    const int threads = atomic_load(&chosen);
    if (threads) return threads;
    int n = atomic_load(&cpus);
    if (!n) atomic_store(&cpus, n = ll_count_cpus());
    return n < MOST ? n : MOST;
}

/* ---- The pool ---- */

/* The loop that runs, and the workers. The thread that holds `loop_lock` writes the loop down while it is closed, then
 * opens it. A worker that wakes too late finds it closed again, and nobody waits for it: on a busy machine a
 * thread may need milliseconds to wake. */
static struct {
    pthread_mutex_t loop_lock; /* held by the thread whose loop runs */
    pthread_mutex_t lock;    /* guards the sleepers */
    pthread_cond_t work, done;
    int started;             /* workers that exist, without the caller */
    int wanted;              /* workers the current loop may use */
    atomic_uint loop;        /* raised by one for every loop */
    atomic_int inside;       /* workers in it; plus CLOSED where no more may enter */
    atomic_size_t next;      /* piece to be taken */
    unsigned first_seen[MOST + 1]; /* value of `loop` when a worker was made */
    size_t n;
    ll_task *task;
    void *arg;
} pool = {.loop_lock = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .inside = CLOSED};

static _Thread_local int within; /* this thread runs a piece: loops inside it are serial */

static void take_pieces(int worker) {
    within = 1;
    for (size_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.n;) pool.task(pool.arg, i, worker);
    within = 0;
}

/* Between one look and the next; 0 where it is time to sleep. */
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
    for (unsigned seen = pool.first_seen[worker];;) {
        seen = wait_for_loop(seen);
        if (!enter()) continue;
        if (worker <= pool.wanted) take_pieces(worker);
        if (atomic_fetch_sub(&pool.inside, 1) == CLOSED + 1) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    return NULL;
}

/* A child process has only the thread that forked: its pool starts anew. */
static void after_fork(void) {
    pthread_mutex_init(&pool.loop_lock, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.started = 0;
    atomic_store(&pool.loop, 0);
    atomic_store(&pool.inside, CLOSED);
}

/* Workers up to `wanted`; fewer where the system refuses them. */
static int start_workers(int wanted) {
    static int registered;
    if (!registered) registered = !pthread_atfork(NULL, NULL, after_fork);
    pthread_attr_t attr;
    if (pool.started >= wanted || pthread_attr_init(&attr)) return pool.started < wanted ? pool.started : wanted;
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
    return pool.started < wanted ? pool.started : wanted;
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
    const int most = workers < MOST ? workers : MOST, threads = n < (size_t)most ? (int)n : most;
    /* Another thread's loop has the workers, or this is a loop within a loop: the caller does it all. */
    if (threads < 2 || within || pthread_mutex_trylock(&pool.loop_lock)) {
        for (size_t i = 0; i < n; i++) task(arg, i, 0);
        return;
    }
    pool.wanted = start_workers(threads - 1);
    pool.n = n;
    pool.task = task;
    pool.arg = arg;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.inside, 0);
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.loop, 1);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
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
