/* Tokenizers in files. */
#ifndef LL_TOKENIZER_FILES_H
#define LL_TOKENIZER_FILES_H

#include <jansson.h>

#include "base/file.h"

/* The text of a tokenizer.json: of this file, or of a folder that has one, or made from the folder's vocab.json and
 * merges.txt, or vocab.txt, or tokenizer.model. Empty where the folder has none of these. LL_EINVAL: a tokenizer that
 * is not read, with the remedy. */
LL_MUST_USE ll_status ll_subwords_find(ll_bytes *json, const char *path);
/* sentencepiece_file.c: the tokenizer.json that means what a tokenizer.model does, without what goes around a text. */
LL_MUST_USE ll_status ll_sentencepiece_compose(json_t **json, const ll_bytes *file, const char *folder);
/* The number that this tokenizer gives to a token; -1 where it has none, or cannot be read. Fails for memory alone. */
LL_MUST_USE ll_status ll_subwords_number(int *number, const char *path, const char *token);

#endif
