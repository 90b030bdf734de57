/* What post.c and watch.c share: the state of this rank, and what its thread does in each round. */
#ifndef LL_POST_H
#define LL_POST_H

#include <pthread.h>

#include "dist/dist.h"
#include "dist/transport.h"

enum { LL_HOST = 64 };

/* Guarded by `lock`, except what the thread alone uses. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread;
    const ll_transport *transport; /* NULL: one process */
    int rank, size;
    int started; /* 0: not yet, 1: the thread runs, -1: MPI could not start */
    int ended;   /* MPI has ended, and so does the thread */
    char host[LL_HOST];
    ll_message *posted;      /* posted messages that the thread has not taken yet */
    ll_message **posted_end; /* where the next one goes */
    ll_traffic traffic;
    int failed, lost;  /* has something failed; the rank that is lost, or -1 */
    char failure[480]; /* the text of the failure */
    int agreed;         /* all ranks know why they end */
    int leaving, code, left; /* ll_dist_end was called, with this code; all ranks have left */
    double timeout;
} ll_post;

extern ll_post ll_posts;

/* Waits, with the lock held, until *set is not 0, or for so many seconds; gives *set. */
int ll_post_wait(const int *set, int seconds);

/* Sends and expects signs of life: at the start, in every round and at the end of the thread. `now` is the thread's
 * clock. */
void ll_watch_begin(double now);
void ll_watch_round(double now);
void ll_watch_stop(void);
/* This rank cannot go on. Wakes all waiting threads. Called by the thread. */
void ll_watch_fail(int lost, const char *text);

#endif
