/* Music: notes on a grid of time, from MIDI files and back, and as tokens of a language model. */
#ifndef LL_SCORE_H
#define LL_SCORE_H

#include "base/file.h"

#include "longline/data.h"

enum { LL_DRUMS = 128, LL_INSTRUMENTS }; /* programs of General MIDI are 0 .. 127; notes of channel 10 are drums */

typedef struct {
    int64_t begin, end; /* in ticks; begin < end */
    uint8_t instrument, pitch, velocity;
    uint8_t channel; /* number of the note in its file */
} ll_note;

/* A change from a time on. Of several at one time the last counts; `number`, which sorting sets, tells their order. */
typedef struct {
    int64_t at;
    int micros; /* value of a quarter note */
    int number;
} ll_tempo;

typedef struct {
    int64_t at;
    int numerator, denominator;
    int number;
} ll_meter;

/* Notes are sorted by beginning, instrument, pitch; tempos and meters by time. */
typedef struct {
    int division; /* ticks of a quarter note */
    ll_note *note;
    ll_tempo *tempo;
    ll_meter *meter;
    int64_t notes, tempos, meters;
    int64_t held; /* number of notes that a pedal made longer */
} ll_score;

void ll_score_free(ll_score *score);
LL_MUST_USE ll_status ll_score_reserve(ll_score *score, size_t notes, size_t tempos, size_t meters);
/* Sorts into the order above; equal notes longest and loudest first. */
void ll_score_sort(ll_score *score);

/* ---- Standard MIDI files ---- */

enum { LL_MIDI_MOST = 1 << 24 }; /* largest file that is read */

/* Do the first bytes look like a MIDI file? */
int ll_is_midi(const uint8_t *data, size_t size);
/* Reads formats 0 and 1, all tracks together. If a key is struck while it sounds, the note ends there and a new one
 * begins. A note that is never released ends with its track. A note that is released while the sustain pedal
 * (controller 64) is down ends when the pedal is lifted. Other pedals and bends are ignored. LL_EFORMAT names `name`
 * and the byte. */
LL_MUST_USE ll_status ll_midi_read(ll_score *score, const uint8_t *data, size_t size, const char *name);
/* Writes format 1: a track of tempos and meters, and one for every instrument. For scores on the grid. */
LL_MUST_USE ll_status ll_midi_write(ll_bytes *file, const ll_score *score);

/* ---- The grid ---- */

/* A step is a third of a sixteenth, so that triplets have positions. If a grid is not `fine`, only sixteenths are
 * used. */
enum { LL_THIRDS = 3, LL_GRID = 4 * LL_THIRDS, LL_GRID_MOST = LL_GRID << 18 }; /* steps of a quarter note; of a piece */
enum { LL_LONGEST = 64, LL_POSITIONS = 32 };     /* sixteenths of a note, of a bar */
enum { LL_TEMPOS = 54, LL_METERS = 60 };         /* 28, 32, .. 240 quarter notes a minute; 1/2 .. 32/16 */

/* The same piece with division LL_GRID. Times are whole steps. Lengths, velocities, tempos and meters are those that
 * have tokens. An instrument plays a pitch once at a time. Meters change at bar lines. LL_EFORMAT, with `name`, for a
 * piece without notes or with more than LL_GRID_MOST steps. */
LL_MUST_USE ll_status ll_music_grid(ll_score *grid, const ll_score *score, int fine, const char *name);
/* The last part of the above, for a score whose times are steps: sorts, removes overlapping notes, adds a tempo and a
 * meter at 0, and removes changes that change nothing. The arrays need space for one more tempo and meter. */
LL_MUST_USE ll_status ll_music_normalise(ll_score *score);
/* The same for a new score: *out owns it then; it is freed on failure. */
LL_MUST_USE ll_status ll_music_finish(ll_score *out, ll_score *score);
/* The steps of a bar. */
int ll_bar_steps(const ll_meter *meter);
int ll_tempo_class(int micros);
int ll_tempo_micros(int class);
int ll_meter_class(int numerator, int denominator); /* -1: there is no token */
ll_meter ll_meter_of(int class); /* value at time 0 */

/* ---- Tokens ---- */

enum { /* The first token of each kind, and the number of all. Those between sixteenths exist only on finer grids. */
    LL_MUSIC_PIECE, LL_MUSIC_BAR,
    LL_MUSIC_METER,
    LL_MUSIC_POSITION = LL_MUSIC_METER + LL_METERS,
    LL_MUSIC_TEMPO = LL_MUSIC_POSITION + LL_POSITIONS,
    LL_MUSIC_PROGRAM = LL_MUSIC_TEMPO + LL_TEMPOS,
    LL_MUSIC_PITCH = LL_MUSIC_PROGRAM + 128,
    LL_MUSIC_DRUM = LL_MUSIC_PITCH + 128,
    LL_MUSIC_DURATION = LL_MUSIC_DRUM + 128,
    LL_MUSIC_VELOCITY = LL_MUSIC_DURATION + LL_LONGEST,
    LL_MUSIC_VOCAB = LL_MUSIC_VELOCITY + 32,
    LL_MUSIC_POSITION_THIRD = LL_MUSIC_VOCAB, /* 1/3 and 2/3 after the first position, after the second, .. */
    LL_MUSIC_DURATION_THIRD = LL_MUSIC_POSITION_THIRD + (LL_THIRDS - 1) * LL_POSITIONS, /* 1/3, 2/3, 1 1/3, .. */
    LL_MUSIC_VOCAB_FINE = LL_MUSIC_DURATION_THIRD + (LL_THIRDS - 1) * LL_LONGEST
};
/* The number of tokens of a grid. */
int ll_music_vocab(int fine);

/* A score on the grid as tokens, which the caller frees; and any tokens as a score on the grid, where tokens that make
 * no sense are skipped. Tokens before `first` set bars, tempo and instruments, but their notes are left out, and the
 * score begins with the bar that contains token number `first`. */
LL_MUST_USE ll_status ll_music_encode(int32_t **tokens, int64_t *count, const ll_score *grid);
LL_MUST_USE ll_status ll_music_decode(ll_score *grid, const int32_t *tokens, int64_t count, int64_t first);

enum { LL_MUSIC_WORD = 24 }; /* bytes that are enough for a word and its zero */
/* "Bar", "Pitch_60", "Position_3+1/3". */
void ll_music_word(char out[LL_MUSIC_WORD], int token);
/* All words, one a line: the vocabulary that a model keeps. */
LL_MUST_USE ll_status ll_music_vocabulary(ll_bytes *list, int fine);
/* The tokens of words separated by blanks, or of a MIDI file. Text without a word gives the token that begins a piece.
 * Words of a finer grid are refused if the grid is not fine. */
LL_MUST_USE ll_status ll_music_tokens(int32_t **tokens, int64_t *count, const uint8_t *data, size_t size, int fine,
                                      const char *name);
/* Words as longline writes them: each bar begins a line. */
LL_MUST_USE ll_status ll_music_text(ll_bytes *text, const int32_t *tokens, int64_t count);

/* The score of a MIDI file, before it is put on the grid, or of a text of events. */
LL_MUST_USE ll_status ll_music_score(ll_score *score, const char *path);

#endif
