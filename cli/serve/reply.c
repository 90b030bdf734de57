/* Answers as JSON: in one piece, or as server-sent events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/choice.h"
#include "serve/reply.h"
#include "serve/session.h"

/* ---- Log-probabilities ---- */

/* Counts characters up to a byte of the answer's text. The piece of text that is passed on now begins at byte
 * `begin`. */
static void count_characters(ll_choice *s, const ll_buffer *piece, size_t begin, size_t to) {
    const size_t end = begin + piece->size;
    while (s->counted < to && s->counted < end) {
        const size_t n = ll_character(piece->data + (s->counted - begin), end - s->counted);
        if (s->counted + n > to) return;
        s->counted += n;
        s->characters++;
    }
}

/* Log-probabilities of tokens from .. to - 1, whose text ends in this piece. */
static json_t *completion_logprobs(ll_choice *s, const ll_buffer *piece, size_t from, size_t to) {
    const ll_served *m = s->job->model;
    const size_t echoed = s->job->request.echo ? s->prompt->size : 0, begin = s->counted;
    json_t *tokens = json_array(), *logps = json_array(), *tops = json_array(), *offsets = json_array();
    for (size_t i = from; i < to; i++) {
        const ll_scored_token *p = ll_logp_at(s, i);
        json_array_append_new(tokens, ll_token_text(m, m->tokenizer, p->said.token));
        json_array_append_new(logps, ll_json_number(p->said.logp));
        count_characters(s, piece, begin, p->offset + (p->prompt ? 0 : echoed));
        json_array_append_new(offsets, json_integer((json_int_t)s->characters));
        json_t *top = p->alternatives ? json_object() : json_null();
        for (int k = 0; k < p->alternatives; k++) {
            const ll_token_logp *other = ll_other_at(s, p->others + (size_t)k);
            json_t *name = ll_token_text(m, m->tokenizer, other->token);
            if (!json_object_get(top, json_string_value(name))) /* of equal texts the likelier token comes first */
                json_object_set_new(top, json_string_value(name), ll_json_number(other->logp));
            json_decref(name);
        }
        json_array_append_new(tops, top);
    }
    count_characters(s, piece, begin, begin + piece->size);
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logps, "top_logprobs", tops,
                     "text_offset", offsets);
}

static json_t *chat_logprob(const ll_served *m, const ll_token_logp *a) {
    return json_pack("{s:o, s:o, s:o}", "token", ll_token_text(m, m->tokenizer, a->token), "logprob",
                     ll_json_number(a->logp), "bytes", ll_token_bytes(m, m->tokenizer, a->token));
}

static json_t *chat_logprobs(const ll_choice *s, size_t from, size_t to) {
    const ll_served *m = s->job->model;
    json_t *content = json_array();
    for (size_t i = from; i < to; i++) {
        const ll_scored_token *p = ll_logp_at(s, i);
        json_t *one = chat_logprob(m, &p->said), *top = json_array();
        for (int k = 0; k < p->alternatives; k++)
            json_array_append_new(top, chat_logprob(m, ll_other_at(s, p->others + (size_t)k)));
        json_object_set_new(one, "top_logprobs", top);
        json_array_append_new(content, one);
    }
    return json_pack("{s:o}", "content", content);
}

/* Log-probabilities of the text that was passed on since the last call. Tokens without text behind the last one that
 * has some are passed on at the end, unless a stop text has cut there. */
static json_t *new_logprobs(ll_choice *s, const ll_buffer *piece) {
    if (s->job->request.logprobs < 0) return json_null();
    const size_t from = s->logp_sent;
    size_t to = s->finish && s->emitted == s->total ? ll_logps(s) : from;
    while (to < ll_logps(s) && (ll_logp_at(s, to)->prompt || ll_logp_at(s, to)->offset < s->emitted)) to++;
    s->logp_sent = to;
    return s->job->request.ask == LL_ASK_CHAT ? chat_logprobs(s, from, to) : completion_logprobs(s, piece, from, to);
}

/* ---- Completions and chats ---- */

static int is_chat(const ll_serve_job *job) { return job->request.ask == LL_ASK_CHAT; }

static json_t *usage(const ll_serve_job *job) {
    const json_int_t prompt = job->prompt_tokens, made = job->made_tokens;
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", made, "total_tokens",
                     prompt + made);
}

static json_t *answer(const ll_serve_job *job, json_t *choices) {
    const char *object = !is_chat(job)            ? "text_completion"
                         : job->request.stream ? "chat.completion.chunk"
                                                  : "chat.completion";
    json_t *a = json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", job->id, "object", object, "created",
                          (json_int_t)job->created, "model", job->model->name, "choices", choices);
    if (*job->session) json_object_set_new(a, "session", json_string(job->session));
    return a;
}

/* What a chunk adds to a message. The first chunk has the role: clients join the texts of all. */
static json_t *delta(const ll_choice *s, json_t *text) {
    if (s->started) return json_pack("{s:o}", "content", text);
    return json_pack("{s:s, s:o}", "role", "assistant", "content", text);
}

static json_t *choice(ll_choice *s, const ll_buffer *piece, int whole) {
    json_t *logprobs = new_logprobs(s, piece), *text = ll_json_text(piece->data ? piece->data : "", piece->size);
    if (!is_chat(s->job))
        return json_pack("{s:i, s:o, s:o, s:s?}", "index", s->index, "text", text, "logprobs", logprobs,
                         "finish_reason", s->finish);
    if (whole)
        return json_pack("{s:i, s:{s:s, s:o}, s:o, s:s?}", "index", s->index, "message", "role", "assistant",
                         "content", text, "logprobs", logprobs, "finish_reason", s->finish);
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", s->index, "delta", delta(s, text), "logprobs", logprobs,
                     "finish_reason", s->finish);
}

