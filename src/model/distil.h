/* Distillation: a model learns from another, its teacher, which has usually the same weights and exact attention.
 *
 *   attention   Attention of each layer reads what the teacher's reads, and learns to give what that gives. With F and
 *               F' the outputs (C) of both for one token, the loss of the token is the mean over layers of
 *
 *                   |F - F'|^2 / (|F'|^2 + C / 10^6),
 *
 *               the share of the teacher's output that is missed. Layers do not depend on each other, and only their
 *               attention gets gradients. This is the attention transfer of LoLCATs (Zhang et al. 2024), with outputs
 *               after W_o and errors relative to their size.
 *   logits      The loss of a target is (1 - w) H + w t^2 KL(p' || p). H is the cross-entropy of the data, and p and p'
 *               are softmax(logits / t) of both models (Hinton et al. 2015). t^2 keeps gradients in scale. */
#ifndef LL_DISTIL_H
#define LL_DISTIL_H

#include "model/model_internal.h"

/* A teacher, its activations, and what attention of both gives. One batch at a time. */
typedef struct ll_teacher ll_teacher;

/* Borrows both models; for batches of up to (B, T). LL_EINVAL where the student cannot learn so from the teacher:
 * attention needs as many layers and rows of the same width, logits as many answers. */
LL_MUST_USE ll_status ll_teacher_create(ll_teacher **teacher, const ll_model *model, const ll_model *student, int B,
                                        int T, int attention);
/* Bytes of it and of its weights, of which quantized ones count as floats. Nothing is made. */
LL_MUST_USE ll_status ll_teacher_measure(size_t *bytes, const ll_model *model, int B, int T, int attention);
void ll_teacher_free(ll_teacher *teacher);

/* One batch, as ll_model_run with a gradient: adds scale * d(sum of losses)/d(parameters of `m`) to grad, and the
 * losses to tally. Of attention, each token in use counts and nothing is dropped out. */
LL_MUST_USE ll_status ll_distil_attention(const ll_model *m, ll_workspace *ws, ll_teacher *teacher,
                                          const ll_batch *batch, float *grad, float scale, int64_t draw,
                                          ll_tally *tally);
typedef struct {
    double weight, temperature; /* w and t */
} ll_distil_options;
LL_MUST_USE ll_status ll_distil_logits(const ll_model *m, ll_workspace *ws, ll_teacher *teacher,
                                       const ll_distil_options *how, const ll_batch *batch, float *grad, float scale,
                                       int64_t draw, ll_tally *tally);

/* Is it a tensor of attention or of positions inside it, which ll_distil_attention gives a gradient? */
int ll_distil_is_attention(const char *tensor);

#endif
