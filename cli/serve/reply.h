/* Answers as JSON, and the tokens and numbers in them. */
#ifndef LL_REPLY_H
#define LL_REPLY_H

#include "serve/served_models.h"

struct ll_choice;
struct ll_serve_job;
struct ll_session;

/* The text of one token. Bytes that are not UTF-8 are written as "bytes:\xe6". */
json_t *ll_token_text(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_token_bytes(const ll_served *m, ll_tokenizer *tokenizer, int token);
json_t *ll_json_number(double x); /* null for what is not finite */

/* Adds text to a choice's answer: sends an event, or keeps it. If s->finish is set it is the last text. */
void ll_reply_text(struct ll_choice *s, const char *text, size_t size);
/* Completes the answer of a job, all of whose choices are done. */
void ll_reply_end(struct ll_serve_job *job);
/* The attention that a job asks for, on the side thread; after an error the job has no answer yet. */
ll_status ll_attention_answer(struct ll_serve_job *job);
json_t *ll_reply_session(const struct ll_session *s);
json_t *ll_reply_models(const char *name, ll_refusal *why);

#endif
