/* Inside a comparison: the systems of a table. Each is a recipe, which is run with some seeds.
 *
 * The folder says what is done: a run whose result.ini says "done" is finished, whoever made it and when. So a
 * comparison can be killed at any time, and processes can divide the systems among them. */
#ifndef LL_COMPARE_H
#define LL_COMPARE_H

#include "base/status.h"
#include "longline-lab.h"

enum { LL_SYSTEMS_MOST = 32, LL_DIFFERENCES_MOST = 16, LL_SEEDS_MOST = 64 };
enum { LL_METRIC_PERPLEXITY, LL_METRIC_ACCURACY, LL_METRIC_BITS, LL_METRIC_LOSS };

/* Trained: its model is there, but not its loss on the table's split. */
typedef enum { LL_RESULT_NONE, LL_RESULT_BEGUN, LL_RESULT_TRAINED, LL_RESULT_DONE, LL_RESULT_DIVERGED } ll_result_state;

typedef struct {
    ll_result_state state;
    char budget[32], settings[24]; /* the budget as given; a digest of the recipe: others do not compare */
    char split[8];                 /* the loss is of this split, ... */
    int64_t batches;               /* ... and of so many of its batches; 0: all */
    int64_t steps;                 /* planned steps */
    double tokens, seconds, parameters, loss, accuracy, count;
} ll_result;

/* Keys that a budget and the seeds set: the first two always, the others unless the table or ll_comparison_set has set
 * them. */
enum { LL_BUDGET_STEPS, LL_BUDGET_SEED, LL_BUDGET_WARMUP, LL_BUDGET_LOOKS, LL_BUDGET_SAVES, LL_BUDGET_KEYS };

typedef struct {
    char *name, *label;
    double published;
    int baseline; /* no model: the loss of token frequencies alone; it has one run */
    ll_recipe *recipe;
    int said[LL_BUDGET_KEYS]; /* keys set by the table or ll_comparison_set */
    ll_result result[LL_SEEDS_MOST]; /* results of seed i + 1 */
} ll_contender;

struct ll_comparison {
    ll_comparison_about about;
    ll_difference difference[LL_DIFFERENCES_MOST];
    int metric, systems, seeds; /* seeds of the last ll_comparison_run */
    ll_contender system[LL_SYSTEMS_MOST];
};

/* ---- run_settings.c ---- */

/* LL_BUDGET_... of "key" or "key=value"; -1: another key. */
int ll_budget_key(const char *assignment);
/* The digest of a recipe, without train.report and without the keys that the budget sets (those not in `said`). */
LL_MUST_USE ll_status ll_result_settings(char settings[24], const ll_recipe *recipe, const int said[LL_BUDGET_KEYS]);
/* The recipe of a run. The budget sets its steps, and with them its warm-up, evaluations and checkpoints. */
LL_MUST_USE ll_status ll_contender_recipe(ll_recipe **recipe, const ll_contender *x, const ll_result *r, int seed);
/* Has the run in a folder, whose digest is another one, the settings of its system even so? LL_EINVAL: no. */
LL_MUST_USE ll_status ll_contender_compare(const ll_contender *x, const ll_result *r, const char *run, int seed);

/* ---- result.c ---- */

/* LL_RESULT_NONE if the run folder has none. */
LL_MUST_USE ll_status ll_result_read(ll_result *result, const char *run);
LL_MUST_USE ll_status ll_result_write(const ll_result *result, const char *run);

/* ---- compare.c ---- */

/* "FOLDER/NAME-SEED" in new memory, or NULL. */
char *ll_contender_folder(const ll_contender *x, const char *folder, int seed);

/* ---- outcome.c ---- */

/* Mean and standard deviation of those of n values that are finite; returns how many are. NaN: none has a value, or one
 * alone. */
int ll_mean_of(const double *value, int n, double *mean, double *deviation);

#endif
