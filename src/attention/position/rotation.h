/* Rotations by angles that grow with the position: cosines and sines, and pairs of channels rotated by them. They are
 * as exact at any position. */
#ifndef LL_ROTATION_H
#define LL_ROTATION_H

#include <stddef.h>
#include <stdint.h>

#include "longline.h"

/* Cosine and sine of phase + w t. What rounding takes from the angle is added again, so that the angle is as
 * exact at any t: otherwise it would be off by 1e-3 at t = 10^13. */
void ll_cos_sin(double w, int64_t t, double phase, double *c, double *s);
/* out (C, 2n), rows ldo apart: pairs size (cos, sin)(phase + w t) of n angles for t = t0..t0+C-1, each a
 * function of these four alone, from doubles. size NULL: 1; phase NULL: 0. */
void ll_rotations(size_t n, const double *w, const double *size, const double *phase, int64_t t0, int C, float *out,
                  size_t ldo);

/* n angles a token, of all heads (heads = 1) or of each, with what makes their rotations at any position cheap. */
typedef struct {
    size_t heads, n;
    double *rows;
} ll_rotation_table;
/* angles (heads, n) are copied. */
LL_MUST_USE ll_status ll_rotation_table_create(ll_rotation_table *table, size_t heads, size_t n, const double *angles);
void ll_rotation_table_free(ll_rotation_table *table);
/* out (C, 2n), rows ldo apart: cosine and sine of the angles of all heads, for C tokens from a position on. */
void ll_rotation_table_at(const ll_rotation_table *table, int64_t position, int C, float *out, size_t ldo);
/* Rotates n pairs of C rows of a head, at positions one after the other, or back; in place allowed. */
void ll_rotation_table_apply(const ll_rotation_table *table, int head, int back, int C, const int64_t *position,
                             const float *in, size_t ldi, float *out, size_t ldo);

/* LL_EINVAL where the position of this name cannot rotate the features of a config. */
LL_MUST_USE ll_status ll_rotation_check(const ll_attention_config *c, const char *name);

#endif
