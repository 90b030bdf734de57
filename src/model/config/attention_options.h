/* The part [attention] of a recipe. Keys: attention_keys.c. */
#ifndef LL_ATTENTION_OPTIONS_H
#define LL_ATTENTION_OPTIONS_H

#include "base/key.h"
#include "longline.h"

enum { LL_PROJ_AUTO, LL_PROJ_NONE, LL_PROJ_ORTHOGONAL, LL_PROJ_IID, LL_PROJ_HADAMARD, LL_PROJ_GIVENS };
enum { LL_OUTPUT_NORM_AUTO, LL_OUTPUT_NORM_OFF, LL_OUTPUT_NORM_ON };
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
    int kernel; /* ll_kernel */
    int query_multiple /* query/key width as a multiple of the head size */, redraw;
    int features /* ll_feature_kind */, num_features, projection, row_norms;
    int normalise;
    double feature_eps;
    int window; /* local */
    int linformer_length, linformer_rank;
    int landmarks, iterations;  /* nystrom */
    int buckets, chunk, rounds; /* reformer */
    int output_norm;
    int compat;
} ll_attention_options;

extern const ll_key_table ll_attention_keys;

#endif
