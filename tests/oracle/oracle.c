/* Attention by its definition, forward. Quadratic, slow, and easy to check. */
#include "oracle.h"
#include "oracle_approximate.h"
#include "oracle_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int oracle_features(const ll_attention_config *c) {
    const int pairs = c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_POSITIVE;
    return c->M ? c->M * (1 + pairs) : c->D;
}

void *oracle_alloc(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size);
    if (!p) abort();
    return p;
}

size_t oracle_row(const oracle_case *o, int b, int h, int t, int tokens) {
    return ((size_t)b * (size_t)o->c.H + (size_t)h) * (size_t)tokens + (size_t)t;
}

/* ---- The tokens that a query sees ---- */

int oracle_queries(const oracle_case *o, int b) {
    if (o->query_lengths) return o->query_lengths[b];
    return o->lengths && o->S == o->T ? o->lengths[b] : o->T;
}

int oracle_sees(const oracle_case *o, int b, int i, int j) {
    const int there = j < (o->lengths ? o->lengths[b] : o->S);
    const int kept = !o->mask || o->mask[(size_t)b * (size_t)o->S + (size_t)j] != 0;
    const int near = o->c.kernel != LL_KERNEL_LOCAL || abs(i - j) < o->c.approximate.window;
    return there && kept && near && (!o->c.causal || j <= i);
}

/* ---- Features ---- */

int oracle_softmax(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_SOFTMAX || c->kernel == LL_KERNEL_LOCAL;
}

int oracle_trigonometric(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_FAVOR && c->features >= LL_FEATURES_TRIGONOMETRIC;
}

/* u_f = <row f of the projection, x>; two features may share a row, hyperbolic ones with two signs. */
double oracle_weight(const ll_attention_config *c, int f, int e) {
    const double w = (double)c->projection[f % c->M * c->D + e];
    return f >= c->M && c->features == LL_FEATURES_HYPERBOLIC ? -w : w;
}

/* u (m) = W x, or x where there is no W; returns n = |x|^2 / 2, x being scaled. */
double oracle_project(const ll_attention_config *c, const double *x, double *u) {
    const double scale = (double)c->input_scale;
    double n = 0;
    for (int e = 0; e < c->D; e++) n += scale * x[e] * scale * x[e] / 2;
    for (int a = 0; a < oracle_features(c); a++) {
        u[a] = c->M ? 0 : scale * x[a];
        for (int e = 0; e < c->D && c->M; e++) u[a] += oracle_weight(c, a, e) * scale * x[e];
    }
    return n;
}

/* f(u) and f'(u) of generalized attention. */
double oracle_map(ll_kernel kernel, double u, double *slope) {
    const double root = sqrt(2), density = exp(-u * u / 2) / sqrt(2 * acos(-1.0)), below = erfc(-u / root) / 2;
    const double logistic = 1 / (1 + exp(-u));
    double s = 0, f = 0;
    switch (kernel) {
    case LL_KERNEL_RELU: f = u > 0 ? u : 0, s = u > 0; break;
    case LL_KERNEL_ELU1: f = u > 0 ? u + 1 : exp(u), s = u > 0 ? 1 : exp(u); break;
    case LL_KERNEL_EXP: f = s = exp(u); break;
    case LL_KERNEL_SIGMOID: f = logistic, s = logistic * (1 - logistic); break;
    case LL_KERNEL_ABS: f = fabs(u), s = u > 0 ? 1 : -1; break;
    case LL_KERNEL_GELU: f = u * below, s = below + u * density; break;
    case LL_KERNEL_COS: f = cos(u), s = -sin(u); break;
    case LL_KERNEL_TANH: f = tanh(u), s = 1 / (cosh(u) * cosh(u)); break;
    case LL_KERNEL_GLA:
    case LL_KERNEL_IDENTITY: f = u, s = 1; break;
    case LL_KERNEL_SQUARE: f = u * u, s = 2 * u; break;
    case LL_KERNEL_SOFTMAX:
    case LL_KERNEL_FAVOR:
    default: break;
    }
    *slope = s;
    return f;
}

