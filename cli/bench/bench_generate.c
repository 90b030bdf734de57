/* Generation: a prompt, then one token after the other, early and late in a stream, and the bytes of its state.
 *
 * The longest streams have a small model, because a million tokens are fed before the late measurement. Whether time
 * and state depend on the position does not depend on the size of the model. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { EARLY = 100, LATE = 1000000, LATE_SOFTMAX = 8192, LATE_LARGE = 4096, BLOCK = 4096, PROMPTS = 5 };
enum { TIMED = LL_BENCH_EARLY - EARLY };

static ll_status create(ll_model **model, const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s) {
    ll_recipe *recipe = NULL;
    ll_status status = ll_bench_recipe(&recipe, b, m, s);
    if (!status) status = ll_model_create(model, recipe);
    ll_recipe_free(recipe);
    return status;
}

/* What is to be measured of a model with a system. */
typedef struct {
    const ll_bench_model *model;
    const ll_bench_system *system;
    int prompt, tokens;
} wanted;

typedef struct {
    ll_stream *stream;
    float *logits;
    int vocab;
} reader;

/* Any tokens will do: printable bytes where the vocabulary has them. */
static ll_status feed(const reader *r, int n) {
    enum { FIRST = 32, PRINTABLE = 97 };
    int tokens[BLOCK];
    const int first = r->vocab > FIRST ? FIRST : 0, left = r->vocab - first;
    for (int i = 0; i < n; i++)
        tokens[i] = (int)((ll_stream_position(r->stream) + i) * 31 % (left < PRINTABLE ? left : PRINTABLE)) + first;
    return ll_stream_feed(r->stream, tokens, n, r->logits);
}

/* The median time of a prompt of BLOCK tokens, read by an empty stream. */
static ll_status time_prompts(ll_bench *b, ll_bench_row row, const ll_model *model, const reader *r) {
    double time[PROMPTS];
    for (int i = -1; i < PROMPTS; i++) { /* the first one warms up */
        ll_stream_reset(r->stream);
        const double start = ll_now();
        const ll_status status = feed(r, BLOCK);
        if (status) return status;
        if (i >= 0) time[i] = ll_now() - start;
    }
    row.seconds = ll_median(time, PROMPTS);
    row.flops = 2 * ll_model_cost(model, (BLOCK + 1) / 2).multiply_adds * BLOCK;
    row.bytes = (double)ll_model_cost(model, BLOCK).stream_bytes;
    row.tokens = BLOCK, row.repeats = PROMPTS;
    ll_bench_add(b, &row);
    ll_stream_reset(r->stream);
    return LL_OK;
}

/* The median time of a token from here on. */
static ll_status time_tokens(const reader *r, ll_bench_row *row) {
    double time[TIMED];
    for (int i = 0; i < TIMED; i++) {
        const double start = ll_now();
        const ll_status status = feed(r, 1);
        if (status) return status;
        time[i] = ll_now() - start;
    }
    row->seconds = ll_median(time, TIMED);
    row->tokens = 1;
    row->repeats = TIMED;
    return LL_OK;
}

/* Feeds the stream to a position, or as far as there is time. */
static ll_status feed_to(const reader *r, int64_t position, double seconds, const char *what) {
    const double start = ll_now();
    const int64_t from = ll_stream_position(r->stream);
    for (int64_t at; (at = ll_stream_position(r->stream)) < position;) {
        const double spent = ll_now() - start, rate = spent > 0 ? (double)(at - from) / spent : 0;
        if (spent > seconds) break;
        if (rate > 0) ll_bench_progress(what, spent, fmin((double)(position - at) / rate, fmax(0.5, seconds - spent)));
        const ll_status status = feed(r, (int)(position - at < BLOCK ? position - at : BLOCK));
        if (status) return status;
    }
    return LL_OK;
}

static int64_t late_of(const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s) {
    if (b->position) return b->position;
    return !strcmp(m->name, "lm") ? LATE_LARGE : !strcmp(s->name, "softmax") ? LATE_SOFTMAX : LATE;
}

