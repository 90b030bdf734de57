/* Jobs: a request, its way through the threads, and its answer. The threads share jobs, and each job has a lock. */
#ifndef LL_JOB_H
#define LL_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/served_models.h"

typedef struct {
    int *token;
    int n;
    char *text; /* of the tokens, for echo; else NULL */
    size_t size;
} ll_input_tokens;

struct ll_choice;

typedef struct ll_serve_job {
    atomic_int references;
    pthread_mutex_t lock;
    /* Set when HTTP creates the job. */
    ll_buffer body; /* as it was sent, until it is read */
    char session[LL_SESSION_ID], id[40];
    int key; /* number of its API key; 0: none */
    double start;
    int64_t created; /* time of day in seconds, the same in all parts of an answer */
    /* Set when the body is read. HTTP uses them once there is a status. */
    ll_request request;
    ll_input_tokens input[LL_PROMPTS];
    int inputs, places; /* places: of the batch, that it takes */
    char *chat_prompt;
    /* From the engine to HTTP. Guarded by the lock. */
    ll_buffer out;
    size_t sent;    /* bytes of `out` that have been read */
    int status;     /* of HTTP; 0: not known yet */
    int done, gone; /* the answer is complete; the client has disconnected */
    int failed;     /* a stream ends with an error, after a part of its answer */
    int asleep;     /* HTTP has suspended the connection until `wake` is called */
    void (*wake)(void *arg);
    void *arg;
    /* HTTP reads these for the log, also while other threads still work for a client that has disconnected. */
    _Atomic(ll_served *) model; /* NULL: not known yet */
    _Atomic double first; /* time of the first token; 0: none yet */
    _Atomic int64_t prompt_tokens, made_tokens;
    /* Used only by the engine, or only by the side thread. */
    struct ll_choice *choice; /* (choices) */
    int choices, left;
    /* Guarded by the lock of the queues. */
    struct ll_serve_job *next;
    int waits; /* it counts as one that waits */
} ll_serve_job;

/* Makes a job of a request's body, which it takes over. The caller has one reference. */
ll_serve_job *ll_job_create(ll_ask ask, const char *session, int key, ll_buffer *body);
/* Reads the body, which is then freed, and finds the model. The texts are no tokens yet. 0, or -1 and `why`. */
int ll_job_parse(ll_serve_job *job, ll_refusal *why);
void ll_job_drop(ll_serve_job *job);
/* Appends to the answer and wakes HTTP. */
void ll_job_write(ll_serve_job *job, const char *text, size_t size);
/* Reads the next bytes of the answer, at most `most`, and returns their number. The caller holds the lock. */
size_t ll_job_read(ll_serve_job *job, char *to, size_t most);
/* Is so much of the answer unread that the engine must wait for the client? */
int ll_job_full(ll_serve_job *job);
/* Sends the whole answer, which is freed, or ends a stream. */
void ll_job_answer(ll_serve_job *job, int status, json_t *answer);
void ll_job_refuse(ll_serve_job *job, const ll_refusal *why);
void ll_job_end(ll_serve_job *job);
/* Has its client gone? Such a job still gets an answer, ll_client_gone, so that its connection ends. */
int ll_job_gone(ll_serve_job *job);
extern const ll_refusal ll_client_gone;
/* Fills `why` from the error of a library call. Returns -1. */
int ll_refuse_status(ll_refusal *why, ll_status status, const char *param);
/* The most tokens that a request may generate. */
int64_t ll_most_tokens(const ll_serve_job *job);

/* ---- The tokens of its texts ---- */

/* Makes tokens of the job's texts, which are then freed, by a tokenizer that only this thread uses. 0, or -1 and
 * `why`. */
int ll_job_tokenize(ll_serve_job *job, ll_tokenizer *tokenizer, ll_refusal *why);

/* ---- What waits for which thread ---- */

/* One for each thread that takes jobs. */
typedef enum { LL_TOKEN_QUEUE, LL_ENGINE_QUEUE, LL_SIDE_QUEUE, LL_QUEUES } ll_job_queue;
/* 0, or -1 and `why`, if as many jobs wait as may, or the server ends. A job of another queue waits already. The queue
 * takes a reference of its own. */
int ll_queue_add(ll_job_queue which, ll_serve_job *job, ll_refusal *why);
/* The first job, if it takes `room` places of the batch at most; else the first that takes none, or NULL. With wait it
 * is NULL only where the queue is closed and empty. The job's work begins; a job of the token queue waits until it is
 * added to another one. */
ll_serve_job *ll_queue_take(ll_job_queue which, int room, int wait);
void ll_queue_leave(ll_serve_job *job); /* the job waits no longer: it is refused */
void ll_queues_drop_gone(void);         /* refuses all that wait whose clients are gone */
void ll_queue_close(ll_job_queue which);

/* Reads a new job's request and passes it on to the thread that is to answer it. 0, or -1 and `why`. */
int ll_job_submit(ll_serve_job *job, ll_refusal *why);

#endif
