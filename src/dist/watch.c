/* Signs of life, failures and the end. The ranks form a ring. Each sends signs of life to the next one and expects them
 * from the one before. If that one is silent for too long, the rank reports the loss to all others. A rank that fails
 * sends its error to all others.
 *
 * A rank leaves in two steps. It sends rank 0 its exit code. It leaves when rank 0 has received those of all ranks and
 * has answered with the largest. */
#include "dist/post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HEARTBEAT, FAILURE, LOSS, LEAVE, LEFT };
enum { SENDS = 64, TEXT = 480 };

typedef struct {
    int kind, rank, code;
    char text[TEXT];
} note;

/* Used by the thread alone. */
static struct {
    note received; /* the last one; the next one is received here */
    ll_request receive;
    note sending[SENDS];
    ll_request send[SENDS];
    int busy[SENDS], sends;
    double last_sent, last_received; /* clock: of signs of life */
    double last_round, since;        /* clock: the last round; the failure, 0: none */
    int leave_sent;                  /* this rank has sent that it wants to leave */
    int leavers, code;               /* rank 0: how many ranks want to leave, and the largest code */
    char host[LL_HOST];              /* machine of the rank before this one */
} watch;

/* ---- Notes ---- */

static void begin_receive(void) {
    note *to = &watch.received;
    if (ll_posts.transport->receive(to, sizeof *to, LL_TRANSPORT_ANY, LL_TAG_CONTROL, &watch.receive))
        ll_watch_fail(-1, "MPI cannot receive");
}

/* A free slot for a note; -1: none yet. Slots of sent notes are free again. */
static int free_slot(void) {
    for (int i = 0; i < SENDS; i++) {
        int done = 1;
        if (watch.busy[i] && !ll_posts.transport->test(&watch.send[i], &done)) watch.busy[i] = !done;
        if (!watch.busy[i]) return i;
    }
    return -1;
}

/* Signs of life do not wait for a slot. */
static void send_note(int to, const note *n) {
    int i;
    while ((i = free_slot()) < 0)
        if (n->kind == HEARTBEAT) return;
    watch.sending[i] = *n;
    watch.busy[i] = !ll_posts.transport->send(&watch.sending[i], sizeof *n, to, LL_TAG_CONTROL, &watch.send[i]);
}

static void send_to_all(const note *n) {
    for (int i = 0; i < ll_posts.size; i++)
        if (i != ll_posts.rank && i != ll_posts.lost) send_note(i, n);
}

void ll_watch_fail(int lost, const char *text) {
    pthread_mutex_lock(&ll_posts.lock);
    if (!ll_posts.failed) {
        snprintf(ll_posts.failure, sizeof ll_posts.failure, "%.479s", text);
        watch.since = watch.last_round;
    }
    ll_posts.failed = 1;
    if (lost >= 0) ll_posts.lost = lost;
    pthread_cond_broadcast(&ll_posts.done);
    pthread_mutex_unlock(&ll_posts.lock);
}

static void count_leaver(int code) {
    if (code > watch.code) watch.code = code;
    if (++watch.leavers < ll_posts.size) return;
    send_to_all(&(note){.kind = LEFT, .code = watch.code});
    for (int i = 0; i < SENDS; i++)
        for (int done = !watch.busy[i]; !done;)
            if (ll_posts.transport->test(&watch.send[i], &done)) done = 1;
    memset(watch.busy, 0, sizeof watch.busy);
    pthread_mutex_lock(&ll_posts.lock);
    ll_posts.code = watch.code;
    ll_posts.left = 1;
    pthread_cond_broadcast(&ll_posts.done);
    pthread_mutex_unlock(&ll_posts.lock);
}

static void handle(const note *n) {
    char text[TEXT + 32];
    switch (n->kind) {
    case HEARTBEAT:
        watch.last_received = watch.last_round;
        snprintf(watch.host, sizeof watch.host, "%.*s", (int)sizeof watch.host - 1, n->text);
        return;
    case FAILURE:
        snprintf(text, sizeof text, "rank %d: %.*s", n->rank, TEXT - 1, n->text);
        ll_watch_fail(-1, text);
        return;
    case LOSS: ll_watch_fail(n->rank, n->text); return;
    case LEAVE: count_leaver(n->code); return;
    case LEFT:
        pthread_mutex_lock(&ll_posts.lock);
        ll_posts.code = n->code;
        ll_posts.left = 1;
        pthread_cond_broadcast(&ll_posts.done);
        pthread_mutex_unlock(&ll_posts.lock);
    }
}

