/* Text into a stream and out of it: what generate and demo share. */
#ifndef LL_GENERATE_OUTPUT_H
#define LL_GENERATE_OUTPUT_H

#include <stddef.h>

#include "cli.h"

typedef struct {
    ll_stream *stream;
    ll_tokenizer *tokenizer;
    int vocab;     /* of the model, and ... */
    int spoken;    /* ... tokens that stand for text */
    int bytes;     /* is every byte a token? Then text is fed as it comes */
    float *logits; /* (vocab): of the token that comes next */
    char *text;    /* else: what was fed, until ll_text_output_flush makes tokens of it */
    size_t size, capacity;
    int64_t most, fed; /* tokens that are fed at most (0: all of them), and were */
    int tells;         /* tell how far a text is fed that is longer than a block of a file */
    int keeps;         /* keep what was fed and what came: */
    int *heard;
    size_t heard_n, heard_capacity;
} ll_text_output;

/* -1; or, after saying why, the exit code: for a model that does not generate. The model must outlive it. state: a
 * file to go on from, or NULL. */
int ll_text_output_create(ll_text_output *s, ll_model *model, const char *state);
void ll_text_output_free(ll_text_output *s);
ll_status ll_text_output_feed(ll_text_output *s, const uint8_t *bytes, size_t n);
/* The end of what is fed: now the stream has seen all of it. */
ll_status ll_text_output_flush(ll_text_output *s);
/* The text of the next token, which is fed back. */
ll_status ll_text_output_next(ll_text_output *s, const ll_sampling *how, const char **text, size_t *size);

/* ---- midi_output.c ---- */

int ll_text_output_is_music(const ll_text_output *s);
/* Can music be written to a file of this name? -1, or the exit code after saying why not. */
int ll_midi_output_check(const char *path);
/* Up to `most` events (0: to the end of the piece) as a MIDI file, with echo after the prompt; the speaker keeps what
 * it hears. *n: how many came. -1, or the exit code. */
int ll_midi_output(ll_text_output *s, const char *path, const ll_sampling *how, int64_t most, int echo, int64_t *n);

/* seq2seq: what the model is asked for, by generate's options. */
typedef struct {
    const char *prompt, *prompt_file, *load_state, *save_state; /* NULL: not given */
    ll_sampling how;
    int64_t most; /* bytes of the target; 0: up to its end */
    int only_read;
    int pairs;    /* is it a seq2seq model: with --prompts */
} ll_question;
/* Writes what the model makes of a text, or of a file's, or goes on with it. Gives the exit code. */
int ll_answer(ll_model *model, const ll_question *question);
/* The same for one text, to a file: the answer alone. -1, or the exit code. */
int ll_answer_line(ll_model *model, const ll_question *question, const char *text, size_t n, FILE *to);
/* prompts.c. Of a file with a prompt a line: a line of what the model makes of each, prompt number i (from 0) with the
 * seed + i. Ranks share them. Gives the exit code. */
int ll_answer_prompts(ll_model *model, const ll_question *question, const char *path);

/* Standard output took no more while a state is to be saved, which is done all the same: what is written from now on
 * goes nowhere. A reader that has gone away (EPIPE) has all that it wanted, and nothing failed; anything else is said,
 * and makes 0 another exit code in the end. */
void ll_output_lost(void);
int ll_output_code(int code);

#endif
