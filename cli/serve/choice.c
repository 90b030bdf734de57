/* One choice of a request: samples tokens, passes on their text, and computes their log-probabilities. Text is held
 * back as long as it may be the beginning of a stop text, or of a character. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

/* ---- Log-probabilities of the model itself, before temperature, top_k and top_p ---- */

static double log_sum_exp(const float *x, int n) {
    float top = x[0];
    double sum = 0;
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - (double)top);
    return (double)top + log(sum);
}

static ll_token_logp *add_logp(ll_choice *s, int token, size_t offset, int prompt) {
    if (s->logps == s->logp_capacity) {
        const size_t capacity = 2 * s->logp_capacity + 16;
        ll_token_logp *more = ll_serve_alloc(capacity, sizeof *more);
        if (s->logps) memcpy(more, s->logp, s->logps * sizeof *more);
        free(s->logp);
        s->logp = more, s->logp_capacity = capacity;
    }
    ll_token_logp *p = &s->logp[s->logps++];
    *p = (ll_token_logp){.token = token, .offset = offset, .prompt = prompt, .logp = NAN};
    return p;
}

/* The most probable tokens. Of equal ones the smaller comes first. */
static void find_alternatives(ll_token_logp *p, int wanted, const float *x, int n, double all) {
    for (int v = 0; v < n; v++) {
        int at = p->alternatives;
        while (at > 0 && x[v] > x[p->other[at - 1]]) at--;
        if (at >= wanted) continue;
        const int last = p->alternatives < wanted ? p->alternatives++ : wanted - 1;
        for (int i = last; i > at; i--) p->other[i] = p->other[i - 1];
        p->other[at] = v;
    }
    for (int i = 0; i < p->alternatives; i++) p->other_logp[i] = (double)x[p->other[i]] - all;
}

static void set_logp(const ll_choice *s, ll_token_logp *p, const float *logits) {
    const int n = s->job->model->vocab;
    const double all = log_sum_exp(logits, n);
    p->logp = (double)logits[p->token] - all;
    if (s->job->request.logprobs > 0) find_alternatives(p, (int)s->job->request.logprobs, logits, n, all);
}

static size_t text_size(const ll_choice *s, int token) {
    size_t size = 0;
    if (token < s->job->model->text_vocab) (void)ll_tokenizer_text(s->job->model->tokenizer, token, &size);
    return size;
}

void ll_choice_scores(ll_choice *s, const float *logits, int n) {
    const int *token = s->prompt->token;
    size_t offset = s->logps ? s->logp[s->logps - 1].offset + text_size(s, token[s->logps - 1]) : 0;
    if (!s->logps) {
        add_logp(s, token[0], 0, 1);
        offset = text_size(s, token[0]);
    }
    for (int i = s->fed; i < s->fed + n && i + 1 < s->prompt->n; i++, logits += s->job->model->vocab) {
        set_logp(s, add_logp(s, token[i + 1], offset, 1), logits);
        offset += text_size(s, token[i + 1]);
    }
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
    if (n) memmove(s->pending.data, s->pending.data + n, s->pending.size - n);
    s->pending.size -= n;
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
        if (wanted) set_logp(s, add_logp(s, s->token, s->total, 0), s->copy);
        ll_buffer_add(&s->pending, text, size);
        s->total += size;
        s->job->made_tokens++;
        ll_count(LL_COUNT_TOKENS, 1);
        if (++s->made >= s->most) s->finish = "length";
    }
    emit_text(s);
}
