/* Training: from a recipe to a trained model.
 *
 * What happens in a step (batches, dropout, redraws, rate) is a function of the recipe and the step's number. The
 * model, Adam's moments and ll_run_state pass from step to step. This is why a resumed run ends with the same bits. */
#ifndef LL_TRAIN_H
#define LL_TRAIN_H

#include <stdio.h>

#include "recipe/recipe_reader.h"
#include "model/model_internal.h"
#include "model/sequence/carry.h"
#include "model/sequence/shared_sequence.h"
#include "train/shards.h"
#include "train/teaching.h"

/* Learning rate of update number `step`, counted from 1, unless it was halved. */
double ll_schedule_rate(const ll_config *c, int64_t step);

/* ---- Optimizer ---- */

/* A chunk of one tensor: the unit of parallel work, divided by shape alone. */
typedef struct {
    size_t offset, count;
    int decay;
    int own; /* does this rank update it; if not, another rank has its moments */
    int attention; /* ll_distil_is_attention */
} ll_piece;

typedef struct {
    size_t pieces;
    ll_piece *piece;
    double *sum;  /* one for each piece */
    float *m, *v; /* Adam's moments, in the layout of the parameters */
    int64_t attention_alone; /* the first so many updates leave all other tensors as they are: nor do they decay */
    int halvings; /* how often the learning rate was halved (train.on-divergence) */
} ll_optimizer;

LL_MUST_USE ll_status ll_optimizer_create(ll_optimizer **optimizer, const ll_param *param, int count, size_t size);
void ll_optimizer_free(ll_optimizer *o);
/* Touches the moments of this rank's pieces, whose first write would be slower otherwise. */
void ll_optimizer_begin(ll_optimizer *o);
/* Euclidean norm of a block, in double and in one fixed order. It is not finite if any value is not. */
double ll_optimizer_norm(ll_optimizer *o, const float *block);
/* The same in two steps: the sums of squares (pieces) of this rank's pieces, and the root of the sum over all. */
void ll_optimizer_squares(ll_optimizer *o, const float *block, double *sum);
double ll_optimizer_root(const ll_optimizer *o, const double *sum);
/* The learning rate of update number `step`, from 1. */
double ll_optimizer_rate(const ll_optimizer *o, const ll_config *c, int64_t step);
/* Makes that update with the gradient grad * scale. grad is overwritten. */
void ll_optimizer_update(ll_optimizer *o, const ll_config *c, float *params, float *grad, double scale, int64_t step);
/* The factor that limits a gradient of this norm to `clip` (0: no limit). */
double ll_clip_scale(double norm, double clip);

/* ---- One step ---- */

/* The memory in which the gradient of a shard is computed. */
typedef struct {
    ll_workspace *ws;
    ll_batch batch; /* the shard */
    ll_batch part;  /* if ranks share sequences: this rank's part of it */
    ll_status status;
    char error[1024]; /* what ll_error says on its thread */
} ll_worker;

/* The memory of a step, made for one model, which must outlive it. */
typedef struct {
    ll_model *model;
    ll_worker *worker; /* (at_once) */
    int at_once;       /* shards that are computed at the same time, each on one thread; 1: on all threads */
    ll_optimizer *optimizer;
    ll_carry *carry; /* train.carry-state: states of the windows before, else NULL */
    int64_t *before; /* (batch) tokens of its text that came before each row of a batch */
    ll_shards shards;
    ll_exchange *exchange;
    float *grad;    /* of the step, in the pieces for which ll_exchange_owns is true */
    double *sums;
    int stop; /* in: does this rank want to stop; after ll_engine_gradient: does any rank */
    float *draws; /* a block for new projections, then for those of before; NULL: none are drawn */
    ll_teacher *teacher;            /* train.distil, or NULL */
    char taught_by[LL_DIGEST_TEXT]; /* which model that is */
} ll_engine;

/* The result of a step. */
typedef struct {
    double loss;   /* sum over counted targets, nats */
    int64_t count; /* counted targets */
    int64_t tokens;
    double scale; /* factor that makes grad the gradient of the mean loss */
    double norm;  /* of that gradient, before clipping */
} ll_gradient;

