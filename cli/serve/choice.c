/* One choice of a request: samples tokens, passes on their text, and computes their log-probabilities. Text is held
 * back as long as it may be the beginning of a stop text, or of a character. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/choice.h"
#include "serve/reply.h"
#include "serve/serve_metrics.h"

/* ---- Log-probabilities of the model itself, before temperature, top_k and top_p ---- */

static double log_sum_exp(const float *x, int n) {
    float top = x[0];
    double sum = 0;
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - (double)top);
    return (double)top + log(sum);
}

/* The most probable tokens. Of equal ones the smaller comes first. */
static int find_alternatives(ll_token_logp *other, int wanted, const float *x, int n, double all) {
    int found = 0;
    for (int v = 0; v < n; v++) {
        int at = found;
        while (at > 0 && x[v] > x[other[at - 1].token]) at--;
        if (at >= wanted) continue;
        const int last = found < wanted ? found++ : wanted - 1;
        for (int i = last; i > at; i--) other[i] = other[i - 1];
        other[at].token = v;
    }
    for (int i = 0; i < found; i++) other[i].logp = (double)x[other[i].token] - all;
    return found;
}

/* Adds a record of a token after these logits; NULL: it is the first of all. */
static void add_logp(ll_choice *s, ll_scored_token p, const float *logits) {
    const int n = s->job->model->vocab, wanted = (int)s->job->request.logprobs;
    const double all = logits ? log_sum_exp(logits, n) : NAN;
    p.said.logp = logits ? (double)logits[p.said.token] - all : NAN;
    if (logits && p.prompt) s->sum += p.said.logp, s->scored++;
    if (s->job->request.ask == LL_ASK_SCORE && !s->job->request.per_token) return;
    if (logits && wanted > 0) {
        ll_token_logp other[LL_TOP_LOGPROBS];
        p.alternatives = find_alternatives(other, wanted, logits, n, all);
        p.others = s->others.size / sizeof *other;
        ll_buffer_add(&s->others, other, (size_t)p.alternatives * sizeof *other);
    }
    ll_buffer_add(&s->logp, &p, sizeof p);
}

static void add_prompt_token(ll_choice *s, int token, const float *logits) {
    size_t size = 0;
    add_logp(s, (ll_scored_token){.said.token = token, .offset = s->offset, .prompt = 1}, logits);
    if (token < s->job->model->text_vocab) (void)ll_tokenizer_text(s->job->model->tokenizer, token, &size);
    s->offset += size;
}

void ll_choice_scores(ll_choice *s, const float *logits, int n) {
    const int *token = s->prompt->token;
    if (!s->fed) add_prompt_token(s, token[0], NULL);
    for (int i = s->fed; i < s->fed + n && i + 1 < s->prompt->n; i++, logits += s->job->model->vocab)
        add_prompt_token(s, token[i + 1], logits);
}

/* ---- Learned positions ---- */

int ll_choice_check(const ll_choice *s, ll_refusal *why) {
    const ll_served *m = s->job->model;
    const int64_t before = ll_stream_left(s->stream);
    int64_t left = before;
    if (before == INT64_MAX) return 0;
    for (int i = 0; i < s->prompt->n && left >= 0; i++)
        left = s->prompt->token[i] == m->separator ? m->positions - 1 : left - 1;
    if (left >= 0) return 0;
    const ll_ask ask = s->job->request.ask;
    const char *field = ask == LL_ASK_CHAT ? "messages" : ask == LL_ASK_SCORE ? "input" : "prompt";
    return ll_refuse(why, 400, field,
                     "'%s' has %d tokens; the model's learned positions end at %lld, and %lld are left", field,
                     s->prompt->n, (long long)m->positions, (long long)before);
}

/* Is the token the last one that has a position? A session reads it, other texts end with one that nobody reads. */
static int is_last_position(const ll_choice *s) {
    return s->token != s->job->model->separator && ll_stream_left(s->stream) <= (s->session ? 1 : 0);
}

/* ---- Text ---- */

/* The size without an incomplete UTF-8 character at the end. */
static size_t whole_characters(const char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        const unsigned char c = (unsigned char)text[size - back];
        if ((c & 0xc0) == 0x80) continue;
        const size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return length > back ? size - back : size;
    }
    return size;
}

/* Where the first stop text begins in the pending text, or its size if there is none. */
static size_t find_stop(const ll_choice *s) {
    const ll_request *r = &s->job->request;
    size_t first = s->pending.size;
    for (int i = 0; i < r->stops && s->pending.size; i++) {
        const char *at = memmem(s->pending.data, s->pending.size, r->stop[i].text, r->stop[i].size);
        if (at && (size_t)(at - s->pending.data) < first) first = (size_t)(at - s->pending.data);
    }
    return first;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The number of bytes at the end that may be the beginning of a stop text. */
static size_t partial_stop(const ll_choice *s) {
    const ll_request *r = &s->job->request;
    size_t most = 0;
    for (int i = 0; i < r->stops; i++)
        for (size_t n = least(r->stop[i].size - 1, s->pending.size); n > most; n--)
            if (!memcmp(s->pending.data + s->pending.size - n, r->stop[i].text, n)) most = n;
    return most;
}

/* Passes on the pending text that no stop text can cut, and all of it at the end of the sequence. */
static void emit_text(ll_choice *s) {
    const size_t cut = find_stop(s);
    if (cut < s->pending.size) {
        s->finish = "stop";
        s->pending.size = cut;
    }
    size_t n = s->pending.size;
    if (!s->finish) n = whole_characters(s->pending.data, n - partial_stop(s));
    if (!n && !s->finish) return;
    s->emitted += n;
    ll_reply_text(s, s->pending.data, n);
    ll_buffer_drop(&s->pending, n);
}

static void record_times(ll_choice *s) {
    const double now = ll_now();
    if (s->job->first == 0) {
        s->job->first = now;
        ll_time(LL_TIME_FIRST, now - s->job->start);
    }
    if (s->last_time > 0) ll_time(LL_TIME_BETWEEN, now - s->last_time);
    s->last_time = now;
}

void ll_choice_next(ll_choice *s, float *logits) {
    const ll_served *m = s->job->model;
    const int wanted = s->job->request.logprobs >= 0;
    if (wanted) {
        if (!s->copy) s->copy = ll_serve_alloc((size_t)m->vocab, sizeof *s->copy);
        memcpy(s->copy, logits, (size_t)m->vocab * sizeof *logits);
    }
    s->token = ll_sample(logits, m->text_vocab, &s->how, ll_stream_position(s->stream));
    record_times(s);
    if (s->token == m->end && !s->job->request.ignore_end) {
        s->finish = "stop";
        s->token = -1; /* the end token is not part of the text */
    } else {
        size_t size;
        const char *text = ll_tokenizer_text(m->tokenizer, s->token, &size);
        if (wanted) add_logp(s, (ll_scored_token){.said.token = s->token, .offset = s->total}, s->copy);
        ll_buffer_add(&s->pending, text, size);
        s->total += size;
        s->job->made_tokens++;
        ll_count(LL_COUNT_TOKENS, 1);
        if (++s->made >= s->most || is_last_position(s)) s->finish = "length";
    }
    emit_text(s);
}
