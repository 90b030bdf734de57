/* The description of a model: three parts of a recipe, and what it says of training that the model needs. */
#ifndef LL_MODEL_CONFIG_H
#define LL_MODEL_CONFIG_H

#include <stdint.h>

#include "attention/operator.h"
#include "data/batch.h"
#include "model/config/attention_options.h"
#include "model/config/model_options.h"
#include "model/config/position_options.h"

typedef struct {
    ll_model_options model;
    ll_attention_options attention;
    ll_position_options position;
    int batch, length; /* the longest sequence of training, which tables of positions must cover */
    int bf16;          /* training multiplies in bfloat16 */
    int carry;         /* windows pass their state on */
    int chunk;         /* tokens of a sequence that go through the network at a time; 0: all */
    int recompute;     /* training keeps the input of each block, and computes the block again on the way back */
    int64_t seed;      /* seed of all random numbers */
} ll_model_config;

/* The model's part of a recipe, if it is consistent (ll_config_check). The recipe room is above this one and implements
 * it. Models keep their recipe, but read it only through this function. */
LL_MUST_USE ll_status ll_recipe_model(const ll_recipe *recipe, ll_model_config *c);
/* As ll_recipe_set, of a model that has its classes. */
LL_MUST_USE ll_status ll_recipe_change(ll_recipe *recipe, const char *assignment);
/* LL_EINVAL where tokens of the data of another recipe stand for something else. */
LL_MUST_USE ll_status ll_recipe_same_tokens(const ll_recipe *recipe, const ll_recipe *other);
/* A copy of the recipe; also implemented by the recipe room. */
LL_MUST_USE ll_status ll_recipe_copy(ll_recipe **copy, const ll_recipe *recipe);

/* Standard deviation of initial weights, and amplitude of sinusoids; init-std = 0 is replaced by a function of the
 * width. */
double ll_config_init_std(const ll_model_config *c);
/* Size of queries and keys of a head, and their size after a position before the feature map. */
int ll_config_query_size(const ll_model_config *c);
int ll_config_encoded_size(const ll_model_config *c);
/* The part of an operator's config that follows from these settings alone: kernel, position, and their sizes. Draws,
 * parameters, the image and the rules of attention.compat are not in it. */
ll_attention_config ll_config_attention(const ll_model_config *c);
/* Are positions those of the rows and columns of an image? How many tokens of a sequence have one: of a table of them;
 * INT64_MAX: all. */
int ll_position_is_image(const ll_position_options *p);
int64_t ll_position_limit(const ll_position_options *p);
/* Heads without keys. Do positions draw noise? */
int ll_config_keyless(const ll_model_config *c);
int ll_config_draws_noise(const ll_model_config *c);
/* Has the kernel features? How many of queries and keys does a layer project: 2, 1 (queries that also serve as keys),
 * 0. */
int ll_config_linear(const ll_model_config *c);
int ll_config_projections(const ll_model_config *c);
/* Has the kernel a gate for each token? Is the output of each head normalised? Are sums of a linear kernel divided? */
int ll_config_gated(const ll_model_config *c);
int ll_config_head_norm(const ll_model_config *c);
int ll_config_divides(const ll_model_config *c);
/* What attention.projection = auto means: orthogonal for favor, none for others. */
int ll_config_projection(const ll_model_config *c);
/* Features of a head of a linear kernel, and rows of its random projection (0: none). */
int ll_config_features(const ll_model_config *c);
int ll_config_rows(const ll_model_config *c);

/* config_image.c. Tokens in a row and a column of an image: pixels or patches. Numbers of the data in an image. What
 * patches subtract from pixels of 0 to 1, and divide them by. */
enum { LL_CHANNELS = 3, LL_LENGTH_MOST = 1 << 27 /* of train.length */ };
int ll_config_grid_width(const ll_model_config *c);
int ll_config_grid_height(const ll_model_config *c);
/* Tokens of the longest sequence of training, without a CLS token. */
int ll_config_tokens(const ll_model_config *c);
int64_t ll_config_image_numbers(const ll_model_config *c);
LL_MUST_USE ll_status ll_config_pixels(const ll_model_config *c, double mean[LL_CHANNELS],
                                       double deviation[LL_CHANNELS]);

/* Checks what no single key can: that heads divide the width, that causal tasks have no 2-D positions, ... */
LL_MUST_USE ll_status ll_model_check(const ll_model_config *c);
/* imported_check.c: which tasks and kernels go with the keys of imported models. */
LL_MUST_USE ll_status ll_check_imported(const ll_model_config *c);
/* config_image.c: which settings go with images. */
LL_MUST_USE ll_status ll_check_image(const ll_model_config *c);

#endif
