/* The recipe as numbers: the parts that the rooms declare, each with its own table of keys (base/key.h). */
#ifndef LL_RECIPE_H
#define LL_RECIPE_H

#include "base/status.h"
#include "data/data_options.h"
#include "dist/dist_options.h"
#include "model/config/model_config.h"
#include "train/train_options.h"

/* A recipe as numbers: a part for each section. */
typedef struct {
    ll_model_options model;
    ll_attention_options attention;
    ll_position_options position;
    ll_train_options train;
    ll_data_options data;
    ll_dist_options dist;
} ll_config;

struct ll_recipe {
    ll_config c;
    int closed;    /* 1: data.classes is of other data than are read now; -1: it was chosen for these */
    char *scratch; /* memory for the text of every key, for ll_recipe_get */
};

/* As ll_task_per_token. */
int ll_config_per_token(const ll_config *c);
/* The sequences of a batch: two for each example of match. */
int ll_config_sequences(const ll_config *c);
/* The model's part of a recipe. */
ll_model_config ll_config_model(const ll_config *c);
/* Do the parts of a recipe fit together? Calls ll_model_check. */
LL_MUST_USE ll_status ll_config_check(const ll_config *c);

#endif