/* Draws new random features before update number `step` if they are due. block: ll_model_redraw_floats. */
LL_MUST_USE ll_status ll_step_redraw(ll_model *model, int64_t step, float *block);
/* How so many ranks sum gradients: the leaves of each, and the offsets at which a block may be cut. The plan points
 * into *lists, which is to be freed. */
LL_MUST_USE ll_status ll_exchange_plan_of(ll_exchange_plan *plan, void **lists, const ll_model *model,
                                          const ll_shards *shards, const ll_optimizer *o, int ranks, int at_once);
LL_MUST_USE ll_status ll_engine_create(ll_engine **engine, ll_model *model);
void ll_engine_free(ll_engine *e);
/* Gives the memory of activations back until the next step. */
void ll_engine_rest(ll_engine *e);
/* Steps from now on learn as train.distil says from a model, which must outlive the engine. LL_EINVAL where it does not
 * fit. */
LL_MUST_USE ll_status ll_engine_teach(ll_engine *e, const ll_model *teacher);
/* Computes the gradient of update number `step` (from 1) into e->grad; redraws first if that is due. reader NULL: uses
 * the batches of the workers as they are. */
LL_MUST_USE ll_status ll_engine_gradient(ll_engine *e, const ll_reader *reader, int64_t step, ll_gradient *result);
/* Applies it: each rank updates its part of the parameters and sends it to all. */
LL_MUST_USE ll_status ll_engine_update(ll_engine *e, int64_t step, const ll_gradient *gradient);
/* The loss of the first shard of the first batch after update number `step`: of the first 8192 tokens of each sequence,
 * or of this rank's part where ranks share it. 0 on the ranks that do not compute this shard: what is tried must not
 * depend on the number of ranks. */
LL_MUST_USE ll_status ll_engine_try(ll_engine *e, const ll_reader *reader, int64_t step, ll_tally *tally);
/* Sends Adam's moments of all ranks to rank 0. */
LL_MUST_USE ll_status ll_engine_collect(ll_engine *e);

/* The bytes that the page of a run may take for activations: those of training, whose memory rests meanwhile; or those
 * of ll_shards_reading examples, if they are more. */
LL_MUST_USE ll_status ll_page_most(size_t *bytes, const ll_model *model);

/* ---- Evaluation ---- */

/* The number of batches of an evaluation: max_batches, or (0) all of the reader. */
int64_t ll_evaluate_batches(const ll_reader *reader, int max_batches);
/* The memory of an evaluation. b holds a whole batch, or a part of one. */
typedef struct {
    const ll_model *model;
    ll_workspace *ws;
    const ll_reader *reader;
    ll_batch *b;
    int capacity;        /* examples of b */
    const ll_shards *shards; /* if ranks share sequences, else NULL: each rank has whole ones */
    ll_batch *part;          /* ... and this rank's part of b */
    float *each; /* losses of a batch, for rank 0; NULL with one rank */
} ll_evaluator;

/* With the memory of an engine, whose ranks may share sequences. */
LL_MUST_USE ll_status ll_evaluator_of(ll_evaluator *e, ll_engine *engine, const ll_reader *reader);
/* On this rank alone: for what rank 0 does without the others. */
ll_evaluator ll_evaluator_alone(const ll_model *model, ll_workspace *ws, const ll_reader *reader, ll_batch *b);
LL_MUST_USE ll_status ll_evaluate_alone(ll_model *model, const char *split, int max_batches, ll_evaluation *result);
/* The targets of a batch that count. Those past a length do not. */
int64_t ll_batch_counted(int task, const ll_batch *batch);
/* LL_EINVAL where the batches of an evaluation have no target that counts, as a few short ones of a masked model. */
LL_MUST_USE ll_status ll_evaluator_check(const ll_evaluator *e, int max_batches);
void ll_evaluator_free(ll_evaluator *e);
/* The index of batch i of n that are evaluated. */
int64_t ll_evaluated_batch(const ll_reader *reader, int64_t i, int64_t n);
/* Adds batch i of n, evenly spread over the reader's batches, to the tally. With several ranks they compute batches in
 * turn, and rank 0 adds them in the order of a single process. */
