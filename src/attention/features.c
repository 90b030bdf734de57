/* Feature maps of a tile of queries or keys: projection, map, permutation, and the way back.
 *
 *   relu    phi = max(u, 0) + eps                                   (Performer's generalized attention)
 *   elu1    phi = (u + 1 for u > 0, else e^u) + eps                 (Linear Transformer)
 *   favor   phi = e^(u - n - c) [+ eps], u = W x, n = |x|^2 / 2     (Performer, positive features)
 *
 * with x the query or key times input_scale, and u = x where there is no projection. */
#include <math.h>
#include <string.h>

#include "attention/features.h"

static float *row(float *base, int i, size_t ld) { return base + (size_t)i * ld; }

static const float *head_weight(const ll_attention *op, const float *weight, int head, size_t ld, size_t rows) {
    return op->permute.axes ? weight + (size_t)head * rows * ld : weight;
}

/* n = |input_scale x|^2 / 2 */
static float half_square(const ll_attention *op, const ll_kernels *k, const float *x) {
    const float s = op->c.input_scale;
    return 0.5f * s * s * k->dot((size_t)op->c.D, x, x);
}

/* u (C, features) before the permutation: into `out`, or where nothing has to be done the input itself. */
static const float *project(const ll_feature_tile *t, float *out, size_t *ld) {
    const ll_attention *op = t->op;
    const int D = op->c.D, m = op->features;
    const size_t l = (size_t)op->ld;
    if (op->weight) {
        const float *w = head_weight(op, op->weight, t->head, l, (size_t)D);
        t->k->gemm(t->C, m, D, t->in, t->token, 1, w, l, out, l, 0);
    } else if (op->permute.reorder || op->c.input_scale != 1) {
        const int *order = op->permute.axes ? op->permute.order + (size_t)t->head * (size_t)m : NULL;
        for (int i = 0; i < t->C; i++)
            for (int a = 0; a < m; a++)
                row(out, i, l)[a] = op->c.input_scale * t->in[(size_t)i * t->token + (size_t)(order ? order[a] : a)];
    } else {
        *ld = t->token;
        return t->in;
    }
    *ld = l;
    return out;
}

/* e^min(u, 0) + max(u, 0) + eps; in place allowed. */
static void elu1(const ll_kernels *k, int m, float eps, const float *u, float *phi) {
    float low[64];
    for (int from = 0; from < m; from += 64, u += 64, phi += 64) {
        const int n = m - from < 64 ? m - from : 64;
        for (int a = 0; a < n; a++) low[a] = u[a] < 0 ? u[a] : 0;
        k->exp((size_t)n, low, low);
        for (int a = 0; a < n; a++) phi[a] = low[a] + (u[a] > 0 ? u[a] : 0) + eps;
    }
}

static int query_rule(const ll_attention *op) { return op->c.query_max != LL_MAX_NONE; }

static void favor(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_attention *op = t->op;
    const size_t m = (size_t)op->features;
    const float root = 1.0f / sqrtf((float)op->c.M);
    for (int i = 0; i < t->C; i++, u += ld, phi += op->ld) {
        const float n = half_square(op, t->k, t->in + (size_t)i * t->token);
        const int own = t->side == LL_QUERY && op->phi[LL_QUERY] == LL_PHI_FIXED && query_rule(op);
        const float best = top || own ? t->k->max(m, u) - (op->c.max_of_u ? 0 : n) : 0;
        if (top) top[i] = best;
        exponent[i] = 0;
        if (op->phi[t->side] == LL_PHI_RUNNING) {
            exponent[i] = t->k->exp2_rows(m, n, u, phi);
        } else {
            const float c = t->side == LL_KEY ? t->shift : own ? best : 0;
            t->k->exp_shift(m, n + c, root, op->c.feature_eps, u, phi);
        }
    }
}

void ll_features(const ll_feature_tile *t, float *phi, int *exponent, float *top) {
    const ll_attention *op = t->op;
    const int permuted = op->permute.axes > 0, m = op->features;
    float *mapped = permuted ? t->work : phi;
    size_t ld;
    const float *u = project(t, op->c.kernel == LL_KERNEL_RELU ? t->work : mapped, &ld);
    if (op->c.kernel == LL_KERNEL_FAVOR) {
        favor(t, u, ld, mapped, exponent, top);
    } else {
        memset(exponent, 0, (size_t)t->C * sizeof *exponent);
        if (op->c.kernel == LL_KERNEL_RELU && permuted) {
            ll_permute_apply(op, t->k, t->head, t->C, t->x, t->y, 0, op->c.feature_eps, u, ld, phi, (size_t)op->ld);
            return;
        }
        for (int i = 0; i < t->C; i++) {
            if (op->c.kernel == LL_KERNEL_RELU) {
                t->k->relu((size_t)m, op->c.feature_eps, u + (size_t)i * ld, row(mapped, i, (size_t)op->ld));
            } else {
                elu1(t->k, m, op->c.feature_eps, u + (size_t)i * ld, row(mapped, i, (size_t)op->ld));
            }
        }
    }
    if (permuted)
        ll_permute_apply(op, t->k, t->head, t->C, t->x, t->y, 0, -1, mapped, (size_t)op->ld, phi, (size_t)op->ld);
    if (op->turn) ll_turn_features(op, 0, t->C, t->x, phi, (size_t)op->ld, phi, (size_t)op->ld);
}

/* dphi becomes the gradient of the exponents; their sum, less what the stabiliser takes back. With
 * f = phi - eps/sqrt(M) the exponential part: dE = dphi f, and where the maximum is differentiated
 * its place gets -sum(dE). */
