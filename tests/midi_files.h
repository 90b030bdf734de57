/* MIDI files put together byte by byte, and scores compared. */
#ifndef LL_MIDI_FILES_H
#define LL_MIDI_FILES_H

#include "inputs.h"

#include "sets/music_make.h"

typedef struct {
    uint8_t data[4096];
    size_t n, track; /* where the open track's length is */
} midi_file;

static inline void add(midi_file *s, const char *bytes, size_t n) {
    memcpy(s->data + s->n, bytes, n);
    s->n += n;
}
/* A literal of bytes, without its zero. */
#define ADD(midi_file, literal) add(midi_file, literal, sizeof literal - 1)

static inline void add_head(midi_file *s, int format, int tracks, int division) {
    const char head[] = {0, (char)format, 0, (char)tracks, (char)(division >> 8), (char)division};
    ADD(s, "MThd\0\0\0\6");
    add(s, head, 6);
}

static inline void open_track(midi_file *s) {
    ADD(s, "MTrk\0\0\0\0");
    s->track = s->n;
}

static inline void close_track(midi_file *s) {
    const size_t n = s->n - s->track;
    s->data[s->track - 2] = (uint8_t)(n >> 8);
    s->data[s->track - 1] = (uint8_t)n;
}

static inline ll_score read_midi(const midi_file *s) {
    ll_score score = {0};
    CHECK_OK(ll_midi_read(&score, s->data, s->n, "song"));
    return score;
}

static inline void assert_note(const ll_score *s, int64_t i, int64_t begin, int64_t end, int instrument, int pitch,
                               int velocity) {
    assert_true(i < s->notes);
    const ll_note n = s->note[i];
    assert_int_equal(n.begin, begin);
    assert_int_equal(n.end, end);
    assert_int_equal(n.instrument, instrument);
    assert_int_equal(n.pitch, pitch);
    assert_int_equal(n.velocity, velocity);
}

static inline void assert_same_scores(const ll_score *a, const ll_score *b) {
    assert_int_equal(a->notes, b->notes);
    assert_int_equal(a->tempos, b->tempos);
    assert_int_equal(a->meters, b->meters);
    for (int64_t i = 0; i < a->notes; i++)
        assert_note(a, i, b->note[i].begin, b->note[i].end, b->note[i].instrument, b->note[i].pitch,
                    b->note[i].velocity);
    for (int64_t i = 0; i < a->tempos; i++) {
        assert_int_equal(a->tempo[i].at, b->tempo[i].at);
        assert_int_equal(a->tempo[i].micros, b->tempo[i].micros);
    }
    for (int64_t i = 0; i < a->meters; i++) {
        assert_int_equal(a->meter[i].at, b->meter[i].at);
        assert_int_equal(a->meter[i].numerator, b->meter[i].numerator);
        assert_int_equal(a->meter[i].denominator, b->meter[i].denominator);
    }
}

/* Words to a score on the grid. */
static inline ll_score score_of(const char *words, int64_t first) {
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_score score = {0};
    CHECK_OK(ll_music_tokens(&tokens, &n, (const uint8_t *)words, strlen(words), 1, "words"));
    CHECK_OK(ll_music_decode(&score, tokens, n, first));
    ll_free(tokens);
    return score;
}

/* A score on the grid as words, in one of two buffers. */
static inline const char *words_of(const ll_score *grid) {
    static char texts[2][4096];
    static int next;
    char *text = texts[next++ % 2];
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_bytes bytes = {0};
    CHECK_OK(ll_music_encode(&tokens, &n, grid));
    CHECK_OK(ll_music_text(&bytes, tokens, n));
    snprintf(text, sizeof texts[0], "%s", (const char *)bytes.data);
    ll_bytes_free(&bytes);
    ll_free(tokens);
    return text;
}

#endif
