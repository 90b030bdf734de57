/* Where tokenizers lie: tokenizer.json, or the older vocab.json with merges.txt (byte-level BPE) or vocab.txt
 * (WordPiece, or one letter a token as in ESM-2), or tokenizer.model (SentencePiece), from which the tokenizer.json is
 * made that means the same. */
#include "data/subwords/tokenizer_files.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/subwords/parts.h"

/* ---- Lines ---- */

/* The next line without its end; 0: there is none. */
static int next_line(const ll_bytes *text, size_t *at, const char **line, size_t *n) {
    if (*at >= text->size) return 0;
    const uint8_t *begin = text->data + *at, *end = memchr(begin, '\n', text->size - *at);
    const size_t size = end ? (size_t)(end - begin) : text->size - *at;
    *at += size + 1;
    *line = (const char *)begin;
    *n = size && begin[size - 1] == '\r' ? size - 1 : size;
    return 1;
}

static ll_status not_stored(int refused, const char *folder, const char *name, size_t line) {
    return refused ? ll_fail(LL_ENOMEM, "no memory for line %zu of %s/%s", line, folder, name)
                   : ll_fail(LL_EFORMAT, "%s/%s: line %zu is no UTF-8", folder, name, line);
}

/* vocab.txt: token i is line i. */
static ll_status read_lines(json_t *vocab, const ll_bytes *text, const char *folder) {
    const char *line;
    size_t at = 0, n, i = 0;
    for (; next_line(text, &at, &line, &n); i++) {
        int refused;
        json_t *key = ll_json_string(line, n, &refused);
        const int whole = key && strlen(json_string_value(key)) == n;
        if (whole) refused = json_object_set_new(vocab, json_string_value(key), json_integer((json_int_t)i));
        json_decref(key);
        if (!whole || refused) return not_stored(refused, folder, "vocab.txt", i + 1);
    }
    return LL_OK;
}

/* merges.txt: a line for each, after one with its version. */
static ll_status read_merges(json_t *merges, const ll_bytes *text, const char *folder) {
    const char *line;
    size_t at = 0, n;
    for (size_t i = 1; next_line(text, &at, &line, &n); i++) {
        if (!n || (i == 1 && n > 8 && !memcmp(line, "#version", 8))) continue;
        int refused;
        json_t *merge = ll_json_string(line, n, &refused);
        if (merge) refused = json_array_append_new(merges, merge);
        if (!merge || refused) return not_stored(refused, folder, "merges.txt", i);
    }
    return LL_OK;
}

/* ---- Tokenizers made of them ---- */

/* A post-processor that puts these two around a text, where the vocabulary has both; else null. */
static json_t *around(const json_t *vocab, const char *first, const char *last) {
    const json_t *before = json_object_get(vocab, first), *after = json_object_get(vocab, last);
    if (!json_is_integer(before) || !json_is_integer(after)) return json_null();
    return json_pack("{s:s, s:[s,I], s:[s,I]}", "type", "BertProcessing", "cls", first, json_integer_value(before),
                     "sep", last, json_integer_value(after));
}

/* The token at an end of a text: its number, or NULL, and its text, which is `usual` where the config names none. */
static const json_t *end_of(const char **text, const json_t *vocab, const json_t *added, const json_t *config, int end,
                            const char *usual) {
    *text = ll_token_name(json_object_get(config, end ? "eos_token" : "bos_token"));
    if (!**text) *text = usual;
    const json_t *id = json_object_get(json_object_get(added, *text), "id");
    return id ? id : json_object_get(vocab, *text);
}

