/* The thread that makes all calls of MPI. It starts MPI, moves the messages that others post, and ends MPI. */
#include "dist/post.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/launch.h"

enum { POSTED, MOVING, MOVED }; /* phases */
enum { OPEN, DONE, FAILED };    /* states */
enum { PIECE = 1 << 26 /* most bytes of one MPI call */ };

ll_post ll_posts = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .work = PTHREAD_COND_INITIALIZER,
                    .done = PTHREAD_COND_INITIALIZER,
                    .size = 1,
                    .posted_end = &ll_posts.posted,
                    .lost = -1,
                    .timeout = 60};

static ll_message *active; /* used by the thread alone */
static ll_message **active_end = &active;

/* ---- In the thread ---- */

static int begin_piece(ll_message *m) {
    const ll_transport *t = ll_posts.transport;
    const size_t left = m->bytes - m->moved;
    const int n = left < PIECE ? (int)left : PIECE;
    ll_request *request = (ll_request *)&m->request;
    return m->sends ? t->send(m->data + m->moved, n, m->peer, m->tag, request)
                    : t->receive(m->data + m->moved, n, m->peer, m->tag, request);
}

/* Moves a message on: 1 if something has moved, -1 if MPI failed. */
static int progress(ll_message *m) {
    int done = 0;
    if (m->phase == POSTED) {
        m->phase = MOVING;
        return begin_piece(m) ? -1 : 1;
    }
    if (ll_posts.transport->test((ll_request *)&m->request, &done)) return -1;
    if (!done) return 0;
    const size_t left = m->bytes - m->moved;
    m->moved += left < PIECE ? left : PIECE;
    if (m->moved < m->bytes) return begin_piece(m) ? -1 : 1;
    m->phase = MOVED;
    return 1;
}

/* Gives up all messages. */
static void fail_messages(void) {
    for (ll_message *m = active, *next; m; m = next) {
        next = m->next;
        if (m->phase == MOVING && !m->sends) ll_posts.transport->cancel((ll_request *)&m->request);
        m->state = FAILED;
    }
    active = NULL;
    active_end = &active;
}

/* Tries each message once and returns how many have moved. Finished messages leave the list, and become DONE, in one
 * hold of the lock: as soon as a waiting thread sees DONE it may use their memory again. */
static int move_messages(void) {
    int moved = 0, done = 0;
    for (ll_message *m = active; m; m = m->next) {
        const int change = progress(m);
        if (change < 0) {
            char text[160];
            snprintf(text, sizeof text, "MPI cannot %s rank %d", m->sends ? "send to" : "receive from", m->peer);
            ll_watch_fail(-1, text);
            return 0;
        }
        moved += change;
    }
    pthread_mutex_lock(&ll_posts.lock);
    for (ll_message **at = &active; *at;) {
        if ((*at)->phase == MOVED) {
            (*at)->state = DONE;
            *at = (*at)->next;
            done = 1;
        } else {
            at = &(*at)->next;
        }
        active_end = at;
    }
    if (done) pthread_cond_broadcast(&ll_posts.done);
    pthread_mutex_unlock(&ll_posts.lock);
    return moved;
}

/* Takes over the posted messages in their order. */
static void take_posted(void) {
    pthread_mutex_lock(&ll_posts.lock);
    if (ll_posts.posted) {
        *active_end = ll_posts.posted;
        active_end = ll_posts.posted_end;
        ll_posts.posted = NULL;
        ll_posts.posted_end = &ll_posts.posted;
    }
    if (ll_posts.failed) {
        fail_messages();
        pthread_cond_broadcast(&ll_posts.done);
    }
    pthread_mutex_unlock(&ll_posts.lock);
}

/* Waits are measured with the monotonic clock: where somebody sets the time back, a rank would seem lost. */
static void use_monotonic_clock(void) {
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr)) return;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ll_posts.work, &attr);
    pthread_cond_init(&ll_posts.done, &attr);
    pthread_condattr_destroy(&attr);
}

static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nothing has moved. The thread first yields the core, then sleeps for a twentieth of a millisecond at a time. Without
 * messages it sleeps until one is posted, and wakes now and then for signs of life. */
static void wait_for_work(int rounds) {
    enum { QUICK = 200, WAITING = 50 * 1000, IDLE = 10 * 1000 * 1000 };
    if (active && rounds < QUICK) {
        sched_yield();
        return;
    }
    if (active) {
        nanosleep(&(struct timespec){0, WAITING}, NULL);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&ll_posts.lock);
    if (!ll_posts.posted && !ll_posts.left) pthread_cond_timedwait(&ll_posts.work, &ll_posts.lock, &until);
    pthread_mutex_unlock(&ll_posts.lock);
}

static int has_left(void) {
    pthread_mutex_lock(&ll_posts.lock);
    const int left = ll_posts.left;
    pthread_mutex_unlock(&ll_posts.lock);
    return left;
}