/* ---- In every round ---- */

void ll_watch_begin(double now) {
    watch.last_received = watch.last_round = now;
    if (ll_posts.size > 1) begin_receive();
}

static void exchange_heartbeats(double now, double timeout) {
    enum { PER_TIMEOUT = 8 };
    const int size = ll_posts.size, before = (ll_posts.rank + size - 1) % size, next = (ll_posts.rank + 1) % size;
    const double every = timeout / PER_TIMEOUT < 0.5 ? timeout / PER_TIMEOUT : 0.5;
    /* A rank that was itself stopped, as all may be, has received nothing, so it starts counting anew. */
    if (now - watch.last_round > every) watch.last_received += now - watch.last_round;
    watch.last_round = now;
    if (now - watch.last_sent > every) {
        note n = {.kind = HEARTBEAT, .rank = ll_posts.rank};
        snprintf(n.text, sizeof n.text, "%s", ll_posts.host);
        send_note(next, &n);
        watch.last_sent = now;
    }
    if (watch.since > 0 || now - watch.last_received < timeout * 0.75) return;
    note n = {.kind = LOSS, .rank = before};
    snprintf(n.text, sizeof n.text,
             "rank %d%s%s is lost: no sign of life for %d s (dist.timeout); it was killed or stopped, or its machine "
             "cannot be reached; the same command goes on from the last checkpoint",
             before, *watch.host ? " on " : "", watch.host, (int)timeout);
    ll_watch_fail(before, n.text);
    send_to_all(&n);
}

/* Sends the others how this rank ends. */
static void leave(int code) {
    note n = {.kind = FAILURE, .rank = ll_posts.rank, .code = code};
    if (code && !(watch.since > 0) && !ll_posts.agreed) {
        snprintf(n.text, sizeof n.text, "%s", ll_posts.failure);
        send_to_all(&n);
    }
    n.kind = LEAVE;
    if (ll_posts.rank)
        send_note(0, &n);
    else
        count_leaver(code);
    watch.leave_sent = 1;
}

void ll_watch_round(double now) {
    int done = 0;
    pthread_mutex_lock(&ll_posts.lock);
    const double timeout = ll_posts.timeout;
    const int leaving = ll_posts.leaving, code = ll_posts.code;
    pthread_mutex_unlock(&ll_posts.lock);
    if (ll_posts.size > 1) {
        exchange_heartbeats(now, timeout);
        while (!ll_posts.transport->test(&watch.receive, &done) && done) {
            const note n = watch.received;
            begin_receive();
            handle(&n);
            if (n.kind == LEFT) break;
        }
    }
    if (leaving && !watch.leave_sent) leave(code);
    /* The caller's thread computes or waits for something else, and does not call ll_dist_end. */
    if (watch.since > 0 && !leaving && now - watch.since > timeout) ll_posts.transport->abort(1);
}

void ll_watch_stop(void) {
    if (ll_posts.size > 1) ll_posts.transport->cancel(&watch.receive);
}

/* ---- The end ---- */

/* Waits until all ranks have left, or until one is lost; returns 0 if one is lost. */
static int wait_for_all(void) {
    pthread_mutex_lock(&ll_posts.lock);
    while (!ll_posts.left && ll_posts.lost < 0) pthread_cond_wait(&ll_posts.done, &ll_posts.lock);
    const int left = ll_posts.left;
    pthread_mutex_unlock(&ll_posts.lock);
    return left;
}

int ll_dist_end(int code) {
    if (!ll_posts.transport) return code;
    pthread_mutex_lock(&ll_posts.lock);
    if (code && !ll_posts.failed) snprintf(ll_posts.failure, sizeof ll_posts.failure, "%.400s", ll_error());
    ll_posts.code = code;
    ll_posts.leaving = 1;
    pthread_cond_signal(&ll_posts.work);
    pthread_mutex_unlock(&ll_posts.lock);
    if (!wait_for_all()) {
        /* MPI cannot end without the lost rank. Waits a moment, so that the rank that reports the loss can do so. */
        if (!ll_dist_ranks().reports) nanosleep(&(struct timespec){1, 0}, NULL);
        ll_posts.transport->abort(code ? code : 1);
    }
    pthread_mutex_lock(&ll_posts.lock);
    const int ended = ll_post_wait(&ll_posts.ended, 10);
    pthread_mutex_unlock(&ll_posts.lock);
    if (!ended) ll_posts.transport->abort(ll_posts.code ? ll_posts.code : 1);
    pthread_join(ll_posts.thread, NULL);
    return ll_posts.code;
}
