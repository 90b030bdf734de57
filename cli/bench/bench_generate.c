/* Generation: one token after the other, early and late in a stream, and the bytes of its state.
 *
 * The longest streams have a small model, because a million tokens are fed before the late measurement. Whether time
 * and state depend on the position does not depend on the size of the model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { EARLY = 100, LATE = 1000000, LATE_SOFTMAX = 8192, LATE_LARGE = 4096, TIMED = 300, BLOCK = 4096 };

static ll_status create(ll_model **model, const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s) {
    ll_recipe *recipe = NULL;
    ll_status status = ll_bench_recipe(&recipe, b, m, s);
    if (!status) status = ll_model_create(model, recipe);
    ll_recipe_free(recipe);
    return status;
}

/* Any tokens will do. */
static ll_status feed(ll_stream *stream, int n, float *logits) {
    int tokens[BLOCK];
    for (int i = 0; i < n; i++) tokens[i] = (int)((ll_stream_position(stream) + i) * 31 % 97) + 32;
    return ll_stream_feed(stream, tokens, n, logits);
}

/* The median time of a token from here on. */
static ll_status time_tokens(ll_stream *stream, float *logits, ll_bench_row *row) {
    double time[TIMED];
    for (int i = 0; i < TIMED; i++) {
        const double start = ll_now();
        const ll_status status = feed(stream, 1, logits);
        if (status) return status;
        time[i] = ll_now() - start;
    }
    row->seconds = ll_bench_median(time, TIMED);
    row->tokens = 1;
    row->repeats = TIMED;
    row->bytes = (double)ll_stream_bytes(stream);
    return LL_OK;
}

/* Feeds the stream to a position, or as far as there is time. */
static ll_status feed_to(ll_stream *stream, int64_t position, double seconds, float *logits, const char *what) {
    const double start = ll_now();
    const int64_t from = ll_stream_position(stream);
    for (int64_t at; (at = ll_stream_position(stream)) < position;) {
        const double spent = ll_now() - start, rate = spent > 0 ? (double)(at - from) / spent : 0;
        if (spent > seconds) break;
        if (rate > 0) ll_bench_progress(what, spent, fmin((double)(position - at) / rate, fmax(0.5, seconds - spent)));
        const ll_status status = feed(stream, (int)(position - at < BLOCK ? position - at : BLOCK), logits);
        if (status) return status;
    }
    return LL_OK;
}

static ll_status measure(ll_bench *b, const ll_bench_model *m, const ll_bench_system *s, ll_stream *stream,
                         float *logits) {
    const int softmax = !strcmp(s->name, "softmax"), large = !strcmp(m->name, "lm");
    ll_bench_row row = {0};
    char what[96];
    snprintf(what, sizeof what, "generation, %s/%s", m->name, s->name);
    ll_status status = feed_to(stream, EARLY, INFINITY, logits, what);
    const int64_t late = b->position ? b->position : large ? LATE_LARGE : softmax ? LATE_SOFTMAX : LATE;
    for (int part = 0; part < 2 && !status; part++) {
        if (part) status = feed_to(stream, late, b->position ? INFINITY : b->seconds / 2, logits, what);
        const int64_t position = ll_stream_position(stream);
        if (!status) status = time_tokens(stream, logits, &row);
        snprintf(row.name, sizeof row.name, "generate/%s/%s/%lld", m->name, s->name, (long long)position);
        if (!status && (!part || position > EARLY + TIMED)) ll_bench_add(b, &row);
    }
    ll_bench_progress(what, 0, 0);
    return status;
}

static ll_status generate(ll_bench *b, const ll_bench_model *m, const ll_bench_system *s) {
    ll_model *model = NULL;
    ll_stream *stream = NULL;
    ll_status status = create(&model, b, m, s);
    if (!status) status = ll_stream_create(&stream, model);
    const char *vocab = status ? NULL : ll_recipe_get(ll_model_recipe(model), "model.vocab");
    float *logits = vocab ? calloc((size_t)atoi(vocab) + 1, sizeof *logits) : NULL;
    if (!status) status = logits ? measure(b, m, s, stream, logits) : LL_ENOMEM;
    free(logits);
    ll_stream_free(stream);
    ll_model_free(model);
    return status;
}

ll_status ll_bench_generate(ll_bench *b) {
    ll_status status = LL_OK;
    for (const ll_bench_model *m = ll_bench_model_list; m->name && !status; m++)
        for (const ll_bench_system *s = ll_bench_system_list; s->name && !status; s++) {
            char name[96];
            const int large = !strcmp(m->name, "lm");
            const int usual =
                !strcmp(s->name, "favor") || (!large && strcmp(s->name, "elu1") != 0 &&
                                              strcmp(s->name, "identity") != 0 && strcmp(s->name, "relu+permute") != 0);
            snprintf(name, sizeof name, "generate/%s/%s/", m->name, s->name);
            if ((large || !strcmp(m->name, "small")) && ll_bench_wanted(b, name, usual)) status = generate(b, m, s);
        }
    return status;
}
