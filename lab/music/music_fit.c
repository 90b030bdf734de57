/* How much of a piece lies on the grids of data.grid. */
#include <math.h>

#include "base/memory.h"
#include "base/wrong_files.h"
#include "data/file_list.h"
#include "data/music/score.h"
#include "longline-lab.h"

/* Distance in ticks to the nearest of so many positions of a quarter note. */
static double ticks_off(int64_t ticks, int division, int positions) {
    const double step = (double)division / positions, at = (double)ticks;
    return fabs(at - step * round(at / step));
}

/* Sums over notes; drum notes have no duration. */
static void add_score(ll_music_fit *fit, int64_t *durations, const ll_score *s) {
    fit->files++;
    fit->notes += s->notes;
    fit->held += (double)s->held;
    for (int64_t i = 0; i < s->notes; i++) {
        const ll_note *note = &s->note[i];
        *durations += note->instrument != LL_DRUMS;
        for (int g = 0; g < 2; g++) {
            const int positions = fit->grid[g].positions;
            const double off = ticks_off(note->begin, s->division, positions);
            /* A position may be between two ticks; then either is on it. */
            fit->grid[g].onsets_off += off >= 1;
            fit->grid[g].moved += off / s->division;
            if (note->instrument != LL_DRUMS)
                fit->grid[g].durations_off += ticks_off(note->end - note->begin, s->division, positions) >= 1;
        }
    }
}

ll_status ll_music_measure(ll_music_fit *out, const char *path) {
    ll_music_fit fit = {.grid = {{.positions = LL_GRID / LL_THIRDS}, {.positions = LL_GRID}}};
    int64_t durations = 0;
    ll_wrong_files wrong = {0};
    char **names = NULL;
    int n = 0;
    ll_status status = ll_files_list(&names, &n, path);
    for (int i = 0; !status && i < n; i++) {
        ll_score score = {0};
        status = ll_music_score(&score, names[i]);
        if (!status) add_score(&fit, &durations, &score);
        ll_score_free(&score);
        status = ll_wrong_files_add(&wrong, status, names[i]);
    }
    if (!status) status = ll_wrong_files_end(&wrong);
    ll_names_free(names, n);
    if (!status && !fit.notes) status = ll_fail(LL_EINVAL, "%s: there is no note in it", path);
    if (status) return status;
    fit.held /= (double)fit.notes;
    for (int g = 0; g < 2; g++) {
        fit.grid[g].onsets_off /= (double)fit.notes;
        fit.grid[g].moved /= (double)fit.notes;
        if (durations) fit.grid[g].durations_off /= (double)durations;
    }
    *out = fit;
    return LL_OK;
}
