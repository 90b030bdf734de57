/* One tokenizer for all formats. Those with a vocabulary have an object of their own here; the others differ in a few
 * lines. */
#include "data/text/tokenizer.h"

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

struct ll_tokenizer {
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

ll_status ll_tokenizer_vocabulary(ll_bytes *vocabulary, const ll_data_options *c, const ll_bytes *text) {
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

ll_status ll_tokenizer_create_from(ll_tokenizer **out, const ll_data_options *c, const ll_bytes *vocabulary,
                                   const char *name) {
    ll_tokenizer *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    t->format = c->format;
    t->fine = c->fine;
    ll_status status = LL_OK;
    if (c->format == LL_DATA_WORDS) status = ll_words_create(&t->words, vocabulary, name);
    if (c->format == LL_DATA_PIECES) status = ll_pieces_create(&t->pieces, vocabulary, name);
    if (c->format == LL_DATA_SUBWORDS) status = ll_subwords_create(&t->subwords, vocabulary, name);
    if (c->format == LL_DATA_MIDI) status = check_music(vocabulary, c->fine, name);
    if (status) {
        ll_tokenizer_free(t);
        return status;
    }
    *out = t;
    return LL_OK;
}

void ll_tokenizer_free(ll_tokenizer *t) {
    if (!t) return;
    ll_words_free(t->words);
    ll_pieces_free(t->pieces);
    ll_subwords_free(t->subwords);
    ll_free(t);
}

int ll_tokenizer_vocab(const ll_tokenizer *t) {
    if (t->words) return ll_words_count(t->words);
    if (t->pieces) return ll_pieces_count(t->pieces);
    if (t->subwords) return ll_subwords_count(t->subwords);
    switch (t->format) {
    case LL_DATA_FASTA: return LL_FASTA_VOCAB;
    case LL_DATA_LISTOPS: return LL_LISTOPS_VOCAB;
    case LL_DATA_MIDI: return ll_music_vocab(t->fine);
    default: return 256;
    }
}

int ll_tokenizer_mask(const ll_tokenizer *t) { return t->subwords ? ll_subwords_mask(t->subwords) : -1; }

static int is_music(const ll_tokenizer *t) { return t->format == LL_DATA_MIDI; }

/* ---- Encoding ---- */

/* The tokens of an expression overwrite its text. */
static ll_status encode_listops(uint8_t *text, size_t size, int32_t *out, int64_t *count) {
    const size_t n = ll_listops_tokens(text, size);
    if (size && !n) return ll_fail(LL_EINVAL, "this is not an expression of MIN, MAX, MED and SM over digits");
    for (size_t i = 0; i < n; i++) out[i] = text[i];
    *count = (int64_t)n;
    return LL_OK;
}

static ll_status encode_bytes(const ll_tokenizer *t, const uint8_t *text, size_t size, int32_t *out) {
    for (size_t i = 0; i < size; i++) {
        out[i] = t->format == LL_DATA_FASTA ? ll_fasta_token(text[i]) : text[i];
        if (!out[i] && t->format == LL_DATA_FASTA && text[i] != '\n')
            return ll_fail(LL_EINVAL, "byte 0x%02x at position %zu is not a letter of a protein%s", text[i], i,
                           text[i] == '>' ? "; leave out the header line" : "");
    }
    return LL_OK;
}

static ll_status encode(const ll_tokenizer *t, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    if (t->words) return ll_words_encode(t->words, text, size, tokens, count);
    if (t->pieces) return ll_pieces_encode(t->pieces, text, size, tokens, count);
    if (t->subwords) return ll_subwords_encode(t->subwords, text, size, tokens, count);
    if (is_music(t)) return ll_music_tokens(tokens, count, text, size, t->fine, "the text");
    int32_t *out = ll_alloc(size, sizeof *out);
    uint8_t *own = t->format == LL_DATA_LISTOPS ? ll_alloc(size, 1) : NULL;
    ll_status status = out && (own || t->format != LL_DATA_LISTOPS) ? LL_OK : LL_ENOMEM;
    *count = (int64_t)size;
    if (!status && own) {
        if (size) memcpy(own, text, size);
        status = encode_listops(own, size, out, count);
    } else if (!status) {
        status = encode_bytes(t, text, size, out);
    }
    ll_free(own);
    if (status)
        ll_free(out);
    else
        *tokens = out;
    return status;
}

ll_status ll_tokenizer_encode(const ll_tokenizer *t, const void *text, size_t size, int **tokens, size_t *count) {
    int32_t *found = NULL;
    int64_t n = 0;
    const ll_status status = encode(t, text, size, &found, &n);
    if (status) return status;
    *tokens = found;
    *count = (size_t)n;
    return LL_OK;
}

/* ---- Decoding ---- */

/* Each bar begins a line; an empty line comes before each piece. */
static const char *music_text(ll_tokenizer *t, int token, size_t *size) {
    const char *before = token == LL_MUSIC_PIECE ? "\n\n" : token == LL_MUSIC_BAR ? "\n" : " ";
    char word[LL_MUSIC_WORD];
    ll_music_word(word, token);
    *size = (size_t)snprintf(t->text, sizeof t->text, "%s%s", before, word);
    return t->text;
}

const char *ll_tokenizer_text(ll_tokenizer *t, int token, size_t *size) {
    *size = 0;
    if (token < 0 || token >= ll_tokenizer_vocab(t)) return "";
    if (t->words) return ll_words_text(t->words, token, size);
    if (t->pieces) return ll_pieces_text(t->pieces, token, size);
    if (t->subwords) return ll_subwords_text(t->subwords, token, size);
    if (is_music(t)) return music_text(t, token, size);
    if (t->format == LL_DATA_LISTOPS) {
        *size = (size_t)snprintf(t->text, sizeof t->text, "%s ", ll_listops_word(token));
        return t->text;
    }
    *size = 1;
    t->text[0] = (char)(t->format == LL_DATA_FASTA ? ll_fasta_letter(token) : token);
    return t->text;
}

const int *ll_tokenizer_special(const ll_tokenizer *t, ll_special which, size_t *count) {
    static const int piece = LL_MUSIC_PIECE;
    *count = 0;
    if (which == LL_SPECIAL_PIECE) {
        *count = (size_t)is_music(t);
        return *count ? &piece : NULL;
    }
    return t->subwords ? ll_subwords_special(t->subwords, which == LL_SPECIAL_AFTER, count) : NULL;
}

ll_status ll_tokenizer_write_midi(const ll_tokenizer *t, const char *path, const int *tokens, size_t count,
                                  size_t first) {
    ll_score score = {0};
    ll_bytes file = {0};
    if (!is_music(t))
        return ll_fail(LL_EINVAL, "the model does not write music; a MIDI file needs a model of data.format=midi");
    ll_status status = ll_music_decode(&score, tokens, (int64_t)count, (int64_t)first);
    if (!status && !score.notes)
        status = ll_fail(LL_EINVAL, "there is no note in these %zu events", first < count ? count - first : 0);
    if (!status) status = ll_midi_write(&file, &score);
    if (!status) status = ll_file_write(path, file.data, file.size);
    ll_score_free(&score);
    ll_bytes_free(&file);
    return status;
}
