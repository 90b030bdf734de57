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

double ll_family_rotary(const ll_reading *r, double share) {
    const json_t *own = json_object_get(json_object_get(r->json, "rope_parameters"), "partial_rotary_factor");
    return json_is_number(own) ? json_number_value(own) : share;
}

/* A number of rope_scaling or rope_parameters. */
static double scaling_number(ll_reading *r, const char *object, const char *key) {
    const json_t *value = json_object_get(json_object_get(r->json, object), key);
    if (!json_is_number(value) && !r->status)
        r->status = ll_fail(LL_EFORMAT, "%s: %s.%s is %s", r->path, object, key, value ? "not a number" : "missing");
    return json_number_value(value);
}

/* Rules for longer sequences change the angles of short ones, too, save dynamic. */
static void set_scaling(ll_reading *r, const char *object, const char *fallback) {
    const json_t *given = json_object_get(r->json, object);
    const char *kind = json_string_value(json_object_get(given, "rope_type"));
    if (!kind) kind = json_string_value(json_object_get(given, "type"));
    if (!kind) kind = fallback;
    if (r->status || !given || json_is_null(given) || !strcmp(kind, "default")) return;
    const int llama3 = !strcmp(kind, "llama3");
    if (llama3 || !strcmp(kind, "linear"))
        ll_hf_set(r, "position.scaling", "%.17g", scaling_number(r, object, "factor"));
    else
        r->status = ll_fail(LL_EINVAL, "%s: %s of type %.40s is not supported; default, linear and llama3 are%s",
                            r->path, object, kind,
                            strcmp(kind, "dynamic") ? ", which give other results"
                                                    : "; with default it is the same model up to "
                                                      "max_position_embeddings");
    if (!llama3) return;
    ll_hf_set(r, "position.scaling-length", "%.17g", scaling_number(r, object, "original_max_position_embeddings"));
    ll_hf_set(r, "position.scaling-low", "%.17g", scaling_number(r, object, "low_freq_factor"));
    ll_hf_set(r, "position.scaling-high", "%.17g", scaling_number(r, object, "high_freq_factor"));
}

void ll_family_rope(ll_reading *r, double base) {
    const json_t *theta = json_object_get(json_object_get(r->json, "rope_parameters"), "rope_theta");
    set_scaling(r, "rope_scaling", "(none)");
    set_scaling(r, "rope_parameters", "default"); /* newer files */
    if (json_is_number(theta)) base = json_number_value(theta);
    ll_hf_set(r, "position.type", "rope");
    ll_hf_set(r, "position.base", "%.17g", base);
}
