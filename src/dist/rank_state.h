/* The state of this rank, which the thread of messages (post.c), its heartbeats (heartbeat.c) and the callers share. */
#ifndef LL_RANK_STATE_H
#define LL_RANK_STATE_H

#include <pthread.h>

#include "dist/dist.h"
#include "dist/transport.h"

enum { LL_HOST = 64 };

/* Guarded by `lock`, except for what only the thread uses. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread;
    const ll_transport *transport; /* NULL: one process */
    int rank, size;
    int started; /* 0: not yet, 1: the thread runs, -1: MPI could not start */
    int ended;   /* MPI has ended, and the thread is about to end */
    char host[LL_HOST];
    ll_message *posted;      /* posted messages that the thread has not taken yet */
    ll_message **posted_end; /* where the next one goes */
    ll_traffic traffic;
    int failed, lost;  /* whether something has failed; the rank that is lost, or -1 */
    int deaf;          /* a rank that lives, and that nobody could tell of the loss; or -1 */
    char failure[480]; /* the text of the failure */
    char agreed[480];  /* the text of the last failure that all ranks agreed on; "": they agreed on success */
    int known;         /* ll_dist_end was called after that failure, so all ranks know why this one ends */
    int leaving, code, left; /* ll_dist_end was called, with this exit code; all ranks have left */
    double timeout;
} ll_rank_state;

extern ll_rank_state ll_rank;

/* Waits until *set is not 0, at most for so many seconds, and returns *set. The caller holds the lock. */
int ll_rank_wait(const int *set, int seconds);

#endif
