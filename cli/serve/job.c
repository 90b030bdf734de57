/* Jobs: requests that HTTP passes to the engine, and the answers that it gets back. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/random.h>

#include "serve/choice.h"

/* ---- Creation ---- */

/* Can the model answer such a request? */
static int check_model(const ll_served *m, const ll_request *r, ll_refusal *why) {
    const ll_ask ask = r->ask;
    if (r->dimensions && r->dimensions != m->width)
        return ll_refuse(why, 400, "dimensions", "'dimensions' is %lld; embeddings of the model '%s' have %d",
                         (long long)r->dimensions, m->name, m->width);
    if (ask & (LL_ASK_EMBEDDING | LL_ASK_ATTENTION)) return 0;
    if (ask == LL_ASK_CLASSIFY)
        return m->classes ? 0 : ll_refuse(why, 400, "model", "the model '%s' has no classes", m->name);
    if (!m->batcher && ask == LL_ASK_SCORE) {
        const char *task = ll_recipe_get(ll_model_recipe(m->model), "model.task");
        return ll_refuse(why, 400, "model", "the model '%s' (model.task = %s) gives no probabilities of sequences",
                         m->name, task);
    }
    if (!m->batcher) return ll_refuse(why, 400, "model", "the model '%s' does not generate text", m->name);
    if (ask == LL_ASK_CHAT && !m->chat)
        return ll_refuse(why, 400, "model", "the model '%s' has no chat template; use /v1/completions", m->name);
    return 0;
}

static int find_model(ll_serve_job *job, ll_refusal *why) {
    const char *name = job->request.model;
    if (job->request.ask == LL_ASK_LIST) return 0;
    job->model = *job->session ? ll_served_of(job->session) : ll_served_find(name);
    if (job->model) return *job->session ? 0 : check_model(job->model, &job->request, why);
    if (*job->session) return ll_refuse(why, 404, "session", "there is no such session");
    why->code = "model_not_found";
    return ll_refuse(why, 404, "model", "there is no model '%.*s'; /v1/models has the list", ll_shown(name, 60),
                     name);
}

int64_t ll_most_tokens(const ll_serve_job *job) {
    const int64_t asked = job->request.max_tokens;
    if (asked >= 0) return asked;
    const int whole = job->request.ask == LL_ASK_CHAT || asked != LL_TOKENS_UNSET;
    return whole || ll_serve.most < 16 ? ll_serve.most : 16;
}

/* The places of the batch that a request takes: one for each choice. Calls on sessions that neither read nor generate
 * take none. */
static int places(const ll_request *r) {
    return r->ask <= LL_ASK_CREATE ? r->prompts * (int)r->n : (r->ask & (LL_ASK_APPEND | LL_ASK_GENERATE)) != 0;
}

static int fill(ll_serve_job *job, ll_refusal *why) {
    ll_request *r = &job->request;
    const char *most = r->max_completion_tokens == LL_TOKENS_UNSET ? "max_tokens" : "max_completion_tokens";
    if (find_model(job, why)) return -1;
    if (r->ask == LL_ASK_CHAT) {
        size_t size = 0;
        if (!(job->chat_prompt = ll_chat_prompt(job->model, r, &size, why))) return -1;
        r->prompt[r->prompts++] = (ll_prompt){.text = job->chat_prompt, .size = size};
    }
    size_t before = 0;
    if (r->ask == LL_ASK_CREATE) (void)ll_tokenizer_special(job->model->http_tokenizer, LL_SPECIAL_BEFORE, &before);
    if ((r->ask == LL_ASK_COMPLETION || before) && !r->prompts) r->prompts = 1; /* an empty prompt */
    if (r->prompts * r->n > ll_serve.batch) return ll_refuse_many(r, ll_serve.batch, why);
    job->places = places(r);
    if (r->max_tokens > ll_serve.most)
        return ll_refuse(why, 400, most, "'%s' is %lld; this server makes at most %lld of a request", most,
                         (long long)r->max_tokens, (long long)ll_serve.most);
    return 0;
}

static unsigned long long random_word(void) {
    unsigned long long word;
    return getrandom(&word, sizeof word, 0) == sizeof word ? word : (unsigned long long)time(NULL);
}

int ll_job_parse(ll_serve_job *job, ll_refusal *why) {
    ll_request *r = &job->request;
    const int failed = ll_request_read(r, r->ask, job->body.data, job->body.size, why);
    ll_buffer_free(&job->body);
    if (failed) return -1;
    if (r->seed == LL_SEED_DRAWN) r->seed = (int64_t)(random_word() >> 11);
    return fill(job, why);
}

