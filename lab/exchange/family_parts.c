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

/* A model has the angles of its base. Rules for longer sequences (linear, llama3, yarn, ..) change them, for short
 * ones, too; dynamic does not. */
static void refuse_scaling(ll_reading *r, const char *key, const char *fallback) {
    const json_t *given = json_object_get(r->json, key);
    const char *kind = json_string_value(json_object_get(given, "rope_type"));
    if (!kind) kind = json_string_value(json_object_get(given, "type"));
    if (!kind) kind = fallback;
    if (r->status || !given || json_is_null(given) || !strcmp(kind, "default")) return;
    r->status =
        ll_fail(LL_EINVAL, "%s: %s of type %.40s is not supported; a model here has the angles of rope_theta alone%s",
                r->path, key, kind,
                strcmp(kind, "dynamic") ? ", with which this one gives other results"
                                        : "; with default it is the same model up to max_position_embeddings");
}

void ll_family_rope(ll_reading *r, double base) {
    const json_t *theta = json_object_get(json_object_get(r->json, "rope_parameters"), "rope_theta");
    refuse_scaling(r, "rope_scaling", "(none)");
    refuse_scaling(r, "rope_parameters", "default"); /* newer files */
    if (json_is_number(theta)) base = json_number_value(theta);
    ll_hf_set(r, "position.type", "rope");
    ll_hf_set(r, "position.base", "%.17g", base);
}
