/* The systems of a paper's table, each trained under one budget, beside the published figures. */
#ifndef LL_COMPARE_API_H
#define LL_COMPARE_API_H

#include "longline/base.h"
#include "longline/train.h"

LL_C_BEGIN

/* ---- Baselines, and the time of a step ---- */

/* The loss (nats) of a split under n-grams of `order` tokens (1 to 16; 5 is usual) that are counted in the train split,
 * with interpolated, modified Kneser-Ney smoothing (Chen and Goodman 1999), and the number of its tokens. The recipe's
 * task is lm. A text's first token is not predicted. A context ends where its text begins, and goes on beyond the
 * beginning of a window (train.length). LL_ESTOPPED if `progress` (batches of both splits; may be NULL) returns 1. Time
 * is order x tokens; memory some 48 to 100 bytes for each different n-gram and context. */
LL_API LL_MUST_USE ll_status ll_ngrams(const ll_recipe *recipe, int order, const char *split, ll_done_fn *progress,
                                       void *arg, double *loss, int64_t *tokens);

typedef struct {
    double loss;     /* nats a token */
    double accuracy; /* of always predicting the most frequent token */
    int64_t count;   /* tokens whose loss it is */
} ll_baseline;
/* The loss of the token frequencies of the train split, with add-one smoothing: the empirical baseline of language
 * models, masked or not. batches: how many of the split, as in ll_evaluate; 0 is all. */
LL_API LL_MUST_USE ll_status ll_unigram(const ll_recipe *recipe, const char *split, int batches, ll_baseline *result);

/* Seconds of one full training step (forward, backward, update) on random tokens, without data or files: what `longline
 * bench` times. */
LL_API LL_MUST_USE ll_status ll_train_step_time(const ll_recipe *recipe, int repeats, double *seconds);

/* ---- Tables ---- */

typedef struct ll_comparison ll_comparison;

/* Reads a table of systems (docs/format.md: recipes/tables/NAME.ini) and the recipes that it names. LL_EFORMAT and
 * LL_EINVAL name file and line. */
LL_API LL_MUST_USE ll_status ll_comparison_load(ll_comparison **comparison, const char *path);
LL_API void ll_comparison_free(ll_comparison *comparison);
/* Sets a key of the recipes of all systems, for example the path of their data. A budget sets train.warmup to at most a
 * tenth of the steps, train.eval-every to a tenth and train.checkpoint-every to a twentieth; a key set here overrides
 * that. LL_EINVAL for train.steps and train.seed, which follow from budget and seeds. */
LL_API LL_MUST_USE ll_status ll_comparison_set(ll_comparison *comparison, const char *assignment);

typedef struct {
    const char *what, *how; /* "data": "WikiText-2 for WikiText-103" */
} ll_difference;

typedef struct {
    const char *title, *paper; /* table and paper */
    const char *metric;        /* "perplexity", "accuracy" (per cent), "bits", "loss" */
    int rises, decimals;       /* larger is better; number of digits to print */
    const char *split;         /* split of the results: "test" or "valid" */
    int batches;               /* number of its batches; 0 = all */
    int differences;
    const ll_difference *difference; /* differences from the paper, as the table states them */
} ll_comparison_about;
LL_API const ll_comparison_about *ll_comparison_report(const ll_comparison *comparison);

typedef struct {
    const char *name, *label;
    double published;              /* NaN: the paper has no figure */
    int runs, diverged;            /* finished runs; those of them that diverged, or whose metric is not finite */
    double mean, deviation;        /* of the metric over the other runs; NaN without one, or two, of them */
    double steps, tokens, seconds; /* means over runs */
    double parameters, count;      /* parameters of the model; number of predictions */
} ll_system;
/* System number i with its finished runs; 0 after the last. */
LL_API int ll_comparison_system(const ll_comparison *comparison, int i, ll_system *system);
/* Of the pairs of systems that have both a mean and a published figure, and no diverged run: their number, and the
 * number of those in the published order. */
LL_API void ll_comparison_order(const ll_comparison *comparison, int *pairs, int *agree);

typedef struct {
    const ll_system *system;
    const ll_recipe *recipe; /* of its runs */
    int seed, number, of;    /* this run is the number-th (from 1) of those that remain */
    const char *stage; /* "begin"; "pace": a step is timed; "train"; "evaluate"; "elsewhere": another process makes
                        * the run, which is left to it */
    const ll_progress *run;  /* "train": as in ll_progress_fn, else NULL */
    double after;            /* expected seconds of the later runs; NaN while unknown */
} ll_comparison_progress;
/* Non-zero stops: the run is saved, and ll_comparison_run returns LL_ESTOPPED. */
typedef int ll_comparison_fn(const ll_comparison_progress *progress, void *arg);

typedef struct {
    double seconds; /* training time of each run; it is converted to steps once for each system */
    int64_t steps;  /* or steps of each run, if seconds is 0 */
    int seeds;      /* 1 .. seeds; train.seed of the runs */
    int only;       /* number of systems to run, by name (below); 0: all */
    const char *const *names;
    const char *folder;         /* folder of runs and results */
    ll_comparison_fn *progress; /* or NULL */
    void *arg;
} ll_comparison_how;

/* Makes all runs that `folder` does not have yet, seed by seed, and continues an interrupted one; then the comparison
 * has all results. A run that diverges is a result, too. LL_EINVAL if the folder has runs with other settings or
 * another budget. LL_ESTOPPED on request; after that, and after a crash, the next call continues. The folder contains
 * NAME-SEED, run folders with a result.ini. */
LL_API LL_MUST_USE ll_status ll_comparison_run(ll_comparison *comparison, const ll_comparison_how *how);
/* Writes table.csv and table.html (the table, the curves of the first seeds, the differences) into a folder of runs. */
LL_API LL_MUST_USE ll_status ll_comparison_write(const ll_comparison *comparison, const char *folder);

/* The text of a table of results that were measured before (docs/format.md), as `longline table` prints it: mean and
 * deviation over seeds, with the published figures. The caller frees *text with ll_text_free. It is NULL if the file is
 * a table of systems to run, which ll_comparison_load reads. */
LL_API LL_MUST_USE ll_status ll_measured_table(char **text, const char *path);

LL_C_END

#endif
