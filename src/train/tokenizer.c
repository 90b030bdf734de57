/* Text to a model's tokens and back: the model's vocabulary and its coder. */
#include "train/tokenizer.h"

#include "base/memory.h"
#include "data/text/coder.h"
#include "data/music/score.h"
#include "recipe/recipe.h"
#include "model/model_internal.h"

struct ll_tokenizer {
    ll_coder *coder;
};

ll_status ll_tokenizer_create_from(ll_tokenizer **out, const ll_data_options *c, const ll_bytes *vocabulary,
                                   const char *name) {
    ll_tokenizer *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    const ll_status status = ll_coder_create(&t->coder, c, vocabulary, name);
    if (status)
        ll_tokenizer_free(t);
    else
        *out = t;
    return status;
}

ll_status ll_tokenizer_create(ll_tokenizer **out, const ll_model *model) {
    ll_tokenizer *t = NULL;
    ll_status status = ll_tokenizer_create_from(&t, &model->recipe->c.data, &model->vocabulary, "the model");
    if (!status && ll_coder_vocab(t->coder) > model->c->model.vocab)
        status = ll_fail(LL_EFORMAT,
                         "the model knows %d tokens, but its vocabulary has %d; if it was imported without its "
                         "tokenizer, import it with that",
                         model->c->model.vocab, ll_coder_vocab(t->coder));
    if (status)
        ll_tokenizer_free(t);
    else
        *out = t;
    return status;
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

const char *ll_tokenizer_text(ll_tokenizer *t, int token, size_t *size) {
    *size = 0;
    return token < 0 || token >= ll_tokenizer_vocab(t) ? "" : ll_coder_text(t->coder, token, size);
}

const int *ll_tokenizer_special(const ll_tokenizer *t, ll_special which, size_t *count) {
    static const int piece = LL_MUSIC_PIECE;
    if (which != LL_SPECIAL_PIECE) return ll_coder_around(t->coder, which == LL_SPECIAL_AFTER, count);
    *count = (size_t)ll_coder_is_music(t->coder);
    return *count ? &piece : NULL;
}

ll_status ll_tokenizer_write_midi(const ll_tokenizer *t, const char *path, const int *tokens, size_t count,
                                  size_t first) {
    ll_score score = {0};
    ll_bytes file = {0};
    if (!ll_coder_is_music(t->coder))
        return ll_fail(LL_EINVAL, "the model does not write music; a MIDI file needs a model of data.format=midi");
    ll_status status = ll_music_decode(&score, tokens, (int64_t)count, (int64_t)first);
    if (!status && !score.notes)
        status = ll_fail(LL_EINVAL, "there is no note in these %zu events", first < count ? count - first : 0);
    if (!status) status = ll_midi_write(&file, &score);
    if (!status) status = ll_file_write(path, file.data, file.size);
    ll_score_free(&score);
    ll_bytes_free(&file);
    return status;
}
