/* Generation: one token after the other, early and late in a stream, and the bytes of its state.
 *
 * A small model unless --set says otherwise, for a million tokens have to be fed before the late
 * measurement; whether time and state depend on the position does not depend on the size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static const char *const KIND[][4] = {
    {"favor", "attention.kernel=favor", "position.type=none", NULL},
    {"relu+permute+decay", "attention.kernel=relu", "position.type=permute", "position.decay=fixed"},
    {"softmax", "attention.kernel=softmax", "position.type=none", NULL},
};
enum { KINDS = 3, SOFTMAX = 2, EARLY = 100, LATE = 1000000, LATE_SOFTMAX = 8192, TIMED = 300, BLOCK = 4096 };

static ll_status create(ll_model **model, const ll_bench *b, int kind) {
    static const char *const base[] = {"model.task=lm",          "model.layers=2",  "model.width=128",
                                       "model.heads=4",          "model.ff=512",    "model.vocab=256",
                                       "attention.num-features=128", "data.format=demo"};
    ll_recipe *recipe = NULL;
    ll_status status = ll_recipe_create(&recipe);
    for (size_t i = 0; i < sizeof base / sizeof *base && !status; i++) status = ll_recipe_set(recipe, base[i]);
    for (int i = 1; i < 4 && KIND[kind][i] && !status; i++) status = ll_recipe_set(recipe, KIND[kind][i]);
    if (!status) status = ll_set_all(recipe, b->set);
    if (!status) status = ll_model_create(model, recipe);
    ll_recipe_free(recipe);
    return status;
}

/* Any tokens do. */
static ll_status feed(ll_stream *stream, int n, float *logits) {
    int tokens[BLOCK];
    for (int i = 0; i < n; i++) tokens[i] = (int)((ll_stream_position(stream) + i) * 31 % 97) + 32;
    return ll_stream_feed(stream, tokens, n, logits);
}

/* The median token from here on. */
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

/* To a position, or as far as there is time for. */
static ll_status feed_to(ll_stream *stream, int64_t position, double seconds, float *logits, const char *what) {
    const double start = ll_now();
    const int64_t from = ll_stream_position(stream);
    for (int64_t at; (at = ll_stream_position(stream)) < position;) {
        const double spent = ll_now() - start, rate = spent > 0 ? (double)(at - from) / spent : 0;
        if (spent > seconds) break;
        if (rate > 0)
            ll_bench_progress(what, (int)(at / 1000), (int)(position / 1000) + 1, (double)(position - at) / rate);
        const ll_status status = feed(stream, (int)(position - at < BLOCK ? position - at : BLOCK), logits);
        if (status) return status;
    }
    return LL_OK;
}

static ll_status measure(ll_bench *b, int kind, ll_stream *stream, float *logits) {
    ll_bench_row row = {0};
    char what[64];
    snprintf(what, sizeof what, "generation, %s, thousands of tokens", KIND[kind][0]);
    ll_status status = feed_to(stream, EARLY, INFINITY, logits, what);
    const int64_t late = b->position ? b->position : kind == SOFTMAX ? LATE_SOFTMAX : LATE;
    for (int part = 0; part < 2 && !status; part++) {
        if (part) status = feed_to(stream, late, b->position ? INFINITY : b->seconds / 2, logits, what);
        const int64_t position = ll_stream_position(stream);
        if (!status) status = time_tokens(stream, logits, &row);
        snprintf(row.name, sizeof row.name, "generate/%s/%lld", KIND[kind][0], (long long)position);
        if (!status && (!part || position > EARLY + TIMED)) ll_bench_add(b, &row);
    }
    ll_bench_progress(what, 1, 1, 0);
    return status;
}

ll_status ll_bench_generate(ll_bench *b) {
    ll_status status = LL_OK;
    for (int kind = 0; kind < KINDS && !status; kind++) {
        ll_model *model = NULL;
        ll_stream *stream = NULL;
        char name[64];
        snprintf(name, sizeof name, "generate/%s/", KIND[kind][0]);
        if (!ll_bench_wanted(b, name, 1)) continue;
        status = create(&model, b, kind);
        if (!status) status = ll_stream_create(&stream, model);
        const char *vocab = status ? NULL : ll_recipe_get(ll_model_recipe(model), "model.vocab");
        float *logits = vocab ? calloc((size_t)atoi(vocab) + 1, sizeof *logits) : NULL;
        if (!status) status = logits ? measure(b, kind, stream, logits) : LL_ENOMEM;
        free(logits);
        ll_stream_free(stream);
        ll_model_free(model);
    }
    return status;
}
