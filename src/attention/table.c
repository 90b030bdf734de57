/* The table of attention, with every kernel and every position. A pair is legal if the kernel has what the position
 * needs. A new kernel or position is a row here and a file of its own. */
#include "attention/table.h"

#include "attention/feature/maps.h"

#define PERFORMER "Choromanski et al. 2021"
#define LINEAR .cost = "T m (D + E)", .causal = 1, .whole = 1, .decay = 1
#define FAVOR FEATURES, .kind = &ll_operator_linear
#define EPS .eps = 1e-3 /* for maps that can be 0, so that no divisor is 0 */
#define MAP(f) FEATURES, .kind = &ll_operator_linear, .map = &ll_map_##f
enum { KEYS = LL_HAS_VECTORS | LL_HAS_KEYS, FEATURES = KEYS | LL_HAS_FEATURES | LL_HAS_WEIGHTS };

#define MIXES "mixes all tokens before any is looked at"
#define NEARBY "use local, favor or softmax"

// clang-format off
static const ll_mechanism_row kernels[] = {
    [LL_KERNEL_SOFTMAX] = {{"softmax", "exact: exp(<q, k> / sqrt(D)), in tiles", "Vaswani et al. 2017",
        .cost = "T^2 (D + E)", .causal = 1, .whole = 1, .stream = LL_STREAM_GROWS},
        KEYS | LL_HAS_LOGITS | LL_HAS_WEIGHTS, .kind = &ll_operator_softmax},
    [LL_KERNEL_FAVOR] = {{"favor", "random features that estimate softmax (FAVOR+)", PERFORMER, LINEAR}, FAVOR},
    [LL_KERNEL_RELU] = {{"relu", "features max(x, 0)", PERFORMER, LINEAR, EPS}, MAP(relu)},
    [LL_KERNEL_ELU1] = {{"elu1", "features elu(x) + 1", "Katharopoulos et al. 2020", LINEAR}, MAP(elu1)},
    [LL_KERNEL_EXP] = {{"exp", "features exp(x)", PERFORMER, LINEAR}, MAP(exp)},
    [LL_KERNEL_SIGMOID] = {{"sigmoid", "features 1 / (1 + exp(-x))", PERFORMER, LINEAR}, MAP(sigmoid)},
    [LL_KERNEL_ABS] = {{"abs", "features |x|", PERFORMER, LINEAR, EPS}, MAP(abs)},
    [LL_KERNEL_GELU] = {{"gelu", "features gelu(x), weights may be negative", PERFORMER, LINEAR, EPS}, MAP(gelu)},
    [LL_KERNEL_COS] = {{"cos", "features cos(x), weights may be negative", PERFORMER, LINEAR, EPS}, MAP(cos)},
    [LL_KERNEL_TANH] = {{"tanh", "features tanh(x), weights may be negative", PERFORMER, LINEAR, EPS}, MAP(tanh)},
    [LL_KERNEL_IDENTITY] = {{"identity", "features x, weights may be negative", PERFORMER, LINEAR, EPS}, MAP(identity)},
    [LL_KERNEL_SQUARE] = {{"square", "features x^2: a polynomial kernel of degree 4", "none (longline's own)",
        LINEAR, EPS}, MAP(square)},
    [LL_KERNEL_GLA] = {{"gla", "features x, a state that decays by a gate for each token", "Yang et al. 2024",
        .cost = "T m (D + E)", .causal = 1, .decay = 1}, KEYS | LL_HAS_FEATURES,
        .limit = "weighs earlier tokens by a gate", .limit_other = "use relu or favor", .kind = &ll_operator_linear,
        .gated = 1, .map = &ll_map_gla},
    [LL_KERNEL_VALUE] = {{"value", "every token its own value: what attention costs and gives", PERFORMER " (OPT)",
        .cost = "0", .causal = 1, .whole = 1}, .kind = &ll_operator_identity},
    [LL_KERNEL_LOCAL] = {{"local", "softmax over a window of tokens", "Beltagy et al. 2020",
        .cost = "T window (D + E)", .causal = 1, .whole = 1}, KEYS, .kind = &ll_operator_local},
    [LL_KERNEL_LINFORMER] = {{"linformer", "softmax over learnt sums of keys", "Wang et al. 2020",
        .cost = "T k (D + E)", .whole = 1, .stream = LL_STREAM_NONE, .length = LL_LENGTH_TABLE}, KEYS,
        .limit = MIXES, .limit_other = NEARBY, .kind = &ll_operator_linformer},
    [LL_KERNEL_NYSTROM] = {{"nystrom", "softmax through landmarks", "Xiong et al. 2021",
        .cost = "T landmarks (D + E)", .whole = 1, .stream = LL_STREAM_NONE}, KEYS,
        .limit = MIXES, .limit_other = NEARBY, .kind = &ll_operator_nystrom},
    [LL_KERNEL_REFORMER] = {{"reformer", "softmax over what a hash puts together", "Kitaev et al. 2020",
        .cost = "T rounds chunk (D + E)", .causal = 1, .whole = 1}, LL_HAS_VECTORS, .kind = &ll_operator_reformer},
};

