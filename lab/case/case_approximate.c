/* The part of a case that approximate kernels read: sizes from the metadata, parameters as tensors. */
#include <math.h>
#include <string.h>

#include "case/case.h"

int ll_case_approximate_reads(const ll_case *a, const char *name) {
    if (a->c.kernel == LL_KERNEL_REFORMER) return !strcmp(name, "rotations");
    return a->c.kernel == LL_KERNEL_LINFORMER && (!strcmp(name, "linformer_k") || !strcmp(name, "linformer_v"));
}

static ll_status read_linformer(ll_case *a) {
    ll_approximate_config *b = &a->c.approximate;
    size_t length = 0, rank = 0;
    ll_status status = ll_case_axis(a, "linformer_k", 2, 0, &length);
    if (!status) status = ll_case_axis(a, "linformer_k", 2, 1, &rank);
    if (status) return status;
    const size_t shape[] = {length, rank};
    b->length = (int)length, b->rank = (int)rank;
    status = ll_case_parameter_read(a, "linformer_k", 2, shape, &b->linformer_k, &a->dapproximate.linformer_k);
    if (!status)
        status = ll_case_parameter_read(a, "linformer_v", 2, shape, &b->linformer_v, &a->dapproximate.linformer_v);
    return status;
}

static ll_status read_nystrom(ll_case *a) {
    const ll_status status = ll_case_integer(a, "landmarks", NAN, LL_CASE_AXIS, &a->c.approximate.landmarks);
    return status ? status : ll_case_integer(a, "iterations", 6, LL_CASE_AXIS, &a->c.approximate.iterations);
}

/* Every draw is in the file. */
static ll_status read_reformer(ll_case *a) {
    ll_approximate_config *b = &a->c.approximate;
    size_t rounds = 0, half = 0;
    ll_status status = ll_case_integer(a, "chunk", NAN, LL_CASE_AXIS, &b->chunk);
    if (!status) status = ll_case_axis(a, "rotations", 4, 0, &rounds);
    if (!status) status = ll_case_axis(a, "rotations", 4, 3, &half);
    if (status) return status;
    b->rounds = (int)rounds, b->buckets = (int)(2 * half);
    status = ll_case_tensor(a, "rotations", 4, (size_t[]){rounds, (size_t)a->c.H, (size_t)a->c.D, half}, &a->rotations);
    b->rotations = a->rotations;
    return status;
}

ll_status ll_case_approximate(ll_case *a) {
    switch (a->c.kernel) {
    case LL_KERNEL_LOCAL: return ll_case_integer(a, "window", NAN, LL_CASE_AXIS, &a->c.approximate.window);
    case LL_KERNEL_LINFORMER: return read_linformer(a);
    case LL_KERNEL_NYSTROM: return read_nystrom(a);
    case LL_KERNEL_REFORMER: return read_reformer(a);
    default: return LL_OK;
    }
}