/* What tokenizer_config.json asks to put around a text. */
static ll_status around_asked(json_t **out, const json_t *vocab, const json_t *added, const json_t *config,
                              const char *const usual[2], const char *folder) {
    json_t *list = json_array(), *ids = json_object();
    const char *const keys[] = {"add_bos_token", "add_eos_token"}, *class = ll_part_text(config, "tokenizer_class", "");
    const int begins = strstr(class, "Llama") || strstr(class, "Gemma");
    int failed = !list || !ids;
    for (int end = 0; end < 2 && !failed; end++) {
        const char *text;
        json_t *id = (json_t *)end_of(&text, vocab, added, config, end, usual[end]);
        if (!id && ll_part_flag(config, keys[end], 0)) {
            json_decref(list);
            json_decref(ids);
            return ll_fail(LL_EINVAL, "%s/tokenizer_config.json has %s, and its tokenizer has no token \"%.60s\"",
                           folder, keys[end], text);
        }
        if (id && ll_part_flag(config, keys[end], begins && !end)) {
            failed |=
                json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0));
            failed |=
                json_object_set_new(ids, text, json_pack("{s:s, s:[O], s:[s]}", "id", text, "ids", id, "tokens", text));
        }
        if (!end)
            failed |= json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    }
    *out = json_object_size(ids) ? json_pack("{s:s, s:O, s:[], s:O}", "type", "TemplateProcessing", "single", list,
                                             "pair", "special_tokens", ids)
                                 : json_null();
    json_decref(list);
    json_decref(ids);
    return failed || !*out ? ll_folder_no_memory(folder) : LL_OK;
}

/* The classes of transformers whose vocab.json and merges.txt are read. Qwen2 has other words, and composes characters
 * first; RoBERTa and its like put <s> and </s> around every text. */
typedef struct {
    const char *class;
    int is_qwen2, encloses;
} byte_class;

/* That of the folder; NULL: another. Older folders name none. */
static const byte_class *class_of(const json_t *config) {
    static const byte_class known[] = {{"GPT2Tokenizer", 0, 0},       {"CodeGenTokenizer", 0, 0},
                                       {"Qwen2Tokenizer", 1, 0},      {"RobertaTokenizer", 0, 1},
                                       {"LongformerTokenizer", 0, 1}, {"BartTokenizer", 0, 1}};
    const char *usual = json_object_get(config, "add_bos_token") ? "GPT2Tokenizer" : "RobertaTokenizer";
    const char *class = ll_part_text(config, "tokenizer_class", usual);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].class);
        if (!strncmp(class, known[i].class, n) && (!class[n] || !strcmp(class + n, "Fast"))) return &known[i];
    }
    return NULL;
}

static json_t *byte_words(const byte_class *kind, const json_t *config) {
    static const char qwen2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                                " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                              ll_part_flag(config, "add_prefix_space", 0), "use_regex", !kind->is_qwen2);
    if (!kind->is_qwen2) return bytes;
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", qwen2, "behavior", "Isolated", "invert", 0, bytes);
}

static ll_status byte_level(json_t **out, json_t *vocab, json_t *merges, json_t *added, const json_t *config,
                            const char *folder) {
    static const char *const usual[] = {"<|endoftext|>", "<|endoftext|>"};
    const byte_class *kind = class_of(config);
    json_t *post = NULL;
    if (!kind)
        return ll_fail(LL_EINVAL,
                       "%s: its tokenizer is a %.60s, which is not read from vocab.json with merges.txt; save it as "
                       "tokenizer.json",
                       folder, ll_part_text(config, "tokenizer_class", ""));
    const ll_status status = kind->encloses ? LL_OK : around_asked(&post, vocab, added, config, usual, folder);
    if (status) {
        json_decref(post);
        return status;
    }
    if (kind->encloses) post = around(vocab, "<s>", "</s>");
    *out = json_pack("{s:o, s:o, s:o, s:{s:s}, s:o, s:{s:s, s:O, s:O}}", "added_tokens", ll_folder_token_list(added),
                     "normalizer", kind->is_qwen2 ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                     byte_words(kind, config), "decoder", "type", "ByteLevel", "post_processor", post, "model", "type",
                     "BPE", "vocab", vocab, "merges", merges);
    return *out ? LL_OK : ll_folder_no_memory(folder);
}

static json_t *wordpiece(json_t *vocab, json_t *added, const json_t *config) {
    const int lower = ll_part_flag(config, "do_lower_case", 1);
    return json_pack("{s:o, s:{s:s, s:b, s:b, s:b}, s:{s:s}, s:{s:s}, s:o, s:{s:s, s:O, s:s}}", "added_tokens",
                     ll_folder_token_list(added), "normalizer", "type", "BertNormalizer", "lowercase", lower,
                     "strip_accents", ll_part_flag(config, "strip_accents", lower), "handle_chinese_chars",
                     ll_part_flag(config, "tokenize_chinese_chars", 1), "pre_tokenizer", "type", "BertPreTokenizer",
                     "decoder", "type", "WordPiece", "post_processor", around(vocab, "[CLS]", "[SEP]"), "model", "type",
                     "WordPiece", "vocab", vocab, "unk_token", "[UNK]");
}

