/* What the configurations of families share. */
#include <string.h>

#include "base/integer.h"
#include "exchange/families.h"

static const char *activation(ll_reading *r, const char *theirs) {
    static const char *const names[][2] = {
        {"gelu", "gelu"},           {"gelu_new", "gelu-tanh"}, {"gelu_pytorch_tanh", "gelu-tanh"},
        {"gelu_fast", "gelu-tanh"}, {"relu", "relu"},          {"silu", "silu"},
        {"swish", "silu"},          {"swiglu", "swiglu"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], theirs)) return names[i][1];
    if (!r->status)
        r->status = ll_fail(LL_EINVAL, "%s: the activation \"%.40s\" is not supported; gelu, gelu_new, relu, silu are",
                            r->path, theirs);
    return "gelu";
}

void ll_family_sizes(ll_reading *r, ll_family_size size) {
    ll_hf_set(r, "model.task", "lm");
    const int64_t vocab = size.vocab ? size.vocab : ll_hf_integer(r, "vocab_size", LL_NEEDED);
    ll_hf_set(r, "model.vocab", "%lld", (long long)vocab);
    ll_hf_set(r, "model.layers", "%lld", (long long)size.layers);
    ll_hf_set(r, "model.heads", "%lld", (long long)size.heads);
    ll_hf_set(r, "model.width", "%lld", (long long)size.width);
    ll_hf_set(r, "model.ff", "%lld", (long long)size.ff);
    ll_hf_set(r, "model.norm-eps", "%.9g", size.eps);
    ll_hf_set(r, "model.activation", "%s", activation(r, size.activation));
    if (size.length) ll_hf_set(r, "train.length", "%lld", (long long)ll_min_int64(size.length, 1024));
}

void ll_family_head(ll_reading *r, const char *const *fine, const char *what) {
    const char *name = json_string_value(json_array_get(json_object_get(r->json, "architectures"), 0));
    if (!name || r->status) return;
    for (; *fine; fine++) {
        const size_t n = strlen(name), e = strlen(*fine);
        if (n >= e && !strcmp(name + n - e, *fine)) return;
    }
    r->status = ll_fail(LL_EINVAL, "%s: the head of %.60s is not supported; %s are, and models without a head",
                        r->path, name, what);
}

/* The key that says how angles are made: rope_scaling, or rope_parameters of newer files. As in transformers the first
 * counts alone, unless it is missing, null or empty. NULL: neither is there. */
static const char *rope_key(const ll_reading *r) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *given = json_object_get(r->json, keys[i]);
        const int empty = json_is_object(given) && !json_object_size(given);
        if (given && !json_is_null(given) && !empty) return keys[i];
    }
    return NULL;
}

/* A value of that object; NULL if it is missing or null. */
static const json_t *rope_value(const ll_reading *r, const char *key) {
    const char *object = rope_key(r);
    const json_t *value = object ? json_object_get(json_object_get(r->json, object), key) : NULL;
    return json_is_null(value) ? NULL : value;
}

static double rope_number(ll_reading *r, const char *key) {
    const json_t *value = rope_value(r, key);
    if (!json_is_number(value) && !r->status)
        r->status =
            ll_fail(LL_EFORMAT, "%s: %s.%s is %s", r->path, rope_key(r), key, value ? "not a number" : "missing");
    return json_number_value(value);
}

double ll_family_rotary(ll_reading *r, double share) {
    return rope_value(r, "partial_rotary_factor") ? rope_number(r, "partial_rotary_factor") : share;
}

/* Rules for longer sequences change the angles of short ones, too, save dynamic. */
static void set_scaling(ll_reading *r) {
    const json_t *type = rope_value(r, rope_value(r, "rope_type") ? "rope_type" : "type");
    const int plain = !rope_key(r) || rope_value(r, "rope_theta") || rope_value(r, "partial_rotary_factor");
    const char *kind = type ? json_string_value(type) : plain ? "default" : NULL;
    if (!kind) kind = "(none)";
    if (r->status || !strcmp(kind, "default")) return;
    const int llama3 = !strcmp(kind, "llama3");
    if (llama3 || !strcmp(kind, "linear"))
        ll_hf_set(r, "position.scaling", "%.17g", rope_number(r, "factor"));
    else
        r->status = ll_fail(LL_EINVAL, "%s: %s of type %.40s is not supported; default, linear and llama3 are%s",
                            r->path, rope_key(r), kind,
                            strcmp(kind, "dynamic") ? ", which give other results"
                                                    : "; with default it is the same model up to "
                                                      "max_position_embeddings");
    if (!llama3) return;
    ll_hf_set(r, "position.scaling-length", "%.17g", rope_number(r, "original_max_position_embeddings"));
    ll_hf_set(r, "position.scaling-low", "%.17g", rope_number(r, "low_freq_factor"));
    ll_hf_set(r, "position.scaling-high", "%.17g", rope_number(r, "high_freq_factor"));
}

void ll_family_rope(ll_reading *r, double base) {
    if (rope_value(r, "rope_theta")) base = rope_number(r, "rope_theta");
    set_scaling(r);
    ll_hf_set(r, "position.type", "rope");
    ll_hf_set(r, "position.base", "%.17g", base);
}
