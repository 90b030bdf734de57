/* Bytes into a stream and out of it: what generate and demo share. */
#ifndef LL_SPEAK_H
#define LL_SPEAK_H

#include <stddef.h>

#include "cli.h"

typedef struct {
    ll_stream *stream;
    int vocab;
    float *logits; /* (vocab): of the byte that comes next */
} ll_speaker;

/* -1; or, after saying why, the exit code: for a model that does not generate, or whose tokens are not
 * bytes. The model must outlive it. state: a file to go on from, or NULL. */
int ll_speaker_create(ll_speaker *s, ll_model *model, const char *state);
void ll_speaker_free(ll_speaker *s);
ll_status ll_speaker_feed(ll_speaker *s, const uint8_t *bytes, size_t n);
/* The next byte, which is fed back. */
ll_status ll_speaker_next(ll_speaker *s, const ll_sampling *how, int *byte);

/* seq2seq: writes what the model makes of a text, or of a file's; at most so many bytes (0: up to its end). Gives the
 * exit code. */
int ll_answer(ll_model *model, const char *prompt, const char *prompt_file, const ll_sampling *how, int64_t most);

#endif
