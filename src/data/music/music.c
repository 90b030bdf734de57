/* Music as examples of a language model, from MIDI files or the text of their events; transposition. */
#include "base/memory.h"
#include "base/random.h"
#include "base/spill.h"
#include "base/wrong_files.h"
#include "data/file_list.h"
#include "data/music/score.h"
#include "data/text/text_reader.h"

ll_status ll_music_score(ll_score *score, const char *path) {
    ll_bytes file = {0};
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_status status = ll_file_read(&file, path, LL_MIDI_MOST);
    if (!status && ll_is_midi(file.data, file.size)) {
        status = ll_midi_read(score, file.data, file.size, path);
    } else if (!status) {
        status = ll_music_tokens(&tokens, &n, file.data, file.size, 1, path);
        if (!status) status = ll_music_decode(score, tokens, n, 0);
    }
    ll_bytes_free(&file);
    ll_free(tokens);
    return status == LL_EINVAL ? LL_EFORMAT : status;
}

/* Adds the tokens of a file, which begin with the token that begins a piece. */
static ll_status add_file(ll_spill *tokens, const char *path, int fine) {
    static const int32_t piece = LL_MUSIC_PIECE;
    ll_bytes file = {0};
    int32_t *token = NULL;
    int64_t count = 0;
    ll_status status = ll_file_read(&file, path, LL_MIDI_MOST);
    if (!status && !file.size) status = ll_fail(LL_EFORMAT, "%s is empty, and no piece of music; remove it", path);
    if (!status) status = ll_music_tokens(&token, &count, file.data, file.size, fine, path);
    if (!status && token[0] != piece) status = ll_spill_add(tokens, &piece, sizeof piece);
    if (!status) status = ll_spill_add(tokens, token, (size_t)count * sizeof *token);
    ll_bytes_free(&file);
    ll_free(token);
    return status == LL_EINVAL ? LL_EFORMAT : status;
}

/* The tokens of all files in one row. The row ends with one more token that begins a piece. */
static ll_status read_files(ll_bytes *tokens, const char *path, int fine) {
    static const int32_t piece = LL_MUSIC_PIECE;
    ll_spill all = {.name = path};
    ll_wrong_files wrong = {0};
    char **names = NULL;
    int n = 0;
    ll_status status = ll_files_list(&names, &n, path);
    if (status) return status;
    for (int i = 0; !status && i < n; i++)
        status = ll_wrong_files_add(&wrong, add_file(&all, names[i], fine), names[i]);
    if (!status) status = ll_wrong_files_end(&wrong);
    if (!status) status = ll_spill_add(&all, &piece, sizeof piece);
    if (!status) status = ll_spill_end(&all, tokens);
    ll_spill_free(&all);
    ll_names_free(names, n);
    return status;
}

/* A mark at the beginning of each piece, and at the end of the last one. */
static ll_status find_pieces(ll_marks *pieces, const ll_bytes *all, int T) {
    const int32_t *tokens = (const int32_t *)all->data;
    const int64_t count = (int64_t)(all->size / sizeof *tokens);
    int64_t n = 0;
    size_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        n += tokens[i] == LL_MUSIC_PIECE;
        ll_bytes_pass(all, (size_t)i * sizeof *tokens, &left);
    }
    const ll_status status = ll_marks_create(pieces, n, 1);
    if (status) return status;
    ll_mark at = {0};
    left = 0;
    for (int64_t i = 0; i < count; i++) {
        ll_bytes_pass(all, (size_t)i * sizeof *tokens, &left);
        if (tokens[i] != LL_MUSIC_PIECE) continue;
        if (i) at.row += ll_text_windows_of(at.token, i, T);
        at.token = i;
        ll_marks_end(pieces, &at);
        at.text++;
    }
    return LL_OK;
}

/* The lowest and the highest token of a pitch; low > high: there is none. */
typedef struct {
    int16_t low, high;
} range;

typedef struct {
    ll_text_windows text;
    int transpose; /* semitones, up or down, at most */
    range *ranges; /* for streams: of each text of the split, or of all, where they are joined */
} music;

