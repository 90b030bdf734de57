/* The gate of gated linear attention, one number for each token and head, from the layer's input a:
 *
 *   u = a W_g + b_g        log r = log sigmoid(u) / 16
 *
 * (Yang et al. 2024, section 4.4, with the scalar gate of Sun et al. 2024, gated retention; 16 is their temperature).
 * Forward stores only log r. sigmoid(u) = e^(16 log r), so dL/du = dL/dlog r (1 - e^(16 log r)) / 16. */
#include <math.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "model/network.h"

static const float TEMPERATURE = 16;

typedef struct {
    size_t n;
    const float *gate;
    float *x;
} job;

static size_t count_of(const job *j, size_t i) {
    const size_t left = j->n - i * LL_CHUNK;
    return ll_min_size(left, LL_CHUNK);
}

static void forward_task(void *arg, size_t i) {
    const job *j = arg;
    float *u = j->x + i * LL_CHUNK;
    for (size_t t = 0, n = count_of(j, i); t < n; t++)
        u[t] = (fminf(u[t], 0) - log1pf(expf(-fabsf(u[t])))) / TEMPERATURE;
}

static void back_task(void *arg, size_t i) {
    const job *j = arg;
    const float *gate = j->gate + i * LL_CHUNK;
    float *d = j->x + i * LL_CHUNK;
    for (size_t t = 0, n = count_of(j, i); t < n; t++) d[t] *= -expm1f(TEMPERATURE * gate[t]) / TEMPERATURE;
}

void ll_gate_forward(size_t n, float *u) {
    job j = {n, NULL, u};
    ll_parallel_for((n + LL_CHUNK - 1) / LL_CHUNK, forward_task, &j);
}

void ll_gate_back(size_t n, const float *gate, float *d) {
    job j = {n, gate, d};
    ll_parallel_for((n + LL_CHUNK - 1) / LL_CHUNK, back_task, &j);
}

ll_view ll_gate_view(const ll_batch_run *run, float *gate) {
    const size_t H = (size_t)run->c->model.heads;
    return gate ? (ll_view){gate, (size_t)run->T * H, 1, H} : (ll_view){0};
}

/* At u = b_g head h decays by r = 1 - e^x a token. Over the heads, x goes from log 1/32 to log 1/512: the scales of
 * RetNet (Sun et al. 2023). */
void ll_gate_init(int H, float *x) {
    for (int h = 0; h < H; h++) {
        const double part = H > 1 ? (double)h / (H - 1) : 0, r = 1 - exp(-log(32) - part * log(16));
        const double s = pow(r, (double)TEMPERATURE);
        x[h] = (float)log(s / (1 - s));
    }
}
