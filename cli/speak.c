/* Bytes into a stream and out of it. */
#include "speak.h"

#include <stdlib.h>

int ll_speaker_create(ll_speaker *s, ll_model *model, const char *state) {
    const char *vocab = ll_recipe_get(ll_model_recipe(model), "model.vocab");
    s->vocab = vocab ? atoi(vocab) : 0;
    ll_status status = state ? ll_stream_load(&s->stream, model, state) : ll_stream_create(&s->stream, model);
    if (status) return ll_failed(status, state);
    if (s->vocab < 1 || s->vocab > 256) {
        ll_say("the model has %d different tokens, so they are not bytes; only models of bytes write text", s->vocab);
        return 2;
    }
    s->logits = calloc((size_t)s->vocab, sizeof *s->logits);
    if (!s->logits) return ll_trouble("out of memory");
    if (ll_stream_position(s->stream)) status = ll_stream_logits(s->stream, s->logits);
    return status ? ll_failed(status, state) : -1;
}

void ll_speaker_free(ll_speaker *s) {
    ll_stream_free(s->stream);
    free(s->logits);
    *s = (ll_speaker){0};
}

ll_status ll_speaker_feed(ll_speaker *s, const uint8_t *bytes, size_t n) {
    int tokens[1024];
    while (n) {
        const int m = n < 1024 ? (int)n : 1024;
        for (int i = 0; i < m; i++) tokens[i] = bytes[i];
        const ll_status status = ll_stream_feed(s->stream, tokens, m, s->logits);
        if (status) return status;
        bytes += m, n -= (size_t)m;
    }
    return LL_OK;
}

ll_status ll_speaker_next(ll_speaker *s, const ll_sampling *how, int *byte) {
    *byte = ll_sample(s->logits, s->vocab, how, ll_stream_position(s->stream));
    return ll_stream_feed(s->stream, byte, 1, s->logits);
}
