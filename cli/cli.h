/* What the commands share. Results go to stdout, messages to stderr, one line each. Exit codes: 0 success; 1 failure; 2
 * usage and bad input (an option, a recipe, a given file). */
#ifndef LL_CLI_H
#define LL_CLI_H

#include <limits.h>
#include <stdio.h>

#include "args.h"
#include "longline-lab.h"
#include "longline-dist.h"
#include "output/terminal.h"

/* All commands but help and version, which are in main.c. */
extern const ll_command ll_command_train, ll_command_eval, ll_command_generate, ll_command_score, ll_command_encode,
    ll_command_classify, ll_command_serve, ll_command_inspect, ll_command_attend, ll_command_demo, ll_command_report,
    ll_command_bench, ll_command_recipe, ll_command_list, ll_command_analyse, ll_command_table, ll_command_data,
    ll_command_import, ll_command_export, ll_command_quantize, ll_command_tokenize;

/* "longline train: message" on stderr. */
void ll_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; returns exit code 1. */
int ll_fail_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, with a hint to --help; returns exit code 2. */
int ll_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints ll_error() and returns the exit code of a status. If `input`, a path that the user gave (or NULL), cannot be
 * opened, a failure to read or write is bad input. */
int ll_failed(ll_status status, const char *input);
/* The same, with the place of bad input in front. */
int ll_failed_at(ll_status status, const char *place);

/* A text that goes to a file. It is printed into memory, then saved, so that the file is complete or unchanged. begin:
 * NULL after printing an error. end: -1, or the exit code; it frees the text. drop frees it and leaves the file as it
 * was. */
typedef struct {
    const char *path;
    FILE *file;
    char *text;
    size_t size;
} ll_output;
FILE *ll_output_begin(ll_output *output, const char *path);
int ll_output_end(ll_output *output);
void ll_output_drop(ll_output *output);

/* Flushes standard output. flush: 1 if something did not reach it, now or before, and keeps the first reason. check:
 * prints that reason; returns `code`, or if code is 0 and something is lost, the exit code of a failure. */
int ll_stdout_flush(void);
int ll_stdout_check(int code);
/* From now on standard output goes to a file beside `path`. -1, or the exit code. end: goes back, and gives the file
 * its name if code is 0, or else removes it; returns the exit code. Without a begin it returns `code`. */
int ll_stdout_begin(const char *path);
int ll_stdout_end(int code);

/* ---- Files and folders that an option names, to write them ---- */

/* Can a file be written at the path of an option? Is called before the work whose result it keeps. Pipes and devices
 * cannot be replaced, so they are refused. "-" is refused, too: the commands that can write to standard output do not
 * ask. -1, or the exit code. */
int ll_target_check(const char *option, const char *path);
/* The same for a text that ll_output_end saves, which writes to pipes and devices directly. */
int ll_text_target_check(const char *option, const char *path);
/* Does the name of a file end so, and is it longer? */
int ll_ends_with(const char *path, const char *ending);
/* Refuses a path with a line end, which would break the line of a result. -1, or the exit code. */
int ll_line_check(const char *option, const char *path);
/* Are two paths one file, which need not be there? */
int ll_target_is(const char *path, const char *second);
/* Refuses two options whose paths are one file. -1, or the exit code. */
int ll_targets_differ(const char *option, const char *path, const char *other, const char *second);
/* ll_target_check of a path that is not a file that is read, either: the model of words[0], also where that is a folder
 * of several files, or another of n words; nor a file that the run of that model needs. */
int ll_target_apart(const char *option, const char *path, int n, const char *const *words);
int ll_text_target_apart(const char *option, const char *path, int n, const char *const *words); /* n may be 0 */
/* ll_target_apart for --out of answers that are text. "-" means standard output, and becomes NULL. The ending must not
 * name another format: json says whether the answers are JSON. */
int ll_answers_target(const char **path, int json, int n, const char *const *words);
/* The same for --out of vectors. */
int ll_vectors_target(const char **path, int n, const char *const *words);
/* Can the path of an option be a folder, which is created later? No file has its name or that of a folder above it. -1,
 * or the exit code. */
int ll_folder_check(const char *option, const char *path);

/* ---- Recipes and runs ---- */

/* Applies every "section.key=value" of --set. */
ll_status ll_set_all(ll_recipe *recipe, const ll_arg_list *set);
/* 'KEY="VALUE"' for ll_recipe_set, so that a path keeps its quotes and spaces. */
enum { LL_ASSIGNMENT = 2 * PATH_MAX + 64 };
const char *ll_assignment(char text[LL_ASSIGNMENT], const char *key, const char *value);
/* As ll_failed, for a call that opens the data of a recipe. */
int ll_failed_data(ll_status status, const ll_recipe *recipe);
/* Creates the first of "runs/NAME-1", "runs/NAME-2", ... that does not exist. So two runs that begin at the same time
 * get different folders. If no folder can be created, the caller reports it when it writes there. A signal that ends
 * the program before ll_stop_on_signals removes it. */
