/* Every attention kernel and every position, once. A pair is legal where the kernel has what the position needs and
 * both can do the task; nothing else says so. */
#include "model/mechanism.h"

#include <string.h>

#include "model/model_config.h"

#define PERFORMER "Choromanski et al. 2021"
#define LINEAR .cost = "T m (D + E)", .causal = 1, .whole = 1, .decay = 1
enum { KEYS = LL_HAS_VECTORS | LL_HAS_KEYS, FEATURES = KEYS | LL_HAS_FEATURES | LL_HAS_WEIGHTS };

#define MIXES "mixes all tokens before any is looked at"
#define NEARBY "use local, favor or softmax"

// clang-format off
static const ll_mechanism_row kernels[] = {
    [LL_ATT_SOFTMAX] = {{"softmax", "exact: exp(<q, k> / sqrt(D)), in tiles", "Vaswani et al. 2017",
        .cost = "T^2 (D + E)", .causal = 1, .whole = 1, .stream = LL_STREAM_GROWS},
        KEYS | LL_HAS_LOGITS | LL_HAS_WEIGHTS},
    [LL_ATT_FAVOR] = {{"favor", "random features that estimate softmax (FAVOR+)", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_RELU] = {{"relu", "features max(x, 0)", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_ELU1] = {{"elu1", "features elu(x) + 1", "Katharopoulos et al. 2020", LINEAR}, FEATURES},
    [LL_ATT_EXP] = {{"exp", "features exp(x)", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_SIGMOID] = {{"sigmoid", "features 1 / (1 + exp(-x))", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_ABS] = {{"abs", "features |x|", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_GELU] = {{"gelu", "features gelu(x), weights may be negative", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_COS] = {{"cos", "features cos(x), weights may be negative", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_TANH] = {{"tanh", "features tanh(x), weights may be negative", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_IDENTITY] = {{"identity", "features x, weights may be negative", PERFORMER, LINEAR}, FEATURES},
    [LL_ATT_SQUARE] = {{"square", "features x^2: a polynomial kernel of degree 4", "", LINEAR}, FEATURES},
    [LL_ATT_VALUE] = {{"value", "every token its own value: what attention costs and gives", PERFORMER " (OPT)",
        .cost = "0", .causal = 1, .whole = 1}},
    [LL_ATT_LOCAL] = {{"local", "softmax over a window of tokens", "Beltagy et al. 2020",
        .cost = "T window (D + E)", .causal = 1, .whole = 1}, KEYS},
    [LL_ATT_LINFORMER] = {{"linformer", "softmax over learnt sums of keys", "Wang et al. 2020",
        .cost = "T k (D + E)", .whole = 1, .stream = LL_STREAM_NONE, .length = LL_LENGTH_TABLE}, KEYS,
        .whole = MIXES, .whole_other = NEARBY},
    [LL_ATT_NYSTROM] = {{"nystrom", "softmax through landmarks", "Xiong et al. 2021",
        .cost = "T landmarks (D + E)", .whole = 1, .stream = LL_STREAM_NONE}, KEYS,
        .whole = MIXES, .whole_other = NEARBY},
    [LL_ATT_REFORMER] = {{"reformer", "softmax over what a hash puts together", "Kitaev et al. 2020",
        .cost = "T rounds chunk (D + E)", .causal = 1, .whole = 1}, LL_HAS_VECTORS},
};

static const ll_mechanism_row positions[] = {
    [LL_POS_NONE] = {{"none", "tokens do not know where they are", "", "0", 1, 1}},
    [LL_POS_SINUSOIDAL] = {{"sinusoidal", "sines of the position, added to the embedding", "Vaswani et al. 2017",
        "T", 1, 1}},
    [LL_POS_LEARNED] = {{"learned", "a table of vectors, added to the embedding", "Gehring et al. 2017",
        "T", 1, 1, .length = LL_LENGTH_TABLE}},
    [LL_POS_PERMUTE] = {{"permute", "powers of a permutation of the features", "Chen 2021", "T m", 1, 1},
        LL_HAS_FEATURES, "permutes features", "use favor or relu"},
    [LL_POS_PERMUTE2D] = {{"permute2d", "half of the features permuted by column, half by row", "Chen 2021",
        "T m", 0, 1, .stream = LL_STREAM_NONE, .length = LL_LENGTH_IMAGE},
        LL_HAS_FEATURES, "permutes features", "use favor or relu", "needs whole images", "use permute"},
    [LL_POS_ROPE] = {{"rope", "queries and keys rotated", "Su et al. 2021", "T D", 1, 1},
        LL_HAS_VECTORS, "turns queries and keys", "use softmax, favor or relu"},
    [LL_POS_ROPE_LINEAR] = {{"rope-linear", "features rotated, in the numerator alone", "Su et al. 2021", "T m", 1, 1},
        LL_HAS_FEATURES, "turns features", "use rope"},
    [LL_POS_SINE_SPE] = {{"sine-spe", "stochastic codes, sums of sinusoids", "Liutkus et al. 2021",
        "T D R sines", 1, 1}, KEYS, "encodes queries and keys", "use softmax, favor or relu"},
    [LL_POS_CONV_SPE] = {{"conv-spe", "stochastic codes, filtered noise", "Liutkus et al. 2021",
        "T D R taps", 1, 1}, KEYS, "encodes queries and keys", "use softmax, favor or relu"},
    [LL_POS_RELATIVE_S1] = {{"relative-s1", "queries and keys longer by a learnt cosine of the distance",
        "Horn et al. 2021", "T scales", 1, 1},
        KEYS, "lengthens queries and keys", "use softmax, favor or relu"},
    [LL_POS_RELATIVE_S2] = {{"relative-s2", "half of the heads weigh values by clipped distance alone",
        "Horn et al. 2021", "T clip E", 1, 1},
        LL_HAS_WEIGHTS, "puts learnt vectors in the place of keys that any query may weigh",
        "use softmax, favor or relu"},
    [LL_POS_T5] = {{"t5", "a learnt number for each bucket of distances, in the logits", "Raffel et al. 2020",
        "T^2", 1, 1}, LL_HAS_LOGITS, "adds to the logits of each pair of tokens", "use softmax, or relative-s1"},
    [LL_POS_SHAW] = {{"shaw", "a learnt vector for each clipped distance, in logits and values", "Shaw et al. 2018",
        "T^2 + T clip (D + E)", 1, 1},
        LL_HAS_LOGITS, "adds to the logits of each pair of tokens", "use softmax, or relative-s1"},
    [LL_POS_ORTHOGONAL] = {{"orthogonal", "powers of a random rotation of the features: permute without its property 3",
        "Chen 2021", "T m^2", 1, 1}, LL_HAS_FEATURES, "turns features", "use favor or relu"},
};
// clang-format on

const ll_mechanism_row *ll_kernel_row(int kernel) {
    return kernel >= 0 && kernel < (int)(sizeof kernels / sizeof *kernels) ? &kernels[kernel] : NULL;
}

const ll_mechanism_row *ll_position_row(int position) {
    return position >= 0 && position < (int)(sizeof positions / sizeof *positions) ? &positions[position] : NULL;
}

static ll_status check_task(const char *key, const ll_mechanism_row *row, int causal) {
    if (causal && !row->about.causal)
        return ll_fail(LL_EINVAL, "%s = %s %s, but model.task = lm sees earlier tokens alone; %s", key, row->about.name,
                       row->whole, row->whole_other);
    return LL_OK;
}

ll_status ll_pair_check(int kernel, int position, int causal) {
    const ll_mechanism_row *k = ll_kernel_row(kernel), *p = ll_position_row(position);
    if ((p->has & ~k->has) == LL_HAS_KEYS)
        return ll_fail(LL_EINVAL,
                       "position.type = %s treats keys otherwise than queries, and those of attention.kernel = %s "
                       "are the same; use rope",
                       p->about.name, k->about.name);
    if (p->has & ~k->has)
        return ll_fail(LL_EINVAL, "position.type = %s %s, and attention.kernel = %s has none; %s", p->about.name,
                       p->acts, k->about.name, p->other);
    const ll_status status = check_task("attention.kernel", k, causal);
    return status ? status : check_task("position.type", p, causal);
}

/* ---- The public side ---- */

const ll_mechanism *ll_kernel_at(int i) {
    const ll_mechanism_row *row = ll_kernel_row(i);
    return row ? &row->about : NULL;
}

const ll_mechanism *ll_position_at(int i) {
    const ll_mechanism_row *row = ll_position_row(i);
    return row ? &row->about : NULL;
}

ll_status ll_pair_legal(const char *kernel, const char *position, int causal) {
    int k = 0, p = 0;
    while (ll_kernel_row(k) && strcmp(kernels[k].about.name, kernel)) k++;
    while (ll_position_row(p) && strcmp(positions[p].about.name, position)) p++;
    if (!ll_kernel_row(k)) return ll_fail(LL_EINVAL, "there is no attention.kernel \"%.40s\"", kernel);
    if (!ll_position_row(p)) return ll_fail(LL_EINVAL, "there is no position.type \"%.40s\"", position);
    return ll_pair_check(k, p, causal);
}
