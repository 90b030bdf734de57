/* Systems of a paper's table, trained under one budget each and set beside the published figures. */
#ifndef LL_COMPARE_API_H
#define LL_COMPARE_API_H

#include "longline/base.h"
#include "longline/train.h"

LL_C_BEGIN

/* ---- What a model must beat, and what a step costs ---- */

/* Bits per byte that a bigram model with add-one smoothing, counted on the train split, needs on the other split
 * (all but its first byte, which nothing precedes). */
LL_API LL_MUST_USE ll_status ll_bigram_bits(const ll_recipe *recipe, const char *split, double *bits);

typedef struct {
    double loss;     /* nats a token */
    double accuracy; /* of always saying the likeliest token */
    int64_t count;   /* tokens of the split */
} ll_baseline;
/* The loss of a model that knows only how often each token is in the train split, with add-one smoothing: the empirical
 * baseline of language models, masked or not. */
LL_API LL_MUST_USE ll_status ll_unigram(const ll_recipe *recipe, const char *split, ll_baseline *result);

/* Seconds for one full training step (forward, backward, update) on random tokens, data and files
 * untouched: what `longline bench` times. */
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
    const char *title, *paper; /* which table of which paper */
    const char *metric;        /* "perplexity", "accuracy" (per cent), "bits", "loss" */
    int rises, decimals;       /* larger is better; digits after the point that are worth printing */
    const char *split;         /* what it is measured on: "test" or "valid" */
    int batches;               /* of that; 0 = all */
    int differences;
    const ll_difference *difference; /* from the paper, as the table states them */
} ll_comparison_about;
LL_API const ll_comparison_about *ll_comparison_report(const ll_comparison *comparison);

typedef struct {
    const char *name, *label;
    double published;              /* NaN: the paper has none */
    int runs, diverged;            /* that are done; of these, without a result */
    double mean, deviation;        /* of the metric over runs; NaN without one, or two */
    double steps, tokens, seconds; /* means over runs */
    double parameters, count;      /* of the model; of what was predicted when it was measured */
} ll_system;
/* System number i as far as its runs are done; 0 past the last. */
LL_API int ll_comparison_system(const ll_comparison *comparison, int i, ll_system *system);
/* Of the pairs of systems that have both a mean and a published figure: how many there are, and how many come in the
 * order of the published figures. */
LL_API void ll_comparison_order(const ll_comparison *comparison, int *pairs, int *agree);

typedef struct {
    const ll_system *system;
    const ll_recipe *recipe; /* of its runs */
    int seed, number, of;    /* this run is the number-th (from 1) of those left to make */
    const char *stage;       /* "begin"; "pace": a step is timed; "train"; "evaluate" */
    const ll_progress *run;  /* "train": as ll_progress_fn has it, else NULL */
    double after;            /* seconds that the runs after this one take, about; NaN while unknown */
} ll_comparison_progress;
/* Non-zero stops: the run is saved, and ll_comparison_run returns LL_ESTOPPED. */
typedef int ll_comparison_fn(const ll_comparison_progress *progress, void *arg);

typedef struct {
    double seconds; /* of training for each run; the steps that fit are counted once a system, and then kept */
    int64_t steps;  /* or steps for each run, where seconds is 0 */
    int seeds;      /* 1 .. seeds; train.seed of the runs */
    int only;       /* number of systems to run, by name: those below; 0: all */
    const char *const *names;
    const char *folder;         /* where runs and results go */
    ll_comparison_fn *progress; /* or NULL */
    void *arg;
} ll_comparison_how;

/* Makes all runs that `folder` does not have yet, seed by seed, and goes on with the one that was interrupted; then the
 * comparison has all results. A run that diverges is a result, too. LL_EINVAL where the folder has runs of other
 * settings or of another budget. LL_ESTOPPED, and after a crash the next call goes on. The folder holds NAME-SEED,
 * run folders with a result.ini. */
LL_API LL_MUST_USE ll_status ll_comparison_run(ll_comparison *comparison, const ll_comparison_how *how);
/* Writes table.csv and table.html (the table, the curves of the first seeds, what differs) into a folder of runs. */
LL_API LL_MUST_USE ll_status ll_comparison_write(const ll_comparison *comparison, const char *folder);

LL_C_END

#endif