static void *progress_all(void *unused) {
    (void)unused;
    const int failed = ll_posts.transport->start(&ll_posts.rank, &ll_posts.size, ll_posts.host, LL_HOST);
    pthread_mutex_lock(&ll_posts.lock);
    const int late = ll_posts.started < 0; /* the caller no longer waits */
    ll_posts.started = failed || late ? -1 : 1;
    pthread_cond_broadcast(&ll_posts.done);
    pthread_mutex_unlock(&ll_posts.lock);
    if (failed || late) return NULL;
    ll_watch_begin(clock_now());
    for (int rounds = 0; !has_left(); rounds++) {
        take_posted();
        if (move_messages()) rounds = 0;
        ll_watch_round(clock_now());
        wait_for_work(rounds);
    }
    ll_watch_stop();
    ll_posts.transport->stop();
    pthread_mutex_lock(&ll_posts.lock);
    ll_posts.ended = 1;
    pthread_cond_broadcast(&ll_posts.done);
    pthread_mutex_unlock(&ll_posts.lock);
    return NULL;
}

/* ---- In all other threads ---- */

int ll_post_wait(const int *set, int seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    for (int late = 0; !*set && !late;)
        late = pthread_cond_timedwait(&ll_posts.done, &ll_posts.lock, &until) == ETIMEDOUT;
    return *set;
}

ll_status ll_dist_start(void) {
    const ll_transport *transport = NULL;
    if (ll_posts.transport) return ll_fail(LL_EINVAL, "the ranks were joined before");
    ll_status status = ll_launch(&transport);
    if (status || !transport) return status;
    ll_posts.transport = transport;
    use_monotonic_clock();
    pthread_mutex_lock(&ll_posts.lock);
    if (pthread_create(&ll_posts.thread, NULL, progress_all, NULL)) ll_posts.started = -1;
    const int started = ll_post_wait(&ll_posts.started, ll_launch_wait());
    if (started < 0) status = ll_fail(LL_EDIST, "%s cannot start", transport->library);
    if (!started) {
        ll_posts.started = -1;
        status = ll_fail(LL_EDIST,
                         "%s: the ranks have not found each other in %d s; one of them may have ended, or begin later "
                         "(LL_MPI_WAIT sets the seconds)",
                         transport->library, ll_launch_wait());
    }
    pthread_mutex_unlock(&ll_posts.lock);
    if (status) ll_posts.transport = NULL, ll_posts.rank = 0, ll_posts.size = 1;
    return status;
}

int ll_dist_is_launched(void) { return ll_posts.transport != NULL; }

ll_ranks ll_dist_ranks(void) {
    /* Before the ranks are joined, or if that failed, one message to the user suffices. */
    if (!ll_posts.transport) return (ll_ranks){0, 1, ll_dist_launch_rank() == 0};
    pthread_mutex_lock(&ll_posts.lock);
    const ll_ranks ranks = {ll_posts.rank, ll_posts.size, ll_posts.rank == (ll_posts.lost == 0)};
    pthread_mutex_unlock(&ll_posts.lock);
    return ranks;
}

static void post(ll_message *m, char *data, size_t bytes, int peer, int tag, int sends) {
    *m = (ll_message){.data = data, .bytes = bytes, .peer = peer, .tag = tag, .sends = sends};
    pthread_mutex_lock(&ll_posts.lock);
    *ll_posts.posted_end = m;
    ll_posts.posted_end = &m->next;
    if (sends) {
        ll_posts.traffic.messages++;
        ll_posts.traffic.sent += (double)bytes;
    }
    pthread_cond_signal(&ll_posts.work);
    pthread_mutex_unlock(&ll_posts.lock);
}

void ll_dist_send(ll_message *m, const void *data, size_t bytes, int to, int tag) {
    post(m, (char *)(size_t)data, bytes, to, tag, 1);
}

void ll_dist_receive(ll_message *m, void *data, size_t bytes, int from, int tag) {
    post(m, data, bytes, from, tag, 0);
}

ll_status ll_dist_wait(ll_message *m, int n) {
    ll_status status = LL_OK;
    pthread_mutex_lock(&ll_posts.lock);
    for (int i = 0; i < n; i++) {
        while (m[i].state == OPEN) pthread_cond_wait(&ll_posts.done, &ll_posts.lock);
        if (m[i].state == FAILED) status = ll_fail(LL_EDIST, "%s", ll_posts.failure);
    }
    pthread_mutex_unlock(&ll_posts.lock);
    return status;
}

ll_traffic ll_dist_traffic(void) {
    pthread_mutex_lock(&ll_posts.lock);
    const ll_traffic traffic = ll_posts.traffic;
    pthread_mutex_unlock(&ll_posts.lock);
    return traffic;
}

ll_status ll_dist_collect(void *data, size_t n, int from) {
    ll_message m;
    if (from == 0 || from == ll_posts.rank) {
        if (from == 0 || ll_posts.size == 1) return LL_OK;
        ll_dist_send(&m, data, n, 0, LL_TAG_COLLECT);
        return ll_dist_wait(&m, 1);
    }
    if (ll_posts.rank) return LL_OK;
    ll_dist_receive(&m, data, n, from, LL_TAG_COLLECT);
    return ll_dist_wait(&m, 1);
}

void ll_dist_set_timeout(double seconds) {
    pthread_mutex_lock(&ll_posts.lock);
    ll_posts.timeout = seconds;
    pthread_mutex_unlock(&ll_posts.lock);
}
