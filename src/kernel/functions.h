/* The functions of a tier under the names that every tier gives them: the table of kernels is made of this list. */
#ifndef LL_KERNEL_FUNCTIONS_H
#define LL_KERNEL_FUNCTIONS_H

// clang-format off
#define LL_KERNEL_FUNCTIONS                                                                                            \
    .gemm = gemm, .gemm_prefetch = gemm_prefetch, .gemm_scaled = gemm_scaled, .to_bf16 = to_bf16,                     \
    .interleave_bf16 = interleave_bf16,                                                                                \
    .gemm_bf16 = gemm_bf16, .gemv = gemv, .linear = linear, .dequantize = dequantize, .gemv_rows = gemv_rows,          \
    .transpose = transpose, .dot = dot, .sum = sum, .axpy = axpy, .scale = scale,                                      \
    .scaled = scaled, .scaled_rows = scaled_rows, .quotient_back = quotient_back, .add = add, .mul = mul,              \
    .gather = gather, .gather_dots = gather_dots, .scatter = scatter,                                                  \
    .softmax_back = softmax_back, .max = max, .exp = exp_all, .exp2_rows = exp2_rows,                                  \
    .exp2_exponent = exp2_exponent, .exp_shift = exp_shift, .exp_sum = exp_sum,                                        \
    .rotate_cycles = rotate_cycles, .random_words = random_words, .normals = normals,                                  \
    .sinusoids = sinusoids, .rotate_pairs = rotate_pairs, .scale_blocks = scale_blocks,                                \
    .scale_blocks_back = scale_blocks_back, .state_tokens = state_tokens, .scan = scan, .scan_weights = scan_weights,  \
    .norm = norm, .norm_back = norm_back, .rms_norm = rms_norm, .rms_norm_back = rms_norm_back, .gelu = gelu,          \
    .gelu_back = gelu_back, .swish = swish, .swish_back = swish_back, .dropout = dropout, .softmax_loss = softmax_loss,\
    .adam = adam, .peak = peak
// clang-format on

#endif
