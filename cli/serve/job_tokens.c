/* The tokens of a request's texts. */
#include <stdlib.h>
#include <string.h>

#include "serve/job.h"

/* Copies tokens that a client sent. */
static int take_tokens(ll_input_tokens *in, const ll_served *m, json_t *list, const char *field, ll_refusal *why) {
    const size_t n = json_array_size(list);
    in->token = ll_serve_try(n, sizeof *in->token);
    if (!in->token) return ll_refuse_memory(why);
    for (size_t i = 0; i < n; i++) {
        const json_int_t token = json_integer_value(json_array_get(list, i));
        if (token < 0 || token >= m->vocab)
            return ll_refuse(why, 400, field, "token %lld is not in 0..%d", (long long)token, m->vocab - 1);
        in->token[i] = (int)token;
    }
    in->n = (int)n;
    return 0;
}

/* The text that is echoed is that of the tokens. Of words and music it may differ from the text that was sent. */
static void write_tokens(ll_input_tokens *in, const ll_served *m, ll_tokenizer *tokenizer) {
    ll_buffer all = {0};
    for (int i = 0; i < in->n; i++) {
        size_t size = 0;
        if (in->token[i] >= m->text_vocab) continue;
        const char *text = ll_tokenizer_text(tokenizer, in->token[i], &size);
        ll_buffer_add(&all, text, size);
    }
    in->text = all.data, in->size = all.size;
}

static int take_text(ll_input_tokens *in, const ll_tokenizer *tokenizer, const char *text, size_t size,
                     const char *field, ll_refusal *why) {
    size_t count = 0;
    int *token = NULL;
    const ll_status status = size ? ll_tokenizer_encode(tokenizer, text, size, &token, &count) : LL_OK;
    if (status) return ll_refuse_status(why, status, field);
    in->token = ll_serve_try(count, sizeof *token);
    if (in->token && count) memcpy(in->token, token, count * sizeof *token);
    in->n = (int)count;
    ll_text_free(token);
    return in->token ? 0 : ll_refuse_memory(why);
}

/* Puts the tokens around a text that go before and after every text of an imported model, as other commands do. Those
 * after it have no place where the text goes on. A chat template may have written those before it; other texts get them
 * in any case, as from other commands. A session has them already. */
static int add_special(ll_input_tokens *in, const ll_serve_job *job, const ll_tokenizer *tokenizer, ll_refusal *why) {
    size_t before, after;
    const int *first = ll_tokenizer_special(tokenizer, LL_SPECIAL_BEFORE, &before);
    const int *last = ll_tokenizer_special(tokenizer, LL_SPECIAL_AFTER, &after);
    const size_t n = (size_t)in->n;
    if (*job->session || (!n && job->request.ask & LL_ASK_INPUTS)) return 0;
    const int chat = job->request.ask == LL_ASK_CHAT;
    if (chat && before && n >= before && !memcmp(in->token, first, before * sizeof *first)) before = 0;
    if (!(job->request.ask & LL_ASK_INPUTS)) after = 0;
    int *all = before + after ? ll_serve_try(n + before + after, sizeof *all) : NULL;
    if (!all) return before + after ? ll_refuse_memory(why) : 0;
    if (before) memcpy(all, first, before * sizeof *all);
    if (n) memcpy(all + before, in->token, n * sizeof *all);
    if (after) memcpy(all + before + n, last, after * sizeof *all);
    free(in->token);
    in->token = all, in->n = (int)(n + before + after);
    return 0;
}

/* Generation needs a first token. An empty prompt becomes the token that ends a text, or a newline if there is none. */
static int take_empty(ll_input_tokens *in, const ll_served *m, const ll_tokenizer *tokenizer, ll_refusal *why) {
    free(in->token);
    in->token = NULL;
    if (m->end < 0 && take_text(in, tokenizer, "\n", 1, "prompt", why)) return -1;
    if (m->end >= 0) {
        in->token = ll_serve_alloc(1, sizeof *in->token);
        *in->token = m->end;
        in->n = 1;
    }
    return in->n ? 0 : ll_refuse(why, 400, "prompt", "this model needs a prompt");
}

/* Can the model answer such requests about so many tokens? */
static int check_length(const ll_serve_job *job, int n, const char *field, ll_refusal *why) {
    const int image = job->request.ask & LL_ASK_INPUTS ? ll_image_numbers(ll_model_recipe(job->model->model)) : 0;
    if (n > ll_serve.prompt)
        return ll_refuse(why, 400, field, "'%s' has %d tokens; this server reads at most %lld of a prompt", field, n,
                         (long long)ll_serve.prompt);
    if (n > ll_serve.input && job->request.ask & LL_ASK_SIDE)
        return ll_refuse(why, 400, field, "'%s' has %d tokens; this server reads at most %lld at once", field, n,
                         (long long)ll_serve.input);
    if (!n && job->request.ask != LL_ASK_GENERATE && job->request.ask != LL_ASK_CREATE)
        return ll_refuse(why, 400, field, "'%s' has no tokens", field);
    if (image && n != image)
        return ll_refuse(why, 400, field, "'%s' has %d tokens; the model reads images of %d numbers", field, n, image);
    return 0;
}

static int take_input(ll_serve_job *job, int i, ll_tokenizer *tokenizer, const char *field, ll_refusal *why) {
    const ll_prompt *p = &job->request.prompt[i];
    ll_input_tokens *in = &job->input[job->inputs++];
    if (p->tokens ? take_tokens(in, job->model, p->tokens, field, why)
                  : take_text(in, tokenizer, p->text, p->size, field, why) || add_special(in, job, tokenizer, why))
        return -1;
    if (!in->n && job->request.ask & (LL_ASK_COMPLETION | LL_ASK_CHAT) && take_empty(in, job->model, tokenizer, why))
        return -1;
    if (job->request.echo) write_tokens(in, job->model, tokenizer);
    return check_length(job, in->n, field, why);
}

int ll_job_tokenize(ll_serve_job *job, ll_tokenizer *tokenizer, ll_refusal *why) {
    const ll_ask ask = job->request.ask;
    const char *field = ask & LL_ASK_INPUTS ? "input" : ask == LL_ASK_CHAT ? "messages" : "prompt";
    for (int i = 0; i < job->request.prompts; i++)
        if (take_input(job, i, tokenizer, field, why)) return -1;
    ll_request_keep_stops(&job->request);
    free(job->chat_prompt);
    job->chat_prompt = NULL;
    return 0;
}
