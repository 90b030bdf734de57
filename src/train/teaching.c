/* The teacher of a run. First each layer's attention is matched, then logits, then there is the data alone: the order
 * of T2R (Kasai et al. 2021), Hedgehog and LoLCATs (Zhang et al. 2024), as far as a recipe asks for it. */
#include "train/teaching.h"

#include "base/file.h"
#include "base/integer.h"
#include "train/train_internal.h"

static int64_t last_of(const ll_config *c) { return c->train.distil_until ? c->train.distil_until : c->train.steps; }

void ll_teaching_resolve(ll_config *c) {
    if (c->train.distil == LL_DISTIL_BOTH && !c->train.distil_switch) c->train.distil_switch = last_of(c) / 2;
}

int64_t ll_teaching_attention(const ll_config *c) {
    const int64_t last = last_of(c);
    const int64_t first = c->train.distil_switch ? c->train.distil_switch : last / 2;
    if (c->train.distil == LL_DISTIL_BOTH) return ll_min_int64(first, last);
    return c->train.distil == LL_DISTIL_ATTENTION ? last : 0;
}

int ll_teaching_stage(const ll_config *c, int64_t step) {
    if (step > last_of(c)) return LL_DISTIL_NONE;
    if (c->train.distil != LL_DISTIL_BOTH) return c->train.distil;
    return step <= ll_teaching_attention(c) ? LL_DISTIL_ATTENTION : LL_DISTIL_LOGITS;
}

int ll_teaching_ends(const ll_config *c, int64_t step) {
    return step > 0 && ll_teaching_stage(c, step) != ll_teaching_stage(c, step + 1);
}

ll_status ll_teaching_check(const ll_config *c) {
    const int attention = c->train.distil == LL_DISTIL_ATTENTION || c->train.distil == LL_DISTIL_BOTH;
    if (c->train.distil == LL_DISTIL_NONE) return LL_OK;
    if (!c->train.teacher[0] && !c->train.from[0])
        return ll_fail(LL_EINVAL, "train.distil needs a model to learn from; set train.teacher, or train.from, which "
                       "is the teacher, too");
    if (c->train.carry_state)
        return ll_fail(LL_EINVAL, "train.distil compares whole windows; set train.carry-state=off");
    if (c->train.chunk && c->train.chunk < c->train.length)
        return ll_fail(LL_EINVAL, "train.distil compares whole sequences; set train.chunk=0");
    if (c->dist.sequence > 1)
        return ll_fail(LL_EINVAL, "train.distil needs each sequence in one process; set dist.sequence=1");
    if (attention && c->model.task == LL_TASK_SEQ2SEQ)
        return ll_fail(LL_EINVAL, "train.distil = attention compares layers of one stack, and model.task = seq2seq has "
                       "two; set train.distil=logits");
    if (c->train.distil_switch && c->train.distil != LL_DISTIL_BOTH)
        return ll_fail(LL_EINVAL, "train.distil-switch is the step where train.distil = both changes; set that, or 0");
    return LL_OK;
}

ll_status ll_teaching_open(ll_model **model, const char *key, const char *path) {
    ll_status status = ll_is_folder(path) ? ll_run_load(model, path) : ll_model_load(model, path);
    if (status || *model) return status;
    return ll_fail(LL_EINVAL, "%s = %s is a folder without a model", key, path);
}

ll_status ll_teaching_load(ll_model **model, const ll_config *c) {
    const char *own = c->train.teacher, *path = own[0] ? own : c->train.from;
    *model = NULL;
    if (c->train.distil == LL_DISTIL_NONE) return LL_OK;
    const ll_status status = ll_teaching_open(model, own[0] ? "train.teacher" : "train.from", path);
    if (status != LL_EIO) return status;
    return ll_fail(LL_EIO, "%s (the teacher of train.distil; set train.teacher to where it is now)", ll_error());
}

ll_status ll_teaching_run(ll_teacher *teacher, const ll_model *m, ll_workspace *ws, const ll_batch *batch, int64_t step,
                          float *grad, float scale, int64_t draw, ll_tally *tally) {
    const ll_config *c = &m->recipe->c;
    const ll_distil_options how = {c->train.distil_weight, c->train.distil_temperature};
    switch (ll_teaching_stage(c, step)) {
    case LL_DISTIL_ATTENTION: return ll_distil_attention(m, ws, teacher, batch, grad, scale, draw, tally);
    case LL_DISTIL_LOGITS: return ll_distil_logits(m, ws, teacher, &how, batch, grad, scale, draw, tally);
    default: return ll_model_run(m, ws, batch, grad, scale, draw, tally);
    }
}
