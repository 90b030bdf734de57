/* Sequences through a model, for score, encode and classify. They are read one after the other and gathered in a
 * window. Those of similar length form a batch. Answers come in the order of the input. */
#ifndef LL_SEQUENCES_H
#define LL_SEQUENCES_H

#include "cli.h"
#include "output/show.h"

/* One sequence, or part of a long one. */
typedef struct {
    char *id, *file, *label; /* label: the true class, or NULL */
    int64_t line;
    int *tokens, n; /* tokens that went through the model */
    int64_t first;  /* index of tokens[0] in the sequence, if it is a part */
    int begins, ends;
    size_t at, size; /* its answer: floats in the window's memory */
    const float *answer;
} ll_item;

/* What a command defines. */
typedef struct {
    ll_model *model;
    size_t width; /* floats of the answer to a token (per_token) or a sequence */
    int per_token;
    int numbers;                /* per_token: numbers of a sequence for each answer, those of a patch; 0: 1 */
    const char *before, *after; /* texts around every sequence; NULL: none */
    void (*header)(void);       /* writes the header of the answers; NULL: none */
    /* Runs the model on a batch: (B, T, width) or (B, width). */
    ll_status (*run)(ll_model *model, float *out, const int *tokens, const int *lengths, int B, int T);
    int scored; /* run is ll_model_score: long sequences may go through a stream */
    /* Writes an answer. -1, or the exit code after printing why. */
    int (*show)(const ll_item *item);
    int in_parts;                   /* ... which writes what it has of a long sequence, and not all at its end */
    const char *label_key, *labels; /* as in ll_input_options */
    int quiet;                      /* answers do not go to standard output */
    const char *out;                /* they go to this file (.csv: as CSV); NULL: to standard output */
} ll_job;

extern const ll_arg ll_sequence_args[];

/* All sequences of the files (none: standard input); returns the exit code. */
int ll_sequences(const ll_job *job, int files, const char **paths);
/* A command with arguments MODEL [FILE...]: loads the model, and calls `use` with it and the files. */
int ll_sequences_with(int n, const char **words, int (*use)(ll_model *model, int files, const char **paths));

/* ---- files.c ---- */

/* What --format (NULL: not given) and --whole say. A file of music is one piece, unless the format is lines. -1, or the
 * exit code. */
int ll_choose_format(ll_input_format *kind, const char *format, int whole, int music);
/* Refuses keys for a format that has none. -1, or the exit code. */
int ll_keys_check(const ll_input_options *how);
/* Says that a table (.csv, .tsv) is no format of sequences. */
void ll_tables_are_lines(int files, const char **paths);
/* Names the files after number *file that come before the one called `name`, or NULL: before the end, as they have no
 * sequence; *file is then its number, from 1. */
void ll_note_empty(int files, const char **paths, int *file, const char *name);
/* The first file that cannot be opened, or NULL. */
const char *ll_first_unreadable(int files, const char **paths);

/* ---- window.c ---- */

enum { LL_PIECE = 8192 }; /* tokens of a batch; longer sequences are read in pieces of this size */

typedef struct {
    const ll_job *job;
    int (*tick)(void *arg, double share); /* gets the part of the window that is done; non-zero stops */
    void *arg;
    ll_status failed; /* status of this rank's batch number failed_at, with several ranks */
    int failed_at;
    int64_t done, now; /* tokens of the window: answered, and in the current batch */
    int n, capacity;
    ll_item *item;
    int64_t tokens;
    float *answers, *out; /* of all; of a batch */
    size_t answers_capacity, out_capacity;
    int *batch, *order; /* tokens and lengths of a batch; items by length */
    size_t batch_capacity;
    int order_capacity;
} ll_window;

/* Takes ownership of id, file and tokens; -1, or the exit code. */
int ll_window_add(ll_window *w, const ll_item *item);
int ll_window_full(const ll_window *w, int64_t most);
/* An ll_done_fn for ll_model_watch: a batch may be one long sequence. */
int ll_window_report(int64_t done, int64_t total, void *window);
/* Answers come now: ends the line of progress where they go to the same terminal. */
void ll_window_answers(const ll_window *w);
/* Runs, shows and removes what is in the window. */
int ll_window_flush(ll_window *w);
/* The same at the end of the input, which all ranks must have reached. */
int ll_window_end(ll_window *w);
void ll_window_free(ll_window *w);
/* The remedy where a sequence does not fit into memory. */
#define LL_USE_LESS "; to use the first tokens of each sequence alone, give --length N"
/* "FILE: line N: why" and the exit code of a status. */
int ll_item_failed(ll_status status, const ll_item *item);

#endif