static void send(ll_serve_job *job, json_t *event) {
    char *text = json_dumps(event, JSON_COMPACT);
    ll_buffer b = {0};
    json_decref(event);
    ll_buffer_text(&b, "data: ");
    ll_buffer_text(&b, text ? text : "{}");
    ll_buffer_text(&b, "\n\n");
    ll_job_write(job, b.data, b.size);
    ll_buffer_free(&b);
    free(text);
}

void ll_reply_text(ll_choice *s, const char *text, size_t size) {
    if (s->job->request.ask & (LL_ASK_CREATE | LL_ASK_APPEND)) return;
    if (!s->job->request.stream) {
        ll_buffer_add(&s->text, text, size);
        return;
    }
    ll_buffer all = {0};
    if (s->job->request.echo && !s->started && s->prompt->text)
        ll_buffer_add(&all, s->prompt->text, s->prompt->size);
    ll_buffer_add(&all, text, size);
    json_t *chunk = answer(s->job, json_pack("[o]", choice(s, &all, 0)));
    if (s->job->request.usage) json_object_set_new(chunk, "usage", json_null()); /* the last chunk has it */
    send(s->job, chunk);
    s->started = 1;
    ll_buffer_free(&all);
}

static void end_stream(ll_serve_job *job) {
    if (job->request.usage) {
        json_t *last = answer(job, json_array());
        json_object_set_new(last, "usage", usage(job));
        send(job, last);
    }
    ll_job_write(job, "data: [DONE]\n\n", 14);
    ll_job_end(job);
}

static json_t *whole_choice(ll_choice *s) {
    ll_buffer all = {0};
    if (s->job->request.echo && s->prompt->text) ll_buffer_add(&all, s->prompt->text, s->prompt->size);
    ll_buffer_add(&all, s->text.data, s->text.size);
    json_t *one = choice(s, &all, 1);
    ll_buffer_free(&all);
    return one;
}

/* ---- Scores ---- */

static json_t *score(const ll_choice *s, int per_token) {
    char unit[32];
    const double mean = s->scored ? -s->sum / (double)s->scored : NAN;
    snprintf(unit, sizeof unit, "bits_per_%.16s", s->job->model->unit);
    json_t *a = json_pack("{s:s, s:i, s:I, s:f, s:o, s:o}", "object", "score", "index", s->index, "tokens",
                          (json_int_t)s->scored, "logprob", s->sum, unit, ll_json_number(mean / log(2)), "perplexity",
                          ll_json_number(exp(mean)));
    if (!per_token) return a;
    json_t *list = json_array();
    for (size_t i = 0; i < ll_logps(s); i++) json_array_append_new(list, ll_json_number(ll_logp_at(s, i)->said.logp));
    json_object_set_new(a, "token_logprobs", list);
    return a;
}

static void end_scores(ll_serve_job *job) {
    json_t *data = json_array();
    for (int i = 0; i < job->choices; i++)
        json_array_append_new(data, score(&job->choice[i], job->request.per_token));
    ll_job_answer(job, 200, json_pack("{s:s, s:s, s:o, s:o}", "object", "list", "model", job->model->name, "data", data,
                                      "usage", usage(job)));
}

/* Works while a job runs in the session, too, because the engine answers between two steps. */
json_t *ll_reply_session(const ll_session *s) {
    const int64_t position = s->stream ? ll_stream_position(s->stream) : s->position;
    const size_t bytes = s->stream ? ll_stream_bytes(s->stream) : s->bytes;
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:b, s:b, s:b}", "id", s->id, "object", "session", "model",
                     s->model->name, "position", position < 0 ? json_null() : json_integer(position), "bytes",
                     (json_int_t)bytes, "in_memory", s->stream != NULL, "saved", s->saved, "busy", s->busy);
}

void ll_reply_end(ll_serve_job *job) {
    if (job->request.ask & (LL_ASK_CREATE | LL_ASK_APPEND)) {
        ll_job_answer(job, 200, ll_reply_session(job->choice->session));
        return;
    }
    if (job->request.ask == LL_ASK_SCORE) {
        end_scores(job);
        return;
    }
    if (job->request.stream) {
        end_stream(job);
        return;
    }
    json_t *choices = json_array();
    for (int i = 0; i < job->choices; i++) json_array_append_new(choices, whole_choice(&job->choice[i]));
    json_t *all = answer(job, choices);
    json_object_set_new(all, "usage", usage(job));
    ll_job_answer(job, 200, all);
}

/* ---- Models ---- */

static json_t *model_of(const ll_served *m) {
    const char *task = ll_recipe_get(ll_model_recipe(m->model), "model.task");
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:i, s:b, s:b}", "id", m->name, "object", "model", "created",
                     (json_int_t)m->created, "owned_by", "longline", "task", task ? task : "", "parameters",
                     (json_int_t)ll_model_size(m->model).parameters, "vocabulary", m->vocab, "chat", m->chat != NULL,
                     "generates", m->batcher != NULL);
}

json_t *ll_reply_models(const char *name, ll_refusal *why) {
    if (*name) {
        const ll_served *m = ll_served_find(name);
        if (m) return model_of(m);
        why->code = "model_not_found";
        ll_refuse(why, 404, "model", "there is no model '%.*s'", ll_shown(name, 60), name);
        return NULL;
    }
    json_t *data = json_array();
    for (int i = 0; i < ll_served_models; i++) json_array_append_new(data, model_of(&ll_served_model[i]));
    return json_pack("{s:s, s:o}", "object", "list", "data", data);
}
