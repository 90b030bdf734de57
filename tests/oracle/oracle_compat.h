/* The rules of released programs, for the oracle of models. */
#ifndef LL_ORACLE_COMPAT_H
#define LL_ORACLE_COMPAT_H

#include "longline.h"

/* Changes a mechanism to that of the program named `compat`; width: of queries after their position. */
void oracle_compat(const char *compat, int width, ll_attention_config *a);

#endif
