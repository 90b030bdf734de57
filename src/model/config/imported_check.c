/* Which tasks and kernels go with the keys of imported models. */
#include "model/config/model_config.h"

ll_status ll_check_imported(const ll_model_config *c) {
    const ll_model_options *m = &c->model;
    const int seq2seq = m->task == LL_TASK_SEQ2SEQ, marked = m->token_types || m->mask_token >= 0;
    if (seq2seq && (m->norm == LL_NORM_PARALLEL || m->kv_heads || m->bias == LL_BIAS_ALL || m->bias == LL_BIAS_QKV))
        return ll_fail(LL_EINVAL, "model.norm = parallel, model.kv-heads and biases of attention need one stack, and "
                                  "model.task = seq2seq has two; set norm=pre, kv-heads=0 and bias=feed");
    if (m->kv_heads && m->heads % m->kv_heads)
        return ll_fail(LL_EINVAL, "model.kv-heads = %d does not divide model.heads = %d; change one, or set 0",
                       m->kv_heads, m->heads);
    if (m->kv_heads && ll_config_keyless(c))
        return ll_fail(LL_EINVAL, "position.type = relative-s2 has heads without keys; set model.kv-heads=0");
    if (marked && ll_task_causal(m->task))
        return ll_fail(LL_EINVAL, "model.token-types and model.mask-token need a task that reads whole sequences; set "
                                  "model.task=mlm or classify, or leave them out");
    if (m->vocab > 0 && m->mask_token >= m->vocab)
        return ll_fail(LL_EINVAL, "model.mask-token = %d is not a token of model.vocab = %d; set one below it, or -1",
                       m->mask_token, m->vocab);
    if (m->vocab > 0 && m->type_separator >= m->vocab)
        return ll_fail(LL_EINVAL,
                       "model.type-separator = %d is not a token of model.vocab = %d; set one below it, or -1",
                       m->type_separator, m->vocab);
    if (m->type_separator >= 0 && !m->token_types)
        return ll_fail(LL_EINVAL, "model.type-separator = %d parts types, and there are none; set model.token-types",
                       m->type_separator);
    if (m->head_transform && m->task != LL_TASK_MLM)
        return ll_fail(LL_EINVAL, "model.head-transform = on is for masked language models; set model.task=mlm or off");
    if (m->head_bias && !ll_task_per_token(m->task))
        return ll_fail(LL_EINVAL, "model.head-bias = on is for language models; the others always have one; set it "
                                  "to off");
    return LL_OK;
}