/* ESM-2's: every token is found as it stands, so that letters need no blanks between them, and get none. */
static json_t *letters(json_t *vocab, json_t *added) {
    const char *text;
    json_t *id;
    json_object_foreach(vocab, text, id) if (ll_folder_add_token(added, text, id, NULL)) return NULL;
    return json_pack("{s:o, s:n, s:{s:s}, s:{s:s}, s:o, s:{s:s, s:O, s:s}}", "added_tokens",
                     ll_folder_token_list(added), "normalizer", "pre_tokenizer", "type", "WhitespaceSplit", "decoder",
                     "type", "Fuse", "post_processor", around(vocab, "<cls>", "<eos>"), "model", "type", "WordLevel",
                     "vocab", vocab, "unk_token", "<unk>");
}

static ll_status dump(ll_bytes *out, const json_t *json) {
    const size_t size = json ? json_dumpb(json, NULL, 0, JSON_COMPACT) : 0;
    uint8_t *data = size ? ll_alloc(size + 1, 1) : NULL;
    if (!data) return ll_fail(LL_ENOMEM, "no memory for a tokenizer");
    *out = (ll_bytes){data, json_dumpb(json, (char *)data, size, JSON_COMPACT)};
    if (out->size == size) return LL_OK;
    ll_bytes_free(out);
    return ll_fail(LL_ENOMEM, "no memory for a tokenizer of %zu bytes", size);
}

/* CLIP and others have tokens of the end of a word, as "n</w>", and text that is no bytes. A byte-level vocabulary has
 * such a text only by chance, and no merge with it on the right. */
static ll_status check_merges(const json_t *merges, const char *folder) {
    static const char mark[] = "</w>";
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const char *right = strchr(json_string_value(json_array_get(merges, i)), ' ');
        const size_t n = right ? strlen(right + 1) : 0;
        if (n >= sizeof mark && !strcmp(right + 1 + n + 1 - sizeof mark, mark))
            return ll_fail(LL_EINVAL,
                           "%s: its tokenizer marks the ends of words (%s), which is not read from vocab.json with "
                           "merges.txt; merges of bytes are, as GPT-2 has them",
                           folder, right + 1);
    }
    return LL_OK;
}

/* From vocab.json and merges.txt, or from vocab.txt. */
static ll_status compose(ll_bytes *out, const char *folder, const ll_bytes *lines, const ll_bytes *merges) {
    json_t *config = NULL, *vocab = NULL, *added = json_object(), *list = json_array(), *json = NULL;
    const int fine = added && list && (merges->data || (vocab = json_object()));
    ll_status status = fine ? ll_folder_json(&config, folder, "tokenizer_config.json") : ll_folder_no_memory(folder);
    if (!status)
        status = merges->data ? ll_folder_json(&vocab, folder, "vocab.json") : read_lines(vocab, lines, folder);
    if (!status && merges->data) status = read_merges(list, merges, folder);
    if (!status) status = check_merges(list, folder);
    if (!status) status = ll_folder_tokens(added, vocab, config, folder);
    if (!status) status = ll_folder_usual_tokens(added, vocab);
    if (!status && merges->data)
        status = byte_level(&json, vocab, list, added, config, folder);
    else if (!status)
        json = json_object_get(vocab, "[UNK]") ? wordpiece(vocab, added, config) : letters(vocab, added);
    if (!status) status = dump(out, json);
    json_decref(json);
    json_decref(config);
    json_decref(vocab);
    json_decref(added);
    json_decref(list);
    return status;
}

/* ---- From tokenizer.model ---- */

/* A vocabulary of pieces, and its added tokens, by their texts. */
static int by_text(json_t *vocab, json_t *added, const json_t *json) {
    const json_t *tokens = json_object_get(json, "added_tokens");
    json_t *pieces = json_object_get(json_object_get(json, "model"), "vocab");
    int failed = json_is_object(pieces) && json_object_update(vocab, pieces);
    for (size_t i = 0; i < json_array_size(pieces); i++)
        failed |= json_object_set_new(vocab, json_string_value(json_array_get(json_array_get(pieces, i), 0)),
                                      json_integer((json_int_t)i));
    for (size_t i = 0; i < json_array_size(tokens); i++)
        failed |= json_object_set(added, ll_token_name(json_array_get(tokens, i)), json_array_get(tokens, i));
    return !failed;
}

