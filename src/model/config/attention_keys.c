/* The keys of [attention]. Choices are numbered in this order by the enums of attention_options.h. */
#include "model/config/attention_options.h"

#define PART ll_attention_options
#include "base/key_table.h"

/* Kernels with features; and what has a random projection. */
#define LINEAR "favor|relu|elu1|exp|sigmoid|abs|gelu|cos|tanh|identity|square"
#define PROJECTED                                                                                                      \
    "attention.kernel=favor or attention.projection=orthogonal|iid|hadamard|givens or attention.compat=lucidrains"

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
    CHOICE_IF("attention.features", features, "positive", "positive|hyperbolic|trigonometric|gaussian",
              "kind of random features; all but positive make two features of a row; gaussian has its own kernel",
              "attention.kernel=favor"),
    INT_IF("attention.num-features", num_features, "256", 0, 65536, "features of a head after a random projection",
           PROJECTED),
    CHOICE("attention.projection", projection, "auto", "auto|none|orthogonal|iid|hadamard|givens",
           "random projection before the features; auto = orthogonal for favor, none for other kernels; hadamard and "
           "givens are drawn faster, and are biased; use hadamard for queries of 16 numbers or more"),
    CHOICE_IF("attention.row-norms", row_norms, "chi", "chi|sqrt-d",
              "lengths of the projection's rows: of normal vectors, or all equal (the regularised softmax kernel)",
              PROJECTED),
    INT_IF("attention.redraw", redraw, "1000", 0, 1000000000,
           "steps between new draws of random features; none after the rate has fallen low; 0 = never",
           "attention.kernel=favor"),
    FLAG_IF("attention.normalise", normalise, "on",
            "divide by the sum of the weights; off if features can be negative, because sums come near 0",
            "attention.kernel=" LINEAR),
    CHOICE("attention.output-norm", output_norm, "auto", "auto|off|on",
           "RMSNorm of the output of each head; auto = on for gla, whose sums are not divided"),
    NUMBER_IF("attention.feature-eps", feature_eps, "-1", -1, 1,
              "number added to every feature; -1 = 0 for favor, elu1, exp, sigmoid and gla, 0.001 for the others",
              "attention.kernel=" LINEAR "|gla"),
    INT_IF("attention.window", window, "128", 1, 1048576,
           "a token attends to tokens less than this far away, itself included", "attention.kernel=local"),
    INT_IF("attention.max-length", linformer_length, "4096", 1, 16777216, "longest sequence",
           "attention.kernel=linformer"),
    INT_IF("attention.projected-length", linformer_rank, "256", 1, 65536, "number of sums of keys and values",
           "attention.kernel=linformer"),
    INT_IF("attention.landmarks", landmarks, "64", 1, 1024, "number of landmarks: means of queries and of keys",
           "attention.kernel=nystrom"),
    INT_IF("attention.iterations", iterations, "6", 1, 64,
           "steps of the iteration that inverts the matrix of landmarks", "attention.kernel=nystrom"),
    INT_IF("attention.buckets", buckets, "64", 2, 65536, "number of hash values, even", "attention.kernel=reformer"),
    INT_IF("attention.chunk", chunk, "64", 1, 4096,
           "size of a chunk of tokens sorted by hash; a token attends to its chunk and the one before",
           "attention.kernel=reformer"),
    INT_IF("attention.rounds", rounds, "4", 1, 64, "number of hashes; each adds tokens that a token attends to",
           "attention.kernel=reformer"),
    CHOICE_IF("attention.compat", compat, "none",
              "none|google|lucidrains|fast-transformers|permuteformer|relative-performer",
              "stabiliser, eps and divisor of a released program; causal favor may then see later tokens",
              "attention.kernel=" LINEAR "|gla"),
};
// clang-format on

const ll_key_table ll_attention_keys = {keys, sizeof keys / sizeof *keys};
