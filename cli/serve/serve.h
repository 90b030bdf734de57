/* Inside `longline serve`.
 *
 *   request.c         a body's JSON, checked            served_models.c  the models, their tokens, chat templates
 *   job.c             a request on its way, its answer  choice.c         one choice: sampling, stop texts, scores
 *   engine.c          the loop that feeds all streams   session.c        streams with names, in memory and in files
 *   session_calls.c   what clients do with these        side_thread.c    embeddings, classes
 *   reply.c           answers as JSON                   http.c           libmicrohttpd
 *   serve_json.c      numbers and tokens as JSON        served_attention.c  what a token attends to
 *   serve_metrics.c   /metrics and the log              api_keys.c       who may ask
 *   page_policy.c     what the page at / may do         serve_text.c     memory, buffers, UTF-8
 *
 * Three threads: HTTP reads requests and writes answers; the engine has the models' streams to itself; the side thread
 * has a second copy of each model, for what reads a whole input at once. They share jobs, each with a lock. */
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
    int64_t batch, block, queue, body, prompt, most, sessions, memory, quota, connections, idle, drain;
} ll_serve_options;
extern ll_serve_options ll_serve;

/* ---- serve_text.c ---- */

typedef struct {
    char *data;
    size_t size, capacity;
} ll_buffer;
void ll_buffer_add(ll_buffer *b, const void *data, size_t n);
void ll_buffer_text(ll_buffer *b, const char *text);
void ll_buffer_free(ll_buffer *b);
/* Memory, zeroed, or the end of the program: a server that has none left cannot serve. */
void *ll_serve_alloc(size_t n, size_t size);
/* UTF-8 of any bytes, as a JSON string. */
json_t *ll_json_text(const char *text, size_t size);
/* Base64 of n bytes, to be freed. */
char *ll_base64(const void *data, size_t n);

/* ---- served_models.c ---- */

enum { LL_MODELS_MOST = 64, LL_MODEL_NAME = 128 };

/* How a chat becomes a prompt: what stands before and after each role's text, what begins the answer, what ends it. */
typedef struct {
    json_t *all; /* what the others are part of */
    json_t *roles, *stop;
    const char *begin;
} ll_chat;

enum { LL_MARK = 8 };
typedef struct {
    char name[LL_MODEL_NAME], mark[LL_MARK + 1]; /* mark: a digest of the name, with which its sessions begin */
    const char *unit;
    ll_model *model, *side; /* the engine's; the side thread's */
    ll_batcher *batcher;    /* NULL: the model gives no text */
    ll_tokenizer *tokenizer, *reader, *beside; /* the engine's; the HTTP and the side thread's */
    int vocab, spoken, end, classes, width; /* end: the token that ends a text, or -1 */
    ll_chat *chat;          /* NULL: no template */
    double created;
} ll_served;
extern ll_served ll_served_model[LL_MODELS_MOST];
extern int ll_served_models;

/* Loads all models that the options name. -1, or the exit code. */
int ll_served_load(int n, const char **paths);
void ll_served_free(void);
ll_served *ll_served_find(const char *name); /* NULL: the first */
ll_served *ll_served_of(const char *session); /* whose session it is; NULL: of no model that is served */
void ll_digest(char *hex, size_t digits, const char *text); /* of SHA-256; hex has digits + 1 bytes */
/* A chat as a prompt of *size bytes, to be freed; NULL and `why`. The template's stop texts join the request's. */
char *ll_chat_prompt(const ll_served *m, ll_request *r, size_t *size, ll_refusal *why);

/* ---- job.c ---- */

typedef struct {
    int *token;
    int n;
    const char *text; /* as it was given, for echo; or NULL */
    size_t size;
} ll_input_tokens;

struct ll_choice;

