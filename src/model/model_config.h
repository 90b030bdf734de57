/* What a model is made of: three parts of a recipe, and five numbers of its training. */
#ifndef LL_MODEL_CONFIG_H
#define LL_MODEL_CONFIG_H

#include <stdint.h>

#include "data/batch.h"
#include "model/attention_options.h"
#include "model/model_options.h"
#include "model/position_options.h"

typedef struct {
    ll_model_options model;
    ll_attention_options attention;
    ll_position_options position;
    int batch, length; /* of training, which tables of positions have to reach */
    int bf16;          /* training multiplies in bfloat16 */
    int carry;         /* windows hand their state on */
    int recompute;     /* training keeps what enters each block, and computes the block again */
    int64_t seed;      /* all that is random follows from it */
} ll_model_config;

/* What a recipe says of a model, where it holds together (ll_config_check). The recipe room stands above this one and
 * has the function; models keep their recipe, but look at it through this alone. */
LL_MUST_USE ll_status ll_recipe_model(const ll_recipe *recipe, ll_model_config *c);
/* A recipe of its own with the same values; from the recipe room, too. */
LL_MUST_USE ll_status ll_recipe_copy(ll_recipe **copy, const ll_recipe *recipe);

/* Standard deviation of new weights, and amplitude of sinusoids: what init-std = 0 means. */
double ll_config_init_std(const ll_model_config *c);
/* Query and key size of a head, and what a position before the features makes of it. */
int ll_config_query_size(const ll_model_config *c);
int ll_config_encoded_size(const ll_model_config *c);
/* Has the kernel features? Of queries and keys, how many does a layer project: 2, 1 (queries that are keys, too), 0. */
int ll_config_linear(const ll_model_config *c);
int ll_config_projections(const ll_model_config *c);
/* Has the kernel a gate for each token? Is what each head gives normalised? Are sums of a linear kernel divided? */
int ll_config_gated(const ll_model_config *c);
int ll_config_head_norm(const ll_model_config *c);
int ll_config_divides(const ll_model_config *c);
/* What attention.projection = auto means: orthogonal for favor, none for others. */
int ll_config_projection(const ll_model_config *c);
/* Features of a head of a linear kernel, and rows of its random projection (0: none). */
int ll_config_features(const ll_model_config *c);
int ll_config_rows(const ll_model_config *c);

/* Checks what no single key can: heads divide the width, causal tasks with 2-D positions, ... */
LL_MUST_USE ll_status ll_model_check(const ll_model_config *c);
/* imported_check.c: which tasks and kernels the keys of imported models fit. */
LL_MUST_USE ll_status ll_check_imported(const ll_model_config *c);

#endif
