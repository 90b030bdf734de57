/* The recipe as numbers: the parts that the rooms declare, each with its own table of keys (base/key.h). */
#ifndef LL_RECIPE_H
#define LL_RECIPE_H

#include "base/status.h"
#include "data/batch.h"
#include "data/data_options.h"
#include "model/attention_options.h"
#include "model/model_options.h"
#include "model/position_options.h"
#include "train/train_options.h"

/* A recipe as numbers: a part for each section. */
typedef struct {
    ll_model_options model;
    ll_attention_options attention;
    ll_position_options position;
    ll_train_options train;
    ll_data_options data;
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

/* The part of the papers' approximations in what follows (recipe_approximate.c). */
LL_MUST_USE ll_status ll_config_check_approximate(const ll_config *c);
/* Checks what no single key can: heads divide the width, causal tasks with 2-D positions, ... */
LL_MUST_USE ll_status ll_config_check(const ll_config *c);

#endif
