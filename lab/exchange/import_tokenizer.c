/* The tokenizer of a folder: a model's vocabulary, or one by itself. */
#include "base/memory.h"
#include "data/subwords/tokenizer_files.h"
#include "data/text/tokenizer.h"
#include "exchange/family.h"
#include "longline-lab.h"

static const ll_data_options subwords = {.format = LL_DATA_SUBWORDS};

ll_status ll_tokenizer_import(ll_tokenizer **tokenizer, const char *path) {
    ll_bytes json = {0};
    ll_status status = ll_subwords_find(&json, path);
    if (!status && !json.data)
        status = ll_fail(LL_EINVAL,
                         "%s has no tokenizer: no tokenizer.json, no vocab.txt, no tokenizer.model, and no "
                         "vocab.json with merges.txt",
                         path);
    if (!status) status = ll_tokenizer_create_from(tokenizer, &subwords, &json, path);
    ll_bytes_free(&json);
    return status;
}

ll_status ll_import_tokenizer(ll_model *model, const char *folder) {
    ll_tokenizer *tokenizer = NULL;
    ll_bytes json = {0};
    ll_status status = ll_subwords_find(&json, folder);
    if (!status && json.data) status = ll_tokenizer_create_from(&tokenizer, &subwords, &json, folder);
    if (!status && json.data && ll_tokenizer_vocab(tokenizer) > model->c->model.vocab)
        status = ll_fail(LL_EFORMAT,
                         "%s: its tokenizer has %d tokens, and config.json says vocab_size = %d; import it "
                         "with --without-tokenizer, or take the tokens from %d on out of its added tokens",
                         folder, ll_tokenizer_vocab(tokenizer), model->c->model.vocab, model->c->model.vocab);
    if (!status && json.data) status = ll_recipe_set(model->recipe, "data.format=subwords");
    if (!status && json.data) status = ll_model_keep(model, &json);
    ll_tokenizer_free(tokenizer);
    ll_bytes_free(&json);
    return status;
}
