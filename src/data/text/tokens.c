/* Text of words, or of pieces of words: files as in bytes.c, read as tokens of a vocabulary. The vocabulary is made
 * from the train split, or read from data.tokenizer (subwords), unless a model brings its own.
 *
 * Words stay in their file: one pass counts them and leaves marks, and a window is read from there. Pieces are all
 * made when the file is opened, because the pieces of a word are not found by looking at single bytes. A large text is
 * cut into blocks for that, and its tokens are in a temporary file (base/spill.h). */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/text/text_reader.h"
#include "data/text/tokenizer.h"
#include "data/text/words.h"

/* The vocabulary of the train split, without the text that is held out. */
static ll_status make_vocabulary(ll_bytes *vocabulary, const ll_reader_options *c) {
    ll_source from = {0};
    ll_bytes text = {0};
    int64_t first = 0, count = 0;
    if (c->data.format == LL_DATA_SUBWORDS) return ll_tokenizer_vocabulary(vocabulary, &c->data, NULL);
    ll_status status = ll_split_source(&from, c, LL_SPLIT_TRAIN, 0);
    if (!status) status = ll_text_take(&text, from.path);
    if (status) return from.key ? ll_fail_in(status, from.key) : status;
    ll_split_range(&first, &count, c, LL_SPLIT_TRAIN, (int64_t)text.size);
    status = ll_tokenizer_vocabulary(vocabulary, &c->data, &(ll_bytes){text.data, (size_t)count, text.mapped});
    ll_bytes_free(&text);
    return status;
}

/* The text is split by bytes, so that other vocabularies see the same split. A word that is cut belongs to both
 * parts. */
static ll_status open_text(ll_bytes *split_text, ll_reader *r, const ll_reader_options *c, int split,
                           const char **name) {
    ll_source from = {0};
    int64_t first = 0, count = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status && !r->vocabulary.data) status = make_vocabulary(&r->vocabulary, c);
    if (status) return status;
    status = ll_text_take(&r->file[0], from.path);
    if (status) return ll_fail_in(status, from.key);
    ll_split_range(&first, &count, c, split, (int64_t)r->file[0].size);
    *split_text = (ll_bytes){r->file[0].data + first, (size_t)count, r->file[0].mapped};
    *name = from.path;
    return LL_OK;
}

/* What errors call a vocabulary: the file that it was made from, unless a model brings it. */
static const char *origin_of(const ll_reader *r, const ll_reader_options *c) {
    if (r->vocabulary.data) return "the model";
    return c->data.format == LL_DATA_SUBWORDS ? c->data.tokenizer : c->data.train;
}

/* One that was made of a text is only wrong if the text changed meanwhile, which one that is mapped can. */
static ll_status explain(ll_status status, const ll_reader_options *c, const char *origin) {
    if (status != LL_EFORMAT || origin != c->data.train) return status;
    return ll_fail(status, "%s; the file changed while it was read", ll_error());
}

/* ---- Pieces ---- */

enum { BLOCK = 1 << 22 };

