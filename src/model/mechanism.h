/* Which kernels and positions go together in a recipe. */
#ifndef LL_MECHANISM_H
#define LL_MECHANISM_H

#include "attention/table.h"

/* LL_EINVAL with the reason and what to do where they cannot be together. */
LL_MUST_USE ll_status ll_pair_check(int kernel, int position, int causal);

#endif
