/* Embeddings, classes and attention. The model reads the whole input at once for them. They have a thread of their own
 * and a second copy of each model, so that generation does not wait for them. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/job.h"
#include "serve/reply.h"
#include "serve/serve_metrics.h"
#include "serve/serve_threads.h"

static pthread_t thread;
static _Atomic double deadline = INFINITY; /* what is not answered then is refused */
static ll_serve_job *current;

/* Is the answer no longer wanted? */
static int is_stopped(ll_serve_job *job) { return ll_now() > atomic_load(&deadline) || ll_job_gone(job); }

/* A model asks between its blocks of layers whether it goes on. */
static int stops_model(int64_t done, int64_t total, void *arg) {
    (void)done, (void)total, (void)arg;
    return is_stopped(current);
}

static void refuse_status(ll_serve_job *job, ll_status status) {
    ll_refusal why = ll_client_gone;
    if (status != LL_ESTOPPED)
        ll_refuse_status(&why, status, "input");
    else if (!ll_job_gone(job))
        ll_refuse(&why, 503, "", "the server is going down");
    ll_job_refuse(job, &why);
}

static json_t *vector(const float *x, int n, int packed) {
    if (packed) {
        char *text = ll_base64(x, (size_t)n * sizeof *x);
        json_t *s = json_string(text);
        free(text);
        return s;
    }
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_real((double)x[i]));
    return list;
}

static ll_status embed(const ll_serve_job *job, int i, json_t *data) {
    const ll_input_tokens *in = &job->input[i];
    float *out = ll_serve_alloc((size_t)job->model->width, sizeof *out);
    const ll_status status = ll_model_encode(job->model->side_model, -1, LL_EMBED_MEAN, out, in->token, NULL, 1, in->n);
    if (!status)
        json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", i, "embedding",
                                              vector(out, job->model->width, job->request.base64)));
    free(out);
    return status;
}

static ll_status classify(const ll_serve_job *job, int i, json_t *data) {
    const ll_served *m = job->model;
    const ll_input_tokens *in = &job->input[i];
    float *logp = ll_serve_alloc((size_t)m->classes, sizeof *logp);
    const ll_status status = ll_model_logp(m->side_model, logp, in->token, NULL, 1, in->n);
    json_t *classes = json_array();
    char name[LL_CLASS_NAME];
    for (int64_t k = 0; !status && k < job->request.top && k < m->classes; k++) {
        int best = 0;
        for (int c = 1; c < m->classes; c++)
            if (logp[c] > logp[best]) best = c;
        ll_class_name(ll_model_recipe(m->side_model), best, name);
        json_array_append_new(classes, json_pack("{s:o, s:f}", "class", ll_json_text(name, strlen(name)), "probability",
                                                 exp((double)logp[best])));
        logp[best] = -INFINITY;
    }
    json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "classification", "index", i, "classes",
                                          classes));
    free(logp);
    return status;
}

static ll_status answer_inputs(ll_serve_job *job) {
    json_t *data = json_array();
    ll_status status = LL_OK;
    for (int i = 0; i < job->inputs && !status; i++) {
        job->prompt_tokens += job->input[i].n;
        status = is_stopped(job)                        ? LL_ESTOPPED
                 : job->request.ask == LL_ASK_EMBEDDING ? embed(job, i, data)
                                                        : classify(job, i, data);
    }
    ll_count(LL_COUNT_PROMPT_TOKENS, job->prompt_tokens);
    if (status) {
        json_decref(data);
        return status;
    }
    const json_int_t tokens = job->prompt_tokens;
    ll_job_answer(job, 200,
                  json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model", job->model->name, "data", data,
                            "usage", "prompt_tokens", tokens, "total_tokens", tokens));
    return LL_OK;
}

static void answer(ll_serve_job *job) {
    const ll_status status = is_stopped(job)                        ? LL_ESTOPPED
                             : job->request.ask == LL_ASK_ATTENTION ? ll_attention_answer(job)
                                                                    : answer_inputs(job);
    if (status) refuse_status(job, status);
}

static void *run(void *arg) {
    (void)arg;
    for (int i = 0; i < ll_served_models; i++) ll_model_watch(ll_served_model[i].side_model, stops_model, NULL);
    for (ll_serve_job *job; (job = ll_queue_take(LL_SIDE_QUEUE, INT_MAX, 1));) {
        current = job;
        answer(job);
        ll_job_drop(job);
    }
    return NULL;
}

int ll_side_start(void) {
    return pthread_create(&thread, NULL, run, NULL) ? ll_fail_message("cannot start a thread") : -1;
}

void ll_side_stop(double end) {
    atomic_store(&deadline, end);
    ll_queue_close(LL_SIDE_QUEUE);
    pthread_join(thread, NULL);
}
