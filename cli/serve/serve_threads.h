/* The threads of `longline serve`. HTTP receives requests and writes answers. One looks after connections. The token
 * thread reads long requests and makes their tokens; HTTP does this with short ones. The engine alone uses the models'
 * streams. The side thread has a second copy of each model and computes what reads a whole input at once.
 * They share jobs (job.h). */
#ifndef LL_SERVE_THREADS_H
#define LL_SERVE_THREADS_H

/* -1, or the exit code. */
int ll_http_start(void);
void ll_http_drain(void); /* accepts no new connections and answers new requests with 503 */
void ll_http_stop(void);

/* Starts the thread that looks at connections once a second. It closes those that have been sending a request for
 * longer than --idle, marks jobs whose clients are gone, and drops those of them that wait. -1, or the exit code. */
int ll_connections_start(void);
void ll_connections_stop(void);

int ll_token_start(void); /* -1, or the exit code */
/* Ends the thread when it has read all requests. At time `end` those that still wait are refused. The engine
 * must still run. */
void ll_token_stop(double end);

int ll_engine_start(void);
/* Lets jobs finish until a time of ll_now, refuses the others, saves all sessions, and joins the thread. Returns the
 * number of sessions that could not be saved. */
int ll_engine_stop(double end);
int ll_side_start(void);
void ll_side_stop(double end); /* the same, of jobs of the side thread */

#endif
