/* The folder of a tokenizer that is made of several files: how they are read, and the added tokens that they name, an
 * object with each by its text, in order. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/subwords/parts.h"
#include "data/subwords/tokenizer_files.h"

enum { DEPTH = 16 };

ll_status ll_folder_file(ll_bytes *bytes, const char *folder, const char *name) {
    char *path = ll_path_join(folder, name);
    if (!path) return LL_ENOMEM;
    const ll_status status = access(path, F_OK) ? LL_OK : ll_file_read(bytes, path, LL_TOKENIZER_MOST);
    ll_free(path);
    return status;
}

/* Configs are read for texts and flags alone. Among their numbers is transformers' model_max_length = 10^30, which is
 * no integer here. */
static size_t load_flags(const char *name) {
    const int config = !strcmp(name, "tokenizer_config.json") || !strcmp(name, "special_tokens_map.json");
    return config ? JSON_DECODE_INT_AS_REAL : 0;
}

ll_status ll_folder_json(json_t **json, const char *folder, const char *name) {
    ll_bytes bytes = {0};
    json_error_t error;
    int refused = 0;
    ll_status status = ll_folder_file(&bytes, folder, name);
    if (!status && bytes.data && ll_json_is_deep(bytes.data, bytes.size, DEPTH))
        status = ll_fail(LL_EFORMAT, "%s/%s: nested more than %d deep", folder, name, DEPTH);
    if (!status && bytes.data) {
        *json = ll_json_load(bytes.data, bytes.size, load_flags(name), &error, &refused);
        if (refused) status = ll_fail(LL_ENOMEM, "no memory for %s/%s", folder, name);
        if (!status && !*json)
            status = ll_fail(LL_EFORMAT, "%s/%s: not JSON at byte %d: %s", folder, name, error.position, error.text);
        if (!status && !json_is_object(*json)) status = ll_fail(LL_EFORMAT, "%s/%s is no JSON object", folder, name);
    }
    ll_bytes_free(&bytes);
    return status;
}

ll_status ll_folder_no_memory(const char *folder) {
    return ll_fail(LL_ENOMEM, "no memory for the tokenizer of %s", folder);
}

ll_status ll_folder_add_token(json_t *added, const char *text, const json_t *id, const json_t *like) {
    if (!*text || !json_is_integer(id) || json_object_get(added, text)) return LL_OK;
    json_t *token = json_pack(
        "{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", json_integer_value(id), "content", text, "single_word",
        ll_part_flag(like, "single_word", 0), "lstrip", ll_part_flag(like, "lstrip", !strcmp(text, "<mask>")), "rstrip",
        ll_part_flag(like, "rstrip", 0), "normalized", 0, "special", ll_part_flag(like, "special", 1));
    if (!json_object_set_new(added, text, token)) return LL_OK;
    return ll_fail(LL_ENOMEM, "no memory for the tokens of a tokenizer");
}

const char *ll_token_name(const json_t *value) {
    return json_is_string(value) ? json_string_value(value) : ll_part_text(value, "content", "");
}

static ll_status add_name(json_t *added, const json_t *value, const json_t *vocab) {
    const char *text = ll_token_name(value);
    return ll_folder_add_token(added, text, json_object_get(vocab, text), value);
}

/* What a config calls its token of the beginning, of the end, .. */
static ll_status add_named(json_t *added, const json_t *config, const json_t *vocab) {
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    const json_t *more = json_object_get(config, "additional_special_tokens");
    ll_status status = LL_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++)
        status = add_name(added, json_object_get(config, keys[i]), vocab);
    for (size_t i = 0; i < json_array_size(more) && !status; i++)
        status = add_name(added, json_array_get(more, i), vocab);
    return status;
}

/* The added_tokens_decoder of a config: tokens by their numbers. Pieces with U+2581 are not found in a text as it
 * stands, since blanks become that. */
static ll_status add_numbered(json_t *added, const json_t *vocab, const json_t *config, const char *folder) {
    const char *number;
    json_t *token;
    ll_status status = LL_OK;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), number, token) {
        char *end;
        json_t *id = json_integer(strtoll(number, &end, 10));
        const char *text = ll_token_name(token);
        const int is_piece = strstr(text, "\xe2\x96\x81") && json_object_get(vocab, text);
        if (!id) return ll_folder_no_memory(folder);
        if (!*end && end != number && !is_piece) status = ll_folder_add_token(added, text, id, token);
        json_decref(id);
        if (status) break;
    }
    return status;
}

ll_status ll_folder_tokens(json_t *added, const json_t *vocab, const json_t *config, const char *folder) {
    json_t *map = NULL, *more = NULL, *id;
    const char *text;
    ll_status status = ll_folder_json(&map, folder, "special_tokens_map.json");
    if (!status) status = ll_folder_json(&more, folder, "added_tokens.json");
    if (!status) status = add_numbered(added, vocab, config, folder);
    json_object_foreach(more, text, id) if (!status) status = ll_folder_add_token(added, text, id, NULL);
    if (!status) status = add_named(added, config, vocab);
    if (!status) status = add_named(added, map, vocab);
    json_decref(map);
    json_decref(more);
    return status;
}

ll_status ll_folder_usual_tokens(json_t *added, const json_t *vocab) {
    static const char *const usual[] = {"[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "<s>",      "</s>",
                                        "<pad>", "<unk>", "<mask>", "<cls>", "<eos>",  "<null_1>", "<|endoftext|>"};
    ll_status status = LL_OK;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !status; i++)
        status = ll_folder_add_token(added, usual[i], json_object_get(vocab, usual[i]), NULL);
    return status;
}

json_t *ll_folder_token_list(json_t *added) {
    json_t *list = json_array(), *token;
    const char *text;
    json_object_foreach(added, text, token) if (json_array_append(list, token)) {
        json_decref(list);
        return NULL;
    }
    return list;
}
