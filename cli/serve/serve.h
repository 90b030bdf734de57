/* Inside `longline serve`.
 *
 *   request.c         a body's JSON, checked            served_models.c  the models, their tokens, chat templates
 *   job.c             a request and its answer          choice.c         one choice: sampling, stop texts, scores
 *   engine.c          the loop that feeds all streams   session.c        streams with names, in memory and in files
 *   session_calls.c   what clients do with these        side_thread.c    embeddings, classes
 *   reply.c           answers as JSON                   http.c           libmicrohttpd
 *   serve_json.c      numbers and tokens as JSON        served_attention.c  what a token attends to
 *   serve_metrics.c   /metrics and the log              api_keys.c       who may send requests
 *   page_policy.c     what the page at / may do         serve_text.c     buffers, UTF-8, base64, files
 *   serve_memory.c    memory, with a reserve            connections.c    who is slow, and who is gone
 *   request_path.c    what a path is asked for          session_file.c   what a session's file tells
 *   http_address.c    the address of --listen           job_tokens.c     the tokens of a request's texts
 *   token_thread.c    the way of a job to the engine    refusal.c        what is wrong with a request
 *   job_queue.c       what waits for which thread
 *
 * There are five threads. HTTP receives requests and writes answers. One looks after connections. The token thread
 * reads long requests and makes their tokens; HTTP does this with short ones. The engine alone uses the models'
 * streams. The side thread has a second copy of each model and computes what reads a whole input at once. The threads
 * share jobs, and each job has a lock. */
#ifndef LL_SERVE_H
#define LL_SERVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli.h"
#include "longline-batch.h"
#include "serve/request.h"

/* ---- Options ---- */

typedef struct {
    const char *listen, *models, *state_dir, *keys, *chat_template, *weights;
    int64_t batch, block, queue, body, prompt, input, most, sessions, memory, quota, connections, idle, send, drain;
} ll_serve_options;
extern ll_serve_options ll_serve;

/* ---- serve_memory.c ---- */

/* Zeroed memory. Where there is none, a reserve is given back; if that is not enough, the program ends. */
void *ll_serve_alloc(size_t n, size_t size);
/* The same or NULL, for what a client may make large. The request is then refused (503; returns -1). */
void *ll_serve_try(size_t n, size_t size);
int ll_refuse_memory(ll_refusal *why);
/* Has the server its reserve, or can it have one now? If not, a request must be refused. */
int ll_serve_has_reserve(void);

/* ---- serve_text.c ---- */

typedef struct {
    char *data;
    size_t size, capacity;
} ll_buffer;
void ll_buffer_add(ll_buffer *b, const void *data, size_t n);
void ll_buffer_text(ll_buffer *b, const char *text);
void ll_buffer_drop(ll_buffer *b, size_t n); /* the first n bytes */
void ll_buffer_free(ll_buffer *b);
/* Any bytes as a JSON string. Bytes that are not UTF-8 become U+FFFD. */
json_t *ll_json_text(const char *text, size_t size);
/* The number of bytes of the first UTF-8 character. A byte that begins none counts as one. */
size_t ll_character(const char *text, size_t size);
/* Base64 of n bytes, to be freed. */
char *ll_base64(const void *data, size_t n);
/* Opens a file for reading. NULL and errno, which is EISDIR for a folder, as fopen does not say. */
FILE *ll_serve_open(const char *path);

/* ---- served_models.c ---- */

enum { LL_MODELS_MOST = 64, LL_MODEL_NAME = 128 };

/* A chat template: the texts before and after a message of each role, the beginning of the answer, and the texts that
 * end it. */
typedef struct {
    json_t *all; /* owns the others */
    json_t *roles, *stop;
    const char *begin;
} ll_chat;

enum { LL_NAME_DIGEST = 8 };
typedef struct {
    char name[LL_MODEL_NAME], digest[LL_NAME_DIGEST + 1]; /* digest: of the name; ids of its sessions begin with it */
    const char *unit;
    ll_model *model, *side_model; /* of the engine; of the side thread */
    ll_batcher *batcher;    /* NULL: the model gives no text */
    /* One for each thread; the first is the engine's. */
    ll_tokenizer *tokenizer, *http_tokenizer, *token_tokenizer, *side_tokenizer;
    int vocab, text_vocab;   /* all tokens, and those that have text */
    int end, classes, width; /* end: the token that ends a text, or -1 */
    int separator;           /* the token with which positions begin again, or -1 */
    int64_t positions;       /* the most tokens of one text that a stream reads; INT64_MAX: any number */
    ll_chat *chat; /* NULL: no template */
    double created;
} ll_served;
extern ll_served ll_served_model[LL_MODELS_MOST];
extern int ll_served_models;

/* Loads all models that the options name. -1, or the exit code. */
int ll_served_load(int n, const char **paths);
void ll_served_free(void);
ll_served *ll_served_find(const char *name); /* NULL: the first */
ll_served *ll_served_of(const char *session); /* the model of a session; NULL: it is not served */
/* A chat as a prompt of *size bytes, to be freed; NULL and `why`. Adds the template's stop texts to the request's. */
char *ll_chat_prompt(const ll_served *m, ll_request *r, size_t *size, ll_refusal *why);

