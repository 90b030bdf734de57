/* The part [train] of a recipe: the loop and its optimizer. Keys: train_keys.c. */
#ifndef LL_TRAIN_OPTIONS_H
#define LL_TRAIN_OPTIONS_H

#include <stdint.h>

#include "base/key.h"

enum { LL_OPT_ADAM, LL_OPT_ADAMW };
enum { LL_FP32, LL_BF16 }; /* number format of products */
enum { LL_DIVERGENCE_STOP, LL_DIVERGENCE_REWIND };
enum { LL_DISTIL_NONE, LL_DISTIL_ATTENTION, LL_DISTIL_LOGITS, LL_DISTIL_BOTH };
enum { LL_LR_CONSTANT, LL_LR_LINEAR, LL_LR_INVERSE_SQRT, LL_LR_COSINE };

typedef struct {
    int64_t steps, warmup;
    int batch, length, accumulate, precision, optimizer, schedule, preempt, on_divergence;
    double learning_rate, final_rate, beta1, beta2, eps, weight_decay, clip;
    int64_t seed;
    int64_t eval_every, checkpoint_every;
    int eval_batches, report;
    int carry_state, recompute;
    int chunk; /* tokens of a sequence in memory at a time; 0: all */
    char *from; /* model to start with; empty: none */
    int distil;
    char *teacher; /* empty: from */
    int64_t distil_switch, distil_until;
    double distil_weight, distil_temperature;
} ll_train_options;

extern const ll_key_table ll_train_keys;

#endif