LL_MUST_USE ll_status ll_evaluate_batch(ll_tally *tally, const ll_evaluator *e, int64_t i, int64_t n);
/* Gives all ranks the tally of rank 0. */
LL_MUST_USE ll_status ll_evaluate_share(ll_tally *tally);

/* ---- A run ---- */

enum { LL_REWINDS = 3 };    /* how often a run that diverges goes back at most */
enum { LL_ROW_EVERY = 10 }; /* steps between rows of metrics.csv (evaluations make rows too) */

/* What passes from step to step besides the model and Adam's moments. */
typedef struct {
    int64_t step;      /* updates made */
    int64_t tokens;    /* tokens seen in training */
    int64_t row;       /* step of the last row of metrics.csv */
    int64_t evaluated; /* step of the last evaluation */
    int64_t best_step;
    int64_t data_size;                              /* size of the train split, to notice other data */
    char data_sum[LL_CHECKSUM_TEXT];                /* ll_rows_checksum of it; "": of an earlier version's checkpoint */
    char best_sum[LL_CHECKSUM_TEXT];                /* ll_best_evaluation of best_loss; "": not known */
    int64_t rewinds;                                /* how often the run went back because it diverged */
    int64_t rewind_step;                            /* of the checkpoint it would go back to; -1: there is none */
    double rewind_loss;                             /* its own: that of the step after it, once that is made */
    int rewind_aside; /* that one is back.safetensors, since the one there is now is none to go back to */
    double valid_loss, valid_accuracy, best_loss;   /* NaN before the first evaluation */
    double loss[LL_ROW_EVERY], count[LL_ROW_EVERY]; /* of step s at [s mod LL_ROW_EVERY] */
    double norm;                                    /* gradient norm of the last step */
} ll_run_state;

/* Mean loss of the last n <= LL_ROW_EVERY steps; NaN where they counted nothing. */
double ll_recent_loss(const ll_run_state *state, int64_t n);
/* The checkpoint to go back to is that of the step that the run is at. */
void ll_rewind_point_set(ll_run_state *state);

LL_MUST_USE ll_status ll_checkpoint_save(const char *path, const ll_engine *engine, const ll_run_state *state);
/* What a checkpoint has besides the model: the state, and the moments for an optimizer that fits. */
LL_MUST_USE ll_status ll_checkpoint_state(ll_run_state *state, const ll_safetensors *file);
LL_MUST_USE ll_status ll_checkpoint_moments(ll_engine *engine, const ll_safetensors *file);

/* Is a mean loss (nats) far above chance? ll_fit_above_chance then sets the text of ll_error() to the remedy and
 * returns LL_EDIVERGED. */
int ll_fit_is_above_chance(const ll_config *c, double loss);
ll_status ll_fit_above_chance(const ll_config *c, double loss);
/* LL_EINVAL, with the text: a table may have a row of headings that is an example; a key has no effect; files were left
 * out; texts are cut to train.length; a file of data.valid, or of data.test, is trained on. */
ll_status ll_fit_heading(const ll_reader *reader);
ll_status ll_fit_unused(const ll_config *c, const ll_reader *reader);
ll_status ll_fit_left_out(int64_t files);
ll_status ll_fit_cut(const ll_config *c, const ll_reader *reader);
ll_status ll_fit_apart(const ll_config *c, int test);
/* Is there a valid split: named, cut from train, or generated? */
int ll_fit_has_valid(const ll_config *c);
/* Does the recipe leave sizes to the data (0)? */
int ll_fit_lacks_sizes(const ll_config *c);
/* Sets them. */
LL_MUST_USE ll_status ll_fit_fill(ll_recipe *recipe, const ll_reader *reader);
/* LL_EINVAL if the data does not fit the recipe: more tokens than vocab, more classes, other sizes. fixed: it is that
 * of a trained model, whose sizes cannot be set. */
LL_MUST_USE ll_status ll_fit_check(const ll_config *c, const ll_reader *reader, int fixed);
/* Copies the keys that may change on resume from `recipe` to a model that was read from `path`. LL_EINVAL names the key
 * if another one differs. */