/* The feature f of favor with pre-activation u, without eps, and its derivatives by u and by n. */
double oracle_favor(const ll_attention_config *c, int f, double u, double n, double shift, double *du, double *dn) {
    if (!oracle_trigonometric(c)) {
        *du = exp(u - n - shift) / sqrt(oracle_features(c));
        *dn = -*du;
        return *du;
    }
    const int gauss = c->features == LL_FEATURES_GAUSSIAN;
    const double scale = gauss ? 1 / sqrt(c->M) : exp(n - shift) / sqrt(c->M);
    const double value = scale * (f < c->M ? cos(u) : sin(u));
    *du = scale * (f < c->M ? -sin(u) : cos(u));
    *dn = gauss ? 0 : value;
    return value;
}

/* phi(x) (m), before its position is applied. */
static void feature(const ll_attention_config *c, const double *x, double shift, double *phi) {
    const double n = oracle_project(c, x, phi), eps = (double)c->feature_eps;
    double du, dn;
    for (int a = 0; a < oracle_features(c); a++) {
        const double u = phi[a];
        if (c->kernel == LL_KERNEL_FAVOR)
            phi[a] = oracle_favor(c, a, u, n, shift, &du, &dn) + eps / sqrt(oracle_features(c));
        else
            phi[a] = oracle_map(c->kernel, u, &du) + eps;
    }
}

/* to[a] = pi(pi(...(a))), p times. */
static void power(const int32_t *pi, int n, int p, int *to) {
    for (int a = 0; a < n; a++) {
        to[a] = a;
        for (int i = 0; i < p; i++) to[a] = pi[to[a]];
    }
}

/* Feature a of the token is feature from[a] of phi. */
static void source_features(const ll_attention_config *c, int h, int t, int *from) {
    const int m = oracle_features(c), half = m / 2;
    if (c->position != LL_POSITION_PERMUTE && c->position != LL_POSITION_PERMUTE2D) {
        for (int a = 0; a < m; a++) from[a] = a;
    } else if (c->position == LL_POSITION_PERMUTE) {
        power(c->permutation + h * m, m, t, from);
    } else {
        const int pixels = c->width * c->height, p = t - c->before;
        const int x = p < 0 ? 0 : p >= pixels ? c->width - 1 : p % c->width;
        const int y = p < 0 ? 0 : p >= pixels ? c->height - 1 : p / c->width;
        power(c->permutation + h * half, half, x, from);
        power(c->permutation + h * half, half, y, from + half);
        for (int a = half; a < m; a++) from[a] += half;
    }
}

/* ---- Stabilisers ---- */

static void raise_top(oracle_top *top, const oracle_top *other) {
    if (other->feature >= 0 && (top->feature < 0 || other->value > top->value)) *top = *other;
}

/* The largest exponent of one query or key. */
static oracle_top own_top(const ll_attention_config *c, const double *x, size_t token, double *u) {
    const double n = oracle_project(c, x, u);
    oracle_top top = {0, 0, -1};
    if (oracle_trigonometric(c)) return (oracle_top){n, token, 0};
    for (int a = 0; a < oracle_features(c); a++)
        raise_top(&top, &(oracle_top){c->max_of_u ? u[a] : u[a] - n, token, a});
    return top;
}

static oracle_top *own_tops(const ll_attention_config *c, const double *x, size_t count) {
    oracle_top *top = oracle_alloc(count, sizeof *top);
    double *u = oracle_alloc((size_t)oracle_features(c), sizeof *u);
    for (size_t i = 0; i < count; i++) top[i] = own_top(c, x + i * (size_t)c->D, i, u);
    free(u);
    return top;
}

