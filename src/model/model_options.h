/* The part [model] of a recipe: what the network is, and its task. Keys: model_keys.c. */
#ifndef LL_MODEL_OPTIONS_H
#define LL_MODEL_OPTIONS_H

#include "base/key.h"

enum { LL_NORM_PRE, LL_NORM_POST };
enum { LL_ACT_GELU, LL_ACT_RELU };
enum { LL_POOL_MEAN, LL_POOL_FIRST };

typedef struct {
    int task; /* LL_TASK_... of data/batch.h */
    int vocab, classes, layers, width, heads, head_size /* value size; 0 = width/heads */, ff;
    int encoder_layers; /* seq2seq; 0 = layers */
    int separator;      /* token that begins a document anew; -1: none */
    int norm, activation, tied, pool, embedding_norm, final_norm;
    double dropout, init_std;
} ll_model_options;

extern const ll_key_table ll_model_keys;

#endif
