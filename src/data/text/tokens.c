/* Text of words, or of pieces of words: files as in bytes.c, read as tokens of a vocabulary. The vocabulary is made
 * from the train split, or read from data.tokenizer (subwords), unless a model brings its own. */
#include <string.h>

#include "base/memory.h"
#include "data/text/coder.h"
#include "data/text/text_reader.h"

/* The vocabulary of the train split, without the text that is held out. */
static ll_status make_vocabulary(ll_bytes *vocabulary, const ll_reader_options *c) {
    ll_source from = {0};
    ll_bytes text = {0};
    int64_t first = 0, count = 0;
    if (c->data.format == LL_DATA_SUBWORDS) return ll_coder_vocabulary(vocabulary, &c->data, NULL, 0);
    ll_status status = ll_split_source(&from, c, LL_SPLIT_TRAIN, 0);
    if (!status) status = ll_files_read(&text, from.path);
    if (status) return from.key ? ll_fail_in(status, from.key) : status;
    ll_split_range(&first, &count, c, LL_SPLIT_TRAIN, (int64_t)text.size);
    status = ll_coder_vocabulary(vocabulary, &c->data, text.data, (size_t)count);
    ll_bytes_free(&text);
    return status;
}

static ll_status read_tokens(ll_reader *r, const ll_reader_options *c, const ll_bytes *text) {
    ll_coder *coder = NULL;
    ll_text_windows *own = r->own;
    ll_status status = ll_coder_create(&coder, &c->data, &r->vocabulary, "the model");
    if (!status) status = ll_coder_encode(coder, text->data, text->size, &own->tokens, &r->size);
    if (!status) r->vocab = ll_coder_vocab(coder);
    ll_coder_free(coder);
    return status;
}

/* The text is split by bytes, so that other vocabularies see the same split. A word that is cut belongs to both
 * parts. */
static ll_status open_tokens(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_bytes *text = &r->file[0];
    int64_t first = 0, count = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status && !r->vocabulary.data) status = make_vocabulary(&r->vocabulary, c);
    if (status) return status;
    status = ll_files_read(text, from.path);
    if (status) return ll_fail_in(status, from.key);
    ll_split_range(&first, &count, c, split, (int64_t)text->size);
    if (first > 0 || (size_t)count < text->size) status = ll_bytes_keep(text, first, count);
    if (!status) status = read_tokens(r, c, text);
    if (status) return status;
    ll_text_windows *own = r->own;
    own->words = ll_count_words(text->data, text->size);
    own->bytes = (int64_t)text->size;
    ll_bytes_free(text);
    return ll_text_use(r, c, split, from.path, NULL, r->size);
}

const ll_format ll_format_words = {
    "words", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_tokens, ll_text_fill, sizeof(ll_text_windows), ll_text_close};
const ll_format ll_format_subwords = {
    "subwords",   1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_tokens, ll_text_fill, sizeof(ll_text_windows),
    ll_text_close};
const ll_format ll_format_pieces = {
    "pieces", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_tokens, ll_text_fill, sizeof(ll_text_windows), ll_text_close};
