/* Requests on sessions: create, append, generate, fork, save, restore, show, list, delete. */
#include <string.h>

#include "serve/choice.h"
#include "serve/reply.h"
#include "serve/session.h"

static int answer(ll_serve_job *job, const ll_session *s, const ll_refusal *why) {
    if (why->status)
        ll_job_refuse(job, why);
    else
        ll_job_answer(job, 200, ll_reply_session(s));
    return 1;
}

/* A job on a session has one choice, which reads the prompt into the session and then generates. */
static void make_choice(ll_serve_job *job, ll_session *s) {
    static const ll_input_tokens nothing;
    const ll_request *r = &job->request;
    ll_choice *c = job->choice = ll_serve_alloc(1, sizeof *c);
    job->choices = job->left = 1;
    *c = (ll_choice){.job = job, .prompt = job->inputs ? job->input : &nothing, .session = s, .stream = s->stream};
    c->most = ll_most_tokens(job);
    c->samples = r->ask == LL_ASK_GENERATE && c->most > 0;
    c->how = (ll_sampling){sizeof c->how, (float)r->temperature, (int)r->top_k, (float)r->top_p,
                           (uint64_t)r->seed};
    job->prompt_tokens = c->prompt->n;
    s->busy = 1;
}

/* Gives the job its choice. Nothing of a prompt is read that the session cannot read to its end, and nothing at all
 * while sessions take more memory than they may. */
static int start(ll_serve_job *job, ll_session *s) {
    ll_refusal why = {0};
    make_choice(job, s);
    if (!ll_choice_check(job->choice, &why) && !ll_session_room(&why)) return 0;
    s->busy = 0;
    if (job->request.ask == LL_ASK_CREATE) ll_session_delete(s); /* nobody knows its name */
    return answer(job, NULL, &why);
}

/* Without a prompt, generation continues after what the session has read. */
static int generate(ll_serve_job *job, ll_session *s) {
    ll_refusal why = {0};
    if (!(job->inputs && job->input->n) && !ll_stream_position(s->stream)) {
        ll_refuse(&why, 400, "prompt", "nothing was appended to the session; give a 'prompt'");
        return answer(job, s, &why);
    }
    return start(job, s);
}

static int create(ll_serve_job *job) {
    ll_refusal why = {0};
    ll_session *s = ll_session_new(job->model, NULL, job->key, &why);
    if (!s) return answer(job, s, &why);
    memcpy(job->session, s->id, sizeof s->id);
    if (!job->inputs || !job->input->n) return answer(job, s, &why);
    return start(job, s);
}

static int fork_session(ll_serve_job *job, const ll_session *s) {
    ll_refusal why = {0};
    return answer(job, ll_session_new(s->model, s, job->key, &why), &why);
}

static int list(ll_serve_job *job) {
    json_t *data = json_array();
    for (const ll_session *s = NULL; (s = ll_session_next(s));)
        if (ll_session_owned(s, job->key)) json_array_append_new(data, ll_reply_session(s));
    ll_job_answer(job, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
    return 1;
}

/* Requests that need no stream in memory. */
static int call_by_name(ll_serve_job *job) {
    ll_refusal why = {0};
    ll_session *s = ll_session_peek(job->session, job->key, &why);
    if (!s || job->request.ask == LL_ASK_SHOW) return answer(job, s, &why);
    if (job->request.ask == LL_ASK_RESTORE) {
        (void)ll_session_restore(s, &why);
        return answer(job, s, &why);
    }
    if (s->busy)
        s->deleted = 1; /* the engine ends the job that uses it, and deletes it then */
    else
        ll_session_delete(s);
    ll_job_answer(job, 200, json_pack("{s:s, s:s, s:b}", "id", job->session, "object", "session", "deleted", 1));
    return 1;
}

int ll_session_call(ll_serve_job *job) {
    ll_refusal why = {0};
    const ll_ask ask = job->request.ask;
    if (ask == LL_ASK_LIST) return list(job);
    if (ask == LL_ASK_CREATE) return create(job);
    if (ask & (LL_ASK_SHOW | LL_ASK_RESTORE | LL_ASK_DELETE)) return call_by_name(job);
    ll_session *s = ll_session_find(job->session, job->key, &why);
    if (!s) return answer(job, s, &why);
    if (ask == LL_ASK_FORK) return fork_session(job, s);
    if (ask == LL_ASK_GENERATE) return generate(job, s);
    if (ask == LL_ASK_SAVE) {
        (void)ll_session_save(s, &why);
        return answer(job, s, &why);
    }
    return start(job, s);
}
