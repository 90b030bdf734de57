/* attention.compat with the rest of a model's settings. */
#include "model/config/compat.h"
#include "model/config/mechanism.h"

/* What a released program supports, for the error of an unsupported combination. */
static const char *offers(int compat) {
    switch (compat) {
    case LL_COMPAT_GOOGLE: return "favor with positive or trigonometric features, and maps such as relu";
    case LL_COMPAT_LUCIDRAINS: return "favor with positive features, and maps such as relu";
    case LL_COMPAT_FAST_TRANSFORMERS: return "favor with hyperbolic or gaussian features, and maps such as elu1";
    case LL_COMPAT_PERMUTEFORMER: return "relu";
    default: return "favor with positive features";
    }
}

ll_status ll_compat_check(const ll_model_config *c) {
    char buffer[LL_NUMBER_TEXT];
    const char *name = ll_key_text(&c->attention, ll_key_of(&ll_attention_keys, "attention.compat"), buffer);
    const ll_rules *r = ll_config_rules(c);
    const int projected = ll_config_projection(c) != LL_PROJ_NONE;
    if (!r)
        return ll_fail(LL_EINVAL, "attention.compat = %s stands for a program without these features; it has %s", name,
                       offers(c->attention.compat));
    if (r->key_max == LL_MAX_BATCH && c->model.separator >= 0)
        return ll_fail(
            LL_EINVAL,
            "attention.compat = %s stabilises by a maximum over the whole batch, so that documents depend on "
            "each other; set model.separator=-1, or attention.compat=none",
            name);
    if (r->projection > 0 && !projected)
        return ll_fail(LL_EINVAL,
                       "attention.compat = %s stands for a program that always projects; set "
                       "attention.projection=orthogonal",
                       name);
    if (r->projection < 0 && projected)
        return ll_fail(LL_EINVAL,
                       "attention.compat = %s stands for a program without a projection here; set "
                       "attention.projection=none",
                       name);
    return LL_OK;
}
