/* The engine: one thread that alone uses all streams. Every step feeds one token to each choice that generates, and
 * shares a block of prompt tokens among the choices that read a prompt. Choices join and leave between steps
 * (continuous batching). */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/choice.h"
#include "serve/reply.h"
#include "serve/serve_metrics.h"
#include "serve/serve_threads.h"
#include "serve/session.h"

static pthread_t thread;
static atomic_int stopping;
static _Atomic double deadline;
static int lost; /* sessions that could not be saved at the end */

static ll_choice **active; /* (batch) choices that have a stream, or wait for the one that reads their prompt */
static int actives;
static ll_batch_item *items;
static ll_choice **fed;
static float *logits;
static int rotation; /* the reader that comes first, in turn */

/* ---- Joining ---- */

/* Makes the choices of a job. The first one of each prompt has a stream. */
static int make_choices(ll_serve_job *job, ll_refusal *why) {
    const ll_request *r = &job->request;
    const int n = (int)r->n;
    job->choice = ll_serve_alloc((size_t)(job->inputs * n), sizeof *job->choice);
    job->choices = job->left = job->inputs * n;
    for (int i = 0; i < job->choices; i++) {
        ll_choice *c = &job->choice[i];
        const ll_input_tokens *prompt = &job->input[i / n];
        *c = (ll_choice){.job = job, .index = i, .prompt = prompt, .most = ll_most_tokens(job)};
        c->samples = r->ask != LL_ASK_SCORE && c->most > 0;
        c->scores = r->ask == LL_ASK_SCORE || (r->echo && r->logprobs >= 0);
        c->how = (ll_sampling){sizeof c->how, (float)r->temperature, (int)r->top_k, (float)r->top_p,
                               (uint64_t)r->seed + (uint64_t)(i % n) * UINT64_C(0x9E3779B97F4A7C15)};
        if (i % n) continue;
        const ll_status status = ll_batcher_stream(&c->stream, job->model->batcher);
        if (status) return ll_refuse_status(why, status, "");
        if (ll_choice_check(c, why)) return -1;
        job->prompt_tokens += prompt->n;
    }
    return 0;
}

static void begin(ll_serve_job *job) {
    for (int i = 0; i < job->choices; i++) active[actives++] = &job->choice[i];
    ll_count(LL_COUNT_PROMPT_TOKENS, job->prompt_tokens);
    ll_count_set(LL_COUNT_ACTIVE, actives);
}

/* ---- Leaving ---- */

static void release_stream(ll_choice *c) {
    c->done = 1;
    if (c->session) {
        c->session->busy = 0;
        ll_session_used(c->session);
    } else {
        ll_stream_free(c->stream);
    }
    c->stream = NULL;
}

static void finish_choice(ll_choice *c) {
    ll_serve_job *job = c->job;
    release_stream(c);
    if (--job->left == 0) ll_reply_end(job);
}

/* Removes choices that are done from the list. A job is dropped with its last choice. */
static void remove_finished(void) {
    int kept = 0;
    for (int i = 0; i < actives; i++) {
        ll_choice *c = active[i];
        if (!c->done) {
            active[kept++] = c;
            continue;
        }
        ll_serve_job *job = c->job;
        int others = 0;
        for (int k = i + 1; k < actives && !others; k++) others = active[k]->job == job;
        for (int k = 0; k < kept && !others; k++) others = active[k]->job == job;
        if (!others) ll_job_drop(job);
    }
    actives = kept;
    ll_count_set(LL_COUNT_ACTIVE, actives);
}

static void fail_job(ll_serve_job *job, const ll_refusal *why) {
    for (int i = 0; i < job->choices; i++) {
        ll_choice *c = &job->choice[i];
        if (c->done) continue;
        release_stream(c);
        if (!c->session || (job->request.ask != LL_ASK_CREATE && !c->session->deleted)) continue;
        ll_session_delete(c->session); /* nobody knows the name of one that was to be created */
        c->session = NULL;
    }
    ll_job_refuse(job, why);
}

static void fail_status(ll_serve_job *job, ll_status status) {
    ll_refusal why = {0};
    ll_refuse_status(&why, status, "");
    fail_job(job, &why);
}

/* Ends a job between two steps. A session reads its last token first, which its client may have been sent. */
static void break_off(ll_serve_job *job, const ll_refusal *why) {
    const ll_choice *c = job->choice;
    ll_batch_item item = {.stream = c->stream, .tokens = &c->token, .n = 1};
    if (c->session && c->made && ll_batcher_feed(job->model->batcher, &item, 1)) c->session->broken = 1;
    fail_job(job, why);
}

/* Samples the next token, or finishes the choice. A choice of a session first feeds its last token, so that the session
 * has read it. */