static int is_pitch(int token) { return token >= LL_MUSIC_PITCH && token < LL_MUSIC_DRUM; }

static void widen(range *x, int token) {
    if (!is_pitch(token)) return;
    if (token < x->low) x->low = (int16_t)token;
    if (token > x->high) x->high = (int16_t)token;
}

static const range NOTHING = {INT16_MAX, INT16_MIN};

/* All windows of a text that is read as a stream are moved alike, so its range limits them all. */
static ll_status find_ranges(ll_reader *r, int joined) {
    music *own = r->own;
    const ll_bytes *all = &own->text.tokens;
    const int32_t *tokens = (const int32_t *)all->data;
    size_t left = 0;
    own->ranges = ll_alloc((size_t)r->size, sizeof *own->ranges);
    if (!own->ranges) return LL_ENOMEM;
    own->ranges[0] = NOTHING;
    for (int64_t i = 0; i < r->size; i++) {
        const ll_text text = ll_text_at(r, LL_BY_TEXT, i);
        range *x = &own->ranges[joined ? 0 : i];
        if (!joined) *x = NOTHING;
        for (int64_t t = text.begin; t < text.end; t++) {
            widen(x, tokens[t]);
            ll_bytes_pass(all, (size_t)t * sizeof *tokens, &left);
        }
    }
    return LL_OK;
}

static ll_status open_music(ll_reader *r, const ll_reader_options *c, int split) {
    music *own = r->own;
    ll_text_windows *w = &own->text;
    ll_source from = {0};
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status) status = ll_text_check_length(c);
    if (!status && !r->vocabulary.data) status = ll_music_vocabulary(&r->vocabulary, c->data.fine);
    if (status) return status;
    status = read_files(&w->tokens, from.path, c->data.fine);
    if (status) return ll_fail_in(status, from.key);
    status = find_pieces(&w->texts, &w->tokens, c->length);
    if (!status) status = ll_texts_use(r, c, split, "piece", from.path);
    if (status) return status;
    r->vocab = ll_music_vocab(c->data.fine);
    r->maskable = 1;
    own->transpose = split == LL_SPLIT_TRAIN ? c->data.transpose : 0;
    if (own->transpose && c->streams) status = find_ranges(r, c->data.joined);
    if (status) return status;
    return c->data.joined ? ll_texts_join(r, c, split, from.path) : LL_OK;
}

static void close_music(const ll_reader *r) {
    const music *own = r->own;
    ll_free(own->ranges);
    ll_text_close(r);
}

/* ---- Transposition ---- */

/* The range of the notes of a row, which its tokens and targets have. */
static range range_of(int *const rows[2], size_t T) {
    range x = NOTHING;
    for (size_t i = 0; i < 2 * T; i++) widen(&x, rows[i / T][i % T]);
    return x;
}

/* Transposes a row by a draw of (seed, number). */
static void transpose_row(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number) {
    const music *own = r->own;
    const int most = own->transpose;
    if (!most) return;
    const size_t T = (size_t)batch->T;
    int *rows[] = {batch->tokens + (size_t)row * T, batch->targets + (size_t)row * T};
    const uint64_t stream = ll_stream_id(LL_RANDOM_TRANSPOSE, 0, 0);
    int by = (int)ll_below(2 * (uint32_t)most + 1, seed, stream, (uint64_t)number) - most;
    /* The highest and the lowest note limit the transposition. */
    const range x = own->ranges ? own->ranges[r->texts ? number % r->size : 0] : range_of(rows, T);
    if (x.high >= x.low && x.high + by >= LL_MUSIC_DRUM) by = LL_MUSIC_DRUM - 1 - x.high;
    if (x.high >= x.low && x.low + by < LL_MUSIC_PITCH) by = LL_MUSIC_PITCH - x.low;
    for (size_t i = 0; i < 2 * T; i++)
        if (is_pitch(rows[i / T][i % T])) rows[i / T][i % T] += by;
}

const ll_format ll_format_midi = {
    "midi", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_music, ll_text_fill, sizeof(music), close_music, transpose_row,
    .unit = "event", .cut = LL_CUT_LINE, .baseline = 1, .input = LL_INPUT_MIDI};
