/* Ranks: the processes that share a run. One process is the default; several are joined by a plug-in (transport.h).
 *
 *   launch.c      which launcher, which plug-in     post.c        messages, by a thread of their own
 *   watch.c       signs of life, failures, the end  collective.c  what all ranks do together
 *   tree.c        the order of a sum                exchange.c    sums of gradients, parts of parameters
 *   dist_keys.c   the part [dist] of a recipe       mpi_plugin.c  the plug-in
 *
 * One thread of each rank makes all calls of MPI. It moves messages while others compute, and it tells the next rank
 * twice a second that it lives. A rank that is silent for too long is lost, and all calls that wait fail. */
#ifndef LL_DIST_H
#define LL_DIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "longline-dist.h"

/* ---- Messages ---- */

/* One message on its way, in the caller's memory until it was waited for. */
typedef struct ll_message {
    char *data;
    size_t bytes, moved;
    int peer, tag, sends, state;
    void *request;
    struct ll_message *next;
} ll_message;

/* Tags of messages. Those of one tag between two ranks arrive in the order in which they were sent. */
enum { LL_TAG_CONTROL = 1, LL_TAG_COLLECT, LL_TAG_GROUP, LL_TAG_STATE, LL_TAG_SHARED, LL_TAG_BUCKET = 16 };

/* Begins to send or receive `bytes` bytes, which stay in use until ll_dist_wait. */
void ll_dist_send(ll_message *m, const void *data, size_t bytes, int to, int tag);
void ll_dist_receive(ll_message *m, void *data, size_t bytes, int from, int tag);
/* Waits for n messages. LL_EDIST says which rank failed. */
LL_MUST_USE ll_status ll_dist_wait(ll_message *m, int n);

/* Was the process started by a launcher? There may be one rank all the same. */
int ll_dist_is_launched(void);

/* ---- Groups ---- */

/* Ranks first, first + stride, ..: `count` of them, of which this one is number `me`. */
typedef struct {
    int first, stride, count, me;
} ll_group;

ll_group ll_group_all(void);
/* Copies what member `from` has to all members. */
LL_MUST_USE ll_status ll_group_broadcast(const ll_group *g, void *data, size_t bytes, int from);
/* Sums of n numbers over the members, in one order for each number of members; the same on all. */
LL_MUST_USE ll_status ll_group_sum(const ll_group *g, double *x, size_t n);
LL_MUST_USE ll_status ll_group_barrier(const ll_group *g);
/* The failure of the first member that has one, with its text, on all members. */
LL_MUST_USE ll_status ll_group_agree(const ll_group *g, ll_status status);

/* ---- Failures ---- */

/* Seconds of silence after which a rank is lost. */
void ll_dist_set_timeout(double seconds);

#endif