static void continue_choice(ll_choice *c, float *row) {
    const int full = c->session && !ll_stream_left(c->stream); /* what was sampled now could never be read */
    if ((!c->samples || full) && !c->finish) {
        c->finish = "length";
        ll_reply_text(c, "", 0);
    }
    if (c->finish) {
        finish_choice(c);
        return;
    }
    ll_choice_next(c, row);
    if (c->finish && (!c->session || c->token < 0)) finish_choice(c);
}

/* Without a prompt, generation continues from the logits of the session's stream. */
static void start_session(ll_serve_job *job) {
    if (ll_session_call(job)) {
        ll_job_drop(job);
        return;
    }
    begin(job);
    ll_choice *c = job->choice;
    if (c->prompt->n) return;
    if (ll_stream_logits(c->stream, logits)) {
        ll_refusal why = {0};
        ll_refuse(&why, 500, "session", "%s", ll_error());
        fail_job(job, &why);
    } else {
        continue_choice(c, logits);
    }
}

static void start_job(ll_serve_job *job) {
    if (job->request.ask >= LL_ASK_CREATE) {
        start_session(job);
        return;
    }
    ll_refusal why = {0};
    if (!make_choices(job, &why)) {
        begin(job);
        return;
    }
    fail_job(job, &why);
    ll_job_drop(job);
}

/* Starts jobs in the order of their arrival, as long as they fit. */
static void take_jobs(void) {
    for (ll_serve_job *job; (job = ll_queue_take(LL_ENGINE_QUEUE, (int)ll_serve.batch - actives, !actives));)
        start_job(job);
}

/* ---- A step ---- */

static int is_reading(const ll_choice *c) { return c->fed < c->prompt->n; }

/* Does it take part in a step? */
static int takes_part(const ll_choice *c, const ll_served *m) {
    return !c->done && !c->paused && c->stream && c->job->model == m;
}

static void add_item(ll_choice *c, int *count, const int *tokens, int n, float **output) {
    const int every = is_reading(c) && c->scores;
    fed[*count] = c;
    items[(*count)++] =
        (ll_batch_item){.stream = c->stream, .tokens = tokens, .n = n, .every = every, .logits = *output};
    *output += (size_t)(every ? n : 1) * (size_t)c->job->model->vocab;
}

/* Collects the items of a step. Readers share a block of tokens: each takes at most an equal part of what is left of
 * it. */
static int gather(const ll_served *m) {
    int count = 0, readers = 0, first = 0;
    float *output = logits;
    for (int i = 0; i < actives; i++) {
        ll_choice *c = active[i];
        if (!takes_part(c, m)) continue;
        if (is_reading(c))
            readers++;
        else
            add_item(c, &count, &c->token, 1, &output);
    }
    int left = (int)ll_serve.block, others = readers;
    if (readers > left) first = rotation++ % readers; /* some get no token in this step */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0, number = 0; i < actives && left && others; i++) {
            ll_choice *c = active[i];
            if (!takes_part(c, m) || !is_reading(c)) continue;
            const int now = pass ? number < first : number >= first;
            number++;
            if (!now) continue;
            const int part = (left + others - 1) / others, rest = c->prompt->n - c->fed, n = rest < part ? rest : part;
            add_item(c, &count, c->prompt->token + c->fed, n, &output);
            left -= n, others--;
        }
    return count;
}

/* Gives each choice of the same prompt a copy of the stream that has read it. */
static ll_status fork_choices(ll_choice *c) {
    const int n = (int)c->job->request.n;
    for (int i = 1; i < n && !c->session; i++) {
        ll_choice *other = c + i;
        const ll_status status = ll_stream_clone(&other->stream, c->stream);
        if (status) return status;
        other->fed = c->fed;
    }
    return LL_OK;
}

/* All choices of the prompt begin to generate. */
static void begin_choices(ll_choice *c, float *row) {
    const int n = c->session ? 1 : (int)c->job->request.n, vocab = c->job->model->vocab;
    float *copy = n > 1 ? ll_serve_alloc((size_t)vocab, sizeof *copy) : NULL;
    const size_t scores = c->logp.size, others = c->others.size; /* of the prompt */
    if (copy) memcpy(copy, row, (size_t)vocab * sizeof *copy);
    for (int i = 0; i < n; i++) {
        if (i) memcpy(row, copy, (size_t)vocab * sizeof *copy);
        if (c[i].scores && i) { /* all choices have the scores of the prompt */
            ll_buffer_add(&c[i].logp, c->logp.data, scores);
            ll_buffer_add(&c[i].others, c->others.data, others);
        }
        continue_choice(&c[i], row);
    }
    free(copy);
}

