/* Requests: the JSON of a body, checked as a whole before anything is done. No function here knows HTTP, threads or
 * models, so that a fuzzer can call them alone. */
#ifndef LL_REQUEST_H
#define LL_REQUEST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* What a request asks for. */
typedef enum {
    LL_ASK_COMPLETION = 1 << 0,
    LL_ASK_CHAT = 1 << 1,
    LL_ASK_EMBEDDING = 1 << 2,
    LL_ASK_SCORE = 1 << 3,
    LL_ASK_CLASSIFY = 1 << 4,
    LL_ASK_ATTENTION = 1 << 5,
    LL_ASK_CREATE = 1 << 6, /* this one and all that follow act on sessions */
    LL_ASK_APPEND = 1 << 7,
    LL_ASK_GENERATE = 1 << 8,
    LL_ASK_FORK = 1 << 9,
    LL_ASK_SAVE = 1 << 10,
    LL_ASK_RESTORE = 1 << 11,
    LL_ASK_DELETE = 1 << 12,
    LL_ASK_SHOW = 1 << 13,
    LL_ASK_LIST = 1 << 14,
    /* Requests whose texts are in "input", not in "prompt"; those that the side thread answers. */
    LL_ASK_INPUTS = LL_ASK_EMBEDDING | LL_ASK_SCORE | LL_ASK_CLASSIFY | LL_ASK_ATTENTION,
    LL_ASK_SIDE = LL_ASK_INPUTS & ~LL_ASK_SCORE
} ll_ask;

/* An error in the form that OpenAI's clients expect. */
typedef struct {
    int status; /* HTTP status; 0: no error */
    char param[64];
    char message[300];
    const char *code;  /* "model_not_found" or NULL */
    const char *allow; /* the methods of a path that has not this one (405) */
} ll_refusal;

/* Sets the error and returns -1. param "": it concerns no single field. */
int ll_refuse(ll_refusal *why, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* How much of a text is shown: all of it, or at most so many bytes, without a part of a UTF-8 character. */
int ll_shown(const char *text, int most);
/* The error as {"error": {"message", "type", "param", "code"}}, to be freed. */
char *ll_refusal_text(const ll_refusal *why);

/* One text or list of tokens, borrowed from the body. */
typedef struct {
    const char *text; /* NULL: tokens */
    size_t size;
    json_t *tokens;
} ll_prompt;

typedef struct {
    const char *role, *content;
    size_t size;
} ll_message;

enum { LL_STOPS = 16, LL_STOP_BYTES = 256 };
enum { LL_PROMPTS = 256, LL_MESSAGES = 1024, LL_TOP_LOGPROBS = 20, LL_CHOICES = 128 };
static const int64_t LL_SEED_DRAWN = -1, LL_TOKENS_UNSET = -2;

typedef struct {
    ll_ask ask;
    json_t *body;      /* owns all texts; later only the stop texts */
    const char *model; /* NULL: the first one */
    ll_prompt prompt[LL_PROMPTS];
    int prompts;
    ll_message message[LL_MESSAGES];
    int messages;
    /* Of these a chat may give either. LL_TOKENS_UNSET: it was not given; -1: the server's limit. */
    int64_t max_tokens, max_completion_tokens;
    double temperature, top_p;
    int64_t top_k, n, seed, top;
    int64_t layer, query; /* for attention; -1: the last one */
    int64_t dimensions;   /* of an embedding; 0: not given */
    int64_t logprobs; /* number of alternatives for each token; -1: no logprobs */
    int64_t top_logprobs; /* what a chat asks for; -1: not given */
    int echo, stream, usage, base64, per_token, ignore_end;
    struct {
        const char *text;
        size_t size;
    } stop[2 * LL_STOPS]; /* those of the request, then those of the chat template */
    int stops;
} ll_request;

/* Reads a body of `size` bytes (0: no fields). Returns 0, or -1 with `why`: malformed JSON, or a field that is unknown,
 * of a wrong type, out of range, or not supported. */
int ll_request_read(ll_request *request, ll_ask ask, const void *body, size_t size, ll_refusal *why);
/* More prompts, or choices of them, than `most`. */
int ll_refuse_many(const ll_request *request, int64_t most, ll_refusal *why);
/* Frees all texts and tokens but the stop texts. */
void ll_request_keep_stops(ll_request *request);
void ll_request_free(ll_request *request);

/* What a method asks of a path, and the session that the path names ("" or 37 characters). 0 and `why` if there is no
 * such path (404), or none for this method (405). */
enum { LL_SESSION_ID = 38 };
ll_ask ll_request_route(const char *method, const char *path, char session[LL_SESSION_ID], ll_refusal *why);

#endif
