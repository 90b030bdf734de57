/* Measures of music: how similar two styles are, and how many notes lie on the grids. */
#include "midi_files.h"

#include "longline/data.h"

/* The definition in double: pairs of notes, in bins of a sixth of a quarter. */
typedef struct {
    double pairs[24][41], positions[48][12];
} histograms;

static void count(histograms *h, const ll_score *s) {
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note *a = &s->note[i];
        if (a->instrument == LL_DRUMS) continue;
        for (int64_t k = 0; k < s->notes; k++) {
            const ll_note *b = &s->note[k];
            const double apart = (double)(b->begin - a->begin) / s->division;
            const int leap = b->pitch - a->pitch;
            if (i == k || b->instrument != a->instrument || apart < 0 || apart >= 4 || abs(leap) > 20) continue;
            h->pairs[(int)floor(apart * 6 + 1e-9)][leap + 20]++;
        }
        double bar = 0, beats = 4;
        for (int64_t m = 0; m < s->meters; m++)
            if (s->meter[m].at <= a->begin) {
                bar = (double)s->meter[m].at / s->division;
                beats = 4.0 * s->meter[m].numerator / s->meter[m].denominator;
            }
        const double position = fmod((double)a->begin / s->division - bar, beats);
        const double lasts = (double)(a->end - a->begin) / s->division;
        if (lasts <= 2) h->positions[(int)floor(position * 6 + 1e-9)][lasts == 2 ? 11 : (int)floor(lasts * 6 + 1e-9)]++;
    }
}

static double cosine_of(const double *x, const double *y, size_t n) {
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
    return xy / sqrt(xx * yy);
}

static char *put_score(const char *name, const ll_score *s) {
    ll_bytes file = {0};
    CHECK_OK(ll_midi_write(&file, s));
    char *path = put(name, file.data, file.size);
    ll_bytes_free(&file);
    return path;
}

static void styles_are_compared_as_defined(void **state) {
    (void)state;
    for (int64_t i = 0; i < 8; i++) {
        ll_score a = {0}, b = {0};
        histograms h[2] = {0};
        ll_likeness like, back;
        CHECK_OK(ll_music_draw(&a, 8, 11, i));
        CHECK_OK(ll_music_draw(&b, 8, 12, i));
        for (int64_t k = 0; k < a.notes; k++) /* onsets and lengths of all kinds */
            if (k % 3 == 0) a.note[k].end += k % 5;
        a.meter[0].numerator = 1 + (int)i;
        CHECK_OK(ll_music_normalise(&a));
        count(&h[0], &a);
        count(&h[1], &b);
        const char *x = put_score("x.mid", &a), *y = put_score("y.mid", &b);
        CHECK_OK(ll_music_compare(&like, x, y));
        CHECK_OK(ll_music_compare(&back, y, x));
        assert_true(fabs(like.time_pitch - cosine_of(h[0].pairs[0], h[1].pairs[0], 24 * 41)) < 1e-12);
        assert_true(fabs(like.onset_duration - cosine_of(h[0].positions[0], h[1].positions[0], 48 * 12)) < 1e-12);
        assert_true(like.time_pitch == back.time_pitch && like.onset_duration == back.onset_duration);
        CHECK_OK(ll_music_compare(&like, x, x));
        assert_true(fabs(like.time_pitch - 1) < 1e-12 && fabs(like.onset_duration - 1) < 1e-12);
        ll_score_free(&a);
        ll_score_free(&b);
    }
}

/* Three notes on the beats of a bar, a fifth up and down, compared with the same notes a tone higher and twice as
 * fast. */