static const ll_mechanism_row positions[] = {
    [LL_POSITION_NONE] = {{"none", "tokens do not know where they are", "", "0", 1, 1}, LL_EMBEDDED},
    [LL_POSITION_SINUSOIDAL] = {{"sinusoidal", "sines of the position, added to the embedding", "Vaswani et al. 2017",
        "T", 1, 1}, LL_EMBEDDED},
    [LL_POSITION_LEARNED] = {{"learned", "a table of vectors, added to the embedding", "Gehring et al. 2017",
        "T", 1, 1, .length = LL_LENGTH_TABLE}, LL_EMBEDDED},
    [LL_POSITION_PERMUTE] = {{"permute", "powers of a permutation of the features", "Chen 2021", "T m", 1, 1},
        LL_HAS_FEATURES, "permutes features", "use favor or relu", .postmap = &ll_postmap_permute},
    [LL_POSITION_PERMUTE2D] = {{"permute2d", "half of the features permuted by column, half by row", "Chen 2021",
        "T m", 0, 1, .stream = LL_STREAM_NONE, .length = LL_LENGTH_IMAGE},
        LL_HAS_FEATURES, "permutes features", "use favor or relu", "needs whole images", "use permute",
        .postmap = &ll_postmap_permute2d},
    [LL_POSITION_ROPE] = {{"rope", "queries and keys rotated", "Su et al. 2021", "T D", 1, 1},
        LL_HAS_VECTORS, "rotates queries and keys", "use softmax, favor or relu", .premap = &ll_premap_rope},
    [LL_POSITION_ROPE_LINEAR] = {{"rope-linear", "features rotated, in the numerator alone", "Su et al. 2021",
        "T m", 1, 1},
        LL_HAS_FEATURES, "rotates features", "use rope",
        .postmap = &ll_postmap_rope},
    [LL_POSITION_SINE_SPE] = {{"sine-spe", "stochastic codes, sums of sinusoids", "Liutkus et al. 2021",
        "T D R sines", 1, 1}, KEYS, "encodes queries and keys", "use softmax, favor or relu",
        .premap = &ll_premap_sine},
    [LL_POSITION_CONV_SPE] = {{"conv-spe", "stochastic codes, filtered noise", "Liutkus et al. 2021",
        "T D R taps", 1, 1}, KEYS | LL_IMAGE, "encodes queries and keys", "use softmax, favor or relu",
        .premap = &ll_premap_conv},
    [LL_POSITION_RELATIVE_S1] = {{"relative-s1", "queries and keys longer by a learnt cosine of the distance",
        "Horn et al. 2021", "T scales", 1, 1},
        KEYS | LL_IMAGE, "lengthens queries and keys", "use softmax, favor or relu", .premap = &ll_premap_s1},
    [LL_POSITION_RELATIVE_S2] = {{"relative-s2", "half of the heads weigh values by clipped distance alone",
        "Horn et al. 2021", "T clip E", 1, 1},
        LL_HAS_WEIGHTS | LL_WITHIN | LL_IMAGE, "puts learnt vectors in the place of keys that any query may weigh",
        "use softmax, favor or relu",
        .kind = &ll_operator_relative_s2},
    [LL_POSITION_T5] = {{"t5", "a learnt number for each bucket of distances, in the logits", "Raffel et al. 2020",
        "T^2", 1, 1},
        LL_HAS_LOGITS | LL_WITHIN, "adds to the logits of each pair of tokens", "use softmax, or relative-s1",
        .logits = &ll_logits_t5},
    [LL_POSITION_SHAW] = {{"shaw", "a learnt vector for each clipped distance, in logits and values",
        "Shaw et al. 2018",
        "T^2 + T clip (D + E)", 1, 1},
        LL_HAS_LOGITS | LL_WITHIN, "adds to the logits of each pair of tokens",
        "use softmax, or relative-s1", .logits = &ll_logits_shaw},
    [LL_POSITION_ORTHOGONAL] = {{"orthogonal",
        "powers of a random rotation of the features: permute without its property 3",
        "Chen 2021", "T m^2", 1, 1}, LL_HAS_FEATURES | LL_WITHIN, "rotates features", "use favor or relu",
        .postmap = &ll_postmap_orthogonal},
};
// clang-format on

const ll_mechanism_row *ll_kernel_row(int kernel) {
    return kernel >= 0 && kernel < (int)(sizeof kernels / sizeof *kernels) ? &kernels[kernel] : NULL;
}

const ll_mechanism_row *ll_position_row(int position) {
    return position >= 0 && position < (int)(sizeof positions / sizeof *positions) ? &positions[position] : NULL;
}

const ll_operator_kind *ll_operator_of_kernel(ll_kernel kernel) {
    const ll_mechanism_row *row = ll_kernel_row((int)kernel);
    return row ? row->kind : NULL;
}

const ll_operator_kind *ll_operator_of_config(const ll_attention_config *c) {
    const ll_mechanism_row *position = ll_position_row((int)c->position);
    return position && position->kind ? position->kind : ll_operator_of_kernel(c->kernel);
}

const ll_map *ll_map_of(ll_kernel kernel) {
    const ll_mechanism_row *row = ll_kernel_row((int)kernel);
    return row ? row->map : NULL;
}
