/* Reading sequences from files, as input of a trained model. */
#ifndef LL_FILES_API_H
#define LL_FILES_API_H

#include "longline/base.h"

LL_C_BEGIN

/* ---- Sequences, one after the other ---- */

/* Files are read once, from beginning to end, in constant memory. They may be plain, .gz, .xz or .zst, which is
 * recognised by their first bytes. The format of what they hold: */
typedef enum {
    LL_INPUT_AUTO,  /* by the first byte of each file: FASTA if it is '>' or ';', JSONL if '{', idx and PNG by their
                     * magic numbers, else lines */
    LL_INPUT_LINES, /* every line is a sequence, without what ends it; also an empty one */
    LL_INPUT_JSONL, /* every line is an object with a text, up to 64 MiB; empty lines are passed over */
    LL_INPUT_FASTA, /* letters below a line that begins with '>'; gaps (- .), blanks and a last * are left out */
    LL_INPUT_WHOLE, /* every file is one sequence */
    LL_INPUT_IDX,   /* every image is a sequence of pixels; with 4 axes, of red, green and blue of each pixel */
    LL_INPUT_MIDI,  /* every file is a piece of music: a standard MIDI file, which becomes the text of its events (a bar
                     * a line; docs/format.md), or that text */
    LL_INPUT_PNG    /* every file is a picture, which becomes a sequence likewise */
} ll_input_format;

typedef struct {
    size_t struct_size; /* sizeof(ll_input_options), or 0: the fields of version 0.2 */
    ll_input_format format;
    const char *text_key, *id_key; /* of JSONL; NULL: "text" or else "sequence"; "id". With these keys and the next no
                                    * file is of another kind */
    const char *label_key;         /* of JSONL: of a string or integer that every object then has; NULL: no labels */
    const char *labels;            /* an idx file of labels, for one idx file of images; NULL: none */
    size_t piece;                  /* longer sequences come in pieces of so many bytes; 0: 65536 */
    int grid;                      /* of music: positions of a quarter note, as data.grid of the model; 0: 4 */
    /* What images become, resized with Pillow's bilinear filter, or its bicubic one: position.width, position.height
     * and model.channels (1 gray, 3 colours) of the model; 0: as they are. side: images are resized to a square of
     * this side, whose middle is taken; 0: to width x height. */
    int width, height, channels;
    int side, bicubic; /* data.resize-side, data.resize-filter */
} ll_input_options;

typedef struct {
    const char *id;      /* FASTA: the first word after '>'; JSONL: what id_key has; images: their number, from 0; whole
                          * files: their name; else the line's number, after the file's name where there are several */
    const char *file;    /* where it begins, for messages: "standard input" for the name "-" */
    int64_t line;        /* from 1; 0 in files without lines */
    const uint8_t *text; /* the sequence, or a piece of it */
    size_t size;
    int begins, ends;    /* is this its first piece, its last? */
    const char *label;   /* its true class, a name or number; NULL where none was asked for */
} ll_sequence;

typedef struct ll_input ll_input;

/* n paths; "-" is standard input. LL_EIO names a file that is not there; one that cannot be read fails in
 * ll_input_next. */
LL_API LL_MUST_USE ll_status ll_input_open(ll_input **input, const char *const *paths, int n,
                                           const ll_input_options *how);
/* The next sequence or piece, valid until the next call; *found = 0 after the last. LL_EFORMAT names the file and line
 * of what is wrong, LL_EIO a file that cannot be read; the input is then at its end. LL_ESTOPPED: a signal whose
 * handler does not restart calls (sigaction without SA_RESTART) arrived while the call waited for a pipe or a terminal.
 * With LL_INPUT_WHOLE, earlier calls have returned what was read before the signal. */
LL_API LL_MUST_USE ll_status ll_input_next(ll_input *input, ll_sequence *sequence, int *found);
LL_API void ll_input_close(ll_input *input);
/* Bytes of the files, packed as they are: read so far, and in all (-1: unknown). */
LL_API void ll_input_progress(const ll_input *input, int64_t *done, int64_t *total);

LL_C_END

#endif