static void similarities_by_hand(void **state) {
    (void)state;
    static const char slow[] = "Bar Position_1 Pitch_60 Duration_4 Velocity_66 Position_5 Pitch_67 Duration_4 "
                               "Velocity_66 Position_9 Pitch_60 Duration_4 Velocity_66";
    static const char fast[] = "Bar Position_1 Pitch_62 Duration_2 Velocity_66 Position_3 Pitch_69 Duration_2 "
                               "Velocity_66 Position_5 Pitch_62 Duration_4 Velocity_66 Drum_5 Velocity_66";
    ll_likeness like;
    char a[200], b[200];
    snprintf(a, sizeof a, "%s", put("slow", slow, sizeof slow - 1));
    snprintf(b, sizeof b, "%s", put("fast", fast, sizeof fast - 1));
    CHECK_OK(ll_music_compare(&like, a, b));
    /* Pairs are (1, +7), (1, -7), (2, 0) in quarters and semitones, and (1/2, +7), (1/2, -7), (1, 0): none in common.
     * Onsets and lengths are (0, 1), (1, 1), (2, 1), and (0, 1/2), (1/2, 1/2), (1, 1): one in common. */
    assert_true(like.time_pitch == 0 && fabs(like.onset_duration - 1.0 / 3) < 1e-12);
    assert_true(like.notes[0] == 3 && like.notes[1] == 3);
    snprintf(b, sizeof b, "%s", put("alone", "Bar Pitch_60 Duration_4 Velocity_66", 35));
    CHECK_FAILS(ll_music_compare(&like, a, b), LL_EINVAL, "no notes near others");
    snprintf(b, sizeof b, "%s", put("drums", "Bar Drum_60 Velocity_66 Drum_62 Velocity_66", 44));
    CHECK_FAILS(ll_music_compare(&like, b, a), LL_EINVAL, "no notes near others");
}

/* Notes at 0 and at 1/3 and 1/2 of a quarter, one 30 ticks late, and a drum. Each grid counts what does not lie on
 * it. */
static void grids_are_measured(void **state) {
    (void)state;
    ll_music_fit fit;
    midi_file s = {0};
    add_head(&s, 0, 1, 480);
    open_track(&s);
    ADD(&s, "\0\x90\x3c\x50\x81\x20\x3c\0");         /* 0 to 160 */
    ADD(&s, "\0\x3e\x50\x50\x3e\0");                 /* 160 to 240 */
    ADD(&s, "\0\x40\x50\x83\x60\x40\0");             /* 240 to 720 */
    ADD(&s, "\x1e\xb0\x40\x7f\0\x90\x3c\x50\x50\x3c\0"); /* 750 to 830, held to 870 */
    ADD(&s, "\x28\xb0\x40\0\0\x99\x24\x50\x1e\x24\0");   /* a drum at 870 */
    close_track(&s);
    CHECK_OK(ll_music_measure(&fit, put("fit.mid", (const char *)s.data, s.n)));
    assert_true(fit.files == 1 && fit.notes == 5 && fabs(fit.held - 0.2) < 1e-12);
    assert_true(fit.grid[0].positions == 4 && fit.grid[1].positions == 12);
    assert_true(fabs(fit.grid[0].onsets_off - 3.0 / 5) < 1e-12);    /* 160, 750, 870 */
    assert_true(fabs(fit.grid[1].onsets_off - 2.0 / 5) < 1e-12);    /* 750, 870 */
    assert_true(fabs(fit.grid[0].durations_off - 2.0 / 4) < 1e-12); /* 160, 80 */
    assert_true(fit.grid[1].durations_off == 0);
    assert_true(fabs(fit.grid[0].moved - (40 + 30 + 30) / 480.0 / 5) < 1e-12);
    assert_true(fabs(fit.grid[1].moved - (10 + 10) / 480.0 / 5) < 1e-12);
    /* 1024 ticks have no thirds: 341 and 683 count as thirds, 342 does too, 343 does not */
    for (int at = 340; at < 345; at++) {
        s.n = 0;
        add_head(&s, 0, 1, 1024);
        open_track(&s);
        const char time[] = {(char)(0x80 | at >> 7), (char)(at & 0x7f)};
        add(&s, time, 2);
        ADD(&s, "\x90\x3c\x50\x82\x55\x3c\0");
        close_track(&s);
        CHECK_OK(ll_music_measure(&fit, put("fit.mid", (const char *)s.data, s.n)));
        assert_true(fit.grid[0].onsets_off == 1 && fit.grid[0].durations_off == 1);
        assert_true(fit.grid[1].onsets_off == (at != 341 && at != 342) && fit.grid[1].durations_off == 0);
    }
    CHECK_FAILS(ll_music_measure(&fit, put("none", "Bar", 3)), LL_EINVAL, "there is no note in it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(styles_are_compared_as_defined),
        cmocka_unit_test(similarities_by_hand),
        cmocka_unit_test(grids_are_measured),
    };
    return cmocka_run_group_tests_name("music style", tests, make_folder, remove_folder);
}
