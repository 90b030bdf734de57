/* Learned positions inside attention: their parameters in the model's block, and their noise. Operators borrow the
 * parameters, so that an update of the block updates them. */
#include <math.h>
#include <string.h>

#include "attention/operator.h"
#include "base/random.h"
#include "model/mechanism.h"
#include "model/network.h"

/* Does the position act in attention, other than by permuting features? Cross attention may be without positions. */
static int is_placed(const ll_model *m, int op) {
    const int type = m->c->position.type;
    return !(ll_position_row(type)->has & LL_EMBEDDED) && type != LL_POSITION_PERMUTE &&
           type != LL_POSITION_PERMUTE2D && (m->c->position.cross != LL_CROSS_NONE || !ll_operator_at(m, op).cross);
}
static int is_spe(const ll_model_config *c) {
    return c->position.type == LL_POSITION_SINE_SPE || c->position.type == LL_POSITION_CONV_SPE;
}
static int is_image(const ll_model_config *c) {
    return c->position.image && ll_position_row(c->position.type)->has & LL_IMAGE;
}

int ll_position_params_tensors(const ll_model *m, ll_position_tensor tensor[LL_POSITION_TENSORS]) {
    const ll_model_config *c = m->c;
    const int taps = c->position.taps * (is_image(c) ? c->position.taps : 1);
    int n = 0;
    if (c->position.type == LL_POSITION_SINE_SPE) {
        tensor[n++] = (ll_position_tensor){"freqs", m->queries, c->position.sines};
        tensor[n++] = (ll_position_tensor){"offsets", m->queries, c->position.sines};
        tensor[n++] = (ll_position_tensor){"gains", m->queries, c->position.sines};
    } else if (c->position.type == LL_POSITION_CONV_SPE) {
        tensor[n++] = (ll_position_tensor){"filter_q", m->queries, taps};
        tensor[n++] = (ll_position_tensor){"filter_k", m->queries, taps};
    } else if (c->position.type == LL_POSITION_RELATIVE_S1) {
        tensor[n++] = (ll_position_tensor){"alpha", c->model.heads, c->position.scales * (1 + c->position.image)};
        tensor[n++] = (ll_position_tensor){"beta", c->model.heads, c->position.scales * (1 + c->position.image)};
    } else if (c->position.type == LL_POSITION_RELATIVE_S2) {
        tensor[n++] = (ll_position_tensor){"rpe", c->position.distances + 1, m->queries / c->model.heads};
    } else if (c->position.type == LL_POSITION_T5) {
        tensor[n++] = (ll_position_tensor){"bias", c->model.heads, 32};
    } else if (c->position.type == LL_POSITION_SHAW) {
        const int distances = c->position.distances * (c->model.task == LL_TASK_LM ? 1 : 2) + 1;
        tensor[n++] = (ll_position_tensor){"distance_k", distances, m->queries / c->model.heads};
        if (c->position.distance_values)
            tensor[n++] = (ll_position_tensor){"distance_v", distances, m->values / c->model.heads};
    }
    if (is_spe(c) && c->position.gated) tensor[n++] = (ll_position_tensor){"gate", m->queries, 1};
    return n;
}

/* gains: twice a normal number over the root of the norm of K others */
static void init_gains(const ll_param *p, float *x, size_t n, uint64_t seed, uint64_t stream) {
    for (int i = 0; i < p->rows; i++) {
        double square = 0;
        for (int k = 0; k < p->cols; k++) {
            float other;
            ll_normal_fill(&other, 1, seed, stream, n + (size_t)i * (size_t)p->cols + (size_t)k);
            square += (double)other * (double)other;
        }
        for (int k = 0; k < p->cols; k++) x[(size_t)i * (size_t)p->cols + (size_t)k] *= (float)(2 / pow(square, 0.25));
    }
}

/* relative-s2 starts from vectors of 0, so that all distances are alike. Kernels whose features are flat or 0 there
 * would never learn; they start as other weights do. */
static void init_vectors(const ll_model_config *c, float *x, size_t n, uint64_t stream) {
    const int smooth = c->attention.kernel == LL_KERNEL_SOFTMAX || c->attention.kernel == LL_KERNEL_FAVOR ||
                       c->attention.kernel == LL_KERNEL_ELU1 || c->attention.kernel == LL_KERNEL_EXP ||
                       c->attention.kernel == LL_KERNEL_SIGMOID;
    if (!smooth) ll_normal_fill(x, n, (uint64_t)c->seed, stream, 0);
    for (size_t i = 0; i < n; i++) x[i] *= smooth ? 0 : (float)ll_config_init_std(c);
}

