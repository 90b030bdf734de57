/* The numerical error of a stream. Random tokens go through the operator's stream in blocks of random sizes, all at
 * once through its tiles, and one by one through the reference, which computes in double (reference.c). */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/table.h"
#include "reference/reference.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/random.h"

enum { COMPARED = 100, BLOCK_BITS = 10, PIECE = 256 /* tokens between two reports of progress */ };

typedef struct {
    const ll_attention *op;
    const ll_attention_config *c;
    int64_t tokens;
    uint64_t seed;
    ll_view q, k, v, y, tiles; /* (1, H, tokens, D or E), token by token */
    ll_view gate;              /* (1, H, tokens, 1), or no data */
    ll_stream_error result;
    int (*progress)(double share, void *arg);
    void *arg;
} measurement;

double ll_worse(double worst, double error) { return isnan(worst) || error <= worst ? worst : error; }

static ll_status step(const measurement *d, double share) {
    if (!d->progress || !d->progress(share, d->arg)) return LL_OK;
    return ll_fail(LL_ESTOPPED, "stopped");
}

/* Blocks of 1 to 1023 tokens, short ones as often as long ones. */
static int block_size(const measurement *d, uint64_t number, int64_t left) {
    const uint64_t id = ll_stream_id(LL_RANDOM_TEST, 3, 0);
    const uint32_t bits = 1 + ll_below(BLOCK_BITS, d->seed, id, 2 * number);
    const int n = 1 + (int)ll_below((1u << bits) - 1, d->seed, id, 2 * number + 1);
    return n < left ? n : (int)left;
}

static ll_status stream(const measurement *d) {
    ll_attention_stream *s = NULL;
    ll_status status = ll_attention_stream_create(&s, d->op, 1);
    uint64_t number = 0;
    for (int64_t t = 0, n; t < d->tokens && !status; t += n) {
        n = block_size(d, number++, d->tokens - t);
        status = ll_attention_stream_feed(s, (int)n, ll_view_from(d->q, t), ll_view_from(d->k, t),
                                          ll_view_from(d->v, t), ll_view_from(d->gate, t), ll_view_from(d->y, t));
        if (!status) status = step(d, 0.3 * (double)(t + n) / (double)d->tokens);
    }
    ll_attention_stream_free(s);
    return status;
}

static ll_status whole(const measurement *d) {
    const int T = (int)d->tokens;
    const ll_attention_call call = {.B = 1, .T = T, .S = T, .q = d->q, .k = d->k, .v = d->v, .y = d->tiles,
                                    .gate = d->gate};
    const ll_status status = ll_attention_forward(d->op, &call);
    return status ? status : step(d, 0.4);
}

/* Of the tokens since the entry before: the tiles' largest deviation from the stream, over its largest answer. */
static double against_tiles(const measurement *d, int64_t first, int64_t end) {
    const size_t row = d->y.token;
    double worst = 0, largest = 0;
    for (size_t i = (size_t)first * row; i < (size_t)end * row; i++) {
        const double error = fabs((double)d->y.data[i] - (double)d->tiles.data[i]);
        worst = ll_worse(worst, error);
        largest = fmax(largest, fabs((double)d->y.data[i]));
    }
    return worst > 0 ? worst / largest : worst;
}

/* The answer of one token against that of the reference. */
static void compare(const measurement *d, ll_reference *reference, int64_t t, double *y, double *worst,
                    double *largest) {
    for (int h = 0; h < d->c->H; h++) {
        ll_reference_answer(reference, h, ll_element(&d->q, 0, h, (int)t), y);
        for (int e = 0; e < d->c->E; e++) {
            const double error = fabs((double)ll_element(&d->y, 0, h, (int)t)[e] - y[e]);
            *worst = ll_worse(*worst, error);
            *largest = fmax(*largest, fabs(y[e]));
        }
    }
}

static void enter(measurement *d, int64_t t, double worst, double largest) {
    ll_stream_error *r = &d->result;
    const int64_t first = r->count ? r->tokens[r->count - 1] : 0;
    if (r->count == LL_STREAM_ERROR_MOST) return;
    r->tokens[r->count] = t;
    r->deviation[r->count] = worst > 0 ? worst / largest : worst;
    r->tiles[r->count++] = against_tiles(d, first, t);
}

