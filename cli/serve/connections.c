/* Connections: how long each has been sending a request, and whether somebody still waits for the answer. */
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "serve/http.h"
#include "serve/job.h"
#include "serve/serve_metrics.h"
#include "serve/serve_threads.h"

struct ll_connection {
    int fd;
    double since;      /* when it began to send a request; 0: the request is complete */
    int late;          /* it was too slow when it was looked at last */
    ll_serve_job *job; /* what it waits for, or NULL */
    struct ll_connection *next, *before;
};
static ll_connection *first;
static int ended;
static pthread_t thread;
static pthread_cond_t end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

ll_connection *ll_connection_open(int fd) {
    ll_connection *c = ll_serve_alloc(1, sizeof *c);
    pthread_mutex_lock(&lock);
    *c = (ll_connection){.fd = fd, .since = ll_now(), .next = first};
    if (first) first->before = c;
    first = c;
    pthread_mutex_unlock(&lock);
    ll_count(LL_COUNT_CONNECTIONS, 1);
    return c;
}

void ll_connection_close(ll_connection *c) {
    if (!c) return;
    pthread_mutex_lock(&lock);
    *(c->before ? &c->before->next : &first) = c->next;
    if (c->next) c->next->before = c->before;
    pthread_mutex_unlock(&lock);
    free(c);
    ll_count(LL_COUNT_CONNECTIONS, -1);
}

void ll_connection_set(ll_connection *c, double since, ll_serve_job *job) {
    if (!c) return;
    pthread_mutex_lock(&lock);
    c->since = since, c->job = job;
    pthread_mutex_unlock(&lock);
}

static void set_gone(ll_serve_job *job) {
    pthread_mutex_lock(&job->lock);
    job->gone = 1;
    pthread_mutex_unlock(&job->lock);
}

static int events_of(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
    return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* Closes those that have been sending a request for longer than --idle, and marks jobs whose clients are gone.
 * libmicrohttpd does not look at a connection that waits, so it does not notice when its client closes it. The end
 * (POLLRDHUP) is seen also where bytes before it are unread. The caller holds the lock. */
static void watch(void) {
    const double now = ll_now();
    for (ll_connection *c = first; c; c = c->next) {
        const int events = events_of(c->fd), was_late = c->late, gone = events & (POLLRDHUP | POLLHUP | POLLERR);
        /* Where something is unread, it is the server that is slow. It may also have read something just now. The end
         * itself counts as unread, and libmicrohttpd does not read it where it came with the last bytes. */
        c->late = c->since > 0 && now - c->since > (double)ll_serve.idle && (gone || !(events & POLLIN));
        if (c->late && was_late) shutdown(c->fd, SHUT_RDWR);
        if (c->job && gone) set_gone(c->job);
    }
}

/* Watches once a second. */
static void *run(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!ended) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&end, &lock, &next);
        watch();
        pthread_mutex_unlock(&lock);
        ll_queues_drop_gone();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Each connection is an open file. Raises the limit of open files as far as needed, or lowers --max-connections. */
static int limit_connections(void) {
    enum { OTHERS = 64 }; /* files that are no connections: those of sessions, of threads */
    struct rlimit files;
    const rlim_t needed = (rlim_t)ll_serve.connections + OTHERS;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= needed) return -1;
    files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= needed) return -1;
    const long long most = (long long)files.rlim_cur - OTHERS;
    if (most < 1)
        return ll_fail_message("%lld files may be open, and a server needs more than %d; raise ulimit -n",
                               (long long)files.rlim_cur, OTHERS);
    ll_print("--max-connections %lld instead of %lld, as %lld files may be open (ulimit -n)", most,
             (long long)ll_serve.connections, (long long)files.rlim_cur);
    ll_serve.connections = most;
    return -1;
}

int ll_connections_start(void) {
    const int code = limit_connections();
    if (code >= 0) return code;
    pthread_condattr_t clock;
    const int failed = pthread_condattr_init(&clock) || pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) ||
                       pthread_cond_init(&end, &clock) || pthread_create(&thread, NULL, run, NULL);
    return failed ? ll_fail_message("cannot start a thread") : -1;
}

void ll_connections_stop(void) {
    pthread_mutex_lock(&lock);
    ended = 1;
    pthread_cond_signal(&end);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}