void ll_new_run(char *out, size_t size, const char *name);
/* Removes the folder of a run that could not begin, if it is empty. Handlers of signals may call it. */
void ll_drop_run(const char *folder);
/* Can the run in this folder be resumed? */
int ll_has_checkpoint(const char *folder);
/* The best model of a run, or the last one if nothing was evaluated. */
void ll_run_model(char *path, size_t size, const char *run);
/* The file of a model: of the folder of a run its best model, else its last one; any other path stays as it is. */
const char *ll_model_file(const char *path, char file[PATH_MAX]);
/* Loads a model for use, and warns if its file has no checksums. A run's folder will do. -1, or the exit code. */
int ll_load_model(ll_model **model, const char *path);
void ll_note_unchecked(const char *path); /* the warning for any file of tensors */
/* Quantizes the weights of the model of this file as --weights says: f32, bf16, int8, int4; NULL: they stay as they
 * are. -1, or the exit code. */
int ll_round_weights(ll_model *model, const char *path, const char *weights);
/* A key that --set names besides the option that means the same. -1, or the exit code. */
int ll_twice_check(const char *option, const ll_arg_list *set, const char *key);
/* --data for a recipe whose data.format makes its data would be ignored. -1, or the exit code. */
int ll_data_check(const ll_recipe *recipe, const char *data);
/* Are its data images? */
int ll_reads_images(const ll_recipe *recipe);
/* The numbers of one of its images; 0: its data are none. */
int ll_image_numbers(const ll_recipe *recipe);
/* The numbers of one patch of an image (model.patch); 1: its tokens are no patches. */
int ll_patch_numbers(const ll_recipe *recipe);
/* What files become that its model reads: the size of images, the grid of music. */
ll_input_options ll_input_of(const ll_recipe *recipe);
/* The name of a class, from data.classes, or its number where classes have no names. Returns text. */
enum { LL_CLASS_NAME = 300 };
const char *ll_class_name(const ll_recipe *recipe, int class, char text[LL_CLASS_NAME]);
/* The commands for a model of this task: "encode, eval". */
const char *ll_uses(const ll_model *model);
/* The unit of a language model's loss (ll_recipe_unit); NULL for tasks with examples. */
const char *ll_unit(const ll_recipe *recipe);

/* Prints "KEY=PERPLEXITY": with digits that mean something, and not at all where it is larger than any number. */
void ll_show_perplexity(const char *key, double perplexity);

/* Prints the losses of the token frequencies of the train split on another split, as COMMAND.unigram_..., for the data
 * that are compared with them (proteins, words, music). batches: how many of the split are evaluated; 0: all. */
void ll_show_baseline(const char *command, const ll_recipe *recipe, const char *split, int batches);

/* What the recipe would need for this key to have an effect (ll_recipe_key); NULL: it has one. */
const char *ll_unmet(const ll_recipe *recipe, const char *key);

/* Bytes that the machine has left for programs; infinite where that is not known. */
double ll_memory_available(void);
/* Prints what a run, or one of `ranks`, would take; a message where there is not as much. Returns the exit code. */
int ll_print_memory(const ll_recipe *recipe, int ranks);
/* The message alone, of a run that has been created. */
void ll_question_memory(const ll_recipe *recipe);

/* ---- Progress of training ---- */

typedef struct {
    const char *unit; /* ll_unit */
    const char *name; /* prefix of each line, or NULL */
    double after;     /* seconds of later runs; 0: none, NaN: unknown */
    ll_line line;
    double shown;       /* time of the last line */
    int64_t shown_step; /* and its step */
    int64_t steps;      /* steps that were watched */
    const char *folder; /* folder of a run that saves at the first signal; or NULL */
    int64_t saved;      /* step of its checkpoint */
    ll_progress last;
} ll_watch;

/* From now on the signal that train.preempt names asks the run to stop. */
void ll_watch_preempt(const ll_recipe *recipe);
/* The same; and after Ctrl-C, SIGTERM or SIGHUP ll_watch_step asks the run to stop; the second signal ends the program
 * and says from which step the run in this folder can be resumed. folder NULL: one run of several, which the same
 * command continues. */
void ll_watch_start(ll_watch *watch, const ll_recipe *recipe, const char *folder);
int ll_watch_step(const ll_progress *progress, void *watch); /* an ll_progress_fn */
void ll_watch_end(ll_watch *watch);                          /* ends the moving line */
/* What to do first where the disk is full, or the user's quota, or the file may not be as large. The error then names
 * only the file. */
