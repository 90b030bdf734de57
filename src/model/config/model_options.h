/* The part [model] of a recipe: the network and its task. Keys: model_keys.c. */
#ifndef LL_MODEL_OPTIONS_H
#define LL_MODEL_OPTIONS_H

#include "base/key.h"

enum { LL_NORM_PRE, LL_NORM_POST, LL_NORM_PARALLEL };
enum { LL_NORM_LAYER, LL_NORM_RMS };
enum { LL_ACT_GELU, LL_ACT_RELU, LL_ACT_GELU_TANH, LL_ACT_SILU, LL_ACT_SWIGLU };
enum { LL_BIAS_FEED, LL_BIAS_NONE, LL_BIAS_QKV, LL_BIAS_ALL };
enum { LL_POOL_MEAN, LL_POOL_FIRST };

typedef struct {
    int task; /* LL_TASK_... of data/batch.h */
    int vocab, classes, layers, width, heads, head_size /* value size; 0 = width/heads */, ff;
    int encoder_layers; /* seq2seq; 0 = layers */
    int separator;      /* token that begins a document; -1: none */
    int norm, activation, tied, pool, embedding_norm, final_norm;
    int norm_kind, bias;
    int kv_heads;                          /* 0 = heads */
    int token_types, type_separator;       /* 0: none; -1: all tokens are of type 0 */
    int mask_token;                        /* mask of the rule of ESM-2; -1: none */
    int head_transform, head_bias;
    int patch, channels; /* images: side of a patch, 0 = tokens; numbers of a pixel */
    double dropout, init_std, norm_eps;
    char *pixel_mean, *pixel_std; /* of patches: a number, or one for each channel; "" = 0.5 */
} ll_model_options;

extern const ll_key_table ll_model_keys;

#endif
