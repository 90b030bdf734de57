/* The thread that makes all calls of MPI. It starts MPI, moves the messages that other threads post, and ends MPI. */
#include "base/integer.h"
#include "base/memory.h"
#include "dist/rank_state.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/heartbeat.h"
#include "dist/launch.h"

enum { POSTED, MOVING, MOVED }; /* phases */
enum { OPEN, DONE, FAILED };    /* states */
enum { MPI_BYTES = 1 << 26 /* of one call, at most */ };

static ll_message *active; /* used by the thread alone */
static ll_message **active_end = &active;

/* ---- In the thread ---- */

static int begin_piece(ll_message *m) {
    const ll_transport *t = ll_rank.transport;
    const size_t left = m->bytes - m->moved;
    const int n = left < MPI_BYTES ? (int)left : MPI_BYTES;
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
    if (ll_rank.transport->test((ll_request *)&m->request, &done)) return -1;
    if (!done) return 0;
    const size_t left = m->bytes - m->moved;
    m->moved += ll_min_size(left, MPI_BYTES);
    if (m->moved < m->bytes) return begin_piece(m) ? -1 : 1;
    m->phase = MOVED;
    return 1;
}

/* Gives up all messages. Those that have begun cannot all be cancelled, and the notices that follow move them on. So
 * their memory, which the callers free now, must stay. */
static void fail_messages(void) {
    for (ll_message *m = active, *next; m; m = next) {
        next = m->next;
        if (m->phase == MOVING) ll_memory_keep();
        if (m->phase == MOVING && !m->sends) ll_rank.transport->cancel((ll_request *)&m->request);
        m->state = FAILED;
    }
    active = NULL;
    active_end = &active;
}

/* Tries each message once and returns how many have moved. A finished message leaves the list and becomes DONE while
 * the lock is held, because a waiting thread that sees DONE may use the message's memory again. */
static int move_messages(void) {
    int moved = 0, done = 0;
    for (ll_message *m = active; m; m = m->next) {
        const int change = progress(m);
        if (change < 0) {
            char text[200];
            snprintf(text, sizeof text, "MPI cannot %s rank %d: its machine cannot be reached, or it has ended",
                     m->sends ? "send to" : "receive from", m->peer);
            ll_heartbeat_fail(-1, text);
            return 0;
        }
        moved += change;
    }
    pthread_mutex_lock(&ll_rank.lock);
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
    if (done) pthread_cond_broadcast(&ll_rank.done);
    pthread_mutex_unlock(&ll_rank.lock);
    return moved;
}

/* Takes over the posted messages in their order. */
static void take_posted(void) {
    pthread_mutex_lock(&ll_rank.lock);
    if (ll_rank.posted) {
        *active_end = ll_rank.posted;
        active_end = ll_rank.posted_end;
        ll_rank.posted = NULL;
        ll_rank.posted_end = &ll_rank.posted;
    }
    if (ll_rank.failed) {
        fail_messages();
        pthread_cond_broadcast(&ll_rank.done);
    }
    pthread_mutex_unlock(&ll_rank.lock);
}

/* Waits are measured with the monotonic clock. If somebody set the time of day, a rank would seem lost. */
static void use_monotonic_clock(void) {
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr)) return;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ll_rank.work, &attr);
    pthread_cond_init(&ll_rank.done, &attr);
    pthread_condattr_destroy(&attr);
}

/* Nothing has moved. The thread first yields the core, and later sleeps for 50 microseconds at a time. Without messages
 * it sleeps until one is posted, and wakes every 10 milliseconds for heartbeats. */
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
    pthread_mutex_lock(&ll_rank.lock);
    if (!ll_rank.posted && !ll_rank.left) pthread_cond_timedwait(&ll_rank.work, &ll_rank.lock, &until);
    pthread_mutex_unlock(&ll_rank.lock);
}

static int has_left(void) {
    pthread_mutex_lock(&ll_rank.lock);
    const int left = ll_rank.left;
    pthread_mutex_unlock(&ll_rank.lock);
    return left;
}

