/* Features f(u) + eps of generalized attention, with f from maps.c. */
#include <math.h>
#include <string.h>

#include "attention/feature/features.h"

static void forward(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    (void)top;
    memset(exponent, 0, (size_t)t->C * sizeof *exponent);
    t->k->map[map->f->index].forward(t->C, (size_t)map->features, map->c.feature_eps, u, ld, phi, (size_t)map->ld);
}

static void back(const ll_feature_tile *t, const float *phi, ll_tile_rows d, ll_tile_rows to, float *sum,
                 double *dtop) {
    const ll_feature_map *map = t->map;
    (void)sum, (void)dtop;
    t->k->map[map->f->index].back(t->C, (size_t)map->features, map->c.feature_eps, phi, (size_t)map->ld, d.at, d.ld,
                                  to.at, to.ld);
}

/* Where the slope follows from f(u), that is computed again. */
static void back_from_u(const ll_feature_tile *t, const float *u, size_t ld, float *buffer, ll_tile_rows d,
                        ll_tile_rows to, float *sum, double *dtop) {
    const ll_feature_map *map = t->map;
    const size_t m = (size_t)map->features;
    const ll_row_map *kernels = &t->k->map[map->f->index];
    (void)sum, (void)dtop;
    if (map->f->slope_of_phi) {
        kernels->forward(t->C, m, 0, u, ld, buffer, (size_t)map->ld);
        u = buffer, ld = (size_t)map->ld;
    }
    kernels->back(t->C, m, 0, u, ld, d.at, d.ld, to.at, to.ld);
}

static ll_epilogue relu(const ll_feature_tile *t, const float *u, size_t ld, float *shift, int *exponent, float *top) {
    (void)u, (void)ld, (void)shift, (void)top;
    memset(exponent, 0, (size_t)t->C * sizeof *exponent);
    return (ll_epilogue){.kind = LL_EPILOGUE_RELU, .eps = t->map->c.feature_eps};
}

static ll_epilogue relu_back(const ll_feature_tile *t, const float *phi, const float *dphi, float *sum) {
    (void)dphi, (void)sum;
    return (ll_epilogue){
        .kind = LL_EPILOGUE_WHERE, .eps = t->map->c.feature_eps, .factor = phi, .ld = (size_t)t->map->ld};
}

/* ---- e^u + eps in units of powers of two, where only the ratios of features count ---- */

/* The features of a row are phi 2^e with the integer e that is returned, so that neither part can overflow. */
static int exponential(const ll_kernels *k, int m, float eps, const float *u, float *phi) {
    int e = k->exp2_rows((size_t)m, 0, u, phi);
    if (eps <= 0) return e;
    if (e < 0) {
        k->scale((size_t)m, ldexpf(1, e), phi);
        e = 0;
    }
    const float part = ldexpf(eps, -e);
    for (int a = 0; a < m; a++) phi[a] += part;
    return e;
}

static void exp_forward(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    (void)top;
    for (int i = 0; i < t->C; i++, u += ld, phi += map->ld)
        exponent[i] = exponential(t->k, map->features, map->c.feature_eps, u, phi);
}

/* e^u in the units that the features have. */
static void exp_back_from_u(const ll_feature_tile *t, const float *u, size_t ld, float *buffer, ll_tile_rows d,
                            ll_tile_rows to, float *sum, double *dtop) {
    const ll_feature_map *map = t->map;
    const size_t m = (size_t)map->features;
    (void)sum, (void)dtop;
    for (int i = 0; i < t->C; i++, u += ld, buffer += map->ld, d.at += d.ld, to.at += to.ld) {
        const int e = t->k->exp2_rows(m, 0, u, buffer);
        const float unit = map->c.feature_eps > 0 && e < 0 ? ldexpf(1, e) : 1;
        for (size_t a = 0; a < m; a++) to.at[a] = d.at[a] * buffer[a] * unit;
    }
}

/* The slope follows from the features; it does not; it is 0 or 1; e^u; e^u + eps, whose eps differs from row to row. */
static const ll_feature_family of_features = {.forward = forward, .back = back, .back_from_u = back_from_u};
static const ll_feature_family of_u = {.forward = forward, .back_from_u = back_from_u};
static const ll_feature_family of_relu = {
    .forward = forward, .back = back, .back_from_u = back_from_u, .epilogue = relu, .epilogue_back = relu_back};
static const ll_feature_family of_exp = {.forward = exp_forward, .back = back, .back_from_u = exp_back_from_u};
static const ll_feature_family of_exp_eps = {.forward = exp_forward, .back_from_u = exp_back_from_u};

const ll_feature_family *ll_mapped_family(const ll_feature_map *map) {
    if (map->c.kernel == LL_KERNEL_RELU) return &of_relu;
    if (map->c.kernel == LL_KERNEL_EXP && map->phi[LL_KEY] == LL_PHI_RUNNING)
        return map->c.feature_eps > 0 ? &of_exp_eps : &of_exp;
    return map->f->slope_of_phi ? &of_features : &of_u;
}
