/* A tokenizer without a model. */
#ifndef LL_TOKENIZER_H
#define LL_TOKENIZER_H

#include "base/file.h"
#include "data/data_options.h"
#include "longline/data.h"

/* Of this format and vocabulary, which is borrowed for the call; `name` is what errors call it. */
LL_MUST_USE ll_status ll_tokenizer_create_from(ll_tokenizer **tokenizer, const ll_data_options *c,
                                               const ll_bytes *vocabulary, const char *name);

#endif
