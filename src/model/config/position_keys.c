/* The keys of [position]. Choices are numbered in this order by the enums of position_options.h. */
#include "model/config/position_options.h"

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
    CHOICE_IF("position.cycles", cycles, "long", "random|long",
              "permutations: random, as published, or one cycle of more than half of the features, of another length "
              "in each head, which is faster", "position.type=permute|permute2d"),
    CHOICE("position.decay", decay, "none", "none|fixed",
           "weight r^distance with one r for each head, causal linear kernels"),
    NUMBER_IF("position.decay-first", decay_first, "2", -20, 20, "r of the first head = 1 / (1 + exp(-decay-first))",
              "position.decay=fixed"),
    NUMBER_IF("position.decay-last", decay_last, "5", -20, 20,
              "r of a head past the last one, as decay-first; the heads between differ by equal steps",
              "position.decay=fixed"),
    CHOICE_IF("position.cross", cross, "none", "none|start|end|both",
              "from which end cross attention counts positions of the source; both = half of the heads each",
              "model.task=seq2seq"),
    INT_IF("position.max-length", max_length, "4096", 1, 16777216, "positions in the table", "position.type=learned"),
    INT_IF("position.offset", offset, "0", 0, 65536, "row of the table for the first token", "position.type=learned"),
    FLAG_IF("position.cls-token", cls, "off", "the CLS token has the first row of the table", "position.type=learned"),
    NUMBER_IF("position.base", base, "10000", 1, 1e12, "pair t of n channels is rotated by base^(-2t/n) a token",
              "position.type=rope"),
    INT_IF("position.rotary", rotary, "0", 0, 65536, "channels of a head that are rotated, an even number; 0 = all",
           "position.type=rope"),
    NUMBER_IF("position.scaling", scaling, "1", 1, 1e6,
              "divides angles, so that a model goes on from shorter sequences to longer ones (rope_scaling's factor)",
              "position.type=rope"),
    NUMBER_IF("position.scaling-length", scaling_length, "0", 0, 1e12,
              "length of those shorter sequences; pairs that turn often within it keep their angle; 0 = none does",
              "position.type=rope"),
    NUMBER_IF("position.scaling-low", scaling_low, "1", 0, 1e12,
              "pairs that turn so many times within scaling-length, or less often, are divided", "position.type=rope"),
    NUMBER_IF("position.scaling-high", scaling_high, "4", 0, 1e12,
              "pairs that turn so many times or more often keep their angle; between the two it is interpolated",
              "position.type=rope"),
    INT("position.width", width, "0", 0, 32768, "pixels in a row, for images; 0 = as the data has"),
    INT("position.height", height, "0", 0, 32768, "rows of an image; 0 = as the data has"),
    FLAG_IF("position.image", image, "off", "tokens are the pixels or patches of an image",
            "position.type=conv-spe|relative-s1|relative-s2"),
    INT_IF("position.realizations", realizations, "64", 1, 65536, "size of the encoded queries and keys",
           "position.type=sine-spe|conv-spe"),
    INT_IF("position.sines", sines, "5", 1, 4096, "number of sinusoids for each feature", "position.type=sine-spe"),
    INT_IF("position.taps", taps, "16", 1, 4096, "length of a filter along each axis", "position.type=conv-spe"),
    FLAG_IF("position.gated", gated, "on", "learns how much each feature depends on positions",
            "position.type=sine-spe|conv-spe"),
    FLAG_IF("position.shared", shared, "off", "all layers share parameters and noise",
            "position.type=sine-spe|conv-spe|relative-s1|relative-s2|t5|shaw"),
    INT_IF("position.scales", scales, "8", 1, 4096, "number of learned frequencies", "position.type=relative-s1"),
    INT_IF("position.clip", distances, "6", 1, 255, "larger distances count as the last one",
           "position.type=relative-s2|shaw"),
    FLAG_IF("position.values", distance_values, "on", "also adds a vector for each distance to values",
            "position.type=shaw"),
};
// clang-format on

const ll_key_table ll_position_keys = {keys, sizeof keys / sizeof *keys};