static void *progress_all(void *unused) {
    (void)unused;
    const int failed = ll_rank.transport->start(&ll_rank.rank, &ll_rank.size, ll_rank.host, LL_HOST);
    pthread_mutex_lock(&ll_rank.lock);
    const int late = ll_rank.started < 0; /* the caller no longer waits */
    ll_rank.started = failed || late ? -1 : 1;
    pthread_cond_broadcast(&ll_rank.done);
    pthread_mutex_unlock(&ll_rank.lock);
    if (failed || late) return NULL;
    ll_heartbeat_begin(ll_now());
    for (int rounds = 0; !has_left(); rounds++) {
        take_posted();
        if (move_messages()) rounds = 0;
        ll_heartbeat_round(ll_now());
        wait_for_work(rounds);
    }
    ll_heartbeat_stop();
    ll_rank.transport->stop();
    pthread_mutex_lock(&ll_rank.lock);
    ll_rank.ended = 1;
    pthread_cond_broadcast(&ll_rank.done);
    pthread_mutex_unlock(&ll_rank.lock);
    return NULL;
}

/* ---- In all other threads ---- */

ll_status ll_dist_start(void) {
    const ll_transport *transport = NULL;
    if (ll_rank.transport) return ll_fail(LL_EINVAL, "the ranks were joined before");
    ll_status status = ll_launch(&transport);
    if (status || !transport) return status;
    ll_rank.transport = transport;
    use_monotonic_clock();
    pthread_mutex_lock(&ll_rank.lock);
    if (pthread_create(&ll_rank.thread, NULL, progress_all, NULL)) ll_rank.started = -1;
    const int started = ll_rank_wait(&ll_rank.started, ll_launch_wait());
    if (started < 0) status = ll_fail(LL_EDIST, "%s cannot start", transport->library);
    if (!started) {
        ll_rank.started = -1;
        status = ll_fail(LL_EDIST,
                         "%s: the ranks have not found each other in %d s; one of them may have ended, or begin later "
                         "(LL_MPI_WAIT sets the seconds)",
                         transport->library, ll_launch_wait());
    }
    pthread_mutex_unlock(&ll_rank.lock);
    if (status) ll_rank.transport = NULL, ll_rank.rank = 0, ll_rank.size = 1;
    return status;
}

static void post(ll_message *m, char *data, size_t bytes, int peer, int tag, int sends) {
    *m = (ll_message){.data = data, .bytes = bytes, .peer = peer, .tag = tag, .sends = sends};
    pthread_mutex_lock(&ll_rank.lock);
    *ll_rank.posted_end = m;
    ll_rank.posted_end = &m->next;
    if (sends) {
        ll_rank.traffic.messages++;
        ll_rank.traffic.sent += (double)bytes;
    }
    pthread_cond_signal(&ll_rank.work);
    pthread_mutex_unlock(&ll_rank.lock);
}

void ll_dist_send(ll_message *m, const void *data, size_t bytes, int to, int tag) {
    post(m, (char *)(size_t)data, bytes, to, tag, 1);
}

void ll_dist_receive(ll_message *m, void *data, size_t bytes, int from, int tag) {
    post(m, data, bytes, from, tag, 0);
}

ll_status ll_dist_wait(ll_message *m, int n) {
    ll_status status = LL_OK;
    pthread_mutex_lock(&ll_rank.lock);
    for (int i = 0; i < n; i++) {
        while (m[i].state == OPEN) pthread_cond_wait(&ll_rank.done, &ll_rank.lock);
        if (m[i].state == FAILED) status = ll_fail(LL_EDIST, "%s", ll_rank.failure);
    }
    pthread_mutex_unlock(&ll_rank.lock);
    return status;
}

ll_status ll_dist_collect(void *data, size_t n, int from) {
    ll_message m;
    if (from == 0 || from == ll_rank.rank) {
        if (from == 0 || ll_rank.size == 1) return LL_OK;
        ll_dist_send(&m, data, n, 0, LL_TAG_COLLECT);
        return ll_dist_wait(&m, 1);
    }
    if (ll_rank.rank) return LL_OK;
    ll_dist_receive(&m, data, n, from, LL_TAG_COLLECT);
    return ll_dist_wait(&m, 1);
}
