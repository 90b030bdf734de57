/* Checks that the parts of a recipe fit together. Every refusal says why, and what to change. */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/integer.h"
#include "model/config/compat.h"
#include "model/config/mechanism.h"

enum { HEAD_MOST = 65536 };

static ll_status check_model(const ll_model_config *c) {
    if (c->model.separator >= 0 && c->model.task != LL_TASK_LM)
        return ll_fail(LL_EINVAL,
                       "model.separator = %d separates documents in a stream of text, and %s; set model.task=lm, or "
                       "model.separator=-1",
                       c->model.separator,
                       c->model.task == LL_TASK_MLM ? "the mask of model.task = mlm may hide a separator"
                                              : "examples come apart");
    if (c->model.vocab > 0 && c->model.separator >= c->model.vocab)
        return ll_fail(LL_EINVAL, "model.separator = %d is not a token of model.vocab = %d; set one below it, or -1",
                       c->model.separator, c->model.vocab);
    if (c->model.vocab < 1)
        return ll_fail(LL_EINVAL, "model.vocab = 0 takes the number from the data; without data, set it");
    if (!ll_task_per_token(c->model.task) && c->model.classes < 1)
        return ll_fail(LL_EINVAL, "model.classes = 0 takes the number from the data; without data, set it");
    if (c->length < 1)
        return ll_fail(LL_EINVAL, "train.length = 0 takes the length from images; without images, set it");
    if (!c->model.head_size && c->model.width % c->model.heads)
        return ll_fail(LL_EINVAL,
                       "model.heads = %d does not divide model.width = %d; change one, or set model.head-size",
                       c->model.heads, c->model.width);
    const int size = c->model.head_size ? c->model.head_size : c->model.width / c->model.heads;
    if ((long long)size * c->attention.query_multiple > HEAD_MOST)
        return ll_fail(LL_EINVAL,
                       "attention.query-multiple = %d times heads of size %d is more than %d; make one smaller",
                       c->attention.query_multiple, size, HEAD_MOST);
    if ((long long)c->batch * ll_task_sequences(c->model.task) * c->length > INT_MAX)
        return ll_fail(LL_EINVAL, "train.batch = %d times train.length = %d is more than %d tokens; make one smaller",
                       c->batch, c->length, INT_MAX);
    return LL_OK;
}

static const char *kernel_name(const ll_model_config *c) {
    return ll_kernel_row(c->attention.kernel)->about.name;
}

static ll_status check_features(const ll_model_config *c) {
    char buffer[LL_NUMBER_TEXT];
    if (c->attention.features == LL_FEATURES_POSITIVE) return LL_OK;
    const char *kind = ll_key_text(&c->attention, ll_key_of(&ll_attention_keys, "attention.features"), buffer);
    if (c->attention.kernel != LL_KERNEL_FAVOR)
        return ll_fail(LL_EINVAL, "attention.features = %s is a kind of random features; set attention.kernel=favor",
                       kind);
    if (c->attention.num_features % 2)
        return ll_fail(LL_EINVAL,
                       "attention.features = %s makes pairs of features, and attention.num-features = %d is odd", kind,
                       c->attention.num_features);
    if (c->attention.features != LL_FEATURES_HYPERBOLIC && c->attention.feature_eps > 0)
        return ll_fail(LL_EINVAL,
                       "attention.features = %s have both signs, so that attention.feature-eps = %g makes them no "
                       "safer; set it to 0",
                       kind, c->attention.feature_eps);
    return LL_OK;
}

static ll_status check_projection(const ll_model_config *c) {
    const int projection = ll_config_projection(c);
    const int bare =
        c->model.task == LL_TASK_SEQ2SEQ && c->position.cross == LL_CROSS_NONE; /* cross attention encodes nothing */
    const int own = ll_config_encoded_size(c),
              size = bare && !ll_is_power_of_two(ll_config_query_size(c)) ? ll_config_query_size(c) : own;
    if (projection == LL_PROJ_NONE) {
        if (c->attention.kernel == LL_KERNEL_FAVOR)
            return ll_fail(LL_EINVAL, "attention.projection = none leaves attention.kernel = favor no random features; "
                                      "use orthogonal");
        if (c->attention.row_norms != LL_ROWS_CHI)
            return ll_fail(LL_EINVAL, "attention.row-norms = sqrt-d needs a random projection, and there is none; "
                                      "set attention.projection");
        return LL_OK;
    }
    if (!ll_config_linear(c))
        return ll_fail(LL_EINVAL,
                       "attention.projection projects to features, and attention.kernel = %s has none; use favor",
                       kernel_name(c));
    if (c->attention.num_features < 1)
        return ll_fail(LL_EINVAL, "a random projection needs features; set attention.num-features to 1 or more");
    if (projection == LL_PROJ_HADAMARD && !ll_is_power_of_two(size))
        return ll_fail(LL_EINVAL,
                       "attention.projection = hadamard needs a power of two, and queries of a head have size %d; use "
                       "givens",
                       size);
    return LL_OK;
}

