/* Which kernel and position a recipe may combine. Attention's table alone decides. */
#include "model/config/mechanism.h"

#include <string.h>

static ll_status check_task(const char *key, const ll_mechanism_row *row, int causal) {
    if (causal && !row->about.causal)
        return ll_fail(LL_EINVAL, "%s = %s %s, but model.task = lm sees only earlier tokens; %s", key, row->about.name,
                       row->limit, row->limit_other);
    if (!causal && !row->about.whole)
        return ll_fail(LL_EINVAL, "%s = %s %s, but only model.task = lm hides later tokens; %s", key, row->about.name,
                       row->limit, row->limit_other);
    return LL_OK;
}

ll_status ll_pair_check(int kernel, int position, int causal) {
    const ll_mechanism_row *k = ll_kernel_row(kernel), *p = ll_position_row(position);
    const unsigned missing = p->has & LL_NEEDS & ~k->has;
    if (missing && !k->has)
        return ll_fail(LL_EINVAL,
                       "position.type = %s acts where tokens look at each other, and attention.kernel = %s has none of "
                       "that; use sinusoidal, learned or none, or another kernel",
                       p->about.name, k->about.name);
    if (missing == LL_HAS_KEYS)
        return ll_fail(LL_EINVAL,
                       "position.type = %s treats keys and queries differently, and those of attention.kernel = %s "
                       "are the same; use rope",
                       p->about.name, k->about.name);
    if (missing & LL_HAS_LOGITS && !(k->has & LL_HAS_KEYS))
        return ll_fail(LL_EINVAL, "position.type = %s %s, and attention.kernel = %s has none; use softmax, or rope",
                       p->about.name, p->acts, k->about.name);
    if (missing)
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
    while (ll_kernel_row(k) && strcmp(ll_kernel_row(k)->about.name, kernel)) k++;
    while (ll_position_row(p) && strcmp(ll_position_row(p)->about.name, position)) p++;
    if (!ll_kernel_row(k)) return ll_fail(LL_EINVAL, "there is no attention.kernel \"%.40s\"", kernel);
    if (!ll_position_row(p)) return ll_fail(LL_EINVAL, "there is no position.type \"%.40s\"", position);
    return ll_pair_check(k, p, causal);
}
