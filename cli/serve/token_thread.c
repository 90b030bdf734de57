/* The way of a job to the engine or the side thread. Before, its request is read and its texts become tokens. The token
 * thread does this with long requests, so that connections need not wait for it. */
#include <limits.h>
#include <math.h>

#include "serve/job.h"
#include "serve/serve_threads.h"

enum { AT_ONCE = 1 << 14 }; /* bytes of a request that HTTP's own thread reads */

static pthread_t thread;
static _Atomic double deadline = INFINITY; /* what has not been read then is refused */

static int read_request(ll_serve_job *job, int by_http, ll_refusal *why) {
    if (ll_job_parse(job, why)) return -1;
    const ll_served *m = job->model;
    ll_tokenizer *tokenizer = !m ? NULL : by_http ? m->http_tokenizer : m->token_tokenizer;
    if (ll_job_tokenize(job, tokenizer, why)) return -1;
    return ll_queue_add(job->request.ask & LL_ASK_SIDE ? LL_SIDE_QUEUE : LL_ENGINE_QUEUE, job, why);
}

int ll_job_submit(ll_serve_job *job, ll_refusal *why) {
    return job->body.size > AT_ONCE ? ll_queue_add(LL_TOKEN_QUEUE, job, why) : read_request(job, 1, why);
}

static void *run(void *arg) {
    (void)arg;
    for (ll_serve_job *job; (job = ll_queue_take(LL_TOKEN_QUEUE, INT_MAX, 1)); ll_job_drop(job)) {
        ll_refusal why = {0};
        if (ll_now() > atomic_load(&deadline))
            ll_refuse(&why, 503, "", "the server is going down");
        else
            (void)read_request(job, 0, &why);
        if (!why.status) continue;
        ll_request_free(&job->request); /* here, because it may be large */
        ll_queue_leave(job);
        ll_job_refuse(job, &why);
    }
    return NULL;
}

int ll_token_start(void) {
    return pthread_create(&thread, NULL, run, NULL) ? ll_fail_message("cannot start a thread") : -1;
}

void ll_token_stop(double end) {
    atomic_store(&deadline, end);
    ll_queue_close(LL_TOKEN_QUEUE);
    pthread_join(thread, NULL);
}