/* In cross attention queries and keys are from different sequences, and the decoder sees only earlier tokens. */
static ll_status check_cross(const ll_model_config *c) {
    const ll_mechanism_row *position = ll_position_row(c->position.type);
    if (!ll_kernel_row(c->attention.kernel)->kind->cross)
        return ll_fail(LL_EINVAL,
                       "attention.kernel = %s compares within one sequence, and the cross attention of model.task = "
                       "seq2seq reads another; use softmax, favor or relu",
                       kernel_name(c));
    if (!position->about.causal)
        return ll_fail(LL_EINVAL,
                       "position.type = %s %s, but the decoder of model.task = seq2seq sees only earlier tokens; %s",
                       position->about.name, position->limit, position->limit_other);
    if (position->has & LL_WITHIN)
        return ll_fail(LL_EINVAL,
                       "position.type = %s weighs distances within one sequence, and model.task = seq2seq has two; use "
                       "permute, rope or relative-s1",
                       position->about.name);
    return LL_OK;
}

/* An encoder sees the whole source; its decoder sees only earlier tokens. */
static ll_status check_seq2seq(const ll_model_config *c) {
    if (c->model.task != LL_TASK_SEQ2SEQ) {
        if (c->model.encoder_layers)
            return ll_fail(LL_EINVAL, "model.encoder-layers = %d needs an encoder; set model.task=seq2seq, or 0",
                           c->model.encoder_layers);
        if (c->position.cross != LL_CROSS_NONE)
            return ll_fail(LL_EINVAL, "position.cross needs cross attention, which only model.task = seq2seq has; "
                                      "set position.cross=none");
        return LL_OK;
    }
    const ll_status status = check_cross(c);
    if (status) return status;
    if (c->position.cross != LL_CROSS_NONE && ll_position_row(c->position.type)->has & LL_EMBEDDED)
        return ll_fail(LL_EINVAL, "position.cross needs positions inside attention, such as position.type = permute "
                                  "or rope; set it to none");
    if (c->position.cross == LL_CROSS_BOTH && c->model.heads < 2)
        return ll_fail(LL_EINVAL, "position.cross = both needs more than one head; use start or end");
    if (c->position.image)
        return ll_fail(LL_EINVAL, "position.image = on needs whole images, and model.task = seq2seq makes sequences; "
                                  "set it to off");
    return LL_OK;
}

/* The end of a message about a sequence with `over` tokens too many, for the key whose value is `most`. */
static const char *shorten(char text[120], const ll_model_config *c, int over, const char *key, int most) {
    char shorter[48] = "";
    if (!c->model.patch) snprintf(shorter, sizeof shorter, "set train.length=%d or less, or, ", c->length - over);
    snprintf(text, 120, "%sin a new model, %s=%d", shorter, key, most + over);
    return text;
}

/* The approximate operators. */
static ll_status check_approximate(const ll_model_config *c) {
    const int cls_tokens = !ll_task_per_token(c->model.task) && c->model.pool == LL_POOL_FIRST;
    const int tokens = ll_config_tokens(c), over = tokens + cls_tokens - c->attention.linformer_length;
    char way[120];
    if (c->attention.kernel == LL_KERNEL_REFORMER && c->attention.buckets % 2)
        return ll_fail(LL_EINVAL,
                       "attention.buckets = %d is odd, but a direction and its opposite are two buckets; make it even",
                       c->attention.buckets);
    if (c->attention.kernel == LL_KERNEL_LINFORMER && over > 0)
        return ll_fail(LL_EINVAL, "train.length = %d%s is beyond attention.max-length = %d of linformer; %s", tokens,
                       cls_tokens ? " and the token in front" : "", c->attention.linformer_length,
                       shorten(way, c, over, "attention.max-length", c->attention.linformer_length));
    return LL_OK;
}

static ll_status check_attention(const ll_model_config *c) {
    if (c->attention.feature_eps < 0 && c->attention.feature_eps != -1)
        return ll_fail(LL_EINVAL, "attention.feature-eps = %g must be 0 or more, or -1 for the kernel's own",
                       c->attention.feature_eps);
    if (!ll_config_linear(c) && !c->attention.normalise)
        return ll_fail(LL_EINVAL,
                       "attention.normalise = off is for linear kernels, and attention.kernel = %s is not one; "
                       "set attention.normalise=on",
                       kernel_name(c));
    if (!ll_config_linear(c) && c->attention.compat != LL_COMPAT_NONE)
        return ll_fail(LL_EINVAL,
                       "attention.compat is for linear kernels; attention.kernel = %s is the same "
                       "in all programs: set it to none",
                       kernel_name(c));
    ll_status status = check_features(c);
    if (!status) status = ll_compat_check(c);
    if (!status) status = check_projection(c);
    return status ? status : check_approximate(c);
}

