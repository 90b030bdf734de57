/* The approximate operators by definition, in double. Each sequence is computed as if it were alone. The only gradients
 * are central differences (oracle_difference). */
#ifndef LL_ORACLE_APPROXIMATE_H
#define LL_ORACLE_APPROXIMATE_H

#include "oracle.h"

/* Kernels of this file. Softmax in windows is not among them, because it only differs in the keys that a query sees. */
int oracle_is_approximate(const ll_attention_config *c);
void oracle_approximate_forward(const oracle_case *o, double *y);

#endif