/* Of the 100 answers up to token 100, 1000, ..., and the last. */
static ll_status against_reference(measurement *d, ll_reference *reference, double *y) {
    const ll_view *const keys = ll_operator_of_kernel(d->c->kernel)->reads == 1 ? &d->q : &d->k;
    const int keyed = ll_keyed_heads(d->c);
    double worst = 0, largest = 0;
    int64_t next = COMPARED;
    ll_status status = LL_OK;
    for (int64_t t = 0; t < d->tokens && !status; t++) {
        for (int h = 0; h < d->c->H; h++)
            ll_reference_feed(reference, h, h < keyed ? ll_element(keys, 0, h, (int)t) : NULL,
                              ll_element(&d->v, 0, h, (int)t),
                              d->gate.data ? ll_element(&d->gate, 0, h, (int)t) : NULL);
        const int64_t end = next < d->tokens ? next : d->tokens;
        if (t >= end - COMPARED) compare(d, reference, t, y, &worst, &largest);
        if (t + 1 == end) {
            enter(d, t + 1, worst, largest);
            worst = largest = 0, next *= 10;
        }
        if (t % PIECE == 0) status = step(d, 0.4 + 0.6 * (double)t / (double)d->tokens);
    }
    return status;
}

static ll_view view_of(const measurement *d, float **data, int heads, int width) {
    const size_t token = (size_t)heads * (size_t)width, n = (size_t)d->tokens * token;
    const ll_view view = {*data, n, (size_t)width, token};
    *data += n;
    return view;
}

/* q and k standard normal, v uniform in [0, 1), r = e^(-u / 16) with u uniform in [0, 1). */
static void fill(measurement *d, float *data) {
    const ll_attention_config *c = d->c;
    const int keys = ll_keyed_heads(c);
    const size_t T = (size_t)d->tokens, D = (size_t)c->D;
    d->q = view_of(d, &data, c->H, c->D), d->k = view_of(d, &data, keys, c->D);
    d->v = view_of(d, &data, c->H, c->E), d->y = view_of(d, &data, c->H, c->E);
    d->tiles = view_of(d, &data, c->H, c->E);
    if (d->op->gated) {
        d->gate = view_of(d, &data, c->H, 1);
        ll_uniform_fill(d->gate.data, T * d->gate.token, d->seed, ll_stream_id(LL_RANDOM_TEST, 4, 0), 0);
        for (size_t i = 0; i < T * d->gate.token; i++) d->gate.data[i] /= -16;
    }
    ll_normal_fill(d->q.data, T * (size_t)c->H * D, d->seed, ll_stream_id(LL_RANDOM_TEST, 0, 0), 0);
    ll_normal_fill(d->k.data, T * (size_t)keys * D, d->seed, ll_stream_id(LL_RANDOM_TEST, 1, 0), 0);
    ll_uniform_fill(d->v.data, T * d->v.token, d->seed, ll_stream_id(LL_RANDOM_TEST, 2, 0), 0);
}

ll_status ll_stream_error_of(ll_stream_error *out, const ll_attention *op, int64_t tokens, uint64_t seed,
                      int (*progress)(double share, void *arg), void *arg) {
    const ll_attention_config *c = &op->c;
    measurement d = {.op = op, .c = c, .tokens = tokens, .seed = seed, .progress = progress, .arg = arg};
    ll_reference *reference = NULL;
    if (tokens < 1 || tokens > LL_STREAM_ERROR_LONGEST)
        return ll_fail(LL_EINVAL, "stream-error: %lld tokens, must be 1 to %lld", (long long)tokens,
                       (long long)LL_STREAM_ERROR_LONGEST);
    ll_status status = ll_attention_can_stream(op);
    if (!status) status = ll_reference_create(&reference, op, tokens);
    if (status) return status;
    float *data = ll_alloc((size_t)tokens * (size_t)c->H, (2 * (size_t)c->D + 3 * (size_t)c->E + 1) * sizeof *data);
    double *y = ll_alloc((size_t)c->E, sizeof *y);
    if (!data || !y) status = LL_ENOMEM;
    if (!status) {
        fill(&d, data);
        status = stream(&d);
    }
    if (!status) status = whole(&d);
    if (!status) status = against_reference(&d, reference, y);
    if (!status) *out = d.result;
    ll_free(data), ll_free(y);
    ll_reference_free(reference);
    return status;
}

ll_status ll_attention_stream_error(ll_stream_error *out, const ll_attention_config *c, int64_t tokens, uint64_t seed) {
    LL_FLOAT_MODE;
    ll_attention *op = NULL;
    ll_status status = ll_attention_create(&op, c);
    if (!status) status = ll_stream_error_of(out, op, tokens, seed, NULL, NULL);
    ll_attention_free(op);
    return status;
}
