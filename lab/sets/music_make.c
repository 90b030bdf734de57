/* Generates simple pieces of music. Four bars of chords with a tune make a phrase, and two phrases a piece of the form
 * A A B A. It is played by a melody, chords, a bass and, in half of the pieces in 4/4, drums. So there is something to
 * learn at every distance: steps of the scale, beats of the bar, chords of the phrase, and phrases that repeat. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"
#include "sets/music_make.h"

enum { PHRASE = 4, BASS = 32, PIANO = 0, KICK = 36, SNARE = 38, HAT = 42, BARS_MOST = 4096, NOTES_A_BAR = 64 };
enum { QUARTER = 4 }; /* Times are in sixteenths here, up to `play`. */

static const int scales[2][7] = {{0, 2, 4, 5, 7, 9, 11}, {0, 2, 3, 5, 7, 8, 10}};
static const int chords[][PHRASE] = {{0, 4, 5, 3}, {0, 5, 3, 4}, {0, 3, 4, 0}, {5, 3, 0, 4},
                                     {0, 3, 1, 4}, {0, 5, 1, 4}, {0, 2, 3, 4}, {3, 4, 0, 0}};
/* Lengths of a tune's notes that fill a bar, in steps, up to 0. */
static const int of_four[][8] = {{4, 4, 4, 4},       {8, 4, 4}, {6, 2, 4, 4}, {4, 2, 2, 8},
                                 {2, 2, 4, 2, 2, 4}, {4, 4, 8}, {12, 4},      {3, 3, 2, 4, 4}};
static const int of_three[][8] = {{4, 4, 4}, {8, 4}, {4, 2, 2, 4}, {2, 2, 2, 2, 4}, {6, 2, 4}, {4, 8}, {12}, {2, 2, 8}};
static const int tunes[] = {73, 40, 68, 0, 24, 56}; /* flute, violin, oboe, piano, guitar, trumpet */

typedef struct {
    ll_score *score;
    uint64_t seed, stream, index;
    int tonic, minor, steps; /* key; steps of a bar */
    int tune, accompaniment, bass, drums;
    int chord, next; /* degrees of this bar's chord and of the next one's */
    int64_t bar;     /* its first step */
    int degree;      /* pitch of the tune's last note */
} draft;

static int draw(draft *d, int below) { return (int)ll_below((uint32_t)below, d->seed, d->stream, d->index++); }

/* A degree of the scale (7 an octave) as a pitch. The chord of the fifth degree is major also in minor. */
static int pitch_of(const draft *d, int degree) {
    const int octave = (degree + 70) / 7 - 10, step = degree - 7 * octave;
    return 48 + d->tonic + 12 * octave + scales[d->minor][step] + (d->minor && d->chord == 4 && step == 6);
}

static void play(draft *d, int instrument, int pitch, int at, int steps) {
    const int loud = at == 0 ? 90 : at % QUARTER == 0 ? 82 : 74, quiet = instrument == PIANO ? 16 : 0;
    d->score->note[d->score->notes++] =
        (ll_note){LL_THIRDS * (d->bar + at), LL_THIRDS * (d->bar + at + steps), (uint8_t)instrument, (uint8_t)pitch,
                  (uint8_t)(loud - quiet)};
}

/* On a quarter note the nearest tone of the chord; else a step up or down. */
static void draw_tune(draft *d) {
    const int *length = d->steps == 16 ? of_four[draw(d, 8)] : of_three[draw(d, 8)];
    for (int i = 0, at = 0; i < 8 && length[i]; at += length[i++]) {
        d->degree += draw(d, 2) ? 1 : -1;
        while (at % QUARTER == 0 && (d->degree - d->chord + 70) % 7 % 2) d->degree++;
        if (at % QUARTER == 0 && (d->degree - d->chord + 70) % 7 == 6) d->degree++;
        if (d->degree > 21) d->degree -= 7;
        if (d->degree < 10) d->degree += 7;
        play(d, tunes[d->tune], pitch_of(d, d->degree), at, length[i]);
    }
}

static void play_chord(draft *d, int at, int steps) {
    for (int i = 0; i < 3; i++) play(d, PIANO, pitch_of(d, d->chord % 5 + 2 * i + (d->chord > 4 ? -2 : 0)), at, steps);
}

static void play_accompaniment(draft *d) {
    static const int broken[] = {0, 4, 2, 4};
    const int low = d->chord % 5 + (d->chord > 4 ? -2 : 0);
    switch (d->accompaniment) {
    case 0: play_chord(d, 0, d->steps); break;
    case 1:
        for (int at = 0; at < d->steps; at += 2) play(d, PIANO, pitch_of(d, low + broken[at / 2 % 4]), at, 2);
        break;
    case 2:
        for (int at = 4; at < d->steps; at += d->steps == 16 ? 8 : 4) play_chord(d, at, 4);
        break;
    default:
        for (int at = 0; at < d->steps; at += 4) play_chord(d, at, 4);
    }
}

