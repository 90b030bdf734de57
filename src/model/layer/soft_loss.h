/* The loss of one row of logits against a target and the logits of a teacher (distil.h). */
#ifndef LL_SOFT_LOSS_H
#define LL_SOFT_LOSS_H

#include "model/network.h"

/* Logits to be matched: those of a teacher's run that has come to its head. */
typedef struct ll_soft {
    const ll_batch_run *teacher;
    double weight, temperature;
} ll_soft;

/* ll_model_run, with losses that also compare with a teacher's logits; soft NULL: ll_model_run itself. */
LL_MUST_USE ll_status ll_model_run_soft(const ll_model *m, ll_workspace *ws, const ll_batch *batch, const ll_soft *soft,
                                        float *grad, float scale, int64_t draw, ll_tally *tally);

/* Returns (1 - w) H + w t^2 KL for n logits x and those of the teacher, z. x becomes `scale` times the gradient; z is
 * overwritten. In the order of the row, the sums of the loss in double. */
double ll_soft_loss(const ll_kernels *k, int n, float *x, float *z, int target, double weight, double temperature,
                    float scale);

#endif