const char *ll_disk_remedy(const char *error);
/* A run that could not write, or lost a rank. Its checkpoint is complete, and the run can be resumed, when there is
 * space. Where rank 0 is lost, another one says so, which may not see the folder. Prints why and how it goes on;
 * returns the exit code. */
int ll_broken_off(const ll_trainer *trainer, const ll_watch *watch);

/* Progress of other work: "train.tsv: 1200 of 96000, eta 0:23" after two seconds. */
typedef enum { LL_PROGRESS_BYTES, LL_PROGRESS_COUNT, LL_PROGRESS_SHARE } ll_progress_unit;
typedef struct {
    ll_line line;
    ll_progress_unit unit; /* "31 MB of 170 MB", "1200 of 96000", "34 %" */
    const char *what;
    int resumes, done_before; /* the first report contains work that was done before the start */
    int64_t before;
    double start, shown;
} ll_progress_line;
ll_progress_line ll_progress_of(ll_progress_unit unit, const char *what);
int ll_progress_report(int64_t done, int64_t total, void *line); /* an ll_done_fn; stops where ll_stop_wanted */
void ll_progress_end(ll_progress_line *line);                    /* ends the moving line */

/* From now on files that take longer than two seconds to read have such a line: "reading data.xz: 34 %, eta 0:05". The
 * program begins with it. A report of other work ends it. */
void ll_reading_line_begin(void);
void ll_reading_line_end(void);

/* From now on Ctrl-C, SIGTERM and SIGHUP make ll_stop_wanted true, and the second one ends the program. restart:
 * waiting calls continue to wait; else they fail with EINTR. The first signal prints `first` ("saving") with "; again
 * stops at once". The second one prints `second`: what is left of the work. */
void ll_stop_on_signals(int restart, const char *first, const char *second);
void ll_stop_leaves(const char *second); /* for later signals */
void ll_stop_after(void (*last)(void));  /* until ll_stop_on_signals a signal calls this, and ends the program */
void ll_stop_no_more(void);              /* Ctrl-C, SIGTERM and SIGHUP end the program at once again */
/* A signal that announces the end of a job's time: it asks to stop, however often it comes. The first prints `text`. */
void ll_stop_on_notice(int signal, const char *text);
void ll_stop_quietly(void);              /* later signals print nothing */
int ll_stop_wanted(void);
const char *ll_stop_left(void);       /* what a run that ends at once leaves, as a line; NULL: nothing to say */
void ll_stop_on_shortened_file(void); /* SIGBUS of a mapped file is an error with a message */

/* A file of the command line as readers name it: "-" is standard input. */
const char *ll_shown_path(const char *path);
/* Passes a file ("-": standard input) of any length, plain, .gz, .xz or .zst, block by block to `take`, until that
 * returns non-zero or a signal arrives, which it reports. what: the name in lines of progress; NULL: no progress.
 * most: the bytes that are wanted of it, unpacked; 0: all. There may be more of them in the last block. Returns -1, or
 * LL_CUT after a signal, or the exit code after printing why the file cannot be read. */
enum { LL_CUT = -2 };
enum { LL_BLOCK = 4096 }; /* bytes of a block at most */
typedef int ll_block_fn(const uint8_t *bytes, size_t n, void *arg);
int ll_read_blocks(const char *path, const char *what, int64_t most, ll_block_fn *take, void *arg);
/* A whole file as text with a zero behind it, to be freed. More than `most` bytes are refused. -1, or the exit code. */
int ll_read_whole(const char *path, size_t most, char **text, size_t *n);
/* The line that begins at *at of n bytes, without its end (LF or CR LF); *at is then where the next one does. 0: there
 * is none. */
int ll_next_line(const char *text, size_t n, size_t *at, const char **line, size_t *length);
/* How many of the `total` bytes of a file, which may be packed, will have been read once `most` unpacked bytes are
 * there, `taken` of which lie between bytes `before` and `read`. */
int64_t ll_bytes_wanted(int64_t before, int64_t read, int64_t total, int64_t taken, int64_t most);

/* A path as a word of a shell, for commands in messages: in ', and a ' of it as '\''. Returns text. */
enum { LL_QUOTED = 4 * PATH_MAX + 3 };
const char *ll_quoted(char text[LL_QUOTED], const char *path);
/* "1:02:03", "4:05"; "1.2 GB". `text` has at least 24 bytes and is returned. */
char *ll_duration(char *text, double seconds);
char *ll_size(char *text, double bytes);
/* "a" or "an", for the word behind it. */
const char *ll_article(const char *word);

#endif
