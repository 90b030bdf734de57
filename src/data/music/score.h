/* Music: notes on a grid of time, from MIDI files and back, and as the tokens of a language model.
 *
 *   midi.c         standard MIDI files read         midi_write.c   and written
 *   music_grid.c   notes put on the grid            music_token.c  notes to events and back
 *   music_word.c   events as words                  music.c        files as examples */
#ifndef LL_SCORE_H
#define LL_SCORE_H

#include "base/file.h"

#include "longline/data.h"

enum { LL_DRUMS = 128, LL_INSTRUMENTS }; /* programs of General MIDI are 0 .. 127; what channel 10 plays are drums */

typedef struct {
    int64_t begin, end; /* in ticks; begin < end */
    uint8_t instrument, pitch, velocity;
    uint8_t channel; /* of the file that it was read from */
} ll_note;

/* Changes from a time on; of several at one time the last counts, by `number`, which sorting sets. */
typedef struct {
    int64_t at;
    int micros; /* of a quarter note */
    int number;
} ll_tempo;

typedef struct {
    int64_t at;
    int numerator, denominator;
    int number;
} ll_meter;

/* Notes by beginning, instrument, pitch; tempos and meters by time. */
typedef struct {
    int division; /* ticks of a quarter note */
    ll_note *note;
    ll_tempo *tempo;
    ll_meter *meter;
    int64_t notes, tempos, meters;
    int64_t held; /* notes that a pedal made longer */
} ll_score;

void ll_score_free(ll_score *score);
LL_MUST_USE ll_status ll_score_reserve(ll_score *score, size_t notes, size_t tempos, size_t meters);
/* Into the order above; notes that are equal in it longest and loudest first. */
void ll_score_sort(ll_score *score);

/* ---- Standard MIDI files ---- */

enum { LL_MIDI_MOST = 1 << 24 }; /* bytes of a file that is read */

/* Is this one, as far as its first bytes tell? */
int ll_is_midi(const uint8_t *data, size_t size);
/* Formats 0 and 1, all tracks together. A key that is struck while it sounds ends there and begins anew; what is never
 * released ends with its track; what is released while the sustain pedal (controller 64) is down ends when it is
 * lifted; other pedals and bends are passed over. LL_EFORMAT names `name` and the byte. */
LL_MUST_USE ll_status ll_midi_read(ll_score *score, const uint8_t *data, size_t size, const char *name);
/* Format 1: a track of tempos and meters, and one for every instrument. For scores on the grid. */
LL_MUST_USE ll_status ll_midi_write(ll_bytes *file, const ll_score *score);

/* ---- The grid ---- */

/* A step is a third of a sixteenth, so that triplets have positions, too; where grids are not `fine`, only
 * sixteenths are used. */
enum { LL_THIRDS = 3, LL_GRID = 4 * LL_THIRDS, LL_GRID_MOST = LL_GRID << 18 }; /* steps of a quarter note; of a piece */
enum { LL_LONGEST = 64, LL_POSITIONS = 32 };     /* sixteenths of a note, of a bar */
enum { LL_TEMPOS = 54, LL_METERS = 60 };         /* 28, 32, .. 240 quarter notes a minute; 1/2 .. 32/16 */

/* The same piece with division LL_GRID, where times are whole steps, lengths, velocities, tempos and meters those that
 * there are words for, and an instrument has a pitch once at a time; meters change at bar lines. LL_EFORMAT, with
 * `name`, for a piece without notes or of more than LL_GRID_MOST steps. */
LL_MUST_USE ll_status ll_music_grid(ll_score *grid, const ll_score *score, int fine, const char *name);
/* The end of the above, for a score whose times are steps: order, one note a pitch, a tempo and a meter at 0, and none
 * that changes nothing. Its arrays have room for one more of these two. */
LL_MUST_USE ll_status ll_music_settle(ll_score *score);
/* The same of a score that was made: *out has it then; it is freed where that fails. */
LL_MUST_USE ll_status ll_music_finish(ll_score *out, ll_score *score);
/* Steps of a bar. */
int ll_bar_steps(const ll_meter *meter);
int ll_tempo_class(int micros);
int ll_tempo_micros(int class);
int ll_meter_class(int numerator, int denominator); /* -1: there is no word for it */
ll_meter ll_meter_of(int class); /* at 0 */

/* ---- Tokens ---- */

enum { /* the first token of each kind, and the number of all; those between sixteenths only finer grids have */
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
/* How many tokens a grid has. */
int ll_music_vocab(int fine);

/* A score on the grid as tokens, which the caller frees; and any tokens as a score on the grid: what makes no sense is
 * passed over. Tokens before `first` set bars, tempo and instruments, but their notes are left out, and the score
 * begins with the bar that token number `first` is in. */
LL_MUST_USE ll_status ll_music_encode(int32_t **tokens, int64_t *count, const ll_score *grid);
LL_MUST_USE ll_status ll_music_decode(ll_score *grid, const int32_t *tokens, int64_t count, int64_t first);

enum { LL_MUSIC_WORD = 24 }; /* bytes that hold a word and its zero */
/* "Bar", "Pitch_60", "Position_3+1/3". */
void ll_music_word(char out[LL_MUSIC_WORD], int token);
/* All of them, a line each: what a model keeps. */
LL_MUST_USE ll_status ll_music_vocabulary(ll_bytes *list, int fine);
/* Tokens of words with blanks between them, or of a MIDI file; of text without a word, the beginning of a piece. Words
 * that only a finer grid has are refused where it is not. */
LL_MUST_USE ll_status ll_music_tokens(int32_t **tokens, int64_t *count, const uint8_t *data, size_t size, int fine,
                                      const char *name);
/* Words as longline writes them: bars begin lines. */
LL_MUST_USE ll_status ll_music_text(ll_bytes *text, const int32_t *tokens, int64_t count);

/* The score of a MIDI file, not on the grid, or of the text of events. */
LL_MUST_USE ll_status ll_music_score(ll_score *score, const char *path);

#endif
