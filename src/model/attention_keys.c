/* The keys of [attention]. Choices are numbered in this order by the enums of attention_options.h. */
#include "model/attention_options.h"

#define PART ll_attention_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    CHOICE("attention.kernel", kernel, "softmax",
           "softmax|favor|relu|elu1|exp|sigmoid|abs|gelu|cos|tanh|identity|square|gla|"
           "value|local|linformer|nystrom|reformer",
           "softmax: exact attention; favor: linear, with random features for softmax; relu .. square: linear, with "
           "features f(x); gla: gated linear attention, with a learned decay for each token, task = lm; "
           "value: V itself, the papers' identity attention (OPT); local: softmax over near tokens; "
           "linformer: over learned sums of tokens; nystrom: through landmarks; "
           "reformer: over tokens with the same hash"),
    INT("attention.query-multiple", query_multiple, "1", 1, 64,
        "size of queries and keys of a head divided by the size of its values"),
    CHOICE("attention.features", features, "positive", "positive|hyperbolic|trigonometric|gaussian",
           "random features, kernel = favor; all but positive make two features of a row; gaussian has its own kernel"),
    INT("attention.num-features", num_features, "256", 0, 65536, "features of a head after a random projection"),
    CHOICE("attention.projection", projection, "auto", "auto|none|orthogonal|iid|hadamard|givens",
           "random projection before the features; auto = orthogonal for favor, none for other kernels"),
    CHOICE("attention.row-norms", row_norms, "chi", "chi|sqrt-d",
           "lengths of the projection's rows: of normal vectors, or all equal (the regularised softmax kernel)"),
    INT("attention.redraw", redraw, "1000", 0, 1000000000,
        "steps between new draws of random features, kernel = favor; none while the rate is low; 0 = never"),
    FLAG("attention.normalise", normalise, "on",
         "divide by the sum of the weights, linear kernels but gla; off if features can be negative, because sums come "
         "near 0"),
    CHOICE("attention.output-norm", output_norm, "auto", "auto|off|on",
           "RMSNorm of the output of each head; auto = on for gla, whose sums are not divided"),
    NUMBER("attention.feature-eps", feature_eps, "-1", -1, 1,
           "number added to every feature; -1 = 0 for favor, elu1, exp, sigmoid and gla, 0.001 for the others"),
    INT("attention.window", window, "128", 1, 1048576,
        "a token attends to tokens less than this far away, itself included, kernel = local"),
    INT("attention.max-length", linformer_length, "4096", 1, 16777216, "longest sequence, kernel = linformer"),
    INT("attention.projected-length", linformer_rank, "256", 1, 65536,
        "number of sums of keys and values, kernel = linformer"),
    INT("attention.landmarks", landmarks, "64", 1, 1024,
        "number of landmarks: means of queries and of keys, kernel = nystrom"),
    INT("attention.iterations", iterations, "6", 1, 64,
        "steps of the iteration that inverts the matrix of landmarks, kernel = nystrom"),
    INT("attention.buckets", buckets, "64", 2, 65536, "number of hash values, even, kernel = reformer"),
    INT("attention.chunk", chunk, "64", 1, 4096,
        "size of a chunk of tokens sorted by hash; a token attends to its chunk and the one before, kernel = reformer"),
    INT("attention.rounds", rounds, "4", 1, 64,
        "number of hashes; each adds tokens that a token attends to, kernel = reformer"),
    CHOICE("attention.compat", compat, "none",
           "none|google|lucidrains|fast-transformers|permuteformer|relative-performer",
           "stabiliser, eps and divisor of a released program, linear kernels; causal favor may then see later tokens"),
};
// clang-format on

const ll_key_table ll_attention_keys = {keys, sizeof keys / sizeof *keys};
