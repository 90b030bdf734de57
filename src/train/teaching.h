/* What a run learns from a teacher (train.distil), and when. */
#ifndef LL_TEACHING_H
#define LL_TEACHING_H

#include "model/distil.h"
#include "recipe/recipe.h"

/* What update number `step` matches: one of LL_DISTIL_NONE, LL_DISTIL_ATTENTION, LL_DISTIL_LOGITS. */
int ll_teaching_stage(const ll_config *c, int64_t step);
/* How many updates match attention, which are the first ones. */
int64_t ll_teaching_attention(const ll_config *c);
/* Is it the last one that matches this? */
int ll_teaching_ends(const ll_config *c, int64_t step);
/* Sets train.distil-switch where it is left to the length of the run, so that a longer one has the same stages. */
void ll_teaching_resolve(ll_config *c);
/* LL_EINVAL where the recipe asks for what no run can do. */
LL_MUST_USE ll_status ll_teaching_check(const ll_config *c);
/* The model in a file, or the best of a run's folder, that the key `key` names. */
LL_MUST_USE ll_status ll_teaching_open(ll_model **model, const char *key, const char *path);
/* The teacher that a recipe names; NULL where it has none. */
LL_MUST_USE ll_status ll_teaching_load(ll_model **model, const ll_config *c);
/* One batch in the way of that step, which has a teacher. */
LL_MUST_USE ll_status ll_teaching_run(ll_teacher *teacher, const ll_model *m, ll_workspace *ws, const ll_batch *batch,
                                      int64_t step, float *grad, float scale, int64_t draw, ll_tally *tally);

#endif
