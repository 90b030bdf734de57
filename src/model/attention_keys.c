/* The keys of [attention]. Choices are numbered in this order by the enums of attention_options.h. */
#include "model/attention_options.h"

#define PART ll_attention_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    CHOICE("attention.kernel", kernel, "softmax",
           "softmax|favor|relu|elu1|exp|sigmoid|abs|gelu|cos|tanh|identity|square|gla|"
           "value|local|linformer|nystrom|reformer",
           "exact softmax, or linear: its estimate by random features (favor), or features f(x), f = max(x, 0), ...; "
           "gla: gated linear attention, whose state decays by a learnt gate for each token, task = lm; "
           "value: V itself, the papers' identity attention (OPT); local: softmax over near tokens; "
           "linformer: over learnt sums of tokens; nystrom: through landmarks; "
           "reformer: over what a hash puts near"),
    INT("attention.query-multiple", query_multiple, "1", 1, 64, "query and key size of a head / its value size"),
    CHOICE("attention.features", features, "positive", "positive|hyperbolic|trigonometric|gaussian",
           "kind of random features, kernel = favor; all but positive make two of a row, gaussian has its own kernel"),
    INT("attention.num-features", num_features, "256", 0, 65536, "features of a head after a random projection"),
    CHOICE("attention.projection", projection, "auto", "auto|none|orthogonal|iid|hadamard|givens",
           "random projection before the features; auto = orthogonal for favor, none for other kernels"),
    CHOICE("attention.row-norms", row_norms, "chi", "chi|sqrt-d",
           "lengths of its rows: of normal vectors, or all the same (the regularised softmax kernel)"),
    INT("attention.redraw", redraw, "1000", 0, 1000000000,
        "steps between new draws of the random features, kernel = favor, until the rate falls low; 0 = never"),
    FLAG("attention.normalise", normalise, "on",
         "divide by the sum of the weights, linear kernels but gla; off where features can be negative and sums come "
         "near 0"),
    CHOICE("attention.output-norm", output_norm, "auto", "auto|off|on",
           "RMSNorm of what each head gives; auto = on for gla, whose sums are not divided"),
    NUMBER("attention.feature-eps", feature_eps, "-1", -1, 1,
           "added to every feature; -1 = 0 for favor, elu1, exp, sigmoid and gla, 0.001 for the others"),
    INT("attention.window", window, "128", 1, 1048576,
        "tokens that a token sees on each side, itself included, kernel = local"),
    INT("attention.max-length", linformer_length, "4096", 1, 16777216, "longest sequence, kernel = linformer"),
    INT("attention.projected-length", linformer_rank, "256", 1, 65536,
        "sums of keys and values that are left of a sequence, kernel = linformer"),
    INT("attention.landmarks", landmarks, "64", 1, 1024, "means of queries and of keys, kernel = nystrom"),
    INT("attention.iterations", iterations, "6", 1, 64,
        "steps towards the inverse between landmarks, kernel = nystrom"),
    INT("attention.buckets", buckets, "64", 2, 65536, "values of the hash, an even number, kernel = reformer"),
    INT("attention.chunk", chunk, "64", 1, 4096,
        "tokens that see each other and as many before them, sorted by hash, kernel = reformer"),
    INT("attention.rounds", rounds, "4", 1, 64, "hashes, each of which adds to what a token sees, kernel = reformer"),
    CHOICE("attention.compat", compat, "none",
           "none|google|lucidrains|fast-transformers|permuteformer|relative-performer",
           "stabiliser, eps and divisor of a released program, linear kernels; causal favor may then see later tokens"),
};
// clang-format on

const ll_key_table ll_attention_keys = {keys, sizeof keys / sizeof *keys};
