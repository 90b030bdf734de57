/* Which kernels and positions a recipe may combine. */
#ifndef LL_MECHANISM_H
#define LL_MECHANISM_H

#include "attention/table.h"

/* LL_EINVAL with the reason and the remedy if they cannot be combined. */
LL_MUST_USE ll_status ll_pair_check(int kernel, int position, int causal);

#endif
