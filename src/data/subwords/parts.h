/* The parts of a tokenizer, each in a file of its own: read from a JSON object once, then applied to texts. */
#ifndef LL_PARTS_H
#define LL_PARTS_H

#include <jansson.h>

#include "data/subwords/subwords.h"
#include "data/subwords/trie.h"
#include "data/subwords/unicode.h"

/* Tokens that grow. */
typedef struct {
    int32_t *at;
    size_t n, capacity;
} ll_tokens;
LL_MUST_USE ll_status ll_tokens_add(ll_tokens *t, int32_t token);

/* Words: text, and where each of them ends. */
typedef struct {
    ll_grown text;
    size_t *end;
    size_t n, capacity;
} ll_word_list;
/* Adds a word; none where it is empty. */
LL_MUST_USE ll_status ll_word_add(ll_word_list *w, const uint8_t *word, size_t n);
void ll_word_list_free(ll_word_list *w);

/* ---- json_part.c: what parts read ---- */

/* The object of a tokenizer.json. */
LL_MUST_USE ll_status ll_part_load(json_t **json, const ll_bytes *bytes, const char *name);

/* The "type" of a part, "" where it has none or is null. */
const char *ll_part_type(const json_t *part);
/* A text or a flag of a part; `fallback` where it is missing or null. */
const char *ll_part_text(const json_t *part, const char *key, const char *fallback);
int ll_part_flag(const json_t *part, const char *key, int fallback);
/* The parts of a Sequence under `key`, or the part itself; NULL past the last. */
const json_t *ll_part_at(const json_t *part, const char *key, size_t i);
LL_MUST_USE ll_status ll_part_unknown(const char *name, const char *what, const json_t *part);
/* A pattern is {"String": ".."} or {"Regex": ".."}: which of them, and its text. */
LL_MUST_USE ll_status ll_part_pattern(const json_t *part, const char *name, int *regex, const char **text);
/* What a Metaspace writes for a blank. */
LL_MUST_USE ll_status ll_part_metaspace(const json_t *part, const char *name, const char **text);
/* Base 64 into bytes. */
LL_MUST_USE ll_status ll_part_base64(ll_grown *out, const char *text, const char *name);

/* ---- normalizer.c ---- */

typedef struct ll_normalizer ll_normalizer;
/* part may be null: the normalizer then changes nothing. */
LL_MUST_USE ll_status ll_normalizer_create(ll_normalizer **out, const json_t *part, const char *name);
void ll_normalizer_free(ll_normalizer *n);
/* Adds the normalised text to out. LL_EINVAL where a step makes more than `most` bytes of it. */
LL_MUST_USE ll_status ll_normalize(const ll_normalizer *n, ll_grown *out, const uint8_t *text, size_t size,
                                   size_t most);
/* Adds the text with `to` in place of each `from`, which is not empty. */
LL_MUST_USE ll_status ll_add_replaced(ll_grown *out, const uint8_t *text, size_t n, const ll_grown *from,
                                      const ll_grown *to);

/* ---- bert_normalizer.c, charsmap.c: two of its steps ---- */

typedef struct {
    int clean, chinese, accents, lower;
} ll_bert_rules;
LL_MUST_USE ll_status ll_bert_normalize(const ll_bert_rules *rules, ll_grown *out, const uint8_t *text, size_t n);
/* Without nonspacing marks (BERT), or without all marks. */
LL_MUST_USE ll_status ll_strip_marks(ll_grown *out, const uint8_t *text, size_t n, int all);
LL_MUST_USE ll_status ll_lower_all(ll_grown *out, const uint8_t *text, size_t n);
/* A map of SentencePiece: the size of a double-array trie, its units, and texts that its values point into. */
LL_MUST_USE ll_status ll_charsmap_check(const ll_grown *map, const char *name);
LL_MUST_USE ll_status ll_charsmap_apply(const ll_grown *map, ll_grown *out, const uint8_t *text, size_t n);

/* ---- pretokenizer.c ---- */

typedef struct ll_pretokenizer ll_pretokenizer;
LL_MUST_USE ll_status ll_pretokenizer_create(ll_pretokenizer **out, const json_t *part, const char *name);
void ll_pretokenizer_free(ll_pretokenizer *p);
/* Adds the words of a text. first: nothing of the whole text comes before it. */
LL_MUST_USE ll_status ll_pretokenize(const ll_pretokenizer *p, ll_word_list *words, const uint8_t *text, size_t n,
                                     int first);
