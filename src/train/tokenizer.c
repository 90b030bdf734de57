/* Text to a model's tokens and back: bytes. */
#include "base/memory.h"
#include "model/model.h"

enum { BYTES = 256 };

struct ll_tokenizer {
    char byte;
};

ll_status ll_tokenizer_create(ll_tokenizer **out, const ll_model *model) {
    if (BYTES > model->c->vocab)
        return ll_fail(LL_EFORMAT, "the model knows %d tokens, but its vocabulary has %d", model->c->vocab, BYTES);
    ll_tokenizer *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    *out = t;
    return LL_OK;
}

void ll_tokenizer_free(ll_tokenizer *t) {
    ll_free(t);
}

int ll_tokenizer_vocab(const ll_tokenizer *t) {
    (void)t;
    return BYTES;
}

ll_status ll_tokenizer_encode(const ll_tokenizer *t, const void *text, size_t size, int **tokens, size_t *count) {
    const uint8_t *bytes = text;
    (void)t;
    int *out = ll_alloc(size, sizeof *out);
    if (!out) return LL_ENOMEM;
    for (size_t i = 0; i < size; i++) out[i] = bytes[i];
    *tokens = out;
    *count = size;
    return LL_OK;
}

void ll_tokens_free(int *tokens) {
    ll_free(tokens);
}

const char *ll_tokenizer_text(ll_tokenizer *t, int token, size_t *size) {
    t->byte = (char)token;
    *size = 1;
    return &t->byte;
}