/* ---- job.c ---- */

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

/* ---- job_queue.c ---- */

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

/* ---- job_tokens.c ---- */

/* Makes tokens of the job's texts, which are then freed, by a tokenizer that only this thread uses. 0, or -1 and
 * `why`. */
int ll_job_tokenize(ll_serve_job *job, ll_tokenizer *tokenizer, ll_refusal *why);

/* ---- token_thread.c ---- */

/* Reads a new job's request and passes it on to the thread that is to answer it. 0, or -1 and `why`. */
int ll_job_submit(ll_serve_job *job, ll_refusal *why);
int ll_token_start(void); /* -1, or the exit code */
/* Ends the thread when it has read all requests. At time `end` those that still wait are refused. The engine
 * must still run. */
void ll_token_stop(double end);

/* ---- choice.c: one choice of a request ---- */

typedef struct {
    int token;
    double logp; /* NAN: the first token, which has no context */
} ll_token_logp;

typedef struct {
    ll_token_logp said; /* the token itself */
    int prompt;
    size_t offset; /* of its text: within the prompt for tokens of the prompt, else within the generated text */
    size_t others; /* the first of its alternatives */
    int alternatives;
} ll_scored_token;

typedef struct ll_choice {
    ll_serve_job *job;
    ll_stream *stream; /* NULL: another choice still reads the prompt for it, or it is done */
    int index;         /* of the choice in the answer */
    struct ll_session *session; /* the owner of the stream, or NULL */
    const ll_input_tokens *prompt;
    int fed;                         /* tokens of the prompt that have been read */
    int token;                       /* the last generated token, which has not been fed yet */
    int scores, samples;             /* whether the prompt is scored; whether tokens are generated */
    int started, done;
    int paused; /* its client has not read what was written for it */
    int64_t made, most;
    const char *finish;              /* finish_reason: "stop" or "length"; NULL: not finished */
    ll_sampling how;
    ll_buffer pending, text;         /* text that a stop text may still cut; the answer, if it is not streamed */
    size_t total, emitted;           /* bytes generated, and bytes passed on */
    ll_buffer logp, others;          /* of ll_scored_token, unless a score is asked for as a sum; ll_token_logp */
    size_t counted, characters;      /* bytes of the answer's text whose characters were counted; how many these are */
    size_t logp_sent, offset;        /* records of logp passed on; bytes of the prompt's text before the next */
    double sum;                      /* of the prompt's log-probabilities */
    int64_t scored;                  /* how many they are */
    float *copy;                     /* (V) logits, if log-probabilities are asked for */
    double last_time;                /* time of its last token */
} ll_choice;

static inline size_t ll_logps(const ll_choice *s) { return s->logp.size / sizeof(ll_scored_token); }
static inline const ll_scored_token *ll_logp_at(const ll_choice *s, size_t i) {
    return (const ll_scored_token *)(const void *)s->logp.data + i;
}
static inline const ll_token_logp *ll_other_at(const ll_choice *s, size_t i) {
    return (const ll_token_logp *)(const void *)s->others.data + i;
}
/* Refuses a prompt that ends beyond the model's learned positions. */
int ll_choice_check(const ll_choice *s, ll_refusal *why);
/* Scores n more tokens of the prompt. logits (n, V): after each of them. */
void ll_choice_scores(ll_choice *s, const float *logits, int n);
/* Samples the next token from logits (V), which are overwritten, and passes on the text that no stop text can cut. */
void ll_choice_next(ll_choice *s, float *logits);

/* ---- serve_json.c ---- */