/* Are words bytes, which the vocabulary writes as characters (byte-level BPE of GPT-2)? */
int ll_pretokenizer_is_bytes(const ll_pretokenizer *p);

/* ---- bpe.c, unigram.c, wordpiece.c: models, which cut words into tokens ---- */

/* A vocabulary, as models see it. */
typedef struct {
    ll_trie trie;            /* texts, as bytes */
    int32_t byte_token[256]; /* <0x00> .. <0xFF>, or -1 */
    int unknown;             /* -1: none */
    int bytes;               /* texts are bytes, not characters */
    int fuse_unknown;        /* unknown ones in a row are one */
    const char *name;        /* while it is read */
} ll_vocab;

/* What a token stands for. */
typedef struct {
    uint8_t *at; /* NULL: the number is of no token */
    size_t n;
    int added;
} ll_token_text;
typedef struct {
    ll_token_text *text;
    int count, capacity;
} ll_token_texts;

/* vocabulary.c: from the whole tokenizer.json; v->bytes is set. Texts are first those of the vocabulary, and then, by
 * the decoder, what they stand for. */
LL_MUST_USE ll_status ll_vocab_read(ll_vocab *v, ll_token_texts *t, const json_t *json, const char *name);
LL_MUST_USE ll_status ll_token_texts_decode(ll_token_texts *t, const json_t *json, const ll_vocab *v, const char *name);
void ll_token_texts_free(ll_token_texts *t);

typedef struct ll_bpe ll_bpe;
LL_MUST_USE ll_status ll_bpe_create(ll_bpe **out, const json_t *model, const ll_vocab *v);
void ll_bpe_free(ll_bpe *b);
LL_MUST_USE ll_status ll_bpe_encode(const ll_bpe *b, const ll_vocab *v, ll_tokens *out, const uint8_t *word, size_t n);

typedef struct ll_wordpiece ll_wordpiece;
LL_MUST_USE ll_status ll_wordpiece_create(ll_wordpiece **out, const json_t *model, const ll_vocab *v);
void ll_wordpiece_free(ll_wordpiece *w);
LL_MUST_USE ll_status ll_wordpiece_encode(const ll_wordpiece *w, const ll_vocab *v, ll_tokens *out,
                                          const uint8_t *word, size_t n);

typedef struct ll_unigram_model ll_unigram_model;
LL_MUST_USE ll_status ll_unigram_create(ll_unigram_model **out, const json_t *model, const ll_vocab *v);
void ll_unigram_free(ll_unigram_model *u);
LL_MUST_USE ll_status ll_unigram_encode(const ll_unigram_model *u, const ll_vocab *v, ll_tokens *out,
                                        const uint8_t *word, size_t n);
/* One character that has no token: its bytes, or what is unknown. */
LL_MUST_USE ll_status ll_add_unknown(const ll_vocab *v, ll_tokens *out, const uint8_t *c, size_t n);

/* ---- byte_level.c: the 256 characters that GPT-2's vocabulary writes bytes as ---- */

/* Adds the bytes that a text of such characters stands for; 0 and nothing added where it has another. */
LL_MUST_USE ll_status ll_from_byte_level(ll_grown *out, const char *text, int *all);

/* ---- added_tokens.c ---- */

typedef struct ll_added_tokens ll_added_tokens;
/* From the list "added_tokens". Texts of those that are matched after normalising are normalised. */
LL_MUST_USE ll_status ll_added_tokens_create(ll_added_tokens **out, const json_t *list, const ll_normalizer *n,
                                             const char *name);
void ll_added_tokens_free(ll_added_tokens *a);
/* The added token that is called [MASK] or <mask>; -1: none. */
int ll_added_token_mask(const ll_added_tokens *a);
/* The first added token in text[from, n), as found in raw (normalised = 0) or in normalised text; -1: none. It takes
 * text[*begin, *end). */
int ll_added_token_next(const ll_added_tokens *a, int normalised, const uint8_t *text, size_t n, size_t from,
                        size_t *begin, size_t *end);

/* ---- post_processor.c: tokens that go before and after a text ---- */

typedef struct {
    ll_tokens before, after;
} ll_post_processor;
LL_MUST_USE ll_status ll_post_processor_read(ll_post_processor *p, const json_t *part, const char *name);

#endif