static void play_bass(draft *d) {
    const int root = d->chord - 7, target = d->next - 7;
    switch (d->bass) {
    case 0: play(d, BASS, pitch_of(d, root), 0, d->steps); break;
    case 1:
        play(d, BASS, pitch_of(d, root), 0, 8);
        play(d, BASS, pitch_of(d, root - 3), 8, d->steps - 8);
        break;
    case 2:
        for (int at = 0; at < d->steps; at += 2) play(d, BASS, pitch_of(d, root), at, 2);
        break;
    default: /* the last quarter note of the bass is a step from the next root */
        for (int at = 0; at < d->steps - 4; at += 4) play(d, BASS, pitch_of(d, root + at / 2), at, 4);
        play(d, BASS, pitch_of(d, target + (target > root ? -1 : 1)), d->steps - 4, 4);
    }
}

static void play_drums(draft *d) {
    for (int at = 0; at < d->steps; at += 2) {
        play(d, LL_DRUMS, HAT, at, 1);
        if (at % 8 == 0) play(d, LL_DRUMS, KICK, at, 1);
        if (at % 8 == 4) play(d, LL_DRUMS, SNARE, at, 1);
    }
}

/* A bar of a phrase. Random choices depend only on its position in the phrase, so that it repeats. */
static void play_bar(draft *d, int section, int position, const int *chord) {
    d->index = (uint64_t)(1000 * (1 + PHRASE * section + position));
    if (position == 0) d->degree = 12 + 2 * draw(d, 4);
    d->chord = chord[position];
    d->next = chord[(position + 1) % PHRASE];
    draw_tune(d);
    play_accompaniment(d);
    play_bass(d);
    if (d->drums) play_drums(d);
}

static void play_last(draft *d) {
    d->chord = 0;
    play(d, tunes[d->tune], pitch_of(d, 14), 0, d->steps);
    play_chord(d, 0, d->steps);
    play(d, BASS, pitch_of(d, -7), 0, d->steps);
}

static ll_status check_bars(int bars) {
    if (bars >= 1 && bars <= BARS_MOST) return LL_OK;
    return ll_fail(LL_EINVAL, "a piece has 1 to %d bars, not %d", BARS_MOST, bars);
}

ll_status ll_music_draw(ll_score *grid, int bars, uint64_t seed, int64_t i) {
    ll_score s = {.division = LL_GRID};
    ll_status status = check_bars(bars);
    if (!status) status = ll_score_reserve(&s, (size_t)bars * NOTES_A_BAR, 2, 2);
    if (status) return status;
    draft d = {.score = &s, .seed = seed, .stream = ll_stream_id(LL_RANDOM_DATA, (uint32_t)(i >> 32), (uint32_t)i)};
    d.tonic = draw(&d, 12) - 5;
    d.minor = draw(&d, 2);
    d.steps = draw(&d, 3) ? 16 : 12;
    d.tune = draw(&d, sizeof tunes / sizeof *tunes);
    d.accompaniment = draw(&d, 4);
    d.bass = draw(&d, 4);
    d.drums = draw(&d, 2) && d.steps == 16;
    const int *const phrases[] = {chords[draw(&d, 8)], chords[draw(&d, 8)]};
    s.tempo[s.tempos++] = (ll_tempo){.micros = ll_tempo_micros(ll_tempo_class(60000000 / (72 + 4 * draw(&d, 20))))};
    s.meter[s.meters++] = (ll_meter){.numerator = d.steps / 4, .denominator = 4};
    for (int b = 0; b < bars; b++, d.bar += d.steps) {
        const int section = b / PHRASE % 4 == 2;
        if (b + 1 < bars)
            play_bar(&d, section, b % PHRASE, phrases[section]);
        else
            play_last(&d);
    }
    return ll_music_finish(grid, &s);
}

static ll_status write_piece(const char *folder, int bars, uint64_t seed, int64_t i) {
    ll_score score = {0};
    ll_bytes file = {0};
    char name[40];
    snprintf(name, sizeof name, "music-%06lld.mid", (long long)i);
    char *path = ll_path_join(folder, name);
    ll_status status = path ? ll_music_draw(&score, bars, seed, i) : LL_ENOMEM;
    if (!status) status = ll_midi_write(&file, &score);
    if (!status) status = ll_file_write(path, file.data, file.size);
    ll_bytes_free(&file);
    ll_score_free(&score);
    ll_free(path);
    return status;
}

/* Pieces of an earlier set would count as pieces of this one. */
static ll_status check_rest(const char *folder, int64_t count) {
    char name[40];
    snprintf(name, sizeof name, "music-%06lld.mid", (long long)count);
    char *path = ll_path_join(folder, name);
    if (!path) return LL_ENOMEM;
    const int there = !access(path, F_OK);
    ll_free(path);
    if (!there) return LL_OK;
    return ll_fail(LL_EINVAL, "%s has more than %lld pieces already; empty it, or choose another folder", folder,
                   (long long)count);
}

ll_status ll_music_write(const char *folder, int bars, int64_t count, uint64_t seed, ll_done_fn *progress, void *arg) {
    ll_status status = check_bars(bars);
    if (!status) status = ll_folder_create(folder);
    if (!status) status = check_rest(folder, count);
    for (int64_t i = 0; !status && i < count; i++) {
        status = write_piece(folder, bars, seed, i);
        if (!status) status = ll_progress_done(progress, arg, i + 1, count);
    }
    return status;
}
