/* The part [attention] of a recipe. Keys: attention_keys.c. */
#ifndef LL_ATTENTION_OPTIONS_H
#define LL_ATTENTION_OPTIONS_H

#include "base/key.h"

enum { /* as ll_kernel */
       LL_ATT_SOFTMAX,
       LL_ATT_FAVOR,
       LL_ATT_RELU,
       LL_ATT_ELU1,
       LL_ATT_EXP,
       LL_ATT_SIGMOID,
       LL_ATT_ABS,
       LL_ATT_GELU,
       LL_ATT_COS,
       LL_ATT_TANH,
       LL_ATT_IDENTITY,
       LL_ATT_SQUARE,
       LL_ATT_VALUE,
       LL_ATT_LOCAL,
       LL_ATT_LINFORMER,
       LL_ATT_NYSTROM,
       LL_ATT_REFORMER
};
enum { LL_FEAT_POSITIVE, LL_FEAT_HYPERBOLIC, LL_FEAT_TRIGONOMETRIC, LL_FEAT_GAUSSIAN }; /* as ll_feature_kind */
enum { LL_PROJ_AUTO, LL_PROJ_NONE, LL_PROJ_ORTHOGONAL, LL_PROJ_IID, LL_PROJ_HADAMARD, LL_PROJ_GIVENS };
enum { LL_ROWS_CHI, LL_ROWS_SQRT_D };
enum {
    LL_COMPAT_NONE,
    LL_COMPAT_GOOGLE,
    LL_COMPAT_LUCIDRAINS,
    LL_COMPAT_FAST_TRANSFORMERS,
    LL_COMPAT_PERMUTEFORMER,
    LL_COMPAT_RELATIVE_PERFORMER
};

typedef struct {
    int kernel, query_multiple /* query/key width as a multiple of the head size */, redraw;
    int features /* kind */, num_features, projection, row_norms;
    int normalise;
    double feature_eps;
    int window; /* local */
    int linformer_length, linformer_rank;
    int landmarks, iterations;  /* nystrom */
    int buckets, chunk, rounds; /* reformer */
    int compat;
} ll_attention_options;

extern const ll_key_table ll_attention_keys;

#endif
