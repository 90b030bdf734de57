/* Many processes that share the work: ranks, started by mpirun or srun. For programs that link liblongline.a, as
 * longline itself does. The shared library does not offer these functions to programs, because a library inside another
 * program must not start and end its MPI. */
#ifndef LL_DIST_API_H
#define LL_DIST_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

typedef struct {
    int rank, size; /* 0 and 1 for a single process */
    int reports;    /* does this rank print? true for the first that is not lost, and that answers */
} ll_ranks;

/* Joins the other ranks if the process was started by mpirun or srun, through a plug-in for the MPI library of that
 * launcher; otherwise does nothing. Every rank calls it once, before any other call, and calls ll_dist_end at the end.
 * Afterwards all ranks make the same calls with the same arguments, and each does its part: ll_trainer_create and
 * ll_trainer_run, ll_evaluate. LL_EDIST if the plug-in is missing or MPI fails. */
LL_MUST_USE ll_status ll_dist_start(void);
ll_ranks ll_dist_ranks(void);
/* Rank `from` sends n bytes to rank 0. Other ranks do nothing; nor does rank 0 if it is `from`. All ranks call it in
 * the same order. LL_EDIST if one of the two is lost. */
LL_MUST_USE ll_status ll_dist_collect(void *data, size_t n, int from);
/* Do all ranks have the same? Each gives its own value; the first 79 bytes count. LL_EINVAL on all ranks: "rank 2: WHAT
 * is not that of rank 0: VALUE, and there VALUE; REMEDY". All ranks call it. LL_OK in a single process. */
LL_MUST_USE ll_status ll_dist_same(const char *what, const char *value, const char *remedy);
/* The same for the version of longline, the instruction tier and a model: its keys and weights. Machines may have other
 * files under the same name. */
LL_MUST_USE ll_status ll_dist_same_model(const ll_model *model);
/* Leaves with the exit code of this rank: 0, or that of a failure. A failure is sent to the others, whose calls then
 * end with LL_EDIST and the text `why`; NULL: that of ll_error(). Waits until all ranks leave, and returns the largest
 * code of all. */
int ll_dist_end(int code, const char *why);
/* The number that a launcher gave to this process, also before ll_dist_start; 0 without a launcher. */
int ll_dist_launch_rank(void);

/* Bytes that a rank needs to train by a recipe. The recipe must name all sizes (model.vocab). */
typedef struct {
    double parameters; /* their number */
    double weights, gradients;
    double received;    /* gradients of other ranks */
    double moments;     /* Adam's, of the parameters that the rank updates */
    double activations; /* and all scratch of a step */
    double states;      /* that windows pass on: train.carry-state */
    double teacher;     /* its weights and activations: train.distil */
    double report;      /* the page at the end: the model once more, and its activations beyond those of training */
    double total;
} ll_rank_memory;
/* The memory of the rank that needs most, with so many ranks; 0: a process without a launcher. The functions that would
 * allocate it count it, and nothing is allocated; of a teacher, whose file must be there, its tensors are mapped. Sizes
 * that the recipe leaves to the data are read from data.train. The program itself and its data need about 20 MB more,
 * and 30 MB with MPI; data are held in memory up to 64 MiB a file. Rank 0 holds the moments of all ranks from its first
 * checkpoint on. */
LL_MUST_USE ll_status ll_dist_memory(const ll_recipe *recipe, int ranks, ll_rank_memory *memory);

/* ---- What communication costs (docs/scaling.md) ---- */

/* What this rank has sent to other ranks since it joined them. Heartbeats do not count. */
typedef struct {
    double messages, sent; /* messages, and their bytes */
} ll_traffic;
ll_traffic ll_dist_traffic(void);

/* Rank 0 sends `count` messages of n bytes to the last rank, and the last rank sends as many back. This is done
 * `repeats` times. *seconds: the mean time of one way, on these two ranks. The others return at once, with 0. LL_EINVAL
 * with one rank. */
LL_MUST_USE ll_status ll_dist_ping(size_t n, int count, int repeats, double *seconds);

/* A step of training that sends what a model of this size would send. In place of computing it sleeps for as long as
 * the forward and backward passes would take. */
typedef struct {
    size_t parameters;
    int layers;     /* all of one size; backward goes through them from the last to the first */
    double compute; /* seconds: a third for forward, the rest for backward */
} ll_simulated_step;
/* Makes `steps` such steps, with one shard for each rank. seconds (steps): the time of each step as rank 0 measured it,
 * on all ranks. Needs 8 bytes a parameter. All ranks call it. */
LL_MUST_USE ll_status ll_dist_simulate(const ll_simulated_step *r, int steps, double *seconds);

LL_C_END

#endif
