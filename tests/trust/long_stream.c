/* A stream of any number of tokens against the reference in double precision, in constant memory:
 *
 *     long_stream TOKENS KERNEL POSITION
 *
 * Prints, for 100, 1000, ... tokens and the last, the largest error of the 100 outputs before, relative to the largest
 * output. Exit code 1 where it is 1e-5 or more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "base/random.h"
#include "model/config/mechanism.h"
#include "reference/reference.h"

enum { D = 4, E = 2, M = 8, BLOCK = 2048, COMPARED = 100, SEED = 11 };

typedef struct {
    float q[BLOCK * D], k[BLOCK * D], v[BLOCK * E], y[BLOCK * E], gate[BLOCK];
} tokens;

static void draw(tokens *x, int64_t block) {
    ll_normal_fill(x->q, BLOCK * D, SEED, ll_stream_id(LL_RANDOM_TEST, 0, 0), (uint64_t)block * BLOCK * D);
    ll_normal_fill(x->k, BLOCK * D, SEED, ll_stream_id(LL_RANDOM_TEST, 1, 0), (uint64_t)block * BLOCK * D);
    ll_uniform_fill(x->v, BLOCK * E, SEED, ll_stream_id(LL_RANDOM_TEST, 2, 0), (uint64_t)block * BLOCK * E);
    ll_uniform_fill(x->gate, BLOCK, SEED, ll_stream_id(LL_RANDOM_TEST, 3, 0), (uint64_t)block * BLOCK);
    for (int i = 0; i < BLOCK; i++) x->gate[i] /= -16;
}

static ll_view rows(float *data, int width) { return (ll_view){data, 0, 0, (size_t)width}; }

static ll_attention *make(const char *kernel, const char *position) {
    static const float decay = 0.999f;
    static float projection[M * D];
    static int32_t permutation[M];
    ll_attention_config c = ll_attention_default();
    ll_attention *op = NULL;
    c.H = 1, c.D = D, c.E = E;
    c.kernel = !strcmp(kernel, "favor") ? LL_KERNEL_FAVOR : !strcmp(kernel, "gla") ? LL_KERNEL_GLA : LL_KERNEL_RELU;
    if (c.kernel == LL_KERNEL_FAVOR) c.M = M, c.projection = projection, c.input_scale = 0.7f;
    if (c.kernel == LL_KERNEL_RELU) c.feature_eps = 1e-3f;
    if (c.kernel == LL_KERNEL_GLA) c.den = LL_DEN_NONE;
    ll_normal_fill(projection, M * D, SEED, ll_stream_id(LL_RANDOM_TEST, 4, 0), 0);
    if (!strcmp(position, "decay")) c.decay = &decay;
    if (!strcmp(position, "rope")) c.position = LL_POSITION_ROPE;
    if (!strcmp(position, "permute")) c.position = LL_POSITION_PERMUTE, c.permutation = permutation;
    ll_permutation_random(permutation, c.M ? M : D, SEED, 0, 0);
    const ll_status status = ll_attention_create(&op, &c);
    return status ? NULL : op;
}

typedef struct {
    double worst, largest, bound;
} deviation;

static void compare(deviation *d, const double *y, const float *got) {
    for (int e = 0; e < E; e++) {
        const double error = fabs(y[e] - (double)got[e]);
        d->worst = fmax(d->worst, isnan(error) ? INFINITY : error);
        d->largest = fmax(d->largest, fabs(y[e]));
    }
}

static int report(deviation *d, int64_t token) {
    const double error = d->worst / d->largest;
    printf("%lld %.3g\n", (long long)token, error);
    fflush(stdout);
    d->worst = d->largest = 0;
    return !(error < d->bound);
}

static ll_status run(const ll_attention *op, int64_t total, int *wrong) {
    static tokens x;
    ll_attention_stream *s = NULL;
    ll_reference *reference = NULL;
    deviation d = {.bound = 1e-5};
    ll_status status = ll_attention_stream_create(&s, op, 1);
    if (!status) status = ll_reference_create(&reference, op, total);
    int64_t next = COMPARED;
    for (int64_t t0 = 0; t0 < total && !status; t0 += BLOCK) {
        const int n = (int)(total - t0 < BLOCK ? total - t0 : BLOCK);
        draw(&x, t0 / BLOCK);
        const ll_view gate = op->gated ? rows(x.gate, 1) : (ll_view){0};
        status = ll_attention_stream_feed(s, n, rows(x.q, D), rows(x.k, D), rows(x.v, E), gate, rows(x.y, E));
        for (int t = 0; t < n && !status; t++) {
            double y[E];
            const int64_t end = next < total ? next : total, now = t0 + t + 1;
            ll_reference_feed(reference, 0, x.k + t * D, x.v + t * E, gate.data ? x.gate + t : NULL);
            if (now <= end - COMPARED) continue;
            ll_reference_answer(reference, 0, x.q + t * D, y);
            compare(&d, y, x.y + t * E);
            if (now == end) *wrong |= report(&d, now), next *= 10;
        }
    }
    ll_reference_free(reference);
    ll_attention_stream_free(s);
    return status;
}

int main(int n, char **words) {
    if (n != 4) {
        fprintf(stderr, "usage: long_stream TOKENS KERNEL POSITION\n");
        return 2;
    }
    int wrong = 0;
    ll_attention *op = make(words[2], words[3]);
    if (!op || run(op, atoll(words[1]), &wrong)) {
        fprintf(stderr, "%s\n", ll_error());
        return 2;
    }
    ll_attention_free(op);
    return wrong;
}
