/* The ablation of PermuteFormer's permutation: a random orthogonal matrix P in its place (Chen 2021, "w/o Property 3").
 * P^i phi keeps inner products and knows distances, but has both signs, so that weights are no longer positive.
 *
 * An orthogonal matrix is, in a basis of its own, turns of planes by angles (and, where the number of features is odd,
 * one axis that stays): P = B^T R B. So P^i = B^T R(i) B with R(i) turns by i times the angles, and of <P^i a, P^j b> =
 * <R(i) B a, R(j) B b> the outer B^T cancels: features change their basis, which is one m x m product a token, and are
 * turned. No power of P is ever made. */
#include <string.h>

#include "attention/feature/feature_map.h"
#include "base/memory.h"

ll_status ll_orthogonal_create(ll_feature_map *map) {
    const size_t H = (size_t)map->c.H, m = (size_t)map->features, ld = (size_t)map->ld, pairs = m / 2;
    map->basis = map->c.encoding.basis;
    map->basis_t = ll_alloc(H * m * ld, sizeof *map->basis_t);
    map->angles = ll_alloc(H * pairs, sizeof *map->angles);
    if (!map->basis_t || !map->angles) return LL_ENOMEM;
    for (size_t t = 0; t < H * pairs; t++) map->angles[t] = (double)map->c.encoding.theta[t];
    for (size_t h = 0; h < H; h++)
        ll_kernel_table()->transpose((int)m, (int)m, map->basis + h * m * m, m, map->basis_t + h * m * ld, ld);
    return LL_OK;
}

void ll_orthogonal_apply(const ll_feature_map *map, const ll_kernels *k, int head, int back, int C, const float *in,
                         float *out) {
    const size_t m = (size_t)map->features, ld = (size_t)map->ld, h = (size_t)head;
    const float *B = back ? map->basis + h * m * m : map->basis_t + h * m * ld;
    k->gemm(C, (int)m, (int)m, in, ld, 1, B, back ? m : ld, out, ld, 0);
}
