/* Similarity of two styles (Cifka, Simsekli and Richard 2020, as used by Liutkus et al. 2021): the cosine between two
 * histograms of notes, in sixths of a quarter note; equations in docs/math.md. Times are those of the file, not of the
 * grid. Instruments are not mixed. Drums are left out, because their note numbers are not pitches. */
#include <math.h>

#include "base/memory.h"
#include "base/wrong_files.h"
#include "data/file_list.h"
#include "data/music/score.h"
#include "longline-lab.h"

enum { PARTS = 6, NEAR = 4 * PARTS, LEAP = 20, SHORT = 2 * PARTS, BAR = 8 * PARTS, CROWD = 1 << 14 };

typedef struct {
    double time_pitch[NEAR][2 * LEAP + 1];
    double onset_duration[BAR][SHORT];
    int64_t notes;
} profile;

/* The sixth of a quarter note that contains a time in ticks. */
static int64_t part_of(int64_t ticks, int division) { return PARTS * ticks / division; }

/* Ordered pairs of notes of an instrument of which the second begins less than four quarter notes after the first, or
 * with it. Notes are sorted by their beginnings. */
static ll_status count_pairs(profile *p, const ll_score *s, const char *name) {
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note *a = &s->note[i];
        for (int64_t k = i + 1; k < s->notes && part_of(s->note[k].begin - a->begin, s->division) < NEAR; k++) {
            const ll_note *b = &s->note[k];
            const int leap = b->pitch - a->pitch;
            if (k - i > CROWD)
                return ll_fail(LL_EFORMAT, "%s: more than %d notes begin within four quarters", name, CROWD);
            if (a->instrument != b->instrument || a->instrument == LL_DRUMS || leap > LEAP || leap < -LEAP) continue;
            p->time_pitch[part_of(b->begin - a->begin, s->division)][LEAP + leap]++;
            if (a->begin == b->begin) p->time_pitch[0][LEAP - leap]++; /* the same pair in the other order */
        }
    }
    return LL_OK;
}

/* The meter in force at a time: the last one before it, unless it is not plausible. */
static void count_places(profile *p, const ll_score *s) {
    static const ll_meter usual = {.numerator = 4, .denominator = 4};
    ll_meter meter = usual;
    int64_t next = 0;
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note *note = &s->note[i];
        for (; next < s->meters && s->meter[next].at <= note->begin; next++) {
            const ll_meter *m = &s->meter[next];
            meter = ll_meter_class(m->numerator, m->denominator) < 0 ? usual : *m;
            meter.at = m->at;
        }
        if (note->instrument == LL_DRUMS) continue;
        const int64_t bar = 4 * (int64_t)meter.numerator * s->division; /* in ticks, times the denominator */
        const int64_t position = (note->begin - meter.at) * meter.denominator % bar / meter.denominator;
        const int64_t onset = part_of(position, s->division), length = note->end - note->begin;
        p->notes++;
        /* The last bin includes two quarter notes; longer notes are not counted. */
        int64_t duration = part_of(length, s->division);
        if (length == 2 * (int64_t)s->division) duration = SHORT - 1;
        if (duration < SHORT && onset < BAR) p->onset_duration[onset][duration]++;
    }
}

static ll_status count_file(profile *p, const char *path) {
    ll_score score = {0};
    ll_status status = ll_music_score(&score, path);
    if (!status) status = count_pairs(p, &score, path);
    if (!status) count_places(p, &score);
    ll_score_free(&score);
    return status;
}

static ll_status count_files(profile *p, const char *path) {
    ll_wrong_files wrong = {0};
    char **names = NULL;
    int n = 0;
    ll_status status = ll_files_list(&names, &n, path);
    for (int i = 0; !status && i < n; i++) status = ll_wrong_files_add(&wrong, count_file(p, names[i]), names[i]);
    if (!status) status = ll_wrong_files_end(&wrong);
    ll_names_free(names, n);
    return status;
}

/* Of the counts x of a and y of b. */
static ll_status cosine(double *out, const double *x, const double *y, size_t n, const char *what, const char *a,
                        const char *b) {
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        xx += x[i] * x[i];
        yy += y[i] * y[i];
        xy += x[i] * y[i];
    }
    if (xx <= 0 || yy <= 0) return ll_fail(LL_EINVAL, "%s: there are no %s to compare", xx <= 0 ? a : b, what);
    *out = xy / (sqrt(xx) * sqrt(yy));
    return LL_OK;
}

ll_status ll_music_compare(ll_likeness *likeness, const char *a, const char *b) {
    ll_likeness found = {0};
    profile *p = ll_alloc(2, sizeof *p);
    if (!p) return LL_ENOMEM;
    ll_status status = count_files(&p[0], a);
    if (!status) status = count_files(&p[1], b);
    if (!status)
        status = cosine(&found.time_pitch, p[0].time_pitch[0], p[1].time_pitch[0],
                        sizeof p->time_pitch / sizeof(double), "notes near others", a, b);
    if (!status)
        status = cosine(&found.onset_duration, p[0].onset_duration[0], p[1].onset_duration[0],
                        sizeof p->onset_duration / sizeof(double), "notes of up to two quarters", a, b);
    for (int i = 0; i < 2; i++) found.notes[i] = p[i].notes;
    ll_free(p);
    if (!status) *likeness = found;
    return status;
}