typedef struct ll_serve_job {
    atomic_int holders;
    pthread_mutex_t lock;
    /* Made by HTTP, then read alone. */
    ll_request request;
    char session[LL_SESSION_ID], id[40];
    int key; /* number of its API key; 0: none */
    ll_served *model;
    ll_input_tokens input[LL_PROMPTS];
    int inputs;
    char *chat_prompt;
    double start;
    /* Under the lock: from the engine to HTTP. */
    ll_buffer out;
    int status;     /* of HTTP; 0: not known yet */
    int done, gone; /* nothing more follows; the client is no longer there */
    int asleep;     /* HTTP waits to be woken */
    void (*wake)(void *arg);
    void *arg;
    /* Read by HTTP for the log, also while the engine goes on with what a client left. */
    _Atomic double first; /* when the first token was made; 0: not yet */
    atomic_int prompt_tokens, made_tokens;
    /* The engine's own, or the side thread's. */
    struct ll_choice *choice; /* (choices) */
    int choices, left;
    struct ll_serve_job *next;
} ll_serve_job;

/* A job of a request that was read, whose contents it takes over; the caller holds it. NULL and `why`. */
ll_serve_job *ll_job_create(ll_request *request, const char *session, int key, ll_refusal *why);
void ll_job_drop(ll_serve_job *job);
/* Adds to what the client gets; wakes HTTP. */
void ll_job_write(ll_serve_job *job, const char *text, size_t size);
/* The whole answer, which is freed, or the end of a stream. */
void ll_job_answer(ll_serve_job *job, int status, json_t *answer);
void ll_job_refuse(ll_serve_job *job, const ll_refusal *why);
void ll_job_end(ll_serve_job *job);
int ll_job_gone(ll_serve_job *job);
/* Why a call of the library failed; gives -1. */
int ll_refuse_status(ll_refusal *why, ll_status status, const char *param);
/* How many tokens a request may make. */
int64_t ll_most_tokens(const ll_serve_job *job);

/* A queue that one thread waits on. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    ll_serve_job *first, *last;
    int n, closed;
} ll_job_queue;
extern ll_job_queue ll_engine_queue, ll_side_queue;
/* 0, or -1 where it is full or closed. Takes a holder of its own. */
int ll_queue_add(ll_job_queue *q, ll_serve_job *job, int most);
/* NULL: there is none now (wait: and the queue is closed). */
ll_serve_job *ll_queue_take(ll_job_queue *q, int wait);
void ll_queue_close(ll_job_queue *q);

/* ---- choice.c: one choice of a request ---- */

typedef struct {
    int token;
    size_t offset; /* of its text among all that was made; of the prompt's tokens, in the prompt */
    int prompt;
    double logp; /* NAN: of the first, which nothing precedes */
    int alternatives, other[LL_TOP_LOGPROBS];
    double other_logp[LL_TOP_LOGPROBS];
} ll_token_logp;

typedef struct ll_choice {
    ll_serve_job *job;
    ll_stream *stream; /* NULL: it waits for the stream that reads their prompt, or is done */
    int index;         /* of the choice in the answer */
    struct ll_session *session; /* whose stream it is, or NULL */
    const ll_input_tokens *prompt;
    int fed;                         /* tokens of it that are read */
    int token;                       /* the last one made, not fed yet */
    int scores, samples;             /* log-probabilities of the prompt are wanted; tokens are to be made */
    int started, done;
    int64_t made, most;
    const char *finish;              /* why it ends: "stop", "length"; NULL: it goes on */
    ll_sampling how;
    ll_buffer held, text;            /* what may yet be cut; what is given, where it is not streamed */
    size_t total, given;             /* bytes made and passed on */
    ll_token_logp *logp;
    size_t logps, logp_capacity, logp_sent;
    float *copy;                     /* (V) of logits, where log-probabilities are wanted */
    double last;                     /* when its last token came */
} ll_choice;

/* After n more tokens of its prompt: logits (n, V) are those after each, where it scores. */
void ll_choice_scores(ll_choice *s, const float *logits, int n);
/* Makes the next token of logits (V), which are overwritten, and passes on the text that is certain. */
void ll_choice_next(ll_choice *s, float *logits);

