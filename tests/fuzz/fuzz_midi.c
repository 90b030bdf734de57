/* Any bytes as a MIDI file, and as events: refused, or a sorted score that comes back from the grid, from its tokens
 * and from the file that is written from it. */
#include <string.h>

#include "base/memory.h"
#include "data/music/score.h"
#include "fuzz/fuzz.h"

static void check_same(const ll_score *a, const ll_score *b) {
    check(a->notes == b->notes && a->tempos == b->tempos && a->meters == b->meters);
    for (int64_t i = 0; i < a->notes; i++)
        check(a->note[i].begin == b->note[i].begin && a->note[i].end == b->note[i].end &&
              a->note[i].instrument == b->note[i].instrument && a->note[i].pitch == b->note[i].pitch &&
              a->note[i].velocity == b->note[i].velocity);
    for (int64_t i = 0; i < a->tempos; i++)
        check(a->tempo[i].at == b->tempo[i].at && a->tempo[i].micros == b->tempo[i].micros);
    for (int64_t i = 0; i < a->meters; i++)
        check(a->meter[i].at == b->meter[i].at && a->meter[i].numerator == b->meter[i].numerator &&
              a->meter[i].denominator == b->meter[i].denominator);
}

/* A score on the grid as tokens, and as a file. */
static void check_inverse(const ll_score *grid, int fine) {
    int32_t *tokens = NULL;
    int64_t count = 0;
    ll_score again = {0}, read = {0};
    ll_bytes file = {0};
    check(!ll_music_encode(&tokens, &count, grid));
    for (int64_t i = 0; i < count; i++) check(tokens[i] >= 0 && tokens[i] < ll_music_vocab(fine));
    check(!ll_music_decode(&again, tokens, count, 0));
    check_same(grid, &again);
    ll_score_free(&again);
    check(!ll_midi_write(&file, grid));
    check(!ll_midi_read(&read, file.data, file.size, "written"));
    check(!ll_music_grid(&again, &read, fine, "written"));
    check_same(grid, &again);
    ll_score_free(&again);
    ll_score_free(&read);
    ll_bytes_free(&file);
    ll_free(tokens);
}

static void try_file(const uint8_t *data, size_t size) {
    ll_score score = {0}, grid = {0};
    if (ll_midi_read(&score, data, size, "input")) {
        check(!score.note && !score.notes);
        return;
    }
    check((size_t)score.notes <= size && score.division > 0);
    for (int64_t i = 0; i < score.notes; i++) {
        const ll_note *n = &score.note[i];
        check(n->begin < n->end && n->instrument < LL_INSTRUMENTS && n->pitch < 128 && n->velocity < 128);
        check(!i || n[-1].begin <= n->begin);
    }
    for (int fine = 0; fine < 2; fine++) {
        if (!ll_music_grid(&grid, &score, fine, "input")) check_inverse(&grid, fine);
        ll_score_free(&grid);
    }
    ll_score_free(&score);
}

/* Two bytes a token. */
static void try_tokens(const uint8_t *data, size_t size, int fine) {
    const size_t n = size / 2;
    int32_t *tokens = malloc(n * sizeof *tokens + 1);
    ll_score grid = {0};
    check(tokens != NULL);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = (data[2 * i] << 8 | data[2 * i + 1]) % (ll_music_vocab(fine) + 1);
        if (tokens[i] == ll_music_vocab(fine)) tokens[i] = LL_MUSIC_VOCAB_FINE; /* a token that does not exist */
    }
    /* A score without notes owns nothing. */
    if (!ll_music_decode(&grid, tokens, (int64_t)n, (int64_t)(n / 3)) && grid.notes) check_inverse(&grid, fine);
    ll_score_free(&grid);
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t *tokens = NULL;
    int64_t count = 0;
    try_file(data, size);
    for (int fine = 0; fine < 2; fine++) {
        try_tokens(data, size, fine);
        if (!ll_music_tokens(&tokens, &count, data, size, fine, "input")) check(count > 0);
        ll_free(tokens);
        tokens = NULL;
    }
    return 0;
}