/* Is one of the positions wanted? Both are measured then. */
static int are_tokens_wanted(const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s, int usual) {
    const int64_t at[] = {EARLY, late_of(b, m, s)};
    int any = 0;
    for (int i = 0; i < 2; i++) {
        char name[96];
        snprintf(name, sizeof name, "generate/%s/%s/%lld", m->name, s->name, (long long)at[i]);
        any |= ll_bench_wanted(b, name, usual);
    }
    return any;
}

/* Tokens one by one, early and late. */
static ll_status time_stream(ll_bench *b, const wanted *w, const ll_model *model, const reader *r) {
    const ll_bench_model *m = w->model;
    const ll_bench_system *s = w->system;
    ll_bench_row row = {0};
    char what[96];
    snprintf(what, sizeof what, "generation, %s/%s", m->name, s->name);
    ll_status status = feed_to(r, EARLY, INFINITY, what);
    const int64_t late = late_of(b, m, s);
    for (int part = 0; part < 2 && !status; part++) {
        if (part) status = feed_to(r, late, b->position ? INFINITY : b->seconds / 2, what);
        const int64_t position = ll_stream_position(r->stream);
        row.bytes = (double)ll_model_cost(model, position < INT_MAX ? (int)position : INT_MAX).stream_bytes;
        if (!status) status = time_tokens(r, &row);
        snprintf(row.name, sizeof row.name, "generate/%s/%s/%lld", m->name, s->name, (long long)position);
        if (!status && (!part || position > LL_BENCH_EARLY)) ll_bench_add(b, &row);
    }
    ll_bench_progress(what, 0, 0);
    return status;
}

static ll_status measure(ll_bench *b, const wanted *w, const ll_model *model, const reader *r) {
    ll_bench_row row = {0};
    snprintf(row.name, sizeof row.name, "prompt/%s/%s/%d", w->model->name, w->system->name, BLOCK);
    const ll_status status = w->prompt ? time_prompts(b, row, model, r) : LL_OK;
    return status || !w->tokens ? status : time_stream(b, w, model, r);
}

static ll_status generate(ll_bench *b, const wanted *w) {
    ll_model *model = NULL;
    reader r = {0};
    ll_status status = create(&model, b, w->model, w->system);
    if (!status) status = ll_stream_create(&r.stream, model);
    if (!status) r.vocab = ll_model_size(model).vocab;
    if (!status) r.logits = calloc((size_t)r.vocab + 1, sizeof *r.logits);
    if (!status) status = r.logits ? measure(b, w, model, &r) : LL_ENOMEM;
    free(r.logits);
    ll_stream_free(r.stream);
    ll_model_free(model);
    return status;
}

/* The models of generation: lm and small. */
static ll_status of_model(ll_bench *b, const ll_bench_model *m) {
    const int large = !strcmp(m->name, "lm");
    ll_status status = LL_OK;
    for (const ll_bench_system *s = ll_bench_system_list; s->name && !status; s++) {
        char name[96];
        const int favor = !strcmp(s->name, "favor"),
                  rare = !strcmp(s->name, "elu1") || !strcmp(s->name, "value") || !strcmp(s->name, "relu+permute");
        wanted w = {.model = m, .system = s};
        snprintf(name, sizeof name, "prompt/%s/%s/%d", m->name, s->name, BLOCK);
        w.prompt = ll_bench_wanted(b, name, large && favor);
        w.tokens = are_tokens_wanted(b, m, s, favor || (!large && !rare));
        if (w.prompt || w.tokens) status = generate(b, &w);
    }
    return status;
}

ll_status ll_bench_generate(ll_bench *b) {
    ll_status status = LL_OK;
    for (const ll_bench_model *m = ll_bench_model_list; m->name && !status; m++)
        if (!strcmp(m->name, "lm") || !strcmp(m->name, "small")) status = of_model(b, m);
    return status;
}
