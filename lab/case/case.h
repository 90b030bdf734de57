/* Inside cases: what reading the file (case.c) and reading the position's part of it (case_position.c) share. */
#ifndef LL_CASE_H
#define LL_CASE_H

#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "attention/parameter.h"
#include "base/safetensors.h"
#include "longline-lab.h"

/* A tensor of parameters that train, and its gradient. */
typedef struct {
    const char *name;
    int rank;
    size_t shape[4];
    float *data, *gradient;
} ll_case_parameter;

enum { LL_CASE_PARAMETERS = 6, LL_CASE_AXIS = 1 << 28 };

typedef struct {
    ll_safetensors *file;
    ll_attention *op;
    ll_attention_config c;
    const char *kernel, *position;
    size_t B, L;
    int keyed;                                            /* heads that have keys */
    float *q, *k, *v, *g, *key_mask, *projection, *decay; /* NULL: not in the file */
    int32_t *permutation;
    float *y, *dq, *dk, *dv, *dr, *saved;
    ll_case_parameter parameter[LL_CASE_PARAMETERS]; /* of the position and the kernel */
    int parameters;
    float *theta, *basis, *noise, *gate_noise, *rotations;
    ll_position_gradients dposition;
    ll_approximate_gradients dapproximate;
} ll_case;

/* A finite number of the metadata, or `fallback` where it is absent (NAN: it must be there). */
LL_MUST_USE ll_status ll_case_number(const ll_case *a, const char *key, double fallback, float *value);
/* A whole number 0..most of the metadata, or `fallback` where it is absent (NAN: it must be there). */
LL_MUST_USE ll_status ll_case_integer(const ll_case *a, const char *key, double fallback, int most, int *value);
/* The tensor's finite numbers, which must have this shape; *data stays NULL where it is not in the file. */
LL_MUST_USE ll_status ll_case_tensor(const ll_case *a, const char *name, int rank, const size_t *shape, float **data);
/* Length of axis i of a tensor of this rank that must be there. */
LL_MUST_USE ll_status ll_case_axis(const ll_case *a, const char *name, int rank, int i, size_t *length);

/* A tensor of parameters that must be there, and room for its gradient: both are given out. */
LL_MUST_USE ll_status ll_case_parameter_read(ll_case *a, const char *name, int rank, const size_t *shape,
                                             const float **data, float **gradient);

/* Everything that the approximate kernels read (case_approximate.c). */
LL_MUST_USE ll_status ll_case_approximate(ll_case *a);
int ll_case_approximate_reads(const ll_case *a, const char *name);

/* Everything that the position reads: permutation, parameters, noise, sizes. */
LL_MUST_USE ll_status ll_case_position(ll_case *a);
void ll_case_position_free(ll_case *a);
/* Has the tensor a meaning for this position? */
int ll_case_position_reads(const ll_case *a, const char *name);
/* Columns of the projection. */
size_t ll_case_width(const ll_case *a);

#endif
