/* Text to a model's tokens and back: the model's vocabulary and the coder that reads it. */
#include "base/memory.h"
#include "data/coder.h"
#include "model/model.h"

struct ll_tokenizer {
    ll_coder *coder;
};

ll_status ll_tokenizer_create(ll_tokenizer **out, const ll_model *model) {
    ll_tokenizer *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    ll_status status = ll_coder_create(&t->coder, model->c, &model->vocabulary, "the model");
    if (!status && ll_coder_vocab(t->coder) > model->c->vocab)
        status = ll_fail(LL_EFORMAT, "the model knows %d tokens, but its vocabulary has %d", model->c->vocab,
                         ll_coder_vocab(t->coder));
    if (status) {
        ll_tokenizer_free(t);
        return status;
    }
    *out = t;
    return LL_OK;
}

void ll_tokenizer_free(ll_tokenizer *t) {
    if (!t) return;
    ll_coder_free(t->coder);
    ll_free(t);
}

int ll_tokenizer_vocab(const ll_tokenizer *t) {
    return ll_coder_vocab(t->coder);
}

ll_status ll_tokenizer_encode(const ll_tokenizer *t, const void *text, size_t size, int **tokens, size_t *count) {
    int32_t *found = NULL;
    int64_t n = 0;
    const ll_status status = ll_coder_encode(t->coder, text, size, &found, &n);
    if (status) return status;
    *tokens = found;
    *count = (size_t)n;
    return LL_OK;
}

void ll_tokens_free(int *tokens) {
    ll_free(tokens);
}

const char *ll_tokenizer_text(ll_tokenizer *t, int token, size_t *size) {
    return ll_coder_text(t->coder, token, size);
}