static void take_result(ll_choice *c, const ll_batch_item *item) {
    const int vocab = c->job->model->vocab;
    if (c->done) return;
    if (item->status) {
        ll_refusal why = {0};
        ll_refuse(&why, item->status == LL_ENOMEM ? 503 : 500, "",
                  item->status == LL_ENOMEM ? "out of memory" : "what the model gives is not finite");
        if (c->session) c->session->broken = 1;
        fail_job(c->job, &why);
        return;
    }
    if (!is_reading(c)) {
        continue_choice(c, item->logits);
        return;
    }
    if (c->scores) ll_choice_scores(c, item->logits, item->n);
    c->fed += item->n;
    if (is_reading(c)) return;
    const ll_status status = fork_choices(c);
    if (status) {
        fail_status(c->job, status);
        return;
    }
    begin_choices(c, item->logits + (size_t)(c->scores ? item->n - 1 : 0) * (size_t)vocab);
}

/* Stops jobs whose clients have disconnected, or whose session has been deleted. */
static void cancel_abandoned(void) {
    for (int i = 0; i < actives; i++) {
        ll_choice *c = active[i];
        ll_refusal why = {0};
        if (c->done) continue;
        if (c->session && c->session->deleted) {
            ll_refuse(&why, 409, "session", "the session has been deleted");
            fail_job(c->job, &why);
        } else if (ll_job_gone(c->job)) {
            break_off(c->job, &ll_client_gone);
        }
    }
}

/* Choices wait for a client that reads more slowly than they write, so that what it has not read stays small. */
static void pause_unread(void) {
    for (int i = 0; i < actives; i++) {
        ll_choice *c = active[i];
        c->paused = ll_job_full(c->job);
        if (c->paused) c->last_time = 0; /* the time to the next token is the client's */
    }
}

/* Feeds one item. Skips choices that are done: their job has failed by another choice in this step. */
static void feed_single(ll_choice *c, ll_batch_item *item) {
    if (c->done) return;
    item->status = ll_batcher_feed(c->job->model->batcher, item, 1);
    if (item->status == LL_EINVAL) fail_status(c->job, LL_EINVAL);
}

/* Returns the number of choices that took part. */
static int step(const ll_served *m) {
    const int count = gather(m);
    if (!count) return 0;
    const double start = ll_now();
    int rows = 0;
    for (int i = 0; i < count; i++) rows += items[i].n;
    const ll_status status = ll_batcher_feed(m->batcher, items, count);
    if (status == LL_EINVAL) /* nothing was fed; now each item by itself, so that only the invalid one fails */
        for (int i = 0; i < count; i++) feed_single(fed[i], &items[i]);
    ll_count(LL_COUNT_STEPS, 1);
    ll_count(LL_COUNT_ROWS, rows);
    ll_time(LL_TIME_STEP, ll_now() - start);
    for (int i = 0; i < count; i++) take_result(fed[i], &items[i]);
    return count;
}

/* ---- The thread ---- */

static void refuse_all(const char *message) {
    ll_refusal why = {0};
    ll_refuse(&why, 503, "", "%s", message);
    for (int i = 0; i < actives; i++)
        if (!active[i]->done) break_off(active[i]->job, &why);
    remove_finished();
    for (ll_serve_job *job; (job = ll_queue_take(LL_ENGINE_QUEUE, INT_MAX, 0));) {
        ll_job_refuse(job, &why);
        ll_job_drop(job);
    }
}

static void *run(void *arg) {
    (void)arg;
    for (;;) {
        take_jobs();
        if (atomic_load(&stopping) && (!actives || ll_now() > atomic_load(&deadline))) break;
        cancel_abandoned();
        pause_unread();
        int took_part = 0;
        for (int i = 0; i < ll_served_models; i++)
            if (ll_served_model[i].batcher) took_part += step(&ll_served_model[i]);
        remove_finished();
        if (actives && !took_part) usleep(5000); /* all are paused */
    }
    refuse_all("the server is going down");
    lost = ll_sessions_close();
    return NULL;
}

int ll_engine_start(void) {
    int widest = 0;
    for (int i = 0; i < ll_served_models; i++)
        if (ll_served_model[i].vocab > widest) widest = ll_served_model[i].vocab;
    const size_t rows = (size_t)(ll_serve.batch + ll_serve.block);
    active = ll_serve_alloc((size_t)ll_serve.batch, sizeof *active);
    items = ll_serve_alloc(rows, sizeof *items);
    fed = ll_serve_alloc(rows, sizeof *fed);
    logits = ll_serve_alloc(rows * (size_t)widest, sizeof *logits);
    if (pthread_create(&thread, NULL, run, NULL)) return ll_fail_message("cannot start a thread");
    return -1;
}

int ll_engine_stop(double end) {
    atomic_store(&deadline, end);
    atomic_store(&stopping, 1);
    ll_queue_close(LL_ENGINE_QUEUE);
    pthread_join(thread, NULL);
    free(active);
    free(items);
    free(fed);
    free(logits);
    return lost;
}
