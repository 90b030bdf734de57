/* What the approximate operators need of a model: their sizes, and parameters in the model's block, which the operators
 * borrow. */
#include <math.h>
#include <string.h>

#include "attention/operator.h"
#include "base/random.h"
#include "model/network.h"

static const char *const names[] = {"attention.linformer_k", "attention.linformer_v"};

int ll_approximate_tensors(const ll_model *m, ll_position_tensor tensor[LL_APPROXIMATE_TENSORS]) {
    const ll_model_config *c = m->c;
    if (c->attention.kernel != LL_KERNEL_LINFORMER) return 0;
    for (int i = 0; i < LL_APPROXIMATE_TENSORS; i++)
        tensor[i] = (ll_position_tensor){names[i], c->attention.linformer_length, c->attention.linformer_rank};
    return LL_APPROXIMATE_TENSORS;
}

/* Normal, with a variance such that a sum of keys over the longest sequence is as large as one key. */
int ll_approximate_init(const ll_model *m, const ll_param *p, float *x, uint64_t stream) {
    const size_t n = (size_t)p->rows * (size_t)p->cols;
    const float std = 1 / sqrtf((float)p->rows);
    if (!strstr(p->name, ".linformer_")) return 0;
    ll_normal_fill(x, n, (uint64_t)m->c->seed, stream, 0);
    for (size_t i = 0; i < n; i++) x[i] *= std;
    return 1;
}

ll_approximate_gradients ll_approximate_gradients_of(const ll_model *m, int op, float *grad) {
    ll_approximate_gradients d = {0};
    if (!grad || m->at.approximate < 0) return d;
    const int first = m->at.approximate + op * LL_APPROXIMATE_TENSORS;
    d.linformer_k = ll_param_in(m, grad, first);
    d.linformer_v = ll_param_in(m, grad, first + 1);
    return d;
}

void ll_approximate_config_of(const ll_model *m, int op, ll_attention_config *a) {
    const ll_model_config *c = m->c;
    a->approximate = (ll_approximate_config){
        .window = c->attention.window, .length = c->attention.linformer_length, .rank = c->attention.linformer_rank};
    a->approximate.landmarks = c->attention.landmarks, a->approximate.iterations = c->attention.iterations;
    a->approximate.buckets = c->attention.buckets, a->approximate.chunk = c->attention.chunk,
    a->approximate.rounds = c->attention.rounds;
    a->approximate.seed = (uint64_t)c->seed, a->approximate.layer = op;
    if (m->at.approximate < 0) return;
    const ll_param *tensor = &m->param[m->at.approximate + op * LL_APPROXIMATE_TENSORS];
    a->approximate.linformer_k = tensor[0].value, a->approximate.linformer_v = tensor[1].value;
}
