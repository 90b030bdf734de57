/* What the two stochastic positional encodings share (Liutkus et al. 2021): the scale of codes, their noise, the
 * gate between code and noise that is the same at every position. */
#ifndef LL_SPE_H
#define LL_SPE_H

#include "attention/position/premap.h"

/* Weights of code and of the gate's noise in one feature: sqrt(1 - d), sqrt(d), d = sigmoid(gate); times (R D)^-1/4. */
typedef struct {
    double code, noise;
    double dcode, dnoise; /* their derivatives by the gate's parameter */
} ll_gate;
ll_gate ll_gate_at(const ll_premap *b, int head, int feature);

LL_MUST_USE ll_status ll_spe_check(const ll_attention_config *c, const char *name);
int ll_spe_width(const ll_attention_config *c);
ll_parameter ll_spe_gate_parameter(const ll_attention_config *c);
/* n normal numbers of a head's noise from number `first` on; `gate`: of its gate's. */
void ll_spe_noise(const ll_premap *b, int head, int gate, float *to, size_t n, uint64_t first);
/* What such a position keeps as its own. */
typedef struct {
    float *noise;      /* in the layout of sine_spe.c or conv_spe.h; NULL: drawn when needed */
    float *gate_noise; /* (H, D, R), if there is a gate */
} ll_spe_draws;
static inline const float *ll_spe_kept_noise(const ll_premap *b) { return ((const ll_spe_draws *)b->own)->noise; }
static inline const float *ll_spe_gate_noise(const ll_premap *b) { return ((const ll_spe_draws *)b->own)->gate_noise; }
/* The kind's own with the noise of the gate, copied if it is given, else drawn. free: both arrays. */
LL_MUST_USE ll_status ll_spe_create(ll_premap *b);
void ll_spe_free(void *own);
/* Draws the noise of the gate again. */
void ll_spe_gate_draw(ll_premap *b);

#endif
