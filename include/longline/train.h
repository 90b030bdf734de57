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
    double loss;           /* mean of the last steps, nats a token (or an example), NaN without any; see `matching` */
    double valid_loss;     /* last evaluation, NaN before the first */
    double valid_accuracy; /* the same, fraction */
    double learning_rate, gradient_norm;
    double tokens_per_second, seconds, eta; /* eta in seconds, NaN while unknown */
    int64_t saved;                          /* step of the checkpoint on the disk; -1: there is none */
    /* NULL, "computing", "evaluating", "eval", "checkpoint", "done" or "report"; or one that ll_error() explains: "no
     * report", "no lock" (of the folder), "no folder" (it was removed, and is made again), "no learning" (the loss is
     * far above chance), "rewind" (train.on-divergence), "best" (another evaluation than before: the best model so far
     * was measured anew), "no best" (it could not be read, and does not count any more), "no header" (a table of
     * labelled texts may have one that was read as an example), "no effect" (a key is for another form of labelled
     * texts), "no class" (data.classes does not name the folders of some files, which are left out), "no held-out
     * data" (a file of data.valid or data.test is one of data.train, too), "cut" (texts with classes are longer than
     * train.length) */
    const char *event;
    /* NULL, or what the loss compares with the teacher (train.distil): "attention", the share of what the teacher's
     * attention gives that is missed, or "logits". The loss of data, which codes tokens, has NULL alone */
    const char *matching;
    double within; /* "computing": the share of the next step that is done; "evaluating": of the evaluation; else 0 */
} ll_progress;

/* Called after every step with event = NULL, then once for each event of the step; "evaluating" comes after every batch
 * of an evaluation, "computing" once a second within a step that takes longer. Return non-zero to stop: the trainer
 * then saves, and ll_trainer_run returns LL_ESTOPPED. A single process stops within a step, which is made anew on
 * resume. */
typedef int ll_progress_fn(const ll_progress *progress, void *arg);

/* A run in folder `out`, which is created if missing; docs/format.md lists its files. resume: NULL for a new run, or
 * the folder of a run that continues from its last.safetensors, to the same bits as an uninterrupted run. `recipe` may
 * then be NULL, which means the recipe.ini of `resume`, or, where that is missing, the recipe in the checkpoint. Opens
 * the data, also data.test, and allocates everything: after this only files can fail. */
LL_API LL_MUST_USE ll_status ll_trainer_create(ll_trainer **trainer, const ll_recipe *recipe, const char *out,
                                               const char *resume);
/* Runs to the last step. LL_EDIVERGED keeps the last good checkpoint. A trainer has its folder for itself from when it
 * is created until this returns. Called again, it goes on; LL_EIO while another run has the folder, and where another
 * has gone on in it since. LL_EINVAL for a model that was quantized. */
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
    size_t struct_size;    /* sizeof(ll_evaluation), or 0: the fields of version 0.2; set by the caller */
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
    /* The share of the predicted tokens that are unknown words. Each of those counts as one token, however it is
     * spelled, which makes the two figures above too low. NaN where no token stands for unknown words. */
    double unknown;
    int64_t left_out; /* files that were not read, because data.classes does not name their folders */
    /* Texts with classes, of the whole file that the split is in: how many there are, and how many are longer than
     * train.length, whose first tokens alone were read. */
    int64_t texts, cut;
    /* Classifiers, else NaN: the share of the most frequent class, which a model that always gives it has right; and
     * the mean over the classes that occur of the share of their examples that is right (balanced accuracy). */
    double majority, balanced;
} ll_evaluation;
/* Evaluates on a split of the model's recipe ("train", "valid" or "test"). max_batches 0 = all of it; else that many
 * batches, evenly spread over the split. LL_EINVAL for a negative number; LL_EDIVERGED where the loss is not finite. */
LL_API LL_MUST_USE ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result);

/* ---- Training on batches from memory ---- */

/* A batch. Its sizes need not be those of the recipe. */
typedef struct {
    size_t struct_size;        /* sizeof(ll_memory_batch), or 0: the fields of version 0.2 */
    int B, T;                  /* sequences (match: 2i and 2i + 1 are a pair), tokens of the longest */
    const int *tokens;         /* (B, T) */
    const int *targets;        /* lm, mlm, seq2seq: (B, T); classify: (B); match: (B / 2). -1: not counted */
    const int *lengths;        /* (B) tokens in use, from the front; NULL: all */
    int S;                     /* seq2seq: tokens of the longest source */
    const int *source;         /* (B, S) */
    const int *source_lengths; /* (B); NULL: all */
    int64_t draw;              /* dropout masks and noise are a function of (train.seed, draw); with gradients alone */
} ll_memory_batch;

typedef struct {
    size_t struct_size; /* sizeof(ll_loss), or 0: the fields of version 0.2; set by the caller */
    double loss;        /* mean over counted targets, nats */
    double accuracy;    /* fraction of them whose most likely answer is right */
    int64_t count;      /* of them */
} ll_loss;

/* The loss of a batch, without a change of the model. gradients: ll_model_size().block floats, overwritten with
 * d loss / d parameter, those of a tensor at its ll_tensor.offset; NULL: not wanted, and nothing is dropped out.
 * LL_EINVAL names the token, target or length that cannot be, and is for a batch whose targets are all -1 or past a
 * length, or whose T, padding included, is longer than learned positions or linformer allow; LL_EDIVERGED: the loss
 * is not finite; LL_ESTOPPED (ll_model_watch); LL_ENOMEM. O(B T) time and memory for linear attention. */
LL_API LL_MUST_USE ll_status ll_model_loss(ll_model *model, const ll_memory_batch *batch, float *gradients,
                                           ll_loss *loss);

/* Adam or AdamW with the settings of the model's recipe (train.optimizer, train.learning-rate, train.warmup, ..). */
typedef struct ll_adam ll_adam;
/* Borrows the model, which must outlive it. LL_EINVAL for a model of ll_model_load (ll_model_load_bytes makes one
 * that can be trained), and for a quantized one. Two more floats a parameter. */
LL_API LL_MUST_USE ll_status ll_adam_create(ll_adam **adam, ll_model *model);
LL_API void ll_adam_free(ll_adam *adam);
/* The next update: clips the gradients (train.clip), follows the schedule of learning rates, which ends with update
 * train.steps, often at 0, and draws new random features for the next one where attention.redraw says so, but none
 * after update train.steps. gradients (block) are overwritten. *norm: their Euclidean norm before clipping; NULL: not
 * wanted. LL_EDIVERGED: it is not finite, and the model is unchanged. O(parameters). */
LL_API LL_MUST_USE ll_status ll_adam_step(ll_adam *adam, float *gradients, double *norm);

LL_C_END

#endif