void oracle_tops(const oracle_case *o, oracle_top *of_query, oracle_top *of_key) {
    const ll_attention_config *c = &o->c;
    const size_t heads = (size_t)o->B * (size_t)c->H, rows = heads * (size_t)o->T;
    const int whole = c->key_max == LL_MAX_SEQUENCE || c->key_max == LL_MAX_BATCH;
    oracle_top none = {0, 0, -1}, batch = none;
    for (size_t row = 0; row < rows; row++) of_query[row] = of_key[row] = none;
    if (c->kernel != LL_KERNEL_FAVOR || c->features == LL_FEATURES_GAUSSIAN) return;
    oracle_top *query = own_tops(c, o->q, rows), *key = own_tops(c, o->k, heads * (size_t)o->S);
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < c->H; h++)
            for (int i = 0; i < o->T; i++) {
                const size_t row = oracle_row(o, b, h, i, o->T);
                if (c->query_max != LL_MAX_NONE) of_query[row] = query[row];
                for (int t = 0; t < oracle_queries(o, b) && c->query_max == LL_MAX_SEQUENCE; t++)
                    raise_top(&of_query[row], &query[oracle_row(o, b, h, t, o->T)]);
                for (int j = 0; j < o->S && c->key_max != LL_MAX_NONE; j++)
                    if (oracle_sees(o, b, whole ? o->S : i, j))
                        raise_top(&of_key[row], &key[oracle_row(o, b, h, j, o->S)]);
                raise_top(&batch, &of_key[row]);
            }
    for (size_t row = 0; row < rows && c->key_max == LL_MAX_BATCH; row++) of_key[row] = batch;
    free(query);
    free(key);
}

/* ---- One head ---- */

oracle_head oracle_head_create(const oracle_case *o, int b, int h) {
    const size_t m = (size_t)oracle_features(&o->c), S = (size_t)o->S, most = (size_t)(o->S > o->T ? o->S : o->T);
    oracle_head a = {.o = o, .b = b, .h = h, .m = (int)m, .shift = NAN};
    a.from = oracle_alloc(most * m, sizeof *a.from);
    a.plain = oracle_alloc(m, sizeof *a.plain);
    a.phi_q = oracle_alloc(m, sizeof *a.phi_q);
    a.phi_k = oracle_alloc(S * m, sizeof *a.phi_k);
    a.A = oracle_alloc(S, sizeof *a.A);
    a.rotated = oracle_alloc(S, sizeof *a.rotated);
    a.num = oracle_alloc((size_t)o->c.E, sizeof *a.num);
    if (o->c.kernel != LL_KERNEL_SOFTMAX)
        for (size_t t = 0; t < most; t++) source_features(&o->c, h, (int)t, a.from + t * m);
    return a;
}

void oracle_head_free(oracle_head *a) {
    free(a->from);
    free(a->plain);
    free(a->phi_q);
    free(a->phi_k);
    free(a->A);
    free(a->rotated);
    free(a->num);
}

/* phi = P phi with P = B^T R B: pairs of rows of B are planes that are rotated; the rest stays. */
static void rotate(const ll_attention_config *c, int h, double *phi) {
    const int m = oracle_features(c);
    const float *B = c->encoding.basis + h * m * m, *theta = c->encoding.theta + h * (m / 2);
    double *in = oracle_alloc((size_t)m, sizeof *in), *out = oracle_alloc((size_t)m, sizeof *out);
    for (int a = 0; a < m; a++)
        for (int b = 0; b < m; b++) in[a] += (double)B[a * m + b] * phi[b];
    for (int a = 0; a < m; a++) {
        const double angle = a < m / 2 * 2 ? (double)theta[a / 2] : 0, other = a < m / 2 * 2 ? in[a ^ 1] : 0;
        const double rotated = in[a] * cos(angle) + (a % 2 ? 1 : -1) * other * sin(angle);
        for (int b = 0; b < m; b++) out[b] += (double)B[a * m + b] * rotated;
    }
    memcpy(phi, out, (size_t)m * sizeof *phi);
    free(in), free(out);
}

