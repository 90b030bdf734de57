/* The recipe as numbers. recipe_key.c holds one table of keys (name, type, field, default, range, help) that
 * parses, prints, checks and explains; everything else reads this struct. */
#ifndef LL_RECIPE_H
#define LL_RECIPE_H

#include "base/status.h"

enum { LL_TASK_LM, LL_TASK_CLASSIFY, LL_TASK_MLM, LL_TASK_MATCH, LL_TASK_SEQ2SEQ };
enum { LL_NORM_PRE, LL_NORM_POST };
enum { LL_ACT_GELU, LL_ACT_RELU };
enum { LL_POOL_MEAN, LL_POOL_FIRST };
enum { /* as ll_kernel */
    LL_ATT_SOFTMAX, LL_ATT_FAVOR, LL_ATT_RELU, LL_ATT_ELU1, LL_ATT_EXP, LL_ATT_SIGMOID, LL_ATT_ABS, LL_ATT_GELU,
    LL_ATT_COS, LL_ATT_TANH, LL_ATT_IDENTITY, LL_ATT_SQUARE, LL_ATT_VALUE,
    LL_ATT_LOCAL, LL_ATT_LINFORMER, LL_ATT_NYSTROM, LL_ATT_REFORMER
};
enum { LL_FEAT_POSITIVE, LL_FEAT_HYPERBOLIC, LL_FEAT_TRIGONOMETRIC, LL_FEAT_GAUSSIAN }; /* as ll_feature_kind */
enum { LL_PROJ_AUTO, LL_PROJ_NONE, LL_PROJ_ORTHOGONAL, LL_PROJ_IID, LL_PROJ_HADAMARD, LL_PROJ_GIVENS };
enum { LL_ROWS_CHI, LL_ROWS_SQRT_D };
enum { LL_COMPAT_NONE, LL_COMPAT_GOOGLE, LL_COMPAT_LUCIDRAINS, LL_COMPAT_FAST_TRANSFORMERS, LL_COMPAT_PERMUTEFORMER,
       LL_COMPAT_RELATIVE_PERFORMER };
enum { LL_POS_NONE, LL_POS_SINUSOIDAL, LL_POS_LEARNED, LL_POS_PERMUTE, LL_POS_PERMUTE2D,
       LL_POS_ROPE, LL_POS_ROPE_LINEAR, LL_POS_SINE_SPE, LL_POS_CONV_SPE, LL_POS_RELATIVE_S1, LL_POS_RELATIVE_S2,
       LL_POS_T5, LL_POS_SHAW, LL_POS_ORTHOGONAL };
enum { LL_CYCLES_RANDOM, LL_CYCLES_LONG }; /* of permute, permute2d */
enum { LL_DECAY_NONE, LL_DECAY_FIXED };
enum { LL_CROSS_NONE, LL_CROSS_START, LL_CROSS_END, LL_CROSS_BOTH }; /* where positions of a source begin */
enum { LL_OPT_ADAM, LL_OPT_ADAMW };
enum { LL_FP32, LL_BF16 }; /* what training multiplies */
enum { LL_LR_CONSTANT, LL_LR_LINEAR, LL_LR_INVERSE_SQRT, LL_LR_COSINE };
enum { LL_DATA_BYTES, LL_DATA_IDX, LL_DATA_DEMO, LL_DATA_FASTA, LL_DATA_WORDS, LL_DATA_LABELLED,
       LL_DATA_LISTOPS, LL_DATA_RETRIEVAL, LL_DATA_CIFAR10, LL_DATA_PATHFINDER, LL_DATA_PIECES,
       LL_DATA_PAIRS, LL_DATA_COPY, LL_DATA_REVERSE, LL_DATA_COPY_REVERSE, LL_DATA_MIDI };
enum { LL_SEPARATOR_TAB, LL_SEPARATOR_COMMA };

typedef struct {
    /* [model] */
    int task, vocab, classes, layers, width, heads, head_size /* value size; 0 = width/heads */, ff;
    int encoder_layers; /* seq2seq; 0 = layers */
    int separator; /* token that begins a document anew; -1: none */
    int norm, activation, tied, pool, embedding_norm, final_norm;
    double dropout, init_std;
    /* [attention] */
    int kernel, query_multiple /* query/key width as a multiple of the head size */, redraw;
    int features /* kind */, num_features, projection, row_norms;
    int normalise;
    double feature_eps;
    int window /* local */, linformer_length, linformer_rank;
    int landmarks, iterations; /* nystrom */
    int buckets, chunk, rounds; /* reformer */
    int compat;
    /* [position] */
    int position, cycles, decay, cross, max_length /* learned */, image_width, image_height;
    int image, realizations, sines, taps, gated, shared, scales; /* spe, relative-s1 */
    int distances, distance_values; /* clip of relative-s2 and shaw; shaw */
    double decay_first, decay_last; /* logits of r for the first head and one past the last */
    /* [train] */
    int64_t steps, warmup;
    int batch, length, accumulate, precision, optimizer, schedule;
    double learning_rate, final_rate, beta1, beta2, adam_eps, weight_decay, clip;
    int64_t seed;
    int64_t eval_every, checkpoint_every;
    int eval_batches, report;
    char *from; /* model to begin with; empty: none */
    /* [data] */
    int format;
    char *train, *valid, *test;                      /* files or folders; images for idx */
    char *train_labels, *valid_labels, *test_labels; /* idx */
    int shortest, longest, symbols;                  /* copy, reverse: of the sources that are made */
    double valid_fraction;                           /* cut from the end of train where valid is empty */
    int64_t limit;                                   /* bytes or examples of train in use; 0 = all */
    int resize, shift, margin, only;                 /* images */
    int joined;                                      /* fasta, midi */
    int transpose, fine;                             /* midi; fine: thirds of sixteenths */
    int64_t min_count;                               /* words */
    int vocab_size;                                  /* words */
    int table_separator, header, label_column, text_column; /* labelled: columns from 1 */
    char *docs;                                      /* retrieval: id and text */
    char *class_names;                               /* labelled: "neg,pos" */
} ll_config;

struct ll_recipe {
    ll_config c;
    char *scratch; /* room for the text of every key, for ll_recipe_get */
};

/* Has every token a target of its own? Then targets are (B, T), else (B). */
int ll_config_per_token(const ll_config *c);
/* Do tokens see earlier ones alone: language models, and what decodes? */
int ll_config_causal(const ll_config *c);
/* Sequences in a batch: two for each example of match. */
int ll_config_sequences(const ll_config *c);
/* Standard deviation of new weights, and amplitude of sinusoids: what init-std = 0 means. */
double ll_config_init_std(const ll_config *c);
/* Query and key size of a head, and what a position before the features makes of it. */
int ll_config_query_size(const ll_config *c);
int ll_config_encoded_size(const ll_config *c);
/* Has the kernel features? Of queries and keys, how many does a layer project: 2, 1 (queries that are keys, too), 0. */
int ll_config_linear(const ll_config *c);
int ll_config_sides(const ll_config *c);
/* What attention.projection = auto means: orthogonal for favor, none for others. */
int ll_config_projection(const ll_config *c);
/* Features of a head of a linear kernel, and rows of its random projection (0: none). */
int ll_config_features(const ll_config *c);
int ll_config_rows(const ll_config *c);

/* The part of the papers' baselines in what follows (recipe_baseline.c). */
LL_MUST_USE ll_status ll_config_check_approximate(const ll_config *c);
/* Checks what no single key can: heads divide the width, causal tasks with 2-D positions, ... */
LL_MUST_USE ll_status ll_config_check(const ll_config *c);

#endif
