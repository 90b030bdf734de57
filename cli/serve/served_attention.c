/* The attention weights of one token in one layer, computed on the side thread. They are derivatives of the layer's
 * output, so that every kernel and position has them. They need a forward and a backward pass over the text, which is
 * O(n) for linear attention. */
#include <math.h>
#include <stdlib.h>

#include "serve/job.h"
#include "serve/reply.h"
#include "serve/serve_metrics.h"

enum { MOST = 4096 }; /* tokens of a request */

static int recipe_number(const ll_served *m, const char *key) {
    return atoi(ll_recipe_get(ll_model_recipe(m->side_model), key));
}

typedef struct {
    int cls;     /* CLS tokens, which the model puts before the text */
    int patches; /* of an image (model.patch), which are the tokens then; 0: the tokens are those of the input */
    int tokens;  /* the number of tokens with CLS tokens */
    int layer, layers, query, heads;
} selection;

/* Finds the layer and the token that the request names; -1 is the last. */
static int select_row(selection *p, const ll_serve_job *job, ll_refusal *why) {
    const ll_served *m = job->model;
    const int64_t layer = job->request.layer, query = job->request.query;
    *p = (selection){.cls = ll_model_cls_tokens(m->side_model), .layers = recipe_number(m, "model.layers"),
                 .heads = recipe_number(m, "model.heads")};
    if (recipe_number(m, "model.patch")) p->patches = job->input->n / ll_patch_numbers(ll_model_recipe(m->side_model));
    p->tokens = p->cls + (p->patches ? p->patches : job->input->n);
    if (p->tokens > MOST)
        return ll_refuse(why, 400, "input", "'input' has %d tokens; attention is shown of at most %d",
                         p->tokens - p->cls, MOST);
    if (layer >= p->layers)
        return ll_refuse(why, 400, "layer", "'layer' is %lld; the model has layers 0 to %d", (long long)layer,
                         p->layers - 1);
    if (query >= p->tokens)
        return ll_refuse(why, 400, "query", "'query' is %lld; the input has tokens 0 to %d", (long long)query,
                         p->tokens - 1);
    p->layer = layer < 0 ? p->layers - 1 : (int)layer;
    p->query = query < 0 ? p->tokens - 1 : (int)query;
    return 0;
}

/* Four digits suffice for a picture. */
static json_t *rounded(float x) {
    char text[32];
    snprintf(text, sizeof text, "%.4g", (double)x);
    return ll_json_number(atof(text));
}

static json_t *rows(const float *weights, const selection *p) {
    json_t *heads = json_array();
    for (int h = 0; h < p->heads; h++) {
        json_t *row = json_array();
        for (int i = 0; i < p->tokens; i++) json_array_append_new(row, rounded(*weights++));
        json_array_append_new(heads, row);
    }
    return heads;
}

static json_t *texts(const ll_serve_job *job, const selection *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->cls; i++) json_array_append_new(list, json_null());
    for (int i = 0; i < p->patches; i++) json_array_append_new(list, json_sprintf("patch %d", i));
    for (int i = 0; i < job->input->n && !p->patches; i++)
        json_array_append_new(list, ll_token_text(job->model, job->model->side_tokenizer, job->input->token[i]));
    return list;
}

ll_status ll_attention_answer(ll_serve_job *job) {
    const ll_served *m = job->model;
    ll_refusal why = {0};
    selection p;
    job->prompt_tokens = job->input->n;
    if (select_row(&p, job, &why)) {
        ll_job_refuse(job, &why);
        return LL_OK;
    }
    float *weights = ll_serve_alloc((size_t)p.heads * (size_t)p.tokens, sizeof *weights);
    const ll_status status =
        ll_model_attention_rows(m->side_model, job->input->token, job->input->n, p.layer, &p.query, 1, weights);
    if (!status) {
        ll_count(LL_COUNT_PROMPT_TOKENS, job->prompt_tokens);
        ll_job_answer(job, 200,
                      json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:{s:i, s:i}}", "object", "attention", "model",
                                m->name, "layer", p.layer, "layers", p.layers, "query", p.query, "tokens",
                                texts(job, &p), "weights", rows(weights, &p), "usage", "prompt_tokens", job->input->n,
                                "total_tokens", job->input->n));
    }
    free(weights);
    return status;
}
