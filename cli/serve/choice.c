/* One choice of a request: which token comes next, which of its text is certain to be given, and what is said of its
 * probability. Text is held back while it may be the beginning of a stop text, or of a character. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

/* ---- Log-probabilities, of the model itself: before temperature, top_k and top_p ---- */

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

/* The likeliest tokens, of equals the smaller first. */
static void find_others(ll_token_logp *p, int wanted, const float *x, int n, double all) {
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
    if (s->job->request.logprobs > 0) find_others(p, (int)s->job->request.logprobs, logits, n, all);
}

static size_t text_size(const ll_choice *s, int token) {
    size_t size = 0;
    if (token < s->job->model->spoken) (void)ll_tokenizer_text(s->job->model->tokenizer, token, &size);
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

/* Where text ends that is whole in UTF-8: at most 3 bytes less than size. */
static size_t whole(const char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        const unsigned char c = (unsigned char)text[size - back];
        if ((c & 0xc0) == 0x80) continue;
        const size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return length > back ? size - back : size;
    }
    return size;
}

/* Where the first stop text begins; the end: there is none. */
static size_t find_stop(const ll_choice *s) {
    const ll_request *r = &s->job->request;
    size_t first = s->held.size;
    for (int i = 0; i < r->stops && s->held.size; i++) {
        const char *at = memmem(s->held.data, s->held.size, r->stop[i].text, r->stop[i].size);
        if (at && (size_t)(at - s->held.data) < first) first = (size_t)(at - s->held.data);
    }
    return first;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Bytes at the end that may be the beginning of a stop text. */
static size_t open_stop(const ll_choice *s) {
    const ll_request *r = &s->job->request;
    size_t most = 0;
    for (int i = 0; i < r->stops; i++)
        for (size_t n = smaller(r->stop[i].size - 1, s->held.size); n > most; n--)
            if (!memcmp(s->held.data + s->held.size - n, r->stop[i].text, n)) most = n;
    return most;
}

/* Passes on what is certain; all of it where the sequence ends. */
static void give(ll_choice *s) {
    const size_t cut = find_stop(s);
    if (cut < s->held.size) {
        s->finish = "stop";
        s->held.size = cut;
    }
    size_t n = s->held.size;
    if (!s->finish) n = whole(s->held.data, n - open_stop(s));
    if (!n && !s->finish) return;
    s->given += n;
    ll_reply_text(s, s->held.data, n);
    if (n) memmove(s->held.data, s->held.data + n, s->held.size - n);
    s->held.size -= n;
}

static void note_times(ll_choice *s) {
    const double now = ll_now();
    if (s->job->first == 0) {
        s->job->first = now;
        ll_time(LL_TIME_FIRST, now - s->job->start);
    }
    if (s->last > 0) ll_time(LL_TIME_BETWEEN, now - s->last);
    s->last = now;
}

void ll_choice_next(ll_choice *s, float *logits) {
    const ll_served *m = s->job->model;
    const int wanted = s->job->request.logprobs >= 0;
    if (wanted) {
        if (!s->copy) s->copy = ll_serve_alloc((size_t)m->vocab, sizeof *s->copy);
        memcpy(s->copy, logits, (size_t)m->vocab * sizeof *logits);
    }
    s->token = ll_sample(logits, m->spoken, &s->how, ll_stream_position(s->stream));
    note_times(s);
    if (s->token == m->end && !s->job->request.ignore_end) {
        s->finish = "stop";
        s->token = -1; /* it is not part of the text */
    } else {
        size_t size;
        const char *text = ll_tokenizer_text(m->tokenizer, s->token, &size);
        if (wanted) set_logp(s, add_logp(s, s->token, s->total, 0), s->copy);
        ll_buffer_add(&s->held, text, size);
        s->total += size;
        s->job->made_tokens++;
        ll_count(LL_COUNT_TOKENS, 1);
        if (++s->made >= s->most) s->finish = "length";
    }
    give(s);
}
