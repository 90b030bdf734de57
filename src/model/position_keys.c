/* The keys of [position]. Choices are numbered in this order by the enums of position_options.h. */
#include "model/position_options.h"

#define PART ll_position_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    CHOICE("position.type", type, "none",
           "none|sinusoidal|learned|permute|permute2d|rope|rope-linear|sine-spe|conv-spe|relative-s1|"
           "relative-s2|t5|shaw|orthogonal",
           "how tokens get positions; permute, permute2d, rope-linear and orthogonal act on features of linear "
           "kernels, t5 and shaw add to logits of softmax. Ablations of PermuteFormer: permute with decay = none is "
           "without r, none with decay = fixed without pi, orthogonal without Property 3"),
    CHOICE("position.cycles", cycles, "long", "random|long",
           "permutations of permute and permute2d: random, as published, or one cycle of more than "
           "half of the features, of another length in each head, which is faster"),
    CHOICE("position.decay", decay, "none", "none|fixed",
           "weight r^distance with one r for each head, causal linear kernels"),
    NUMBER("position.decay-first", decay_first, "2", -20, 20, "r of the first head = 1 / (1 + exp(-decay-first))"),
    NUMBER("position.decay-last", decay_last, "5", -20, 20,
           "r of a head past the last one, as decay-first; the heads between differ by equal steps"),
    CHOICE("position.cross", cross, "none", "none|start|end|both",
           "from which end cross attention counts positions of the source; both = half of the heads each"),
    INT("position.max-length", max_length, "4096", 1, 16777216, "positions in the table, type = learned"),
    INT("position.offset", offset, "0", 0, 65536, "row of the table for the first token, type = learned"),
    FLAG("position.cls-token", cls, "off", "the CLS token has the first row of the table, type = learned"),
    NUMBER("position.base", base, "10000", 1, 1e12,
           "pair t of n channels is rotated by base^(-2t/n) a token, type = rope"),
    INT("position.rotary", rotary, "0", 0, 65536,
        "channels of a head that are rotated, an even number, type = rope; 0 = all"),
    INT("position.width", width, "0", 0, 32768, "pixels in a row, for images; 0 = as the data has"),
    INT("position.height", height, "0", 0, 32768, "rows of an image; 0 = as the data has"),
    FLAG("position.image", image, "off",
         "tokens are the pixels or patches of an image, types conv-spe, relative-s1, -s2"),
    INT("position.realizations", realizations, "64", 1, 65536,
        "size of the encoded queries and keys, types sine-spe, conv-spe"),
    INT("position.sines", sines, "5", 1, 4096, "number of sinusoids for each feature, type = sine-spe"),
    INT("position.taps", taps, "16", 1, 4096, "length of a filter along each axis, type = conv-spe"),
    FLAG("position.gated", gated, "on", "learns how much each feature depends on positions, types sine-spe, conv-spe"),
    FLAG("position.shared", shared, "off",
         "all layers share parameters and noise, types spe, relative, t5, shaw"),
    INT("position.scales", scales, "8", 1, 4096, "number of learned frequencies, type = relative-s1"),
    INT("position.clip", distances, "6", 1, 255, "larger distances count as the last one, types relative-s2, shaw"),
    FLAG("position.values", distance_values, "on", "also adds a vector for each distance to values, type = shaw"),
};
// clang-format on

const ll_key_table ll_position_keys = {keys, sizeof keys / sizeof *keys};