static float favor_back(const ll_feature_tile *t, const float *phi, float *dphi, double *dtop) {
    const ll_attention *op = t->op;
    const int m = op->features, fixed = op->phi[t->side] == LL_PHI_FIXED;
    if (!fixed) {
        t->k->mul((size_t)m, phi, dphi);
        return t->k->sum((size_t)m, dphi);
    }
    const float eps = op->c.feature_eps / sqrtf((float)op->c.M);
    float total = 0;
    int best = 0;
    for (int a = 0; a < m; a++) {
        dphi[a] *= phi[a] - eps;
        total += dphi[a];
        if (phi[a] > phi[best]) best = a;
    }
    if (!op->c.max_gradient) return total;
    if (t->side == LL_KEY) {
        if (dtop) *dtop -= (double)total;
        return total;
    }
    if (!query_rule(op)) return total;
    dphi[best] -= total;
    return op->c.max_of_u ? total : 0;
}

/* Gradient at u in the operator's order, in place of dphi's rows; sum (C) of the exponents' gradients. */
static void map_back(const ll_feature_tile *t, const float *phi, float *dphi, float *sum, double *dtop) {
    const ll_attention *op = t->op;
    const int m = op->features;
    for (int i = 0; i < t->C; i++, phi += op->ld, dphi += op->ld) {
        if (op->c.kernel == LL_KERNEL_FAVOR) {
            sum[i] = favor_back(t, phi, dphi, dtop);
        } else if (op->c.kernel == LL_KERNEL_ELU1) {
            for (int a = 0; a < m; a++) dphi[a] *= fminf(phi[a] - op->c.feature_eps, 1);
        }
    }
}

/* dx = input_scale du, into the caller's order of features. */
static void reorder_back(const ll_feature_tile *t, const float *du, float *dx, size_t dtoken) {
    const ll_attention *op = t->op;
    const int m = op->features;
    const int *order = op->permute.axes ? op->permute.order + (size_t)t->head * (size_t)m : NULL;
    for (int i = 0; i < t->C; i++)
        for (int a = 0; a < m; a++)
            dx[(size_t)i * dtoken + (size_t)(order ? order[a] : a)] =
                op->c.input_scale * du[(size_t)i * (size_t)op->ld + (size_t)a];
}

void ll_features_back(const ll_feature_tile *t, const float *phi, float *dphi, float *dx, size_t dtoken, double *dtop) {
    const ll_attention *op = t->op;
    const int D = op->c.D, m = op->features, relu = op->c.kernel == LL_KERNEL_RELU;
    const size_t ld = (size_t)op->ld;
    const int direct = !op->weight && !op->permute.reorder && op->c.input_scale == 1;
    float sum[256];
    if (op->turn) { /* maps are differentiated where they were, before the turn */
        ll_turn_features(op, 1, t->C, t->x, dphi, ld, dphi, ld);
        ll_turn_features(op, 1, t->C, t->x, phi, ld, t->work, ld);
        phi = t->work;
    }
    map_back(t, phi, dphi, sum, dtop);
    float *du = dphi;
    if (op->permute.axes) {
        du = direct ? dx : t->work;
        ll_permute_apply(op, t->k, t->head, t->C, t->x, t->y, 1, -1, dphi, ld, du, direct ? dtoken : ld);
    }
    if (relu) { /* the kink needs u itself: the rows are free again once du has left them */
        size_t ldu;
        const float *u = project(t, du == dphi ? t->work : dphi, &ldu);
        const size_t l = du == dx ? dtoken : ld;
        float *to = direct ? dx : du;
        for (int i = 0; i < t->C; i++)
            t->k->relu_back((size_t)m, u + (size_t)i * ldu, row(du, i, l), row(to, i, direct ? dtoken : l));
    } else if (direct && du != dx) {
        for (int i = 0; i < t->C; i++) memcpy(row(dx, i, dtoken), row(du, i, ld), (size_t)D * sizeof *dx);
    }
    if (direct) return;
    if (!op->weight) {
        reorder_back(t, du, dx, dtoken);
        return;
    }
    t->k->gemm(t->C, D, m, du, ld, 1, head_weight(op, op->weight_t, t->head, (size_t)D, (size_t)m), (size_t)D, dx,
               dtoken, 0);
    if (op->c.kernel == LL_KERNEL_FAVOR) {
        const float s = op->c.input_scale;
        for (int i = 0; i < t->C; i++)
            t->k->axpy((size_t)D, -s * s * sum[i], t->in + (size_t)i * t->token, row(dx, i, dtoken));
    }
}

ll_top ll_features_top(const ll_feature_tile *t, const float *mask) {
    const ll_attention *op = t->op;
    ll_top best = {-INFINITY, 0, 0};
    size_t ld;
    const float *u = project(t, t->work, &ld);
    for (int i = 0; i < t->C; i++, u += ld) {
        if (mask && mask[i] == 0) continue;
        const float n = op->c.max_of_u ? 0 : half_square(op, t->k, t->in + (size_t)i * t->token);
        for (int a = 0; a < op->features; a++)
            if (u[a] - n > best.value) best = (ll_top){u[a] - n, i, a};
    }
    return best;
}

void ll_features_top_back(const ll_attention *op, int head, int feature, double dtop, const float *in, float *dx) {
    const float *w = head_weight(op, op->weight_t, head, (size_t)op->c.D, (size_t)op->features);
    const float s = op->c.input_scale, d = (float)dtop;
    for (int e = 0; e < op->c.D; e++)
        dx[e] += d * (w[(size_t)feature * (size_t)op->c.D + (size_t)e] - (op->c.max_of_u ? 0 : s * s * in[e]));
}