static int is_inside(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* The first character c from data[from] on that is between two words, or else the first one; `to` where there is none.
 */
static size_t find_between(const uint8_t *data, size_t from, size_t to, char c) {
    size_t any = to;
    for (const uint8_t *p = data + from; (p = memchr(p, c, (size_t)(data + to - p))); p++) {
        if (any == to) any = (size_t)(p - data);
        if (p + 1 == data + to) break;
        if (is_inside(p[-1]) && is_inside(p[1])) return (size_t)(p - data);
    }
    return any;
}

/* Where a text that is longer than a block is cut: before a line end, or else a blank, if possible one between two
 * words. There the tokens of two blocks are those of both together, unless a tokenizer puts a blank before each text.
 * Where the second half has neither, the next line end is the cut, and a text without one is one block. */
static size_t word_end(const ll_bytes *text, size_t at) {
    const size_t from = at + BLOCK, left = text->size - from, to = from + ll_min_size(left, BLOCK);
    size_t end = find_between(text->data, from, to, '\n');
    if (end == to) end = find_between(text->data, from, to, ' ');
    if (end < to || to == text->size) return end;
    const uint8_t *later = memchr(text->data + to, '\n', text->size - to);
    return later ? (size_t)(later - text->data) : text->size;
}

/* A block never goes on behind the zero byte between two files: some tokenizers leave that byte out, so that words on
 * both sides of it would become one. */
static size_t end_of_block(const ll_bytes *text, size_t at) {
    const uint8_t *const begin = text->data + at, *between = NULL;
    const size_t left = text->size - at;
    if (left > BLOCK) between = memchr(begin, 0, BLOCK);
    const size_t end = between || left <= BLOCK ? text->size : word_end(text, at);
    if (!between) between = memchr(begin, 0, end - at);
    return between ? (size_t)(between + 1 - text->data) : end;
}

static ll_status encode(ll_bytes *tokens, const ll_tokenizer *tokenizer, const ll_bytes *text, const char *name) {
    ll_spill all = {.name = name};
    ll_status status = LL_OK;
    for (size_t at = 0, end = 0, left = 0; !status && at < text->size; at = end) {
        int *some = NULL;
        size_t count = 0;
        end = end_of_block(text, at);
        status = ll_tokenizer_encode(tokenizer, text->data + at, end - at, &some, &count);
        if (!status) status = ll_spill_add(&all, some, count * sizeof *some);
        ll_free(some);
        ll_bytes_pass(text, end, &left);
    }
    if (!status) status = ll_spill_end(&all, tokens);
    ll_spill_free(&all);
    return status;
}

/* A model without a token after those of its tokenizer has the tokenizer's mask, as imported models do. */
static int choose_mask(const ll_tokenizer *tokenizer, const ll_reader_options *c) {
    return c->vocab > 0 && c->vocab <= ll_tokenizer_vocab(tokenizer) ? ll_tokenizer_mask(tokenizer) : -1;
}

static ll_status open_tokens(ll_reader *r, const ll_reader_options *c, int split) {
    ll_text_windows *own = r->own;
    ll_tokenizer *tokenizer = NULL;
    ll_bytes text = {0};
    const char *name = NULL, *origin = origin_of(r, c);
    ll_status status = open_text(&text, r, c, split, &name);
    if (!status)
        status = explain(ll_tokenizer_create_from(&tokenizer, &c->data, &r->vocabulary, origin), c, origin);
    if (!status) status = encode(&own->tokens, tokenizer, &text, name);
    if (!status) r->vocab = ll_tokenizer_vocab(tokenizer);
    if (!status) r->mask = choose_mask(tokenizer, c);
    ll_tokenizer_free(tokenizer);
    if (status) return status;
    own->words = ll_count_words(&text);
    own->bytes = (int64_t)text.size;
    ll_bytes_free(&r->file[0]);
    return ll_text_use(r, c, split, name, NULL, (int64_t)(own->tokens.size / sizeof(int32_t)));
}

/* ---- Words ---- */

typedef struct {
    ll_text_windows text;
    ll_words *words;
    const uint8_t *data; /* text.bytes of them */
} words;

static ll_status pass(ll_marks *marks, ll_mark *at, const ll_bytes *text) {
    const uint8_t *found;
    size_t n, byte = 0, left = 0;
    const ll_status status = ll_marks_create(marks, (int64_t)text->size, 0);
    if (status) return status;
    do {
        at->byte = (int64_t)byte;
        ll_marks_pass(marks, at);
        ll_bytes_pass(text, byte, &left);
    } while (ll_word_next(&found, &n, text->data, text->size, &byte) && ++at->token);
    return LL_OK;
}

static void scan(const ll_reader *r, ll_text_cursor *at, int64_t until, int next_text, int *out) {
    words *own = r->own;
    size_t byte = (size_t)at->byte;
    (void)next_text; /* the words are one text */
    at->token += ll_words_read(own->words, own->data, (size_t)own->text.bytes, &byte, until - at->token, out);
    ll_bytes_touch(&r->file[0], byte - (size_t)at->byte, &own->text.touched);
    at->byte = (int64_t)byte;
}

static ll_status open_words(ll_reader *r, const ll_reader_options *c, int split) {
    words *own = r->own;
    ll_bytes text = {0};
    ll_mark end = {0};
    const char *name = NULL, *origin = origin_of(r, c);
    ll_status status = open_text(&text, r, c, split, &name);
    if (!status) status = explain(ll_words_create(&own->words, &r->vocabulary, origin), c, origin);
    if (!status) status = pass(&own->text.marks, &end, &text);
    if (status) return status;
    ll_bytes_leave(&r->file[0]);
    r->vocab = ll_words_count(own->words);
    own->text.scan = scan;
    own->data = text.data;
    own->text.words = end.token;
    own->text.bytes = (int64_t)text.size;
    return ll_text_use(r, c, split, name, NULL, end.token);
}

static void close_words(const ll_reader *r) {
    const words *own = r->own;
    ll_words_free(own->words);
    ll_text_close(r);
}

const ll_format ll_format_words = {
    "words", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_words, ll_text_fill, sizeof(words), close_words,
    .unit = "word", .cut = LL_CUT_LINE, .baseline = 1};
const ll_format ll_format_subwords = {
    "subwords", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_tokens, ll_text_fill, sizeof(ll_text_windows),
    ll_text_close, .unit = "token"};
const ll_format ll_format_pieces = {
    "pieces", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_tokens, ll_text_fill, sizeof(ll_text_windows), ll_text_close,
    .unit = "piece", .cut = LL_CUT_LINE};
