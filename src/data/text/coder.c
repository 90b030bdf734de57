/* One coder for all formats. A format with a vocabulary has its own object here; the others differ in a few lines. */
#include "data/text/coder.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/sequence/fasta.h"
#include "data/synthetic/listops.h"
#include "data/music/score.h"
#include "data/subwords/tokenizer_files.h"
#include "data/subwords/subwords.h"
#include "data/text/pieces.h"
#include "data/text/words.h"

struct ll_coder {
    int format, fine;
    ll_words *words;
    ll_pieces *pieces;
    ll_subwords *subwords;
    char text[32]; /* longest text of one token */
};

static ll_status find_tokenizer(ll_bytes *vocabulary, const char *path) {
    if (!path || !*path)
        return ll_fail(LL_EINVAL,
                       "data.format=subwords needs a tokenizer: data.tokenizer, or train.from with a model that "
                       "has one");
    const ll_status status = ll_subwords_find(vocabulary, path);
    if (!status && !vocabulary->data)
        return ll_fail(LL_EINVAL,
                       "data.tokenizer = %s has no tokenizer.json, no vocab.txt, no tokenizer.model, and no "
                       "vocab.json with merges.txt",
                       path);
    return status ? ll_fail_in(status, "data.tokenizer") : LL_OK;
}

ll_status ll_coder_vocabulary(ll_bytes *vocabulary, const ll_data_options *c, const ll_bytes *text) {
    if (c->format == LL_DATA_PIECES) return ll_pieces_train(vocabulary, text, c->vocab_size, LL_PIECES_MOST);
    if (c->format == LL_DATA_MIDI) return ll_music_vocabulary(vocabulary, c->fine);
    if (c->format == LL_DATA_SUBWORDS) return find_tokenizer(vocabulary, c->tokenizer);
    if (c->format != LL_DATA_WORDS) return LL_OK;
    return ll_words_list(vocabulary, text, c->min_count, c->vocab_size, LL_WORDS_TOGETHER);
}

/* The events of music are the same in all models with this grid. */
static ll_status check_music(const ll_bytes *vocabulary, int fine, const char *name) {
    ll_bytes list = {0};
    const ll_status status = ll_music_vocabulary(&list, fine);
    if (status) return status;
    const int same = list.size == vocabulary->size && !memcmp(list.data, vocabulary->data, list.size);
    ll_bytes_free(&list);
    if (same) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: its vocabulary is not that of the events of music on its data.grid", name);
}

ll_status ll_coder_create(ll_coder **coder, const ll_data_options *c, const ll_bytes *vocabulary, const char *name) {
    ll_coder *o = ll_alloc(1, sizeof *o);
    if (!o) return LL_ENOMEM;
    o->format = c->format;
    o->fine = c->fine;
    ll_status status = LL_OK;
    if (c->format == LL_DATA_WORDS) status = ll_words_create(&o->words, vocabulary, name);
    if (c->format == LL_DATA_PIECES) status = ll_pieces_create(&o->pieces, vocabulary, name);
    if (c->format == LL_DATA_SUBWORDS) status = ll_subwords_create(&o->subwords, vocabulary, name);
    if (c->format == LL_DATA_MIDI) status = check_music(vocabulary, c->fine, name);
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
    ll_subwords_free(o->subwords);
    ll_free(o);
}

int ll_coder_vocab(const ll_coder *o) {
    if (o->words) return ll_words_count(o->words);
    if (o->pieces) return ll_pieces_count(o->pieces);
    if (o->subwords) return ll_subwords_count(o->subwords);
    switch (o->format) {
    case LL_DATA_FASTA: return LL_FASTA_VOCAB;
    case LL_DATA_LISTOPS: return LL_LISTOPS_VOCAB;
    case LL_DATA_MIDI: return ll_music_vocab(o->fine);
    default: return 256;
    }
}

int ll_coder_is_music(const ll_coder *o) {
    return o->format == LL_DATA_MIDI;
}

/* The tokens of an expression overwrite its text. */
static ll_status encode_listops(uint8_t *text, size_t size, int32_t *out, int64_t *count) {
    const size_t n = ll_listops_tokens(text, size);
    if (size && !n) return ll_fail(LL_EINVAL, "this is not an expression of MIN, MAX, MED and SM over digits");
    for (size_t i = 0; i < n; i++) out[i] = text[i];
    *count = (int64_t)n;
    return LL_OK;
}

static ll_status encode_bytes(const ll_coder *o, const uint8_t *text, size_t size, int32_t *out) {
    for (size_t i = 0; i < size; i++) {
        out[i] = o->format == LL_DATA_FASTA ? ll_fasta_token(text[i]) : text[i];
        if (!out[i] && o->format == LL_DATA_FASTA && text[i] != '\n')
            return ll_fail(LL_EINVAL, "byte 0x%02x at position %zu is not a letter of a protein%s", text[i], i,
                           text[i] == '>' ? "; leave out the header line" : "");
    }
    return LL_OK;
}

ll_status ll_coder_encode(const ll_coder *o, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    if (o->words) return ll_words_encode(o->words, text, size, tokens, count);
    if (o->pieces) return ll_pieces_encode(o->pieces, text, size, tokens, count);
    if (o->subwords) return ll_subwords_encode(o->subwords, text, size, tokens, count);
    if (o->format == LL_DATA_MIDI) return ll_music_tokens(tokens, count, text, size, o->fine, "the text");
    int32_t *out = ll_alloc(size, sizeof *out);
    uint8_t *own = o->format == LL_DATA_LISTOPS ? ll_alloc(size, 1) : NULL;
    ll_status status = out && (own || o->format != LL_DATA_LISTOPS) ? LL_OK : LL_ENOMEM;
    *count = (int64_t)size;
    if (!status && own) {
        if (size) memcpy(own, text, size);
        status = encode_listops(own, size, out, count);
    } else if (!status) {
        status = encode_bytes(o, text, size, out);
    }
    ll_free(own);
    if (status)
        ll_free(out);
    else
        *tokens = out;
    return status;
}

/* Each bar begins a line; an empty line comes before each piece. */
static const char *music_text(ll_coder *o, int token, size_t *size) {
    const char *before = token == LL_MUSIC_PIECE ? "\n\n" : token == LL_MUSIC_BAR ? "\n" : " ";
    char word[LL_MUSIC_WORD];
    ll_music_word(word, token);
    *size = (size_t)snprintf(o->text, sizeof o->text, "%s%s", before, word);
    return o->text;
}

const char *ll_coder_text(ll_coder *o, int token, size_t *size) {
    if (o->words) return ll_words_text(o->words, token, size);
    if (o->pieces) return ll_pieces_text(o->pieces, token, size);
    if (o->subwords) return ll_subwords_text(o->subwords, token, size);
    *size = 1;
    if (o->format == LL_DATA_MIDI) return music_text(o, token, size);
    if (o->format == LL_DATA_LISTOPS) {
        const char *word = ll_listops_word(token);
        *size = (size_t)snprintf(o->text, sizeof o->text, "%s ", word);
        return o->text;
    }
    o->text[0] = (char)(o->format == LL_DATA_FASTA ? ll_fasta_letter(token) : token);
    return o->text;
}

const int32_t *ll_coder_around(const ll_coder *o, int end, size_t *count) {
    *count = 0;
    return o->subwords ? ll_subwords_around(o->subwords, end, count) : NULL;
}

int ll_coder_mask(const ll_coder *o) { return o->subwords ? ll_subwords_mask(o->subwords) : -1; }
