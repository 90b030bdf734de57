/* What papers compare linear attention with, by definition, in double. Sequence by sequence, each as if it were alone.
 * Gradients are central differences alone (oracle_difference). */
#ifndef LL_ORACLE_APPROXIMATE_H
#define LL_ORACLE_APPROXIMATE_H

#include "oracle.h"

/* Kernels of this file; softmax in windows is not among them, for it differs in what is seen alone. */
int oracle_is_approximate(const ll_attention_config *c);
void oracle_approximate_forward(const oracle_case *o, double *y);

#endif
