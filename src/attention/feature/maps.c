/* The elementwise maps: those of the Performer paper (Choromanski et al. 2021, appendix D.2), elu + 1 (Katharopoulos et
 * al. 2020), and the square, which is of no paper. Rows of the table of kernels name them. */
#include "attention/feature/maps.h"

#define LL_MAP(name, ...) const ll_map ll_map_##name = {__VA_ARGS__}

LL_MAP(relu, 0, 1, 1, LL_MAP_RELU);
LL_MAP(elu1, 0, 0, 1, LL_MAP_ELU1);
LL_MAP(exp, 0, 0, 1, LL_MAP_EXP);
LL_MAP(sigmoid, 0, 0, 1, LL_MAP_SIGMOID);
LL_MAP(abs, 0, 1, 0, LL_MAP_ABS);
LL_MAP(gelu, 1, 1, 0, LL_MAP_GELU);
LL_MAP(cos, 1, 1, 0, LL_MAP_COS);
LL_MAP(tanh, 1, 1, 1, LL_MAP_TANH);
LL_MAP(identity, 1, 1, 1, LL_MAP_IDENTITY);
LL_MAP(gla, 1, 1, 1, LL_MAP_IDENTITY);
LL_MAP(square, 0, 1, 0, LL_MAP_SQUARE);
