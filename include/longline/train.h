/* Training runs and evaluation. */
#ifndef LL_TRAIN_API_H
#define LL_TRAIN_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Training ---- */

typedef struct ll_trainer ll_trainer;

typedef struct {
    int64_t step, steps;
    double loss;           /* mean of the last steps, nats a token (or an example) */
    double valid_loss;     /* last evaluation, NaN before the first */
    double valid_accuracy; /* the same, fraction */
    double learning_rate, gradient_norm;
    double tokens_per_second, seconds, eta; /* eta in seconds, NaN while unknown */
    int64_t saved;                          /* step of the checkpoint on the disk; -1: there is none */
    const char *event; /* NULL, "evaluating", "eval", "checkpoint", "done" or "report"; or one that ll_error() explains:
                        * "no report", "no lock" (of the folder), "no folder" (it was removed, and is made again),
                        * "no learning" (the loss is far above chance) */
} ll_progress;

/* Called after every step with event = NULL, then once for each event of the step; "evaluating" comes after every batch
 * of an evaluation. Return non-zero to stop: the trainer then saves, and ll_trainer_run returns LL_ESTOPPED. */
typedef int ll_progress_fn(const ll_progress *progress, void *arg);

/* A run in folder `out`, which is created if missing; docs/format.md lists its files. resume: NULL for a new run, or
 * the folder of a run that continues from its last.safetensors, to the same bits as an uninterrupted run. `recipe` may
 * then be NULL, which means the recipe.ini of `resume`, or, where that is missing, the recipe in the checkpoint. Opens
 * the data, also data.test, and allocates everything: after this only files can fail. */
LL_API LL_MUST_USE ll_status ll_trainer_create(ll_trainer **trainer, const ll_recipe *recipe, const char *out,
                                               const char *resume);
/* Runs to the last step. LL_EDIVERGED keeps the last good checkpoint. */
LL_API LL_MUST_USE ll_status ll_trainer_run(ll_trainer *trainer, ll_progress_fn *progress, void *arg);
LL_API void ll_trainer_free(ll_trainer *trainer);

/* Writes a report of the run so far: whole = 0 after an evaluation or a checkpoint, whole = 1 at the end. */
typedef ll_status ll_report_fn(const ll_trainer *trainer, int whole, void *arg);
/* Calls `report` from now on where the recipe has train.report = on. Its status becomes the event "report" or "no
 * report" and does not stop the run. longline-lab has such a function, ll_trainer_report. NULL: no reports. */
LL_API void ll_trainer_on_report(ll_trainer *trainer, ll_report_fn *report, void *arg);

LL_API ll_model *ll_trainer_model(ll_trainer *trainer); /* belongs to the trainer */
LL_API const char *ll_trainer_folder(const ll_trainer *trainer);
/* What a new run took from the model that train.from names, as "begins with MODEL: 45 of 47 tensors; new are
 * head.weight, head.bias". NULL where it names none, and of a run that was resumed. */
LL_API const char *ll_trainer_origin(const ll_trainer *trainer);

typedef struct {
    double loss;           /* nats a token, or an example */
    double bits_per_token; /* loss / ln 2; for bytes: bits a byte */
    double accuracy;       /* fraction of tokens, or examples, whose most likely answer is right */
    int64_t count;         /* tokens or examples */
    int64_t sequences;     /* seq2seq, else 0: sequences, and the fraction that greedy decoding would give exactly */
    double exact;
    double seconds;
    /* The same loss by the word and by the byte of the text, which can be compared between models with other tokens. A
     * word is what is between blanks, or the end of a line. NaN where there is no text. */
    double bits_per_word, bits_per_byte;
} ll_evaluation;
/* Evaluates on a split of the model's recipe ("train", "valid" or "test"). max_batches 0 = all of it; else that many
 * batches, evenly spread over the split. LL_EDIVERGED where the loss is not finite. */
LL_API LL_MUST_USE ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result);

LL_C_END

#endif