static ll_status check_image_size(const ll_model_config *c, const char *what) {
    if (c->position.width > 0 && c->position.height > 0) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "%s needs the size of images; set position.width and position.height, which are %d and %d", what,
                   c->position.width, c->position.height);
}

/* The key that the size of a head's queries comes from. */
static const char *size_key(const ll_model_config *c) { return c->model.head_size ? "model.head-size" : "model.width"; }

static ll_status check_permute2d(const ll_model_config *c) {
    if (ll_config_features(c) % 2)
        return ll_fail(LL_EINVAL,
                       "position.type = permute2d gives half of the features to each axis, and %d is odd; "
                       "change attention.num-features or %s",
                       ll_config_features(c), size_key(c));
    return check_image_size(c, "position.type = permute2d");
}

/* rope-linear rotates all features, with their eps, and has a divisor of its own. */
static ll_status check_rope_linear(const ll_model_config *c) {
    const ll_rules *rules = ll_config_rules(c);
    const double eps = c->attention.feature_eps >= 0 ? c->attention.feature_eps : rules->eps;
    if (ll_config_features(c) % 2)
        return ll_fail(LL_EINVAL,
                       "position.type = rope-linear rotates pairs of features, and %d is odd; change "
                       "attention.num-features or %s",
                       ll_config_features(c), size_key(c));
    if (c->attention.kernel == LL_KERNEL_FAVOR && (eps > 0 || !c->attention.normalise))
        return ll_fail(LL_EINVAL,
                       "position.type = rope-linear with attention.kernel = favor needs a divisor and no eps, "
                       "which would be rotated too; set attention.feature-eps=0 and attention.normalise=on");
    if (ll_task_causal(c->model.task) && c->attention.normalise && rules->causal_den == LL_DEN_EPS_PHI)
        return ll_fail(LL_EINVAL,
                       "position.type = rope-linear has a divisor of its own, and attention.compat = lucidrains "
                       "another; use position.type=rope, as that program does");
    return LL_OK;
}

static ll_status check_rope(const ll_model_config *c) {
    if (ll_config_query_size(c) % 2 && !c->position.rotary)
        return ll_fail(LL_EINVAL,
                       "position.type = rope rotates pairs, and queries of size %d are odd; change %s, or set "
                       "position.rotary to fewer channels",
                       ll_config_query_size(c), size_key(c));
    if (c->position.rotary % 2 || c->position.rotary > ll_config_query_size(c))
        return ll_fail(LL_EINVAL,
                       "position.rotary = %d must be an even number up to the %d channels of a head's queries; 0 = all",
                       c->position.rotary, ll_config_query_size(c));
    if (c->position.scaling_length > 0 && !(c->position.scaling_low < c->position.scaling_high))
        return ll_fail(LL_EINVAL, "position.scaling-low = %g must be below position.scaling-high = %g",
                       c->position.scaling_low, c->position.scaling_high);
    return LL_OK;
}

static ll_status check_orthogonal(const ll_model_config *c) {
    if (ll_config_features(c) < 2 || ll_config_features(c) > 2048)
        return ll_fail(LL_EINVAL,
                       "position.type = orthogonal has one matrix for each head, of 2 to 2048 features, not %d; "
                       "change attention.num-features or attention.query-multiple",
                       ll_config_features(c));
    if (c->attention.kernel == LL_KERNEL_FAVOR && c->attention.feature_eps > 0)
        return ll_fail(LL_EINVAL,
                       "position.type = orthogonal with attention.kernel = favor would rotate the eps, too; set "
                       "attention.feature-eps=0");
    return LL_OK;
}

/* The conditions of positions that may use the image. */
static ll_status check_image(const ll_model_config *c) {
    if (!c->position.image) return LL_OK;
    if (c->model.task == LL_TASK_LM && c->position.type == LL_POSITION_CONV_SPE)
        return ll_fail(LL_EINVAL,
                       "position.image = on with conv-spe needs whole images, but model.task = lm sees only "
                       "earlier tokens; set position.image=off");
    return check_image_size(c, "position.image = on");
}

static ll_status check_relative_s2(const ll_model_config *c) {
    if (c->model.heads % 2)
        return ll_fail(
            LL_EINVAL,
            "position.type = relative-s2 removes the keys of half of the heads, and model.heads = %d is odd; "
            "change it",
            c->model.heads);
    if (c->position.decay != LL_DECAY_NONE)
        return ll_fail(LL_EINVAL,
                       "position.decay = fixed weighs a state, and heads of position.type = relative-s2 have "
                       "none; set position.decay=none");
    return LL_OK;
}

