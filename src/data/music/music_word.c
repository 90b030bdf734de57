/* Events of music as words: a kind and, except for pieces and bars, a value: "Pitch_60". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/music/score.h"

typedef struct {
    const char *name;
    int first, count;
    int value, apart; /* value of the first token, and difference between tokens; 0: the name is the whole word */
} kind;

// clang-format off
static const kind kinds[] = {
    {"Piece", LL_MUSIC_PIECE, 1, 0, 0},
    {"Bar", LL_MUSIC_BAR, 1, 0, 0},
    {"Meter_", LL_MUSIC_METER, LL_METERS, 0, 0}, /* "Meter_3/4" */
    {"Position_", LL_MUSIC_POSITION, LL_POSITIONS, 1, 1},
    {"Tempo_", LL_MUSIC_TEMPO, LL_TEMPOS, 28, 4},
    {"Program_", LL_MUSIC_PROGRAM, 128, 0, 1},
    {"Pitch_", LL_MUSIC_PITCH, 128, 0, 1},
    {"Drum_", LL_MUSIC_DRUM, 128, 0, 1},
    {"Duration_", LL_MUSIC_DURATION, LL_LONGEST, 1, 1},
    {"Velocity_", LL_MUSIC_VELOCITY, 32, 2, 4},
    {"Position_", LL_MUSIC_POSITION_THIRD, (LL_THIRDS - 1) * LL_POSITIONS, 1, 1}, /* "Position_1+1/3" */
    {"Duration_", LL_MUSIC_DURATION_THIRD, (LL_THIRDS - 1) * LL_LONGEST, 0, 1},
};
// clang-format on
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Does the vocabulary have positions between sixteenths? */
static int is_between(const kind *k) { return k->first >= LL_MUSIC_VOCAB; }

void ll_music_word(char out[LL_MUSIC_WORD], int token) {
    const kind *k = kinds;
    while (k < kinds + KINDS - 1 && token >= k->first + k->count) k++;
    const int i = token - k->first;
    if (k->first == LL_MUSIC_METER) {
        const ll_meter meter = ll_meter_of(i);
        snprintf(out, LL_MUSIC_WORD, "%s%d/%d", k->name, meter.numerator, meter.denominator);
    } else if (is_between(k)) {
        snprintf(out, LL_MUSIC_WORD, "%s%d+%d/3", k->name, (k->value + i / 2) & 0x3ff, i % 2 + 1);
    } else if (k->apart) {
        snprintf(out, LL_MUSIC_WORD, "%s%d", k->name, (k->value + k->apart * i) & 0x3ff);
    } else {
        snprintf(out, LL_MUSIC_WORD, "%s", k->name);
    }
}

/* The token of a meter "3/4", or -1. */
static int meter_token(const char *text) {
    for (int i = 0; i < LL_METERS; i++) {
        char word[LL_MUSIC_WORD];
        ll_music_word(word, LL_MUSIC_METER + i);
        if (!strcmp(word + strlen("Meter_"), text)) return LL_MUSIC_METER + i;
    }
    return -1;
}

/* The token of "3+1/3", or -1. */
static int between_token(const kind *k, const char *text) {
    char whole[LL_MUSIC_WORD];
    int64_t value = 0;
    const char *plus = strchr(text, '+');
    if (!plus || (strcmp(plus, "+1/3") && strcmp(plus, "+2/3"))) return -1;
    snprintf(whole, sizeof whole, "%.*s", (int)(plus - text), text);
    if (!ll_parse_integer(&value, whole) || value < k->value || value >= k->value + k->count / 2) return -1;
    return k->first + 2 * (int)(value - k->value) + (plus[1] == '2');
}

/* The token of a word, or -1. A word begins with the name of its kind. */
static int token_of_kind(const kind *k, const char *rest) {
    int64_t value = 0;
    if (k->first == LL_MUSIC_METER) return meter_token(rest);
    if (is_between(k)) return between_token(k, rest);
    if (!k->apart) return *rest ? -1 : k->first;
    if (!ll_parse_integer(&value, rest)) return -1;
    const int64_t i = (value - k->value) / k->apart;
    return value >= k->value && i < k->count && k->value + k->apart * i == value ? k->first + (int)i : -1;
}