LL_MUST_USE ll_status ll_fit_resume(ll_model *model, const ll_recipe *recipe, const char *path);
/* Gives a model the recipe of its run back, after ll_model_set. Texts of keys that are the same stay where they are. */
LL_MUST_USE ll_status ll_fit_restore(ll_model *model, const ll_recipe *recipe);

typedef struct {
    FILE *file;
    char *path;
    double seconds; /* of the run before this call of ll_trainer_run */
} ll_metrics;

/* metrics.csv of folder `out`: new, or the rows up to step `last` of the one in `resume` (may be NULL). */
LL_MUST_USE ll_status ll_metrics_open(ll_metrics *metrics, const char *out, const char *resume, int64_t last);
LL_MUST_USE ll_status ll_metrics_row(ll_metrics *metrics, const ll_progress *p, const ll_run_state *state);
/* Flushes to disk, so that no checkpoint is newer than the rows. */
LL_MUST_USE ll_status ll_metrics_sync(ll_metrics *metrics);
/* Removes the rows after step `last`. *row: the step of the last one that stays; 0: none does. */
LL_MUST_USE ll_status ll_metrics_cut(ll_metrics *metrics, int64_t last, int64_t *row);
/* Writes the whole file again if it was removed. */
LL_MUST_USE ll_status ll_metrics_restore(ll_metrics *metrics);
void ll_metrics_close(ll_metrics *metrics);

/* LL_EDIVERGED: `what` became `value` at step `step`; with a remedy, and which checkpoint there is. */
ll_status ll_run_diverged(const ll_trainer *trainer, const char *what, double value, int64_t step);
/* Writes last.safetensors. The model must be finite, and its loss on the next batch too, else LL_EDIVERGED. Rank 0
 * writes for all. aside: the run stops between two checkpoints. If it diverges later, it goes back to the one before,
 * as it would without the stop. So it does where the loss of the model is far above chance. */
LL_MUST_USE ll_status ll_run_save(ll_trainer *trainer, int aside);

/* Opens a file that rank 0 has, on all ranks. */
LL_MUST_USE ll_status ll_rank_file_open(ll_safetensors **file, const char *path);

/* A checksum of what an evaluation is of. Losses of other ones cannot be compared. */
LL_MUST_USE ll_status ll_best_evaluation(char sum[LL_CHECKSUM_TEXT], const ll_reader *valid, const ll_config *c);
/* No model is the best one: that of the next evaluation will be. */
void ll_best_forget(ll_run_state *state);
/* LL_EFORMAT, which says that the file of the best model, of this step, is missing. */
ll_status ll_best_missing(const ll_trainer *trainer, int64_t step);
/* The best model so far, on all ranks. LL_EFORMAT: rank 0 has no file, or the file is damaged or of another model. */
LL_MUST_USE ll_status ll_best_load(ll_model **best, const ll_trainer *trainer);

/* May a run that diverged go back? Then ll_rewind_load makes it what the checkpoint was, but for its best model, and
 * with half the learning rate. The checkpoint on disk is as it was. */
int ll_rewind_may(const ll_trainer *trainer);
/* LL_EDIVERGED where the mean loss of the last n steps, at most LL_ROW_EVERY, is far above chance. A loss that compares
 * attention with that of a teacher never is. */
LL_MUST_USE ll_status ll_trainer_check_loss(const ll_trainer *trainer, int64_t n);
/* May it, and is a loss far above chance where that of the checkpoint was not? */
int ll_rewind_is_worse(const ll_trainer *trainer, double loss);
/* LL_EDIVERGED where that is so of the mean loss since the checkpoint, without the loss of the checkpoint itself. */
LL_MUST_USE ll_status ll_rewind_check(const ll_trainer *trainer);
LL_MUST_USE ll_status ll_rewind_load(ll_trainer *trainer);
/* Of a run that ends: LL_EDIVERGED where it went back as often as it may, and its loss is still far above chance. */
LL_MUST_USE ll_status ll_rewind_end(const ll_trainer *trainer);
/* The last error, which no further going back can help. */
ll_status ll_rewind_too_often(ll_status status);

