/* The tokenizer of a model, by its recipe and its vocabulary. */
#include "data/text/tokenizer.h"
#include "model/model_internal.h"
#include "recipe/recipe.h"

ll_status ll_tokenizer_create(ll_tokenizer **out, const ll_model *model) {
    ll_tokenizer *t = NULL;
    ll_status status = ll_tokenizer_create_from(&t, &model->recipe->c.data, &model->vocabulary, "the model");
    if (!status && ll_tokenizer_vocab(t) > model->c->model.vocab)
        status = ll_fail(LL_EFORMAT,
                         "the model knows %d tokens, but its vocabulary has %d; if it was imported without its "
                         "tokenizer, import it with that",
                         model->c->model.vocab, ll_tokenizer_vocab(t));
    if (status)
        ll_tokenizer_free(t);
    else
        *out = t;
    return status;
}
