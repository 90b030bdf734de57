/* Parameters that train, of positions and of kernels: their names, shapes and first values. Models allocate, write and
 * read tensors by these lists. */
#ifndef LL_PARAMETER_H
#define LL_PARAMETER_H

#include <stddef.h>

#include "longline.h"

enum { LL_PARAMETERS = 4 }; /* of a position, or of a kernel, at most */

/* How its first values are drawn: functions of the seed and of the number of the stream. */
typedef struct {
    uint64_t seed, stream;
    double std; /* of the weights of the model */
} ll_parameter_draw;

typedef struct ll_parameter {
    const char *name; /* of its field in the config */
    int rank, lead;   /* axes; the first `lead` of them are the rows of the matrix that a model has */
    int shape[4];
    int shared;      /* one for all layers */
    size_t value;    /* offset of its pointer in ll_attention_config */
    size_t gradient; /* and in ll_attention_call */
    /* Fills x with the first values. NULL: normal numbers. */
    void (*init)(const ll_attention_config *c, const struct ll_parameter *p, const ll_parameter_draw *draw, float *x);
} ll_parameter;

/* The parameters of a config's position, and of its kernel: `list`, how many. Sizes are those of the config, whose
 * pointers are not read. */
int ll_position_parameters(const ll_attention_config *c, ll_parameter list[LL_PARAMETERS]);
int ll_kernel_parameters(const ll_attention_config *c, ll_parameter list[LL_PARAMETERS]);

/* As a matrix; how many numbers. */
int ll_parameter_rows(const ll_parameter *p);
int ll_parameter_cols(const ll_parameter *p);
size_t ll_parameter_size(const ll_parameter *p);
/* Normal numbers times `factor`. */
void ll_parameter_normal(const ll_parameter *p, const ll_parameter_draw *draw, float factor, float *x);

#define LL_POSITION_PARAMETER(field)                                                                                   \
    .name = #field, .value = offsetof(ll_attention_config, encoding.field),                                            \
    .gradient = offsetof(ll_attention_call, dposition.field)
#define LL_KERNEL_PARAMETER(field)                                                                                     \
    .name = #field, .value = offsetof(ll_attention_config, approximate.field),                                         \
    .gradient = offsetof(ll_attention_call, dapproximate.field)

#endif