static void placed(oracle_head *a, const double *x, int t, double shift, double *phi) {
    feature(&a->o->c, x, shift, a->plain);
    for (int i = 0; i < t && a->o->c.position == LL_POSITION_ORTHOGONAL; i++) rotate(&a->o->c, a->h, a->plain);
    for (int f = 0; f < a->m; f++) phi[f] = a->plain[a->from[(size_t)t * (size_t)a->m + (size_t)f]];
}

/* T5's bucket of key minus query, as its authors' code has it: in floating point, but for where that misses a whole
 * number by a rounding. */
static int bucket(const ll_attention_config *c, int distance) {
    const int buckets = c->causal ? 32 : 16, exact = buckets / 2, n = abs(distance);
    const int first = distance > 0 && !c->causal ? buckets : 0;
    if (n < exact) return first + n;
    const int step = (int)(log((double)n / exact) / log(128.0 / exact) * (buckets - exact) + 1e-12);
    return first + (exact + step > buckets - 1 ? buckets - 1 : exact + step);
}

/* Number of the vector of key minus query. */
static int clipped(const ll_attention_config *c, int distance) {
    const int clip = c->encoding.clip;
    return clip + (distance < -clip ? -clip : distance > clip ? clip : distance);
}

/* Weights of one row up to the factor that cancels, by softmax. */
static void softmax_weights(oracle_head *a, int i) {
    const oracle_case *o = a->o;
    const double *q = o->q + oracle_row(o, a->b, a->h, i, o->T) * (size_t)o->c.D;
    double top = -INFINITY;
    for (int j = 0; j < o->S; j++) {
        const double *k = o->k + oracle_row(o, a->b, a->h, j, o->S) * (size_t)o->c.D;
        a->A[j] = 0;
        if (!oracle_sees(o, a->b, i, j)) continue;
        for (int e = 0; e < o->c.D; e++) {
            const double near = o->distance_k ? o->distance_k[clipped(&o->c, j - i) * o->c.D + e] : 0;
            a->A[j] += (double)o->c.input_scale * q[e] * (k[e] + near);
        }
        if (o->bias) a->A[j] += o->bias[a->h * 32 + bucket(&o->c, j - i)];
        if (a->A[j] > top) top = a->A[j];
    }
    for (int j = 0; j < o->S; j++) a->A[j] = oracle_sees(o, a->b, i, j) ? exp(a->A[j] - top) : 0;
}

double oracle_decay(const oracle_case *o, int b, int h, int i, int j) {
    double gates = 0;
    for (int t = j + 1; o->gate && t <= i; t++) gates += o->gate[oracle_row(o, b, h, t, o->T)];
    return o->c.causal ? pow(o->r[h], i - j) * exp(gates) : 1;
}

/* <R_i phi_q, R_j phi_k> = <phi_q, R_(j-i) phi_k>, pair by pair. */
static double rotated(const oracle_head *a, int i, int j) {
    const ll_position_config *w = &a->o->c.encoding;
    double sum = 0;
    for (int f = 0; f < a->m; f += 2) {
        const double angle = (j - i) * (w->theta ? (double)w->theta[f / 2] : pow(10000, -(double)f / a->m));
        const double *q = a->phi_q + f, *k = a->phi_k + (size_t)j * (size_t)a->m + f;
        sum += q[0] * (k[0] * cos(angle) - k[1] * sin(angle)) + q[1] * (k[1] * cos(angle) + k[0] * sin(angle));
    }
    return sum;
}