ll_serve_job *ll_job_create(ll_ask ask, const char *session, int key, ll_buffer *body) {
    static const char *const kinds[] = {"cmpl", "chatcmpl", "embd", "score", "class", "attn", "call"};
    size_t kind = 0;
    ll_serve_job *job = ll_serve_alloc(1, sizeof *job);
    atomic_init(&job->references, 1);
    pthread_mutex_init(&job->lock, NULL);
    job->request.ask = ask;
    job->places = 1; /* until the body is read */
    job->body = *body;
    *body = (ll_buffer){0};
    memcpy(job->session, session, strlen(session) + 1);
    job->key = key;
    job->start = ll_now();
    job->created = (int64_t)time(NULL);
    while (kind < sizeof kinds / sizeof *kinds - 1 && !(ask >> kind & 1)) kind++;
    snprintf(job->id, sizeof job->id, "%s-%016llx%08llx", kinds[kind], random_word(), random_word() >> 32);
    return job;
}

/* The engine has freed the stream before. */
static void free_choice(ll_choice *s) {
    ll_buffer_free(&s->pending);
    ll_buffer_free(&s->text);
    ll_buffer_free(&s->logp);
    ll_buffer_free(&s->others);
    free(s->copy);
}

void ll_job_drop(ll_serve_job *job) {
    if (!job || atomic_fetch_sub(&job->references, 1) > 1) return;
    for (int i = 0; i < job->inputs; i++) {
        free(job->input[i].token);
        free(job->input[i].text);
    }
    for (int i = 0; i < job->choices; i++) free_choice(&job->choice[i]);
    free(job->choice);
    free(job->chat_prompt);
    ll_buffer_free(&job->body);
    ll_buffer_free(&job->out);
    ll_request_free(&job->request);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

/* ---- Answers ---- */

static void wake(ll_serve_job *job) {
    if (!job->asleep) return;
    job->asleep = 0;
    job->wake(job->arg);
}

static void write_answer(ll_serve_job *job, int status, const char *text, size_t size, int last) {
    pthread_mutex_lock(&job->lock);
    if (!job->status) job->status = status;
    ll_buffer_add(&job->out, text, size);
    job->done |= last;
    wake(job);
    pthread_mutex_unlock(&job->lock);
}

void ll_job_write(ll_serve_job *job, const char *text, size_t size) { write_answer(job, 200, text, size, 0); }
void ll_job_end(ll_serve_job *job) { write_answer(job, 200, "", 0, 1); }

size_t ll_job_read(ll_serve_job *job, char *to, size_t most) {
    const size_t left = job->out.size - job->sent, n = left < most ? left : most;
    if (!n) return 0;
    memcpy(to, job->out.data + job->sent, n);
    job->sent += n;
    if (job->sent >= job->out.size / 2) { /* seldom enough that each byte is moved once at most */
        ll_buffer_drop(&job->out, job->sent);
        job->sent = 0;
    }
    return n;
}

int ll_job_full(ll_serve_job *job) {
    enum { UNREAD_MOST = 1 << 20 };
    pthread_mutex_lock(&job->lock);
    const int full = job->request.stream && job->out.size - job->sent > UNREAD_MOST;
    pthread_mutex_unlock(&job->lock);
    return full;
}

void ll_job_answer(ll_serve_job *job, int status, json_t *answer) {
    char *text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    write_answer(job, text ? status : 500, text ? text : "{}", text ? strlen(text) : 2, 1);
    free(text);
}

/* If a stream has begun, the error is its last event. */
void ll_job_refuse(ll_serve_job *job, const ll_refusal *why) {
    char *text = ll_refusal_text(why);
    pthread_mutex_lock(&job->lock);
    const int begun = job->status != 0;
    job->failed = begun;
    pthread_mutex_unlock(&job->lock);
    if (begun) ll_job_write(job, "data: ", 6);
    write_answer(job, why->status, text ? text : "{}", text ? strlen(text) : 2, !begun);
    if (begun) write_answer(job, 200, "\n\n", 2, 1);
    free(text);
}

int ll_refuse_status(ll_refusal *why, ll_status status, const char *param) {
    return ll_refuse(why, status == LL_EINVAL ? 400 : status == LL_ENOMEM ? 503 : 500, param, "%s", ll_error());
}

const ll_refusal ll_client_gone = {499, "", "the client went away", NULL, NULL};

int ll_job_gone(ll_serve_job *job) {
    pthread_mutex_lock(&job->lock);
    const int gone = job->gone;
    pthread_mutex_unlock(&job->lock);
    return gone;
}
