/* One choice of a request: its stream, sampling, stop texts, scores. */
#ifndef LL_CHOICE_H
#define LL_CHOICE_H

#include "serve/job.h"

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

#endif
