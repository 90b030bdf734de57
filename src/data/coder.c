/* One coder a format: what differs is a row of a table. */
#include "data/coder.h"

#include <string.h>

#include "base/memory.h"
#include "data/fasta.h"
#include "data/pieces.h"

struct ll_coder {
    int format;
    ll_words *words;
    ll_pieces *pieces;
    char byte;
};

ll_status ll_coder_vocabulary(ll_bytes *vocabulary, const ll_config *c, const uint8_t *text, size_t size) {
    if (c->format == LL_DATA_PIECES) return ll_pieces_train(vocabulary, text, size, c->vocab_size);
    if (c->format != LL_DATA_WORDS) return LL_OK;
    return ll_words_list(vocabulary, text, size, c->min_count, c->vocab_size);
}

ll_status ll_coder_create(ll_coder **coder, const ll_config *c, const ll_bytes *vocabulary, const char *name) {
    ll_coder *o = ll_alloc(1, sizeof *o);
    if (!o) return LL_ENOMEM;
    o->format = c->format;
    ll_status status = LL_OK;
    if (c->format == LL_DATA_WORDS) status = ll_words_create(&o->words, vocabulary, name);
    if (c->format == LL_DATA_PIECES) status = ll_pieces_create(&o->pieces, vocabulary, name);
    if (status) {
        ll_coder_free(o);
        return status;
    }
    *coder = o;
    return LL_OK;
}

void ll_coder_free(ll_coder *o) {
    if (!o) return;
    ll_words_free(o->words);
    ll_pieces_free(o->pieces);
    ll_free(o);
}

int ll_coder_vocab(const ll_coder *o) {
    if (o->words) return ll_words_count(o->words);
    if (o->pieces) return ll_pieces_count(o->pieces);
    return o->format == LL_DATA_FASTA ? LL_FASTA_VOCAB : 256;
}

ll_status ll_coder_encode(const ll_coder *o, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    if (o->words) return ll_words_encode(o->words, text, size, tokens, count);
    if (o->pieces) return ll_pieces_encode(o->pieces, text, size, tokens, count);
    int32_t *out = ll_alloc(size, sizeof *out);
    if (!out) return LL_ENOMEM;
    for (size_t i = 0; i < size; i++) {
        out[i] = o->format == LL_DATA_FASTA ? ll_fasta_token(text[i]) : text[i];
        if (!out[i] && o->format == LL_DATA_FASTA && text[i] != '\n') {
            ll_free(out);
            return ll_fail(LL_EINVAL, "byte 0x%02x at position %zu is no letter of a protein", text[i], i);
        }
    }
    *tokens = out;
    *count = (int64_t)size;
    return LL_OK;
}

const char *ll_coder_text(ll_coder *o, int token, size_t *size) {
    if (o->words) return ll_words_text(o->words, token, size);
    if (o->pieces) return ll_pieces_text(o->pieces, token, size);
    o->byte = (char)(o->format == LL_DATA_FASTA ? ll_fasta_letter(token) : token);
    *size = 1;
    return &o->byte;
}
