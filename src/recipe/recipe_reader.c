/* The data room's part of a recipe: its section, and eight numbers. */
#include "recipe/recipe_reader.h"

ll_reader_options ll_config_reader(const ll_config *c) {
    return (ll_reader_options){.data = c->data,
                               .channels = c->model.channels,
                               .task = c->model.task,
                               .classes = c->model.classes,
                               .vocab = c->model.vocab,
                               .batch = c->train.batch,
                               .length = c->train.length,
                               .streams = c->train.carry_state,
                               .seed = c->train.seed};
}

ll_status ll_reader_open(ll_reader **reader, const ll_config *c, const char *split) {
    return ll_reader_open_as(reader, c, split, NULL);
}

ll_status ll_reader_open_as(ll_reader **reader, const ll_config *c, const char *split, const ll_bytes *vocabulary) {
    const ll_reader_options options = ll_config_reader(c);
    return ll_reader_create(reader, &options, split, vocabulary);
}

ll_status ll_reader_open_for(ll_reader **reader, const ll_recipe *recipe, const char *split,
                             const ll_bytes *vocabulary) {
    ll_reader_options options = ll_config_reader(&recipe->c);
    options.closed = recipe->closed > 0;
    return ll_reader_create(reader, &options, split, vocabulary);
}

ll_status ll_batch_create(ll_batch *batch, const ll_config *c) {
    const ll_reader_options options = ll_config_reader(c);
    return ll_batch_allocate(batch, &options);
}
