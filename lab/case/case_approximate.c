/* The part of a case that approximate kernels read: sizes from the metadata, parameters as tensors. */
#include <math.h>
#include <string.h>

#include "case/case.h"

static ll_status read_local(ll_case *a) {
    return ll_case_integer(a, "window", NAN, LL_CASE_AXIS, &a->c.approximate.window);
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

/* What a file has for kernels that need more than queries, keys and values. */
static const struct {
    ll_kernel kernel;
    ll_status (*read)(ll_case *a);
    const char *draw;
} layouts[] = {{LL_KERNEL_LOCAL, read_local, NULL},
               {LL_KERNEL_LINFORMER, read_linformer, NULL},
               {LL_KERNEL_NYSTROM, read_nystrom, NULL},
               {LL_KERNEL_REFORMER, read_reformer, "rotations"}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

ll_status ll_case_approximate(ll_case *a) {
    for (int i = 0; i < LAYOUTS; i++)
        if (layouts[i].kernel == a->c.kernel) return layouts[i].read(a);
    return LL_OK;
}

int ll_case_approximate_reads(const ll_case *a, const char *name) {
    for (int i = 0; i < LAYOUTS; i++)
        if (layouts[i].kernel == a->c.kernel && layouts[i].draw && !strcmp(layouts[i].draw, name)) return 1;
    ll_parameter list[LL_PARAMETERS];
    for (int i = ll_kernel_parameters(&a->c, list); i-- > 0;)
        if (!strcmp(list[i].name, name)) return 1;
    return 0;
}