int ll_position_params_init(const ll_model *m, const ll_param *p, float *x, uint64_t stream) {
    const char *name = strstr(p->name, "position.");
    const size_t n = (size_t)p->rows * (size_t)p->cols;
    const uint64_t seed = (uint64_t)m->c->seed;
    if (!name || ll_position_row(m->c->position.type)->has & LL_EMBEDDED) return 0;
    name += strlen("position.");
    if (!strcmp(name, "inv_freq")) { /* periods from 1 to 64 */
        for (size_t t = 0; t < n; t++) x[t] = (float)pow(64, -(double)t / (double)n);
    } else if (!strcmp(name, "rpe")) {
        init_vectors(m->c, x, n, stream);
    } else if (!strcmp(name, "bias")) { /* no preference for a distance */
        memset(x, 0, n * sizeof *x);
    } else if (!strncmp(name, "distance", 8)) { /* small compared with queries and values of size 1 */
        ll_normal_fill(x, n, seed, stream, 0);
        for (size_t i = 0; i < n; i++) x[i] *= (float)ll_config_init_std(m->c);
    } else if (!strncmp(name, "filter", 6)) {
        const float root = (float)sqrt((double)p->cols / 2);
        ll_uniform_fill(x, n, seed, stream, 0);
        for (size_t i = 0; i < n; i++) x[i] /= root;
    } else {
        ll_normal_fill(x, n, seed, stream, 0);
        for (size_t i = 0; i < n && !strcmp(name, "freqs"); i++) x[i] -= 4;
        if (!strcmp(name, "gains")) init_gains(p, x, n, seed, stream);
    }
    return 1;
}

/* Tensor number i in a block of gradients; NULL: among the parameters. */
static float *tensor_in(const ll_model *m, float *grad, int i) {
    return grad ? ll_param_in(m, grad, i) : m->param[i].value;
}

/* The tensor of this name of an operator, or NULL. */
static float *tensor_at(const ll_model *m, int op, const char *name, float *grad) {
    ll_position_tensor tensor[LL_POSITION_TENSORS];
    const int n = ll_position_params_tensors(m, tensor);
    for (int i = 0; i < n; i++)
        if (!strcmp(tensor[i].name, name))
            return tensor_in(m, grad, m->at.encoding + (m->c->position.shared ? 0 : op) * n + i);
    return NULL;
}

static ll_position_gradients tensors(const ll_model *m, int op, float *grad) {
    ll_position_gradients d = {0};
    if (!is_placed(m, op)) return d;
    d.freqs = tensor_at(m, op, "freqs", grad);
    d.offsets = tensor_at(m, op, "offsets", grad);
    d.gains = tensor_at(m, op, "gains", grad);
    d.filter_q = tensor_at(m, op, "filter_q", grad);
    d.filter_k = tensor_at(m, op, "filter_k", grad);
    d.gate = tensor_at(m, op, "gate", grad);
    d.alpha = tensor_at(m, op, "alpha", grad);
    d.beta = tensor_at(m, op, "beta", grad);
    d.rpe = tensor_at(m, op, "rpe", grad);
    d.bias = tensor_at(m, op, "bias", grad);
    d.distance_k = tensor_at(m, op, "distance_k", grad);
    d.distance_v = tensor_at(m, op, "distance_v", grad);
    if (m->at.frequencies >= 0) d.inv_freq = tensor_in(m, grad, m->at.frequencies);
    return d;
}

ll_position_gradients ll_position_params_gradients(const ll_model *m, int op, float *grad) {
    return grad ? tensors(m, op, grad) : (ll_position_gradients){0};
}

void ll_position_params_config(const ll_model *m, int op, ll_attention_config *a) {
    const ll_model_config *c = m->c;
    ll_position_config *w = &a->encoding;
    if (!is_placed(m, op)) return;
    a->position = (ll_position)c->position.type;
    const ll_position_gradients at = tensors(m, op, NULL);
    w->freqs = at.freqs, w->offsets = at.offsets, w->gains = at.gains;
    w->filter_q = at.filter_q, w->filter_k = at.filter_k, w->gate = at.gate;
    w->inv_freq = at.inv_freq, w->alpha = at.alpha, w->beta = at.beta;
    w->realizations = c->position.realizations, w->sines = c->position.sines, w->scales = c->position.scales,
    w->axes = 1 + c->position.image;
    w->taps = c->position.taps, w->taps2 = is_image(c) ? c->position.taps : 0;
    if (c->position.type == LL_POSITION_ROPE) w->base = c->position.base, w->rotary = c->position.rotary;
    w->bias = at.bias, w->distance_k = at.distance_k, w->distance_v = at.distance_v;
    w->clip = c->position.distances, w->rpe = at.rpe,
    w->keyless = c->position.type == LL_POSITION_RELATIVE_S2 ? c->model.heads / 2 : 0;
    w->seed = (uint64_t)c->seed, w->layer = c->position.shared ? 0 : op;
    if (is_image(c)) a->width = ll_config_grid_width(c), a->height = ll_config_grid_height(c);
    if (is_image(c) || c->position.type == LL_POSITION_RELATIVE_S1 || c->position.type == LL_POSITION_RELATIVE_S2)
        a->before = m->cls_tokens;
}

void ll_position_params_noise(const ll_batch_run *run, int op) {
    if (!is_spe(run->c)) return;
    uint32_t word[4];
    uint64_t seed = (uint64_t)run->c->seed;
    if (run->grad && !run->ws->carry) { /* a state contains keys of earlier windows, made with the same noise */
        ll_random4(word, seed, ll_stream_id(LL_RANDOM_NOISE, 0xffffff, 0), (uint64_t)run->draw);
        seed = (uint64_t)word[0] << 32 | word[1];
    }
    ll_attention_set_noise(run->model->attention[op], seed);
}
