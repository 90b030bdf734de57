/* Music, compared and measured. */
#ifndef LL_MUSIC_API_H
#define LL_MUSIC_API_H

#include "longline/base.h"

LL_C_BEGIN

/* Similarity of two styles (Cifka et al. 2020; docs/math.md): cosines between histograms of two files of music, or of
 * all files of folders, 0 to 1. */
typedef struct {
    double time_pitch;     /* of distances in time and pitch between notes */
    double onset_duration; /* of positions in the bar and durations of notes */
    int64_t notes[2];      /* number of notes, without drums */
} ll_likeness;
/* MIDI files, or the text of their events. LL_EINVAL if one of them has no notes. Time: notes times the number that
 * begin within four quarter notes after each. */
LL_API LL_MUST_USE ll_status ll_music_compare(ll_likeness *likeness, const char *a, const char *b);

/* How much of a piece is on the grids of events (data.grid), which have 4 and 12 positions in a quarter note. A time is
 * on a grid if one of its positions is less than a tick of the file away. */
typedef struct {
    int64_t files, notes;
    double held; /* share of notes that the sustain pedal makes longer */
    struct {
        int positions;
        double onsets_off, durations_off; /* shares of notes and durations off the grid; drum notes have no duration */
        double moved;                     /* mean distance, in quarter notes, by which beginnings of notes are moved */
    } grid[2];
} ll_music_fit;
/* For a file or a folder, as above. LL_EINVAL if there are no notes. O(notes). */
LL_API LL_MUST_USE ll_status ll_music_measure(ll_music_fit *fit, const char *path);

LL_C_END

#endif
