/* Heartbeats, failures and the end, as the thread of messages drives them. */
#ifndef LL_HEARTBEAT_H
#define LL_HEARTBEAT_H

/* Sends and expects heartbeats: at the start, in every round and at the end of the thread. `now` is the thread's
 * clock. */
void ll_heartbeat_begin(double now);
void ll_heartbeat_round(double now);
void ll_heartbeat_stop(void);
/* This rank cannot go on. Wakes all waiting threads. Called by the thread. lost: the rank that is lost, or -1. */
void ll_heartbeat_fail(int lost, const char *text);

#endif
