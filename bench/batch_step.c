/* Steps of a batcher by itself: how much the processor works for one token of each of N texts (docs/serve.md).
 *
 *     cc -O2 bench/batch_step.c -Iinclude -Lbuild -llongline -Wl,-rpath,$PWD/build -o batch-step
 *     ./batch-step MODEL.safetensors
 *
 * One thread. Milliseconds are of processor time, so that other programs count less, and the least of 25 steps. */
#include <longline-batch.h>
#include <longline.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 256, STEPS = 25 };
static ll_stream *stream[MOST];
static ll_batch_item item[MOST];
static int token[MOST];

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(ll_status status) {
    if (!status) return;
    fprintf(stderr, "%s\n", ll_error());
    exit(1);
}

/* The least time of a step of n texts. */
static double measure(ll_batcher *batcher, int n) {
    double least = 0;
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < n; k++) token[k] = (k * 7 + i * 3) % 50;
        const double start = processor_time();
        check(ll_batcher_feed(batcher, item, n));
        const double took = processor_time() - start;
        if (!i || took < least) least = took;
    }
    return least;
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 4, 8, 12, 16, 32, 64, MOST};
    ll_model *model = NULL;
    ll_batcher *batcher = NULL;
    double one = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL.safetensors\n", argv[0]);
        return 2;
    }
    ll_set_threads(1);
    check(ll_model_load(&model, argv[1]));
    check(ll_batcher_create(&batcher, model, MOST));
    const int vocab = atoi(ll_recipe_get(ll_model_recipe(model), "model.vocab"));
    float *logits = calloc((size_t)MOST * (size_t)vocab, sizeof *logits);
    if (!logits) return 1;
    for (int k = 0; k < MOST; k++) {
        check(ll_batcher_stream(&stream[k], batcher));
        item[k] = (ll_batch_item){.stream = stream[k], .tokens = &token[k], .n = 1, .logits = logits + k * vocab};
    }
    printf("texts,ms,tokens_per_second,times_one\n");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const double seconds = measure(batcher, counts[i]);
        if (!i) one = seconds;
        printf("%d,%.2f,%.0f,%.2f\n", counts[i], 1e3 * seconds, counts[i] / seconds, counts[i] * one / seconds);
    }
    for (int k = 0; k < MOST; k++) ll_stream_free(stream[k]);
    ll_batcher_free(batcher);
    ll_model_free(model);
    free(logits);
}