static int token_of(const char *word) {
    int token = -1;
    for (int i = 0; token < 0 && i < KINDS; i++)
        if (!strncmp(word, kinds[i].name, strlen(kinds[i].name)))
            token = token_of_kind(&kinds[i], word + strlen(kinds[i].name));
    return token;
}

ll_status ll_music_vocabulary(ll_bytes *list, int fine) {
    char *text = ll_alloc(LL_MUSIC_VOCAB_FINE, LL_MUSIC_WORD);
    if (!text) return LL_ENOMEM;
    size_t n = 0;
    for (int i = 0; i < ll_music_vocab(fine); i++) {
        ll_music_word(text + n, i);
        n += strlen(text + n);
        text[n++] = '\n';
    }
    *list = (ll_bytes){(uint8_t *)text, n};
    return LL_OK;
}

/* ---- Text ---- */

static int is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Writes the tokens of the words to `out` if it is not NULL; *n is their number. */
static ll_status take_words(int32_t *out, int64_t *n, const uint8_t *text, size_t size, int fine, const char *name) {
    *n = 0;
    for (size_t at = ll_byte_order_mark(text, size), end; at < size; at = end) {
        char word[LL_MUSIC_WORD] = "";
        end = at + 1;
        if (is_blank(text[at])) continue;
        while (end < size && !is_blank(text[end])) end++;
        const size_t length = end - at < sizeof word - 1 ? end - at : sizeof word - 1;
        memcpy(word, text + at, length);
        const int token = length == end - at ? token_of(word) : -1;
        if (token < 0)
            return ll_fail(
                LL_EINVAL,
                "%s is no MIDI file, and as text its word number %lld, \"%s\", is no event; events are "
                "Piece, Bar, Meter_4/4, Position_1, Tempo_120, Program_0, Pitch_60, Duration_4, Velocity_66, "
                "Drum_36",
                name, (long long)*n + 1, ll_is_plain_text(word) ? word : "?");
        if (token >= ll_music_vocab(fine))
            return ll_fail(LL_EINVAL,
                           "%s: word number %lld, \"%s\", lies between sixteenths; only music with data.grid=12 has it",
                           name, (long long)*n + 1, word);
        if (out) out[*n] = token;
        ++*n;
    }
    return LL_OK;
}

static ll_status tokens_of_text(int32_t **tokens, int64_t *count, const uint8_t *text, size_t size, int fine,
                                const char *name) {
    int64_t n = 0;
    ll_status status = take_words(NULL, &n, text, size, fine, name);
    if (status) return status;
    int32_t *out = ll_alloc(n ? (size_t)n : 1, sizeof *out);
    if (!out) return LL_ENOMEM;
    out[0] = LL_MUSIC_PIECE;
    *count = n ? n : 1;
    status = take_words(out, &n, text, size, fine, name);
    *tokens = out;
    return status;
}

ll_status ll_music_tokens(int32_t **tokens, int64_t *count, const uint8_t *data, size_t size, int fine,
                          const char *name) {
    ll_score score = {0}, grid = {0};
    if (!ll_is_midi(data, size)) return tokens_of_text(tokens, count, data, size, fine, name);
    ll_status status = ll_midi_read(&score, data, size, name);
    if (!status) status = ll_music_grid(&grid, &score, fine, name);
    if (!status) status = ll_music_encode(tokens, count, &grid);
    ll_score_free(&score);
    ll_score_free(&grid);
    return status;
}

ll_status ll_music_text(ll_bytes *text, const int32_t *tokens, int64_t count) {
    char *out = ll_alloc((size_t)count + 1, LL_MUSIC_WORD);
    if (!out) return LL_ENOMEM;
    size_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        const int line = i && (tokens[i] == LL_MUSIC_BAR || tokens[i] == LL_MUSIC_PIECE);
        if (i) out[n++] = line ? '\n' : ' ';
        ll_music_word(out + n, tokens[i]);
        n += strlen(out + n);
    }
    out[n++] = '\n';
    *text = (ll_bytes){(uint8_t *)out, n};
    return LL_OK;
}
