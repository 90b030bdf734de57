/* Ranks: the processes that share a run. The default is one process. A plug-in (transport.h) joins several.
 *
 *   launch.c      which launcher, which plug-in     post.c        messages, moved by a thread of their own
 *   rank_state.c  the state of this rank            heartbeat.c   heartbeats, failures, the end
 *   tree.c        the order of a sum                collective.c  operations of all ranks
 *   dist_keys.c   the part [dist] of a recipe       exchange.c    sums of gradients, parts of parameters
 *   simulate.c    what messages and steps cost      mpi_plugin.c  the plug-in
 *
 * One thread of each rank makes all calls of MPI. It moves messages while other threads compute, and twice a second it
 * sends a heartbeat to the next rank. A rank that sends none for too long is lost, and all calls that wait then
 * fail. */
#ifndef LL_DIST_H
#define LL_DIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "longline-dist.h"

/* ---- Messages ---- */

/* A message that is being moved. It is in the caller's memory until ll_dist_wait returns. */
typedef struct ll_message {
    char *data;
    size_t bytes, moved;
    int peer, tag, sends;
    int phase; /* how far the thread has come, which alone uses it */
    int state; /* what ll_dist_wait waits for; guarded by the lock of rank_state.h */
    void *request;
    struct ll_message *next;
} ll_message;

/* Tags of messages. Messages of one tag between two ranks arrive in the order in which they were sent. */
enum { LL_TAG_CONTROL = 1, LL_TAG_COLLECT, LL_TAG_GROUP, LL_TAG_STATE, LL_TAG_PING, LL_TAG_SHARED, LL_TAG_BUCKET = 16 };

/* Begins to send or receive `bytes` bytes, which must stay in place until ll_dist_wait. */
void ll_dist_send(ll_message *m, const void *data, size_t bytes, int to, int tag);
void ll_dist_receive(ll_message *m, void *data, size_t bytes, int from, int tag);
/* Waits for n messages. LL_EDIST says which rank failed. */
LL_MUST_USE ll_status ll_dist_wait(ll_message *m, int n);

/* Did a launcher start this process? There may be only one rank even so. */
int ll_dist_is_launched(void);

/* ---- Groups ---- */

/* The ranks first, first + stride, ..: `count` of them. This process is member number `me`. */
typedef struct {
    int first, stride, count, me;
} ll_group;

ll_group ll_group_all(void);
/* Copies what member `from` has to all members. */
LL_MUST_USE ll_status ll_group_broadcast(const ll_group *g, void *data, size_t bytes, int from);
/* All-reduce: sums n numbers over the members. All get the same bits. The order of the sum depends only on the number
 * of members. */
LL_MUST_USE ll_status ll_group_all_reduce(const ll_group *g, double *x, size_t n);
LL_MUST_USE ll_status ll_group_barrier(const ll_group *g);
/* On all members: the failure of the first member that has one, with its text. */
LL_MUST_USE ll_status ll_group_agree(const ll_group *g, ll_status status);

/* ---- Failures ---- */

/* Seconds of silence after which a rank is lost. */
void ll_dist_set_timeout(double seconds);

#endif