/* On all ranks: LL_EINVAL, with the number of a rank, if its version, recipe, data, processor's instructions or model
 * are not those of rank 0. */
LL_MUST_USE ll_status ll_same_ranks(const ll_trainer *trainer);
/* The same of the recipe of a model and the data that it is evaluated on. */
LL_MUST_USE ll_status ll_same_data(const ll_model *model, const ll_reader *reader);
/* A checksum of some rows, with their targets, from all over the data; train: of those of the first steps, else of
 * those of evaluation. */
LL_MUST_USE ll_status ll_rows_checksum(char sum[LL_CHECKSUM_TEXT], const ll_reader *reader, const ll_config *c,
                                       int train);

/* recipe.ini of the run's folder. */
LL_MUST_USE ll_status ll_run_recipe_write(const ll_trainer *trainer);
/* Is the folder, its lock, recipe or metrics missing? A few system calls: microseconds. */
int ll_run_folder_gone(const ll_trainer *trainer);
/* On all ranks: a missing folder is created again at once, as that of a whole run, with a checkpoint of this step;
 * *made is then 1, and ll_error() says so. Its best model is lost, so the model of the next evaluation is the best one.
 * An evaluation that could not write its model is repeated. LL_EIO if another run has the folder. */
LL_MUST_USE ll_status ll_run_folder_keep(ll_trainer *trainer, int *made);
/* Lets go of the folder, so that another run may go on in it. */
void ll_run_folder_leave(ll_trainer *trainer);
/* Takes it again. LL_EIO if another run has it, or has gone on in it since. */
LL_MUST_USE ll_status ll_run_folder_enter(ll_trainer *trainer);

/* The best model of a run, or the last; NULL if it has none yet. */
LL_MUST_USE ll_status ll_run_load(ll_model **model, const char *run);

/* What was done since the run began or was resumed, and what is left of it. A part of a step or evaluation counts as
 * that. */
typedef struct {
    double steps, steps_left, step_seconds;
    double evaluations, evaluations_left, evaluation_seconds;
    int64_t batches; /* of an evaluation */
} ll_pace;
/* Seconds until the end of the run; NaN: not known yet. */
double ll_time_left(const ll_pace *pace);
/* The evaluations after this step: one every so many steps (0: none), and one after the last step. */
int64_t ll_evaluations_after(int64_t step, int64_t steps, int64_t every);

struct ll_trainer {
    ll_model *model;
    ll_model *teacher;        /* train.distil, or NULL */
    ll_recipe *recipe;        /* resolved */
    ll_reader *train, *valid; /* valid NULL: there is nothing to evaluate on */
    int64_t left_out;         /* files of all splits in folders that data.classes does not name */
    ll_engine *engine;
    ll_evaluator evaluator;
    char evaluation[LL_CHECKSUM_TEXT]; /* ll_best_evaluation of it */
    ll_ranks ranks; /* rank 0 alone has the folder and its files */
    ll_metrics metrics;
    ll_run_state state;
    char *origin;                                        /* how it started, in words; or NULL */
    char *folder, *last, *best, *back, *ini, *lock_file; /* paths */
    int lock;                                            /* the folder's file LL_LOCK_FILE, -1: not open */
    int left;                                            /* is the folder free for another run? */
    int unlocked;                                        /* errno where the folder cannot be locked */
    int64_t saved;                                       /* step of the checkpoint on disk, -1: none */
    int unsaved;                                         /* has the state changed since then? */
    int warned;                                          /* has a loss far above chance been reported? */
    int64_t lost_best; /* step of a best model whose file was missing when the run was resumed; 0: reported, or none */
    ll_report_fn *report; /* writes the run's report, or NULL */
    void *report_arg;
    ll_progress progress;
    double start_time; /* clock at the start of ll_trainer_run */
    int64_t start_step;
    double recent_seconds, recent_tokens;   /* moving sums over steps, of which the speed is made */
    double evaluations, evaluation_seconds; /* since then; a part of one counts as that */
    double last_report;                     /* clock at the last call of the caller's ll_progress_fn */
    double report_interval;                 /* seconds without one after which a step reports how far it is */
};

#endif
