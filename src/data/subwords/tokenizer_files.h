/* Tokenizers in files. */
#ifndef LL_TOKENIZER_FILES_H
#define LL_TOKENIZER_FILES_H

#include <jansson.h>

#include "base/file.h"

/* The text of a tokenizer.json: of this file, or of a folder that has one, or made from the folder's vocab.json and
 * merges.txt, or vocab.txt, or tokenizer.model. Its data are NULL where the folder has none of these. LL_EINVAL: a
 * tokenizer that is not read, with the remedy. */
LL_MUST_USE ll_status ll_subwords_find(ll_bytes *json, const char *path);
/* sentencepiece_file.c: the tokenizer.json that means what a tokenizer.model does, without what goes around a text. */
LL_MUST_USE ll_status ll_sentencepiece_compose(json_t **json, const ll_bytes *file, const char *folder);
/* The number that this tokenizer gives to a token; -1 where it has none, or there is no tokenizer. */
LL_MUST_USE ll_status ll_subwords_number(int *number, const char *path, const char *token);

/* ---- tokenizer_folder.c: what such tokenizers are made of ---- */

enum { LL_TOKENIZER_MOST = 1 << 26 }; /* bytes of one of its files */

/* A file of the folder; empty where it is not there. */
LL_MUST_USE ll_status ll_folder_file(ll_bytes *bytes, const char *folder, const char *name);
/* The object in a file of the folder; NULL where there is no such file. */
LL_MUST_USE ll_status ll_folder_json(json_t **json, const char *folder, const char *name);
/* LL_ENOMEM, with the folder's name. */
ll_status ll_folder_no_memory(const char *folder);
/* Adds a token to an object of them by their texts. They are found in a text as it stands. like: what a file says of
 * the token, or no object. A text that is there already keeps its token. */
LL_MUST_USE ll_status ll_folder_add_token(json_t *added, const char *text, const json_t *id, const json_t *like);
/* Those that the config and the other files of the folder name. */
LL_MUST_USE ll_status ll_folder_tokens(json_t *added, const json_t *vocab, const json_t *config, const char *folder);
/* Those that mean the same in every vocabulary that has them. */
LL_MUST_USE ll_status ll_folder_usual_tokens(json_t *added, const json_t *vocab);
/* Their list, as a tokenizer.json has it; NULL: no memory. */
json_t *ll_folder_token_list(json_t *added);
/* The text of a token that a config names, as a text or an object; "" where it names none. */
const char *ll_token_name(const json_t *value);

#endif
