/* Puts notes on a grid of sixteenths, or thirds of sixteenths, before they become tokens. Doing it again changes
 * nothing. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/music/score.h"

enum { SLOWEST = 28, APART = 4 /* quarter notes a minute */, VELOCITIES = 4 /* beats of a bar */ };
enum { USUAL_TEMPO = 500000, MINUTE = 60000000 };
enum { HALVES = 4, QUARTERS = 8, EIGHTHS = 16, SIXTEENTHS = 32 }; /* longest bars: two whole notes */

void ll_score_free(ll_score *s) {
    ll_free(s->note);
    ll_free(s->tempo);
    ll_free(s->meter);
    *s = (ll_score){0};
}

ll_status ll_score_reserve(ll_score *s, size_t notes, size_t tempos, size_t meters) {
    s->note = ll_alloc(notes, sizeof *s->note);
    s->tempo = ll_alloc(tempos, sizeof *s->tempo);
    s->meter = ll_alloc(meters, sizeof *s->meter);
    if (s->note && s->tempo && s->meter) return LL_OK;
    ll_score_free(s);
    return LL_ENOMEM;
}

/* ---- Order ---- */

static int compare(int64_t x, int64_t y) { return (x > y) - (x < y); }

static int by_note(const void *a, const void *b) {
    const ll_note *x = a, *y = b;
    if (x->begin != y->begin) return compare(x->begin, y->begin);
    if (x->instrument != y->instrument) return x->instrument - y->instrument;
    if (x->pitch != y->pitch) return x->pitch - y->pitch;
    if (x->end != y->end) return compare(y->end, x->end);
    return y->velocity - x->velocity;
}

static int by_tempo(const void *a, const void *b) {
    const ll_tempo *x = a, *y = b;
    return x->at != y->at ? compare(x->at, y->at) : x->number - y->number;
}

static int by_meter(const void *a, const void *b) {
    const ll_meter *x = a, *y = b;
    return x->at != y->at ? compare(x->at, y->at) : x->number - y->number;
}

void ll_score_sort(ll_score *s) {
    for (int64_t i = 0; i < s->tempos; i++) s->tempo[i].number = (int)i;
    for (int64_t i = 0; i < s->meters; i++) s->meter[i].number = (int)i;
    if (s->notes) qsort(s->note, (size_t)s->notes, sizeof *s->note, by_note);
    if (s->tempos) qsort(s->tempo, (size_t)s->tempos, sizeof *s->tempo, by_tempo);
    if (s->meters) qsort(s->meter, (size_t)s->meters, sizeof *s->meter, by_meter);
}

/* ---- The values that have tokens ---- */

int ll_tempo_class(int micros) {
    const int a_minute = (MINUTE + micros / 2) / micros, class = (a_minute - SLOWEST + APART / 2) / APART;
    return a_minute < SLOWEST ? 0 : class < LL_TEMPOS ? class : LL_TEMPOS - 1;
}

int ll_tempo_micros(int class) {
    const int a_minute = SLOWEST + APART * class;
    return (MINUTE + a_minute / 2) / a_minute;
}

int ll_meter_class(int numerator, int denominator) {
    static const int most[] = {HALVES, QUARTERS, EIGHTHS, SIXTEENTHS};
    for (int i = 0, first = 0; i < 4; first += most[i++])
        if (denominator == 2 << i) return numerator <= most[i] ? first + numerator - 1 : -1;
    return -1;
}

ll_meter ll_meter_of(int class) {
    int denominator = 2;
    for (int most = HALVES; class >= most; class -= most, most *= 2) denominator *= 2;
    return (ll_meter){.numerator = class + 1, .denominator = denominator};
}

int ll_bar_steps(const ll_meter *meter) { return meter->numerator * (4 * LL_GRID) / meter->denominator; }

/* ---- Removing overlaps and repetitions ---- */

/* An instrument plays one note of a pitch at a time. Of notes that begin together the longest stays, and it ends when
 * the next begins. */
static ll_status part_notes(ll_score *s) {
    int64_t n = 0, *last = ll_alloc((size_t)LL_INSTRUMENTS * 128, sizeof *last); /* index + 1 of the note before */
    if (!last) return LL_ENOMEM;
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note note = s->note[i];
        int64_t *before = &last[note.instrument * 128 + note.pitch];
        if (*before && s->note[*before - 1].begin == note.begin) continue;
        if (*before && s->note[*before - 1].end > note.begin) s->note[*before - 1].end = note.begin;
        s->note[n] = note;
        *before = ++n;
    }
    s->notes = n;
    ll_free(last);
    return LL_OK;
}

