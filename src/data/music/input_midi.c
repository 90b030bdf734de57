/* Music: every file is one piece. It is a MIDI file, which becomes the text of its events, or a file of that text. */
#include <string.h>

#include "base/file.h"
#include "base/integer.h"
#include "base/memory.h"
#include "data/input.h"
#include "data/music/score.h"

/* Reads the whole file; LL_EFORMAT beyond the size limit of MIDI. */
static ll_status read_all(ll_input *in) {
    ll_status status = ll_input_reserve(in, LL_INPUT_BLOCK, 0);
    in->n = 0;
    while (!status && ll_input_peek(in) >= 0) {
        if (in->n > LL_MIDI_MOST)
            return ll_fail(LL_EFORMAT, "%s is longer than %d bytes, up to which music is read",
                           ll_unpack_name(in->source), LL_MIDI_MOST);
        status = ll_input_reserve(in, in->n + LL_INPUT_BLOCK, in->n);
        if (!status) in->n += ll_input_bytes(in, in->buffer + in->n, LL_INPUT_BLOCK);
    }
    return status ? status : in->status;
}

/* Replaces the file by its text of events. */
static ll_status to_text(ll_input *in) {
    int32_t *tokens = NULL;
    int64_t count = 0;
    ll_bytes text = {0};
    ll_status status = ll_music_tokens(&tokens, &count, in->buffer, in->n, in->fine, ll_unpack_name(in->source));
    if (!status) status = ll_music_text(&text, tokens, count);
    if (!status) status = ll_input_reserve(in, text.size, 0);
    if (!status) memcpy(in->buffer, text.data, in->n = text.size);
    ll_free(tokens);
    ll_bytes_free(&text);
    return status == LL_EINVAL ? LL_EFORMAT : status;
}

static ll_status begin(ll_input *in, int *found) {
    *found = !in->image++;
    if (!*found) return LL_OK;
    const char *name = in->path[in->file - 1];
    ll_status status = read_all(in);
    if (!status && !in->n)
        status = ll_fail(LL_EFORMAT, "%s is empty, and no piece of music", ll_unpack_name(in->source));
    if (!status) status = to_text(in);
    in->given = 0;
    in->left = in->n;
    return status ? status : ll_input_name(in, name, strlen(name));
}

static ll_status more(ll_input *in, int *ends) {
    in->text = in->buffer + in->given;
    in->n = ll_min_size(in->left, in->piece);
    in->given += in->n;
    in->left -= in->n;
    *ends = !in->left;
    return LL_OK;
}

const ll_input_kind ll_input_midi = {begin, more, 0};
