/* Any bytes as a model: refused with a reason, or a model that computes, streams and gives its cost. */
#include <string.h>

#include "model/model_internal.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/safetensors_mutator.h"
#include "longline.h"

enum { TOKENS = 4 };

/* 0, or a reason. */
static int succeeds(ll_status status) {
    check(!status || strlen(ll_error()) > 10);
    return !status;
}

/* Two sequences, the second shorter. */
static void compute(ll_model *model, int V, int classes) {
    const int tokens[2 * TOKENS] = {0, V - 1, V / 2, 0, V - 1, 0}, lengths[2] = {TOKENS, 2};
    float *logp = ll_alloc(2 * TOKENS * (size_t)(V > classes ? V : classes), sizeof *logp);
    check(logp != NULL);
    (void)succeeds(ll_model_logp(model, logp, tokens, lengths, 2, TOKENS));
    (void)succeeds(ll_model_logp_from(model, logp, tokens, lengths, TOKENS, tokens, lengths, 2, TOKENS));
    ll_free(logp);
}

static void stream(ll_model *model, int V) {
    const int tokens[TOKENS] = {0, V - 1, V / 2, 0};
    ll_stream *s = NULL;
    if (!succeeds(ll_stream_create(&s, model))) return;
    float *logits = ll_alloc((size_t)V, sizeof *logits);
    check(logits != NULL);
    (void)succeeds(ll_stream_source(s, tokens, TOKENS));
    if (succeeds(ll_stream_feed(s, tokens, TOKENS, logits))) check(ll_stream_position(s) == TOKENS);
    ll_free(logits);
    ll_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ll_model *model = NULL;
    ll_tensor t;
    size_t parameters = 0;
    if (!succeeds(ll_model_load(&model, in_memory(data, size)))) {
        check(!model);
        return 0;
    }
    for (int i = 0; (t = ll_model_tensor(model, i)).name; i++) parameters += (size_t)t.rows * (size_t)t.cols;
    check(parameters == ll_model_size(model).parameters);
    check(ll_model_cost(model, TOKENS).multiply_adds > 0);
    const int V = atoi(ll_recipe_get(ll_model_recipe(model), "model.vocab")), classes = ll_model_size(model).classes;
    compute(model, V, classes);
    stream(model, V);
    if (succeeds(ll_model_quantize(model, LL_INT8))) compute(model, V, classes);
    ll_model_free(model);
    return 0;
}
