/* Experiments with the claims of the papers, each a function of its seed. */
#ifndef LL_ANALYSE_API_H
#define LL_ANALYSE_API_H

#include "longline/model.h"

LL_C_BEGIN

/* A picture of a table: column y over column x, one curve for each label. */
typedef struct {
    const char *name; /* name of its file */
    const char *title, *x_label, *y_label;
    int x, y, deviation; /* columns; deviation: half the width of a band around y, -1: none */
    int log_x, log_y;
    int split; /* 1: more curves than 7 are several figures, one for labels that begin with the same word */
} ll_plot;

/* The result of an experiment: rows of numbers, each with a label. */
typedef struct {
    const char *title;
    const char *series;         /* meaning of the labels: "features" */
    int columns, rows, plots;
    const char *const *column;  /* names */
    const char *const *label;   /* (rows) */
    const double *number;       /* (rows, columns); NaN: no value */
    const ll_plot *plot;
    const char *verdict;        /* the claim, and whether the numbers agree; "" without a claim */
} ll_table;
LL_API void ll_table_free(ll_table *table);

typedef struct {
    uint64_t seed;         /* seed of all random numbers */
    int quick;             /* small sizes: seconds instead of minutes, with more noise */
    int repeats, length;   /* draws, tokens; 0 = the experiment's default */
    double spread;         /* standard deviation of queries and keys; 0 = 1 */
    const char *kernels;   /* stream-error: names separated by commas, or "all"; NULL: the default */
    const char *positions; /* the same; "decay" is position none with position.decay = fixed */
    const ll_model *model; /* NULL, or the model that `positions` and `periods` analyse instead of new models */
    int (*progress)(double share, void *arg); /* NULL, or called with the share done; non-zero stops: LL_ESTOPPED */
    void *arg;
} ll_analysis;

typedef struct {
    const char *name;  /* "features" */
    const char *what;  /* one line */
    const char *paper; /* and where in it */
} ll_experiment;
/* Experiment number i, NULL after the last. */
LL_API const ll_experiment *ll_experiment_at(int i);
/* Runs an experiment by its name. The table is the caller's; free it with ll_table_free. */
LL_API LL_MUST_USE ll_status ll_analyse(ll_table **table, const char *name, const ll_analysis *how);

enum { LL_POSITION_KERNEL_LONGEST = 4096 }; /* T of ll_position_kernel, and of the experiment positions */
/* P (H, T, T): the weight that a position alone gives to token j for token i, for each head of a layer of a model: the
 * mean over `contents` random vectors x of <x at i, x at j>, divided by its mean for i = j. LL_EINVAL for positions
 * that have no such weight: t5, shaw, relative-s2, and vectors that are added to patches of images. */
LL_API LL_MUST_USE ll_status ll_position_kernel(const ll_model *model, int layer, int T, int contents, uint64_t seed,
                                                float *P);

LL_C_END

#endif
