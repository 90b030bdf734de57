/* The models that are served, with their chat templates. */
#ifndef LL_SERVED_MODELS_H
#define LL_SERVED_MODELS_H

#include "longline-batch.h"
#include "serve/serve.h"

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

#endif
