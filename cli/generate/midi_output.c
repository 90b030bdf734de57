/* Writes generated music as a MIDI file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/generate_output.h"

int ll_text_output_is_music(const ll_text_output *s) {
    size_t count;
    ll_tokenizer_special(s->tokenizer, LL_SPECIAL_PIECE, &count);
    return count > 0;
}

int ll_midi_output_check(const char *path, int n, const char *const *words) {
    const char *dot = strrchr(path, '.');
    if (dot && (!strcmp(dot, ".mid") || !strcmp(dot, ".midi"))) return ll_target_apart("--out", path, n, words);
    return ll_usage("--out %s: the file is written as MIDI; its name must end in .mid or .midi", path);
}

/* Generates so many events (0: to the end of the piece, or until a signal). The piece does not end before its first new
 * event, so that a prompt that is a whole piece is continued. */
static int go_on(ll_text_output *s, const ll_sampling *how, int64_t most, int64_t *n, ll_progress_line *progress) {
    size_t count;
    const int piece = *ll_tokenizer_special(s->tokenizer, LL_SPECIAL_PIECE, &count);
    for (; (!most || *n < most) && !ll_text_output_ended(s) && !ll_stop_wanted(); ++*n) {
        const char *text;
        size_t size;
        (void)ll_progress_report(*n, most, progress);
        if (!*n) s->logits[piece] = -1e30f;
        const ll_status status = ll_text_output_next(s, how, &text, &size);
        if (status) return ll_failed(status, NULL);
        if (s->tokens[s->token_count - 1] == piece) return -1;
    }
    if ((!most || *n < most) && ll_text_output_ended(s)) ll_print_end("text", ll_text_output_position(s), NULL);
    return -1;
}

int ll_midi_output(ll_text_output *s, const char *path, const ll_sampling *how, int64_t most, int echo, int64_t *n,
                   ll_progress_line *progress) {
    const size_t first = s->token_count;
    const int code = go_on(s, how, most, n, progress);
    if (code >= 0) return code;
    if (!*n) return ll_fail_message("no event was generated, so that %s was not written", path);
    const ll_status status = ll_tokenizer_write_midi(s->tokenizer, path, s->tokens, s->token_count, echo ? 0 : first);
    return status ? ll_failed(status, NULL) : -1;
}
