/* A whole model in double, one token and one formula after the other: what ll_model_run, ll_model_logp and
 * streams must agree with. It shares with the library the table of tensors, the draws and the raw random words
 * of dropout; attention is the definition of oracle.h. */
#ifndef LL_ORACLE_MODEL_H
#define LL_ORACLE_MODEL_H

#include "model/model_internal.h"

typedef struct {
    const ll_model *model;
    double *params;                        /* in the layout of model->data; may be changed between calls */
    const int *tokens, *targets, *lengths; /* targets as ll_model_run takes them; lengths NULL: all */
    const int *source, *source_lengths;    /* seq2seq: (B, S) */
    int B, T, S;
    int dropout;  /* apply the masks of training ... */
    int64_t draw; /* ... with this number */
    /* Of one stack, for distillation, (layers, B, T, C): what enters each layer's attention, before the norm of
     * pre-norm, and what attention gives. `given` stands in place of the former. NULL: not wanted, not given. */
    double *entered, *attended;
    const double *given;
    /* The stack that is being computed: of its tensors' names, its layers, its first operator. */
    const char *prefix;
    int layers, first, causal, cross;
    const double *top; /* (B, S, C) output of the encoder */
} oracle_model;

/* The model's parameters in double; free oracle.params. */
oracle_model oracle_model_of(const ll_model *model, int B, int T);
/* The activation of model.activation; for swiglu, that of its gate. */
double oracle_activation(const ll_model_config *c, double u);
/* Logits (B, T, V), or (B, classes). */
void oracle_model_logits(const oracle_model *o, double *logits);
/* Sum of cross-entropies over counted targets. */
double oracle_model_loss(const oracle_model *o);
/* d loss / d params[i] by central differences. */
double oracle_model_difference(oracle_model *o, size_t i);

#endif