/* The text of one token. Bytes that are not UTF-8 are written as "bytes:\xe6". */
json_t *ll_token_text(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_token_bytes(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_json_number(double x); /* null for what is not finite */

/* ---- reply.c ---- */

/* Adds text to a choice's answer: sends an event, or keeps it. If s->finish is set it is the last text. */
void ll_reply_text(ll_choice *s, const char *text, size_t size);
/* Completes the answer of a job, all of whose choices are done. */
void ll_reply_end(ll_serve_job *job);
json_t *ll_reply_session(const struct ll_session *s);
json_t *ll_reply_models(const char *name, ll_refusal *why);

/* ---- engine.c ---- */

int ll_engine_start(void);
/* Lets jobs finish until a time of ll_now, refuses the others, saves all sessions, and joins the thread. Returns the
 * number of sessions that could not be saved. */
int ll_engine_stop(double end);
int ll_side_start(void);
void ll_side_stop(double end); /* the same, of jobs of the side thread */

/* ---- served_attention.c ---- */

enum { LL_ATTENTION_MOST = 4096 }; /* most tokens of a request for attention */
ll_status ll_attention_answer(ll_serve_job *job); /* on the side thread; after an error the job has no answer yet */

/* ---- api_keys.c ---- */

int ll_keys_load(const char *path); /* -1, or the exit code */
/* The number of the key in "Bearer KEY", from 1; 0: no keys are in use; -1: an unknown key. The time does not depend on
 * the key. */
int ll_keys_find(const char *authorization);
const char *ll_keys_name(int key);
enum { LL_OWNER = 16 };
const char *ll_keys_owner(int key); /* LL_OWNER digits of its digest, for names of files; zeros without keys */

/* ---- session.c: only the engine calls it ---- */

typedef struct ll_session {
    char id[LL_SESSION_ID];
    ll_served *model;
    char owner[LL_OWNER + 1];
    ll_stream *stream;  /* NULL: only on disk */
    int busy;           /* a job uses it */
    int deleted;        /* by a client, while a job used it: nobody has it any more */
    int dirty;          /* the stream is newer than its files */
    int broken;         /* a step failed half-way: there is no stream until it is restored */
    int saved, swapped; /* which files exist: that of `save`; that of an eviction from memory */
    int64_t position;
    size_t bytes, disk;
    struct ll_session *newer, *older; /* in the order of last use */
    struct ll_session *chain;         /* next in its bucket of the hash table */
} ll_session;

/* Finds the sessions of earlier runs in --state-dir. -1, or the exit code. */
int ll_sessions_open(void);
int ll_sessions_close(void); /* saves and frees all; the number that could not be saved */
/* A session that has read nothing, or what another one has read. */
ll_session *ll_session_new(ll_served *m, const ll_session *from, int key, ll_refusal *why);
ll_session *ll_session_find(const char *id, int key, ll_refusal *why); /* also loads it into memory */
ll_session *ll_session_peek(const char *id, int key, ll_refusal *why); /* does not load it */
int ll_session_save(ll_session *s, ll_refusal *why);
int ll_session_restore(ll_session *s, ll_refusal *why);
void ll_session_delete(ll_session *s);
/* Evicts sessions until they keep to --session-memory, before one grows that is busy. 0, or -1 and `why`. */
int ll_session_room(ll_refusal *why);
void ll_session_used(ll_session *s); /* after its stream has read tokens; it may be evicted */
ll_session *ll_session_next(const ll_session *s); /* next older one; of NULL, the newest */
int ll_session_owned(const ll_session *s, int key);

/* ---- session_file.c ---- */

int64_t ll_session_position(const char *path); /* of a file of a session; -1: it does not tell */

/* ---- session_calls.c ---- */

/* Carries out a job on sessions. 1: it has been answered; 0: its choice has yet to run. */
int ll_session_call(ll_serve_job *job);

/* ---- serve_metrics.c ---- */

typedef enum {
    LL_COUNT_PROMPT_TOKENS, LL_COUNT_TOKENS, LL_COUNT_STEPS, LL_COUNT_ROWS, LL_COUNT_REJECTED, LL_COUNT_EVICTED,
    LL_COUNT_ACTIVE, LL_COUNT_WAITING, LL_COUNT_SESSIONS, LL_COUNT_RESIDENT, LL_COUNT_STATE_BYTES, LL_COUNT_DISK_BYTES,
    LL_COUNT_CONNECTIONS, LL_COUNTERS
} ll_counter;
void ll_count(ll_counter which, int64_t add);
void ll_count_set(ll_counter which, int64_t value);
typedef enum { LL_TIME_FIRST, LL_TIME_BETWEEN, LL_TIME_STEP, LL_TIME_REQUEST, LL_TIMES } ll_timing;
void ll_time(ll_timing which, double seconds);
void ll_count_request(int status);
char *ll_metrics_text(void); /* of Prometheus, to be freed */
/* Logs a request that has ended, as a line of JSON without its texts. cut: why its answer was not sent to the end, or
 * NULL. */
void ll_log_request(const char *method, const char *path, int status, const char *cut, const ll_serve_job *job,
                    double seconds);
void ll_log_event(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- http.c ---- */

/* -1, or the exit code. */
int ll_http_start(void);
void ll_http_drain(void); /* accepts no new connections and answers new requests with 503 */
void ll_http_stop(void);

/* ---- http_address.c ---- */

struct addrinfo;
struct sockaddr;
/* Finds the address of --listen, which freeaddrinfo frees. -1, or the exit code. */
int ll_http_address(struct addrinfo **found);
int ll_http_is_loopback(const struct sockaddr *a);

/* ---- connections.c ---- */

typedef struct ll_connection ll_connection;
ll_connection *ll_connection_open(int fd);
void ll_connection_close(ll_connection *c); /* NULL is fine */
/* since: when it began to send a request, 0 where that is complete; job: what it waits for, or NULL, to be said before
 * the job is dropped. */
void ll_connection_set(ll_connection *c, double since, ll_serve_job *job);
/* Starts the thread that looks at connections once a second. It closes those that have been sending a request for
 * longer than --idle, marks jobs whose clients are gone, and drops those of them that wait. -1, or the exit code. */
int ll_connections_start(void);
void ll_connections_stop(void);

extern const char ll_page[], ll_page_end[];
/* page_policy.c: the Content-Security-Policy of the page, to be freed. */
char *ll_page_policy(void);

#endif
