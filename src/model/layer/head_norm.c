/* RMSNorm of the output of each head. It has no gain, because the output matrix already has one.
 *
 *   y = x / sqrt(mean(x^2) + eps)        dx = (dy - y mean(y dy)) / sqrt(mean(x^2) + eps)
 *
 * It is used where sums are not divided (Sun et al. 2023, RetNet, section 3.1; Yang et al. 2024, section 4.4). */
#include <math.h>

#include "base/parallel.h"
#include "model/network.h"

typedef struct {
    const ll_kernels *k;
    size_t heads, size; /* number of heads in all rows; size of a head */
    const float *x;
    float *y, *d;
} job;

enum { HEADS = 256 /* of one task */ };
static const float EPS = 1e-5f;

static float scale_of(const job *j, const float *x) {
    return 1 / sqrtf(j->k->dot(j->size, x, x) / (float)j->size + EPS);
}

static void forward_task(void *arg, size_t i) {
    const job *j = arg;
    for (size_t h = i * HEADS; h < (i + 1) * HEADS && h < j->heads; h++) {
        const float *x = j->x + h * j->size;
        j->k->scaled(j->size, scale_of(j, x), x, j->y + h * j->size);
    }
}

static void back_task(void *arg, size_t i) {
    const job *j = arg;
    for (size_t h = i * HEADS; h < (i + 1) * HEADS && h < j->heads; h++) {
        const float *x = j->x + h * j->size, scale = scale_of(j, x);
        float *d = j->d + h * j->size;
        const float projection = j->k->dot(j->size, x, d) / (float)j->size;
        j->k->axpy(j->size, -projection * scale * scale, x, d);
        j->k->scale(j->size, scale, d);
    }
}

static job job_of(const ll_batch_run *run, int n, const float *x) {
    const size_t H = (size_t)run->c->model.heads;
    return (job){.k = run->k, .heads = (size_t)n * H, .size = (size_t)run->model->values / H, .x = x};
}

const float *ll_head_norm(const ll_batch_run *run, int n, const float *x) {
    job j = job_of(run, n, x);
    if (!ll_config_head_norm(run->c)) return x;
    j.y = run->ws->heads;
    ll_parallel_for((j.heads + HEADS - 1) / HEADS, forward_task, &j);
    return j.y;
}

void ll_head_norm_back(const ll_batch_run *run, int n, const float *x, float *d) {
    job j = job_of(run, n, x);
    j.d = d;
    if (ll_config_head_norm(run->c)) ll_parallel_for((j.heads + HEADS - 1) / HEADS, back_task, &j);
}
