/* Music, compared and measured. */
#ifndef LL_MUSIC_API_H
#define LL_MUSIC_API_H

#include "longline/base.h"

LL_C_BEGIN

/* How alike two styles are (Cifka et al. 2020; docs/math.md): cosines between histograms of two files of music, or of
 * all files of folders, 0 to 1. */
typedef struct {
    double time_pitch;     /* of distances in time and pitch between notes */
    double onset_duration; /* of positions in the bar and durations of notes */
    int64_t notes[2];      /* that were counted, without drums */
} ll_likeness;
/* MIDI files, or the text of their events. LL_EINVAL where one has no notes to be counted. Time: notes times those
 * that begin within four quarters after them. */
LL_API LL_MUST_USE ll_status ll_music_compare(ll_likeness *likeness, const char *a, const char *b);

/* How much of music is on the grids of events (data.grid), which have 4 and 12 positions a quarter note. A time is on a
 * grid if one of its positions is less than a tick of the file away. */
typedef struct {
    int64_t files, notes;
    double held; /* share of notes that the sustain pedal makes longer */
    struct {
        int positions;
        double onsets_off, durations_off; /* shares of those that are not on it; strokes of drums have no duration */
        double moved;                     /* quarter notes that a note's beginning is moved by, the mean */
    } grid[2];
} ll_music_fit;
/* Of a file or a folder, as above. LL_EINVAL where there are no notes. O(notes). */
LL_API LL_MUST_USE ll_status ll_music_measure(ll_music_fit *fit, const char *path);

LL_C_END

#endif
