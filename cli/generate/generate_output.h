/* Feeding text to a stream and printing what it generates: shared by generate and demo. */
#ifndef LL_GENERATE_OUTPUT_H
#define LL_GENERATE_OUTPUT_H

#include <stddef.h>

#include "cli.h"
#include "longline-batch.h"
#include "longline-draft.h"

typedef struct {
    const ll_model *model, *draft_model; /* draft_model: the one that drafts, or NULL */
    ll_stream *stream;                   /* NULL: there is a draft */
    ll_draft *draft;   /* with that model; ready: what it made that is not given yet */
    int ready[LL_DRAFT_MOST + 1], readies, given;
    ll_tokenizer *tokenizer;
    int vocab;      /* tokens of the model, and ... */
    int text_vocab; /* ... the number of tokens that stand for text */
    int bytes;      /* is every byte a token? Then text is fed at once */
    float *logits; /* (vocab): logits of the next token */
    char *text;    /* else: the text so far, until ll_text_output_flush makes tokens of it */
    size_t size, capacity;
    int64_t most, fed; /* most tokens to feed (0: all of them), and the number fed */
    int last;          /* the last token that was fed, */
    int in_word;       /* and whether the prompt ends in a word */
    int cut;           /* a signal came before all of its tokens were fed */
    int reports;       /* reports progress if a text is longer than a block of a file */
    int separator;     /* the token with which learned positions begin again, or -1 */
    int saves;         /* the state is saved, so that the text ends with the last token that the stream can read */
    int full;          /* the last token had no position, so that the stream has not read it */
    int keeps;         /* keeps the tokens of prompt and output: */
    int *tokens;
    size_t token_count, token_capacity;
} ll_text_output;

/* -1; or, after printing why, the exit code: for a model that does not generate. The model must outlive it. state: a
 * file to start from, or NULL. */
int ll_text_output_create(ll_text_output *s, ll_model *model, const char *state);
/* Begins another text with a copy of a stream. */
ll_status ll_text_output_begin(ll_text_output *s, const ll_stream *from);
/* The same as ll_text_output_create, with another model that drafts `draft_tokens` tokens at a time. */
int ll_text_output_draft(ll_text_output *s, ll_model *model, ll_model *draft_model, int draft_tokens);
void ll_text_output_free(ll_text_output *s);
int64_t ll_text_output_position(const ll_text_output *s);
/* Bytes of its state, without scratch, as inspect gives them; and those of any stream of a model at a position. */
size_t ll_text_output_bytes(const ll_text_output *s);
size_t ll_state_at(const ll_model *model, int64_t position);
ll_status ll_text_output_feed(ll_text_output *s, const uint8_t *bytes, size_t n);
/* Ends the prompt: all of it has now been fed. */
ll_status ll_text_output_flush(ll_text_output *s);
/* Does the text end here, because learned positions do? */
int ll_text_output_ended(const ll_text_output *s);
/* Prints that a "text" or "target" does. place: of the prompt, or NULL. */
void ll_print_end(const char *what, int64_t position, const char *place);
/* Gives the text of the next token, and feeds it. Call it for a text that has not ended. */
ll_status ll_text_output_next(ll_text_output *s, const ll_sampling *how, const char **text, size_t *size);

/* ---- midi_output.c ---- */

int ll_text_output_is_music(const ll_text_output *s);
/* Can a MIDI file of this name be written, without harm to the n files that are read? -1, or the exit code after
 * printing why not. */
int ll_midi_output_check(const char *path, int n, const char *const *words);
/* Writes up to `most` events (0: to the end of the piece) as a MIDI file, with echo after the prompt. Requires that
 * tokens are kept. *n: how many were generated. -1, or the exit code. */
int ll_midi_output(ll_text_output *s, const char *path, const ll_sampling *how, int64_t most, int echo, int64_t *n,
                   ll_progress_line *progress);

/* The options of generate for seq2seq. */
typedef struct {
    const char *prompt, *prompt_file, *load_state, *save_state; /* NULL: not given */
    ll_sampling how;
    int64_t most; /* bytes of the target; 0: up to its end */
    int only_read;
    int pairs;    /* is it a seq2seq model: with --prompts */
    const char *place; /* "FILE, line N" of the prompt, for errors; or NULL */
} ll_question;
/* Writes the target of a text or of a file's text, or continues it. Returns the exit code. */
int ll_answer(ll_model *model, const ll_question *question);
/* The same for one text, to a file: the answer alone. -1, or the exit code. */
int ll_answer_line(ll_model *model, const ll_question *question, const char *text, size_t n, FILE *to);
/* prompts.c. Of a file with a prompt a line: a line of what the model makes of each, prompt number i (from 0) with the
 * seed + i. Ranks share them. Gives the exit code. */
int ll_answer_prompts(ll_model *model, const ll_question *question, const char *path);

/* Standard output failed while a state is to be saved, which is done all the same; later output is discarded. If the
 * reader has closed the pipe (EPIPE), this is no failure. Any other error is printed, and makes 0 another exit code in
 * the end. */
void ll_output_lost(void);
int ll_output_code(int code);

#endif