/* ---- serve_json.c ---- */

/* The text of a token by itself; of bytes that are no text, "bytes:\xe6". */
json_t *ll_token_text(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_token_bytes(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_json_number(double x); /* null for what is not finite */

/* ---- reply.c ---- */

/* Text that came of a choice, with `finish` where it is the last: a server-sent event, or kept. */
void ll_reply_text(ll_choice *s, const char *text, size_t size);
/* All choices of a job are done: the answer, or the last event. */
void ll_reply_end(ll_serve_job *job);
json_t *ll_reply_session(const struct ll_session *s);
json_t *ll_reply_models(const char *name, ll_refusal *why);

/* ---- engine.c ---- */

int ll_engine_start(void);
/* Ends what runs within the seconds that --drain gives, saves all sessions, and joins the thread. */
void ll_engine_stop(void);
int ll_side_start(void);
void ll_side_stop(void);

/* ---- served_attention.c ---- */

enum { LL_ATTENTION_MOST = 4096 }; /* tokens of a text whose attention is asked for */
void ll_attention_answer(ll_serve_job *job); /* on the side thread */

/* ---- api_keys.c ---- */

int ll_keys_load(const char *path); /* -1, or the exit code */
/* The number of the key in "Bearer KEY", from 1; 0: none is needed; -1: not one of ours. All take the same time. */
int ll_keys_find(const char *authorization);
const char *ll_keys_name(int key);
enum { LL_OWNER = 16 };
const char *ll_keys_owner(int key); /* LL_OWNER digits of its digest, for names of files; 0 where none is needed */

/* ---- session.c: the engine's alone ---- */

typedef struct ll_session {
    char id[LL_SESSION_ID];
    ll_served *model;
    char owner[LL_OWNER + 1];
    ll_stream *stream; /* NULL: on disk alone */
    int busy;          /* a job has it */
    int dirty;         /* the stream is ahead of its files */
    int broken;        /* a step failed half-way: it has no stream until it is restored */
    int saved, swapped; /* which files are there: what `save` wrote; what made room in memory */
    int64_t position;
    size_t bytes, disk;
    struct ll_session *newer, *older; /* by use */
    struct ll_session *chain;         /* of its bucket */
} ll_session;

/* Finds those of earlier runs in --state-dir. -1, or the exit code. */
int ll_sessions_open(void);
void ll_sessions_close(void); /* saves and frees all */
ll_session *ll_session_new(ll_served *m, int key, ll_refusal *why);
ll_session *ll_session_find(const char *id, int key, ll_refusal *why); /* also reads it into memory */
ll_session *ll_session_peek(const char *id, int key, ll_refusal *why); /* not that */
int ll_session_save(ll_session *s, ll_refusal *why);
int ll_session_restore(ll_session *s, ll_refusal *why);
void ll_session_delete(ll_session *s);
void ll_session_used(ll_session *s); /* after its stream moved */
ll_session *ll_session_next(const ll_session *s); /* NULL: the one used last */
int ll_session_owned(const ll_session *s, int key);

/* ---- session_calls.c ---- */

/* Does what a job asks of sessions; 1 where it is answered, 0 where its choice is to run. */
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
/* A line of JSON about a request that ended, without its texts. */
void ll_log_request(const char *method, const char *path, int status, const ll_serve_job *job, double seconds);
void ll_log_event(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- http.c ---- */

/* -1, or the exit code. */
int ll_http_start(void);
void ll_http_quiet(void); /* no new connections; new requests get 503 */
void ll_http_stop(void);
/* Ends connections that have been sending a request for longer than --idle; called once a second. */
void ll_http_watch(void);

extern const char ll_page[], ll_page_end[];
/* page_policy.c: its Content-Security-Policy, to be freed. */
char *ll_page_policy(void);

#endif
