/* Heartbeats, failures and the end. The ranks form a ring. Each rank sends heartbeats to the next one and expects them
 * from the one before. If none arrives for too long, the rank reports the loss to all others. A rank that fails sends
 * its error to all others.
 *
 * A rank that is stopped in the middle of a message can block a queue in shared memory, through which one other rank
 * hears all. That rank is deaf, and the rank before it may be well. So a rank that misses its heartbeat asks all others
 * for an answer. Rank 0, which is asked, asks the silent rank, too, and reports the loss if a deaf rank cannot. Rank 0
 * prints what is reported. If it does not answer, the next rank prints it.
 *
 * A rank leaves in two steps. It sends its exit code to rank 0. When rank 0 has the codes of all ranks, it answers with
 * the largest one, and all ranks leave. */
#include "dist/heartbeat.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/rank_state.h"

enum { HEARTBEAT, QUESTION, ANSWER, FAILURE, LOSS, LEAVE, LEFT }; /* the first three are repeated */
enum { SENDS = 64, TEXT = 480 };

/* A short message from this thread of one rank to that of another. */
typedef struct {
    int kind, from;
    int rank; /* LOSS: the lost one */
    int code; /* LEAVE, LEFT: the exit code; LOSS: the rank that cannot be told of it, or -1 */
    char text[TEXT];
} notice;

/* Only the thread uses it. */
static struct {
    notice received; /* the last one, and the memory for the next one */
    ll_request receive;
    int receiving; /* MPI has accepted it */
    notice sending[SENDS];
    ll_request send[SENDS];
    int busy[SENDS];
    double last_sent, last_received; /* times of heartbeats */
    double asked;                    /* time of the question to all; 0: none */
    double heard, first_heard;       /* times of the last notice of any rank, and of the last answer of rank 0 */
    int suspect;                     /* rank 0: the rank that another one misses, ... */
    double suspected;                /* ... since when it owes an answer (0: there is none), ... */
    char suspect_host[LL_HOST];      /* ... and its machine */
    double last_round, since;        /* times of the last round and of the failure; since 0: no failure */
    int leave_sent;                  /* this rank has told rank 0 that it leaves */
    int leavers, code;               /* rank 0: the number of ranks that leave, and their largest code */
    char host[LL_HOST];              /* machine of the rank before this one */
} monitor;

/* ---- Notices ---- */

static void begin_receive(void) {
    notice *to = &monitor.received;
    monitor.receiving = !ll_rank.transport->receive(to, sizeof *to, LL_TRANSPORT_ANY, LL_TAG_CONTROL, &monitor.receive);
    if (!monitor.receiving) ll_heartbeat_fail(-1, "MPI cannot receive");
}

/* A free slot for a notice, or -1. Slots of notices that have been sent, or that MPI gave up, are free again. */
static int free_slot(void) {
    for (int i = 0; i < SENDS; i++) {
        int done = 0;
        if (monitor.busy[i] && (ll_rank.transport->test(&monitor.send[i], &done) || done)) monitor.busy[i] = 0;
        if (!monitor.busy[i]) return i;
    }
    return -1;
}

/* Waits for a free slot, but drops what is repeated if there is none. Slots stay taken where a rank receives nothing
 * any more, so the wait ends after a second. */