/* Of several at one time the last stays, if it differs from the one before and is not after the last note. */
static void part_tempos(ll_score *s, int64_t end) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->tempos && s->tempo[i].at <= end; i++) {
        if (i + 1 < s->tempos && s->tempo[i + 1].at == s->tempo[i].at) continue;
        if (!n || s->tempo[n - 1].micros != s->tempo[i].micros) s->tempo[n++] = s->tempo[i];
    }
    s->tempos = n;
}

/* A bar has the last meter that was set before or at its beginning. */
static void part_meters(ll_score *s, int64_t end) {
    int64_t n = 0, next = 0;
    ll_meter now = s->meter[0];
    for (int64_t bar = 0; bar <= end; bar += ll_bar_steps(&now)) {
        for (; next < s->meters && s->meter[next].at <= bar; next++) now = s->meter[next];
        const ll_meter *before = n ? &s->meter[n - 1] : NULL;
        if (before && before->numerator == now.numerator && before->denominator == now.denominator) continue;
        now.at = bar;
        s->meter[n++] = now;
    }
    s->meters = n;
}

ll_status ll_music_normalise(ll_score *s) {
    /* Puts the default before all others, for the time in which the file sets none. */
    s->tempo[s->tempos++] = (ll_tempo){.at = -1, .micros = ll_tempo_micros(ll_tempo_class(USUAL_TEMPO))};
    s->meter[s->meters++] = (ll_meter){.at = -1, .numerator = 4, .denominator = 4};
    ll_score_sort(s);
    s->tempo[0].at = s->meter[0].at = 0;
    const ll_status status = part_notes(s);
    if (status) return status;
    const int64_t end = s->notes ? s->note[s->notes - 1].begin : 0;
    part_tempos(s, end);
    part_meters(s, end);
    return LL_OK;
}

ll_status ll_music_finish(ll_score *out, ll_score *s) {
    const ll_status status = ll_music_normalise(s);
    if (status)
        ll_score_free(s);
    else
        *out = *s;
    return status;
}

/* ---- Onto the grid ---- */

typedef struct {
    int division; /* ticks of a quarter note */
    int apart;    /* steps between used positions */
} raster;

/* The nearest position; halves are rounded up. */
static int64_t step_of(int64_t ticks, raster r) {
    const int positions = LL_GRID / r.apart;
    return (2 * positions * ticks + r.division) / (2 * r.division) * r.apart;
}

static ll_note on_grid(const ll_note *from, raster r) {
    ll_note note = *from;
    note.begin = step_of(from->begin, r);
    note.end = step_of(from->end, r);
    if (note.end <= note.begin) note.end = note.begin + r.apart;
    if (note.end - note.begin > LL_LONGEST * LL_THIRDS) note.end = note.begin + LL_LONGEST * LL_THIRDS;
    if (note.instrument == LL_DRUMS) note.end = note.begin + LL_THIRDS; /* drum notes have no length */
    note.velocity = (uint8_t)(note.velocity / VELOCITIES * VELOCITIES + VELOCITIES / 2);
    return note;
}

ll_status ll_music_grid(ll_score *grid, const ll_score *from, int fine, const char *name) {
    const raster r = {from->division, fine ? 1 : LL_THIRDS};
    ll_score s = {.division = LL_GRID};
    if (!from->notes) return ll_fail(LL_EFORMAT, "%s: there is no note in it", name);
    if (step_of(from->note[from->notes - 1].begin, r) >= LL_GRID_MOST)
        return ll_fail(LL_EFORMAT, "%s: its last note begins after %d quarter notes; pieces up to there are read", name,
                       LL_GRID_MOST / LL_GRID);
    ll_status status = ll_score_reserve(&s, (size_t)from->notes, (size_t)from->tempos + 1, (size_t)from->meters + 1);
    if (status) return status;
    for (; s.notes < from->notes; s.notes++) s.note[s.notes] = on_grid(&from->note[s.notes], r);
    for (; s.tempos < from->tempos; s.tempos++)
        s.tempo[s.tempos] = (ll_tempo){.at = step_of(from->tempo[s.tempos].at, r),
                                       .micros = ll_tempo_micros(ll_tempo_class(from->tempo[s.tempos].micros))};
    for (; s.meters < from->meters; s.meters++) {
        ll_meter meter = from->meter[s.meters];
        /* A meter without a token counts as one bar of four quarter notes; notes keep their times. */
        if (ll_meter_class(meter.numerator, meter.denominator) < 0) meter.numerator = meter.denominator = 4;
        meter.at = step_of(meter.at, r);
        s.meter[s.meters] = meter;
    }
    return ll_music_finish(grid, &s);
}
