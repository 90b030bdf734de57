/* Readers and batches as a recipe describes them. */
#ifndef LL_RECIPE_READER_H
#define LL_RECIPE_READER_H

#include "data/reader.h"
#include "recipe/recipe.h"

/* The data room's part of a recipe; its texts are borrowed from the recipe. */
ll_reader_options ll_config_reader(const ll_config *c);

/* ll_reader_create with that, and with the given vocabulary, or the reader's own. */
LL_MUST_USE ll_status ll_reader_open(ll_reader **reader, const ll_config *c, const char *split);
LL_MUST_USE ll_status ll_reader_open_as(ll_reader **reader, const ll_config *c, const char *split,
                                        const ll_bytes *vocabulary);
/* The same with a recipe that knows whether its classes are of other data. */
LL_MUST_USE ll_status ll_reader_open_for(ll_reader **reader, const ll_recipe *recipe, const char *split,
                                         const ll_bytes *vocabulary);
LL_MUST_USE ll_status ll_batch_create(ll_batch *batch, const ll_config *c);

#endif