static ll_status compose_pieces(ll_bytes *out, const char *folder, const ll_bytes *file) {
    static const char *const usual[] = {"<s>", "</s>"};
    json_t *config = NULL, *json = NULL, *around = NULL, *vocab = json_object(), *added = json_object();
    ll_status status =
        vocab && added ? ll_folder_json(&config, folder, "tokenizer_config.json") : ll_folder_no_memory(folder);
    if (!status) status = ll_sentencepiece_compose(&json, file, folder);
    if (!status && !by_text(vocab, added, json)) status = ll_folder_no_memory(folder);
    if (!status) status = ll_folder_tokens(added, vocab, config, folder);
    if (!status) status = around_asked(&around, vocab, added, config, usual, folder);
    if (!status && (json_object_set_new(json, "added_tokens", ll_folder_token_list(added)) ||
                    json_object_set(json, "post_processor", around)))
        status = ll_folder_no_memory(folder);
    if (!status) status = dump(out, json);
    json_decref(json);
    json_decref(config);
    json_decref(around);
    json_decref(vocab);
    json_decref(added);
    return status;
}

/* A file of a tokenizer that is made of a folder's files. */
static ll_status check_file(const char *path) {
    static const char *const parts[] = {"tokenizer.model", "vocab.txt", "vocab.json", "merges.txt"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(name, parts[i]))
            return ll_fail(LL_EINVAL, "%s is a part of a tokenizer; name its folder, %.*s", path,
                           slash && slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    return LL_OK;
}

/* A file of SentencePiece by another name: its first field is a piece, whose first field is a text. */
static ll_status check_pieces(const ll_bytes *file, const char *path) {
    const uint8_t *data = file->data;
    if (file->size < 4 || data[0] != '\n' || data[2] != '\n' || strchr(" \t\r\n", data[1])) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "%s is no tokenizer.json, but a file of SentencePiece; put it into a folder as "
                   "tokenizer.model, and name the folder",
                   path);
}

ll_status ll_subwords_find(ll_bytes *json, const char *path) {
    ll_bytes merges = {0}, vocab = {0}, lines = {0}, sentences = {0};
    *json = (ll_bytes){0};
    if (!ll_is_folder(path)) {
        ll_status status = check_file(path);
        if (!status) status = ll_file_read(json, path, LL_TOKENIZER_MOST);
        if (!status) status = check_pieces(json, path);
        if (status) ll_bytes_free(json);
        return status;
    }
    ll_status status = ll_folder_file(json, path, "tokenizer.json");
    if (status || json->data) return status;
    status = ll_folder_file(&merges, path, "merges.txt");
    if (!status) status = ll_folder_file(&vocab, path, "vocab.json");
    if (!status) status = ll_folder_file(&lines, path, "vocab.txt");
    if (!status && (merges.data || vocab.data) && !(merges.data && vocab.data))
        status = ll_fail(LL_EINVAL, "%s has only one of vocab.json and merges.txt, which belong together", path);
    if (!status && (merges.data || lines.data)) {
        status = compose(json, path, &lines, &merges);
    } else if (!status) {
        status = ll_folder_file(&sentences, path, "tokenizer.model");
        if (!status && sentences.data) status = compose_pieces(json, path, &sentences);
    }
    ll_bytes_free(&merges);
    ll_bytes_free(&vocab);
    ll_bytes_free(&lines);
    ll_bytes_free(&sentences);
    return status;
}

ll_status ll_subwords_number(int *number, const char *path, const char *token) {
    ll_bytes bytes = {0};
    json_t *json = NULL;
    ll_status status = ll_subwords_find(&bytes, path);
    if (!status && bytes.data) status = ll_part_load(&json, &bytes, path);
    const json_t *found = json_object_get(json_object_get(json_object_get(json, "model"), "vocab"), token);
    const json_int_t n = json_is_integer(found) ? json_integer_value(found) : -1;
    *number = n >= 0 && n <= INT_MAX ? (int)n : -1;
    json_decref(json);
    ll_bytes_free(&bytes);
    return status;
}
