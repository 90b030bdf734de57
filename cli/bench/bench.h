/* Inside `longline bench`: cases that take turns, and the rows they become. */
#ifndef LL_BENCH_H
#define LL_BENCH_H

#include "cli.h"

/* LL_BENCH_LENGTHS: of --lengths; LL_BENCH_MOST: with those of a figure. LL_BENCH_KINDS: of attention. LL_BENCH_EARLY:
 * the last position of the early tokens. */
enum { LL_BENCH_LENGTHS = 24, LL_BENCH_MOST = 40, LL_BENCH_KINDS = 64, LL_BENCH_REPEATS = 99, LL_BENCH_EARLY = 400 };
/* More than there are: every kind and length of attention, in both directions and causal, forward alone and with
 * backward; and the other sections. */
enum { LL_BENCH_ROWS = 4 * LL_BENCH_KINDS * LL_BENCH_MOST + 512 };

typedef struct {
    char name[80];
    double seconds; /* median time of one call, training step or token */
    int repeats;
    double time[LL_BENCH_REPEATS]; /* each time, in the order of measurement */
    double tokens;                 /* in one */
    double flops;                  /* needed for one; 0: not given */
    double bytes;                  /* memory beyond inputs and outputs; for a stream: its state */
} ll_bench_row;

typedef struct {
    int rows;
    ll_bench_row *row;     /* (LL_BENCH_ROWS) */
    double peak_one, peak; /* flop/s of one and of all threads */
    double copy, read;     /* bytes/s read and written, and read alone; 0: not measured */
    double per_flop;       /* expected seconds of the cases */
    int lengths, length[LL_BENCH_LENGTHS];
    int left_out;        /* cases that need more memory than there is */
    int figure;          /* more lengths, for the figure */
    const char *pattern; /* requested case names, separated by commas; NULL: the usual ones */
    int64_t repeats;     /* 0: as many as time allows */
    int64_t position;    /* position of generation; 0: as far as time allows, up to a million */
    const ll_arg_list *set;
    double seconds; /* for each section */
} ll_bench;

/* A case that is timed. */
typedef struct ll_bench_case ll_bench_case;
struct ll_bench_case {
    ll_bench_row row; /* name, tokens, flops; and bytes that resident memory does not show */
    ll_status (*run)(ll_bench_case *c, double *seconds);
    int kind, causal, backward, T, B;
    int warm; /* run warms up by itself */
    void *shared;
    double cost; /* seconds of the last run */
    int runs;    /* runs so far; row.repeats of them count */
};

/* Is a case of this name requested? usual: is it run by default. */
int ll_bench_wanted(const ll_bench *b, const char *name, int usual);
/* Runs the cases in turn and adds their rows. what: "attention", for progress. */
ll_status ll_bench_run(ll_bench *b, const char *what, ll_bench_case *cases, int n);
/* Memory of n floats, allocated as in the library, in huge pages if the system has them; free() releases it. */
float *ll_bench_floats(size_t n);
void ll_bench_add(ll_bench *b, const ll_bench_row *row);
const ll_bench_row *ll_bench_find(const ll_bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "attention: 12 %, eta 0:40" on stderr, not too often, from two `spent` seconds on; with none left it ends the
 * line. */
void ll_bench_progress(const char *what, double spent, double left);

/* The sections. */
ll_status ll_bench_yardstick(ll_bench *b);
ll_status ll_bench_ops(ll_bench *b);
ll_status ll_bench_models(ll_bench *b);
ll_status ll_bench_generate(ll_bench *b);

/* What ranks cost, as key=value lines; called by all of them. compute > 0: steps that sleep so many seconds. */
ll_status ll_bench_dist(const ll_bench *b, double compute);

/* The models of training and generation, and their systems. */
typedef struct {
    const char *name;
    int T, B;
    const char *set[9]; /* ends with NULL */
} ll_bench_model;
typedef struct {
    const char *name;
    const char *set[5];
} ll_bench_system;
extern const ll_bench_model ll_bench_model_list[]; /* ends with an entry without a name */
extern const ll_bench_system ll_bench_system_list[];
/* The recipe of both, with the changes of --set. */
ll_status ll_bench_recipe(ll_recipe **recipe, const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s);

/* The length at the end of a row's name GROUP/LENGTH; 0: it belongs to another group. */
int ll_bench_length(const ll_bench_row *r, const char *group);
/* The least length of a group's rows that is greater than T; 0: none is. */
int ll_bench_next_length(const ll_bench *b, const char *group, int T);
/* Prints the rows from number `from` on as a table; then the conclusions of all rows. */
void ll_bench_table(const ll_bench *b, int from);
void ll_bench_summary(const ll_bench *b);
/* 0, or the exit code after printing why. */
int ll_bench_json(const ll_bench *b, const char *path);
ll_status ll_bench_figure(const ll_bench *b, const char *path);
/* -1, or the exit code: the chosen cases have none that the figure draws. */
int ll_bench_figure_check(const ll_bench *b);

/* Comparison with an earlier program. */
typedef struct {
    const char *file;        /* the earlier program */
    const char *sections[5]; /* "--ops", ..; ends with NULL */
    const char *lengths, *pattern; /* or NULL */
    const ll_arg_list *set;
    int64_t position; /* of late tokens; 0: nothing is generated */
    int turns;        /* 0: 11 */
} ll_bench_against;
/* Prints the ratios of times. Returns the exit code: 1 if a case is slower by more than 3 %. */
int ll_bench_compare(const ll_bench_against *options);

#endif