static ll_status check_learned(const ll_model_config *c) {
    const int tokens = ll_config_tokens(c), learned = ll_position_learned(&c->position);
    char way[120];
    if (learned < 1)
        return ll_fail(LL_EINVAL, "position.offset = %d leaves nothing of position.max-length = %d; make it smaller",
                       c->position.offset, c->position.max_length);
    if (tokens > learned)
        return ll_fail(LL_EINVAL,
                       "train.length = %d is beyond the %d tokens of position.max-length = %d, the last learned "
                       "position; %s",
                       tokens, learned, c->position.max_length,
                       shorten(way, c, tokens - learned, "position.max-length", c->position.max_length));
    return LL_OK;
}

static ll_status check_decay(const ll_model_config *c) {
    char buffer[LL_NUMBER_TEXT];
    if (c->position.decay == LL_DECAY_NONE) return LL_OK;
    if (!ll_kernel_row(c->attention.kernel)->about.decay)
        return ll_fail(LL_EINVAL,
                       "position.decay = fixed acts on the state of linear attention, and attention.kernel = "
                       "%s has none; use favor or relu",
                       kernel_name(c));
    if (!ll_task_causal(c->model.task))
        return ll_fail(LL_EINVAL,
                       "position.decay = fixed weighs earlier tokens, and model.task = %s also sees later "
                       "ones; set position.decay=none",
                       ll_key_text(&c->model, ll_key_of(&ll_model_keys, "model.task"), buffer));
    return LL_OK;
}

/* What attention would refuse when the operator is created, in words of the recipe's keys. */
static const struct {
    int position;
    ll_status (*check)(const ll_model_config *c);
} position_checks[] = {{LL_POSITION_LEARNED, check_learned},         {LL_POSITION_PERMUTE2D, check_permute2d},
                       {LL_POSITION_ROPE, check_rope},               {LL_POSITION_ROPE_LINEAR, check_rope_linear},
                       {LL_POSITION_ORTHOGONAL, check_orthogonal},   {LL_POSITION_RELATIVE_S2, check_relative_s2}};

static ll_status check_position(const ll_model_config *c) {
    ll_status status = ll_pair_check(c->attention.kernel, c->position.type, c->model.task == LL_TASK_LM);
    if (!status) status = check_decay(c);
    for (size_t i = 0; i < sizeof position_checks / sizeof *position_checks && !status; i++)
        if (position_checks[i].position == c->position.type) status = position_checks[i].check(c);
    if (!status && ll_position_row(c->position.type)->has & LL_IMAGE) status = check_image(c);
    return status;
}

/* Attention's state goes from one call to the next: between windows, or between chunks of a sequence. `key` says so. */
static ll_status check_passed_state(const ll_model_config *c, const char *key, const char *off) {
    const ll_operator_kind *placed = ll_position_row(c->position.type)->kind,
                           *kind = placed ? placed : ll_kernel_row(c->attention.kernel)->kind;
    const char *what = placed ? ll_position_row(c->position.type)->about.name : kernel_name(c);
    if (c->model.task != LL_TASK_LM)
        return ll_fail(LL_EINVAL,
                       "%s passes a state from earlier tokens to later ones, which only model.task = lm has; set it to "
                       "%s",
                       key, off);
    if (!kind->state)
        return ll_fail(LL_EINVAL,
                       "%s needs a state of constant size, and %s = %s keeps all tokens; use a linear kernel such as "
                       "relu or gla, or set it to %s",
                       key, placed ? "position.type" : "attention.kernel", what, off);
    if (ll_position_limit(&c->position) < INT64_MAX)
        return ll_fail(LL_EINVAL,
                       "%s has no limit of length, and position.type = learned ends at position.max-length = %d; use "
                       "sinusoidal, permute or rope",
                       key, c->position.max_length);
    if (c->attention.compat != LL_COMPAT_NONE && ll_config_rules(c)->key_max != LL_MAX_NONE)
        return ll_fail(LL_EINVAL,
                       "%s has only earlier tokens, and attention.compat names a stabiliser that sees later ones; set "
                       "attention.compat=none",
                       key);
    return LL_OK;
}

static ll_status check_state(const ll_model_config *c) {
    char chunk[40];
    snprintf(chunk, sizeof chunk, "train.chunk = %d", c->chunk);
    const ll_status status = c->carry ? check_passed_state(c, "train.carry-state = on", "off") : LL_OK;
    return status || !c->chunk ? status : check_passed_state(c, chunk, "0");
}

ll_status ll_model_check(const ll_model_config *c) {
    ll_status status = check_model(c);
    if (!status) status = ll_check_imported(c);
    if (!status) status = ll_check_image(c);
    if (!status) status = check_seq2seq(c);
    if (!status) status = check_attention(c);
    if (!status) status = check_position(c);
    if (!status) status = check_state(c);
    return status;
}