/* The features of the keys under the stabiliser of row i; most rules have one for all rows. */
static void linear_weights(oracle_head *a, int i, double query_shift, double key_shift) {
    const oracle_case *o = a->o;
    const size_t m = (size_t)a->m, D = (size_t)o->c.D;
    placed(a, o->q + oracle_row(o, a->b, a->h, i, o->T) * D, i, query_shift, a->phi_q);
    for (int j = 0; j < o->S && a->shift != key_shift; j++)
        placed(a, o->k + oracle_row(o, a->b, a->h, j, o->S) * D, j, key_shift, a->phi_k + (size_t)j * m);
    a->shift = key_shift;
    for (int j = 0; j < o->S; j++) {
        a->A[j] = 0;
        if (!oracle_sees(o, a->b, i, j)) continue;
        for (size_t f = 0; f < m; f++) a->A[j] += a->phi_q[f] * a->phi_k[(size_t)j * m + f];
        a->A[j] *= oracle_decay(o, a->b, a->h, i, j);
        if (o->c.position == LL_POSITION_ROPE_LINEAR)
            a->rotated[j] = rotated(a, i, j) * oracle_decay(o, a->b, a->h, i, j);
    }
}

void oracle_row_forward(oracle_head *a, int i, double query_shift, double key_shift) {
    const oracle_case *o = a->o;
    const double eps = (double)o->c.den_eps;
    double phi = 0;
    if (oracle_softmax(&o->c)) {
        softmax_weights(a, i);
    } else {
        linear_weights(a, i, query_shift, key_shift);
        for (int f = 0; f < a->m; f++) phi += a->phi_q[f];
    }
    a->keys = 0;
    a->s = 0;
    memset(a->num, 0, (size_t)o->c.E * sizeof *a->num);
    for (int j = 0; j < o->S; j++) {
        const double *v = o->v + oracle_row(o, a->b, a->h, j, o->S) * (size_t)o->c.E;
        if (!oracle_sees(o, a->b, i, j)) continue;
        a->keys++;
        a->s += a->A[j];
        const double weight = o->c.position == LL_POSITION_ROPE_LINEAR ? a->rotated[j] : a->A[j];
        const double *near = o->distance_v ? o->distance_v + clipped(&o->c, j - i) * o->c.E : NULL;
        for (int e = 0; e < o->c.E; e++) a->num[e] += weight * (v[e] + (near ? near[e] : 0));
    }
    a->den = a->s;
    if (oracle_softmax(&o->c)) return;
    if (o->c.den == LL_DEN_EPS) a->den = a->s + eps;
    if (o->c.den == LL_DEN_EPS_PHI) a->den = a->s + eps * phi;
    if (o->c.den == LL_DEN_EPS_L) a->den = a->s + eps * a->keys;
    if (o->c.den == LL_DEN_GUARD && fabs(a->s) <= eps) a->den = a->s + 2 * eps;
    if (o->c.den == LL_DEN_NONE) a->den = 1;
}

void oracle_forward(const oracle_case *o, const oracle_top *of_query, const oracle_top *of_key, double *y) {
    const size_t rows = (size_t)o->B * (size_t)o->c.H * (size_t)o->T;
    if (oracle_is_approximate(&o->c)) {
        oracle_approximate_forward(o, y);
        return;
    }
    oracle_top *own = of_query ? NULL : oracle_alloc(2 * rows, sizeof *own);
    if (own) oracle_tops(o, own, own + rows);
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->c.H; h++) {
            oracle_head a = oracle_head_create(o, b, h);
            for (int i = 0; i < o->T; i++) {
                const size_t row = oracle_row(o, b, h, i, o->T); /* a row that sees no weight is 0 */
                double *to = y + row * (size_t)o->c.E;
                memset(to, 0, (size_t)o->c.E * sizeof *to);
                if (i >= oracle_queries(o, b)) continue;
                oracle_row_forward(&a, i, (own ? own : of_query)[row].value, (own ? own + rows : of_key)[row].value);
                for (int e = 0; e < o->c.E && a.den != 0; e++) to[e] = a.num[e] / a.den;
            }
            oracle_head_free(&a);
        }
    free(own);
}
