/* Every kernel of the table, written once against the vector operations of a vec_*.h header, which is included before
 * this one. LL_TIER is the name of the table and LL_TIER_NAME the same as a string. kernel.h specifies each function.
 * Sums run within lanes first and over the lanes last, so that their order depends on the size alone. */
#include <math.h>

#include "kernel/kernel.h"
#include "kernel/tiers.h"

#include "kernel/body_rows.h"
#include "kernel/body_product.h"
#include "kernel/body_state.h"
#include "kernel/body_rotate.h"
#include "kernel/body_position.h"
#include "kernel/body_gelu.h"
#include "kernel/body_layer.h"

const ll_kernels LL_TIER = {
    .name = LL_TIER_NAME,
    .width = VW,
    .rows = VROWS,
    .gemm = gemm,
    .gemm_prefetch = gemm_prefetch,
    .to_bf16 = to_bf16,
    .interleave_bf16 = interleave_bf16,
    .gemm_bf16 = gemm_bf16,
    .gemv = gemv,
    .gemv_quantized = gemv_quantized,
    .dequantize = dequantize,
    .gemv_rows = gemv_rows,
    .transpose = transpose,
    .dot = dot,
    .sum = sum,
    .axpy = axpy,
    .scale = scale,
    .scaled = scaled,
    .add = add,
    .mul = mul,
    .max = max,
    .exp = exp_all,
    .relu = relu,
    .relu_back = relu_back,
    .elu1 = elu1,
    .elu1_back = elu1_back,
    .exp2_rows = exp2_rows,
    .exp2_exponent = exp2_exponent,
    .exp_shift = exp_shift,
    .rotate_cycles = rotate_cycles,
    .random_words = random_words,
    .normals = normals,
    .sinusoids = sinusoids,
    .rotate_pairs = rotate_pairs,
    .scale_blocks = scale_blocks,
    .scale_blocks_back = scale_blocks_back,
    .state_tokens = state_tokens,
    .norm = norm,
    .norm_back = norm_back,
    .rms_norm = rms_norm,
    .rms_norm_back = rms_norm_back,
    .gelu = gelu,
    .gelu_back = gelu_back,
    .swish = swish,
    .swish_back = swish_back,
    .softmax_loss = softmax_loss,
    .adam = adam,
    .peak = peak,
    .tile = VTILE,
};