static void send_notice(int to, const notice *n) {
    int i, waited = 0;
    while ((i = free_slot()) < 0) {
        if (n->kind < FAILURE || ++waited > 1000) return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    monitor.sending[i] = *n;
    monitor.sending[i].from = ll_rank.rank;
    monitor.busy[i] = !ll_rank.transport->send(&monitor.sending[i], sizeof *n, to, LL_TAG_CONTROL, &monitor.send[i]);
}

static void send_to_all(const notice *n) {
    for (int i = 0; i < ll_rank.size; i++)
        if (i != ll_rank.rank && i != ll_rank.lost) send_notice(i, n);
}

/* deaf: the rank that cannot be told what to print, or -1. */
static void fail(int lost, int deaf, const char *text) {
    pthread_mutex_lock(&ll_rank.lock);
    if (!ll_rank.failed) {
        snprintf(ll_rank.failure, sizeof ll_rank.failure, "%.479s", text);
        monitor.since = monitor.last_round;
    }
    ll_rank.failed = 1;
    if (lost >= 0) ll_rank.lost = lost, ll_rank.deaf = deaf;
    pthread_cond_broadcast(&ll_rank.done);
    pthread_mutex_unlock(&ll_rank.lock);
}

void ll_heartbeat_fail(int lost, const char *text) { fail(lost, -1, text); }

/* Wakes the caller of ll_dist_end. */
static void set_left(int code) {
    pthread_mutex_lock(&ll_rank.lock);
    ll_rank.code = code;
    ll_rank.left = 1;
    pthread_cond_broadcast(&ll_rank.done);
    pthread_mutex_unlock(&ll_rank.lock);
}

static void count_leaver(int code) {
    if (code > monitor.code) monitor.code = code;
    if (++monitor.leavers < ll_rank.size) return;
    send_to_all(&(notice){.kind = LEFT, .code = monitor.code});
    for (int i = 0; i < SENDS; i++)
        for (int done = !monitor.busy[i]; !done;)
            if (ll_rank.transport->test(&monitor.send[i], &done)) done = 1;
    memset(monitor.busy, 0, sizeof monitor.busy);
    set_left(monitor.code);
}

static int rank_before(int rank) { return (rank + ll_rank.size - 1) % ll_rank.size; }

/* A rank misses the heartbeats of the one before it, on the machine `text`. Rank 0 asks that one, too. */
static void answer(const notice *question) {
    const int before = rank_before(question->from);
    send_notice(question->from, &(notice){.kind = ANSWER});
    if (ll_rank.rank || !before || monitor.suspected > 0) return;
    monitor.suspect = before;
    monitor.suspected = monitor.last_round;
    snprintf(monitor.suspect_host, LL_HOST, "%.*s", LL_HOST - 1, question->text);
    send_notice(before, &(notice){.kind = QUESTION});
}

static void handle(const notice *n) {
    char text[TEXT + 32];
    monitor.heard = monitor.last_round;
    switch (n->kind) {
    case QUESTION: answer(n); return;
    case ANSWER:
        if (n->from == 0) monitor.first_heard = monitor.last_round;
        if (n->from == monitor.suspect) monitor.suspected = 0;
        return;
    case HEARTBEAT:
        monitor.last_received = monitor.last_round;
        snprintf(monitor.host, sizeof monitor.host, "%.*s", (int)sizeof monitor.host - 1, n->text);
        return;
    case FAILURE:
        snprintf(text, sizeof text, "rank %d: %.*s", n->from, TEXT - 1, n->text);
        ll_heartbeat_fail(-1, text);
        return;
    case LOSS: fail(n->rank, n->code, n->text); return;
    case LEAVE: count_leaver(n->code); return;
    case LEFT: set_left(n->code);
    }
}

/* ---- In every round ---- */

void ll_heartbeat_begin(double now) {
    monitor.last_received = monitor.last_round = now;
    if (ll_rank.size > 1) begin_receive();
}

/* A rank is asked for after this share of the timeout, and has as much to answer. */
#define ANSWERS_IN 0.5

/* Asks all others where the rank before this one is silent, again and again: a rank that cannot answer may still hear.
 * Two ranks cannot ask a third one. */
static void ask_others(double now, double silence, double timeout, int again) {
    const int asks = ll_rank.size > 2 && silence >= ANSWERS_IN * timeout, first = !(monitor.asked > 0);
    if (asks && first) monitor.asked = now;
    if (!asks) monitor.asked = 0;
    if (!asks || !(first || again)) return;
    notice n = {.kind = QUESTION};
    snprintf(n.text, sizeof n.text, "%s", monitor.host);
    send_to_all(&n);
}

static void report_loss(int rank, const char *host, int deaf, double timeout) {
    notice n = {.kind = LOSS, .rank = rank, .code = deaf};
    snprintf(n.text, sizeof n.text,
             "rank %d%s%s is lost: no sign of life for %d s (dist.timeout); it was killed or stopped, or its machine "
             "cannot be reached",
             rank, *host ? " on " : "", host, (int)timeout);
    fail(rank, deaf, n.text);
    send_to_all(&n);
}

/* Reports the rank before this one if it is silent for too long, or the one that owes rank 0 an answer. */
static void look_for_loss(double now, double timeout, int again) {
    const int before = rank_before(ll_rank.rank);
    const double silence = now - monitor.last_received;
    ask_others(now, silence, timeout, again);
    if (monitor.suspected > 0 && now - monitor.suspected > ANSWERS_IN * timeout) {
        report_loss(monitor.suspect, monitor.suspect_host, -1, timeout);
        return;
    }
    /* A deaf rank gives the others the time to report and to end it. */
    const int asked = monitor.asked > 0, deaf = asked && monitor.heard < monitor.asked;
    const int first_is_deaf = asked && monitor.first_heard < monitor.asked && ll_rank.rank && before;
    const double more = !deaf ? 0 : timeout > 20 ? timeout / 4 : 5;
    if (silence >= timeout + more) report_loss(before, monitor.host, first_is_deaf ? 0 : -1, timeout);
}

static void exchange_heartbeats(double now, double timeout) {
    enum { PER_TIMEOUT = 8 };
    const double every = timeout / PER_TIMEOUT < 0.5 ? timeout / PER_TIMEOUT : 0.5;
    /* This process may have been stopped itself. The time that it was stopped does not count as silence. */
    const double gap = now - monitor.last_round > every ? now - monitor.last_round : 0;
    monitor.last_received += gap;
    if (monitor.suspected > 0) monitor.suspected += gap;
    monitor.last_round = now;
    const int again = now - monitor.last_sent > every;
    if (again) {
        notice n = {.kind = HEARTBEAT};
        snprintf(n.text, sizeof n.text, "%s", ll_rank.host);
        send_notice((ll_rank.rank + 1) % ll_rank.size, &n);
        monitor.last_sent = now;
    }
    /* A rank that has failed looks on: nobody may be there to let it leave. */
    if (ll_rank.lost < 0) look_for_loss(now, timeout, again);
}

/* Reports how this rank ends: a failure to all others, its exit code to rank 0. */
static void leave(int code) {
    notice n = {.kind = FAILURE, .code = code};
    if (code && !(monitor.since > 0) && !ll_rank.known) {
        snprintf(n.text, sizeof n.text, "%s", ll_rank.failure);
        send_to_all(&n);
    }
    n.kind = LEAVE;
    if (ll_rank.rank)
        send_notice(0, &n);
    else
        count_leaver(code);
    monitor.leave_sent = 1;
}

void ll_heartbeat_round(double now) {
    int done = 0;
    pthread_mutex_lock(&ll_rank.lock);
    const double timeout = ll_rank.timeout;
    const int leaving = ll_rank.leaving, code = ll_rank.code;
    pthread_mutex_unlock(&ll_rank.lock);
    if (ll_rank.size > 1) {
        exchange_heartbeats(now, timeout);
        while (monitor.receiving && !ll_rank.transport->test(&monitor.receive, &done) && done) {
            const notice n = monitor.received;
            begin_receive();
            handle(&n);
            if (n.kind == LEFT) break;
        }
    }
    if (leaving && !monitor.leave_sent) leave(code);
    /* A failed rank whose caller does not come to ll_dist_end, because it computes or waits, is ended here. */
    if (monitor.since > 0 && !leaving && now - monitor.since > timeout) ll_rank.transport->abort(1);
}

void ll_heartbeat_stop(void) {
    if (monitor.receiving) ll_rank.transport->cancel(&monitor.receive);
}

/* ---- The end ---- */

/* Waits until all ranks have left, or until one is lost; returns 0 if one is lost. */
static int wait_for_all(void) {
    pthread_mutex_lock(&ll_rank.lock);
    while (!ll_rank.left && ll_rank.lost < 0) pthread_cond_wait(&ll_rank.done, &ll_rank.lock);
    const int left = ll_rank.left;
    pthread_mutex_unlock(&ll_rank.lock);
    return left;
}

/* A launcher ends all ranks when one has failed. The rank that reports the failure may be slow, so the others wait five
 * seconds before they end, or until the launcher ends them. */
static void wait_for_report(void) {
    if (!ll_dist_ranks().reports) nanosleep(&(struct timespec){5, 0}, NULL);
}

/* A run may survive a failure that all ranks agreed on, and end with another one that only this rank has. */
static int all_know(const char *why) { return *ll_rank.agreed && strstr(why, ll_rank.agreed); }

int ll_dist_end(int code, const char *why) {
    if (!why) why = ll_error();
    if (!ll_rank.transport) {
        if (code) wait_for_report();
        return code;
    }
    pthread_mutex_lock(&ll_rank.lock);
    if (code && !ll_rank.failed) snprintf(ll_rank.failure, sizeof ll_rank.failure, "%.400s", why);
    ll_rank.known = all_know(why);
    ll_rank.code = code;
    ll_rank.leaving = 1;
    pthread_cond_signal(&ll_rank.work);
    pthread_mutex_unlock(&ll_rank.lock);
    if (!wait_for_all()) {
        /* MPI cannot end without the lost rank. The rank that has reported the loss gives the launcher half a second to
         * pass the text on, which MPICH's may drop when a rank aborts. Then it ends all. */
        wait_for_report();
        if (ll_dist_ranks().reports) nanosleep(&(struct timespec){0, 500000000}, NULL);
        ll_rank.transport->abort(code ? code : 1);
    }
    pthread_mutex_lock(&ll_rank.lock);
    const int ended = ll_rank_wait(&ll_rank.ended, 10);
    pthread_mutex_unlock(&ll_rank.lock);
    if (!ended) ll_rank.transport->abort(ll_rank.code ? ll_rank.code : 1);
    pthread_join(ll_rank.thread, NULL);
    return ll_rank.code;
}
