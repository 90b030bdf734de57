/* Quantized weights: quantize.c. */
#ifndef LL_QUANTIZE_H
#define LL_QUANTIZE_H

#include "kernel/kernel.h"
#include "model/model_internal.h"

typedef struct ll_quantized ll_quantized;
void ll_quantized_free(ll_quantized *w);
const char *ll_quantized_name(const ll_model *model); /* "f32", "bf16", "int8", "int4" */
/* Tensor i of a model in the form that products read; i = -1: none. */
ll_matrix ll_param_matrix(const ll_model *model, int i);
/* So many of its rows, from `first` on, as floats, one after the other. */
void ll_param_floats(const ll_model *model, int i, int first, int rows, float *out);

/* Quantized tensors in files; docs/format.md describes them. */
enum { LL_SCALE_NAME = LL_PARAM_NAME + 8 }; /* characters of NAME.scale */
LL_MUST_USE ll_status ll_quantized_kind(ll_precision *precision, const ll_safetensors *file);
int ll_is_quantized(const ll_model *model, int i); /* is tensor i one that a quantized model has quantized? */
LL_MUST_USE ll_status ll_quantized_write(const ll_model *model, int i, ll_st_writer *writer);
/* in_place: where they lie in the file, which then stays open as long as the model. */
LL_MUST_USE ll_status ll_quantized_read(ll_model *model, ll_precision precision, const ll_safetensors *file,
                                        int in_place);

#endif
