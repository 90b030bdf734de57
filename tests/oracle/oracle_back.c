/* Gradients of attention by its definition: analytic, pair by pair, and central differences to check them. */
#include "oracle_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One head's gradients. The keys' features belong to one stabiliser at a time. When it changes, and at the end, their
 * gradients are added to those of the keys. */
typedef struct {
    oracle_head a;
    double *dq, *dk, *dv, *dr; /* of the whole tensors */
    double *dphi_q, *dphi_k;   /* (m), (S, m): after the position */
    double *plain, *du;        /* (m) scratch */
    double dshift;             /* at the stabiliser of phi_k */
} head_back;

/* Adds the gradient at x to dx, from `plain`, the gradient at phi(x) before its position. Returns the gradient at the
 * stabiliser. */
static double feature_back(head_back *g, const double *x, double shift, double *dx) {
    const ll_attention_config *c = &g->a.o->c;
    const double n = oracle_project(c, x, g->du), scale = (double)c->input_scale;
    double total = 0, scaled = 0;
    for (int a = 0; a < g->a.m; a++) {
        const double u = g->du[a], dphi = g->plain[a];
        double du = 0, dn = 0, value = 0;
        if (c->kernel != LL_KERNEL_FAVOR) oracle_map(c->kernel, u, &du);
        if (c->kernel == LL_KERNEL_FAVOR) value = oracle_favor(c, a, u, n, shift, &du, &dn);
        g->du[a] = dphi == 0 ? 0 : dphi * du; /* unseen keys may overflow */
        total += dphi == 0 ? 0 : dphi * dn;
        scaled += dphi == 0 ? 0 : dphi * value;
    }
    for (int e = 0; e < c->D; e++) {
        double d = c->M ? 0 : g->du[e];
        for (int a = 0; a < g->a.m && c->M; a++) d += g->du[a] * oracle_weight(c, a, e);
        dx[e] += scale * (d + total * scale * x[e]);
    }
    return -scaled;
}

/* Undoes the position of token t: dphi, after the position, becomes `plain`. */
static void undo_position(head_back *g, int t, const double *dphi) {
    for (int f = 0; f < g->a.m; f++) g->plain[g->a.from[(size_t)t * (size_t)g->a.m + (size_t)f]] = dphi[f];
}

static void flush_keys(head_back *g) {
    const oracle_case *o = g->a.o;
    const size_t m = (size_t)g->a.m, D = (size_t)o->c.D;
    for (int j = 0; j < o->S && !isnan(g->a.shift); j++) {
        const size_t key = oracle_row(o, g->a.b, g->a.h, j, o->S);
        undo_position(g, j, g->dphi_k + (size_t)j * m);
        g->dshift += feature_back(g, o->k + key * D, g->a.shift, g->dk + key * D);
    }
    memset(g->dphi_k, 0, (size_t)o->S * m * sizeof *g->dphi_k);
}

/* dA at one weight of a softmax row: A = exp(scale <q, k>). */
static void softmax_pair(head_back *g, const double *q, const double *k, double *dq, double *dk, double A, double dA) {
    const ll_attention_config *c = &g->a.o->c;
    for (int e = 0; e < c->D; e++) {
        dq[e] += dA * A * (double)c->input_scale * k[e];
        dk[e] += dA * A * (double)c->input_scale * q[e];
    }
}

/* dA at one weight of a linear row: A = r^(i-j) <phi_q, phi_k>. */
static void linear_pair(head_back *g, int i, int j, double dA) {
    const oracle_case *o = g->a.o;
    const size_t at = (size_t)j * (size_t)g->a.m;
    const double power = oracle_decay(o, g->a.b, g->a.h, i, j);
    double product = 0;
    for (int f = 0; f < g->a.m; f++) {
        const double q = g->a.phi_q[f], k = g->a.phi_k[at + (size_t)f];
        product += q * k;
        g->dphi_q[f] += dA * power * k;
        g->dphi_k[at + (size_t)f] += dA * power * q;
    }
    if (o->c.causal && i > j) g->dr[g->a.h] += dA * (i - j) * pow(o->r[g->a.h], i - j - 1) * product;
}

/* One row; returns the gradient at the query's stabiliser. */
static double row_back(head_back *g, int i, double query_shift) {
    const oracle_case *o = g->a.o;
    const ll_attention_config *c = &o->c;
    const size_t D = (size_t)c->D, E = (size_t)c->E, row = oracle_row(o, g->a.b, g->a.h, i, o->T);
    const int softmax = oracle_softmax(c);
    const double *up = o->g + row * E, den = g->a.den;
    double dden = 0;
    if (den == 0) return 0;
    for (size_t e = 0; e < E; e++) dden -= up[e] * g->a.num[e] / (den * den);
    const double ds = c->den == LL_DEN_NONE && !softmax ? 0 : dden;
    memset(g->dphi_q, 0, (size_t)g->a.m * sizeof *g->dphi_q);
    for (int f = 0; f < g->a.m && c->den == LL_DEN_EPS_PHI && !softmax; f++) g->dphi_q[f] = dden * (double)c->den_eps;
    for (int j = 0; j < o->S; j++) {
        const size_t key = oracle_row(o, g->a.b, g->a.h, j, o->S);
        double dA = ds;
        if (!oracle_sees(o, g->a.b, i, j)) continue;
        for (size_t e = 0; e < E; e++) {
            dA += up[e] / den * o->v[key * E + e];
            g->dv[key * E + e] += up[e] / den * g->a.A[j];
        }
        if (softmax) {
            softmax_pair(g, o->q + row * D, o->k + key * D, g->dq + row * D, g->dk + key * D, g->a.A[j], dA);
        } else {
            linear_pair(g, i, j, dA);
        }
    }
    if (softmax) return 0;
    undo_position(g, i, g->dphi_q);
    return feature_back(g, o->q + row * D, query_shift, g->dq + row * D);
}

/* A stabiliser is u_a, or u_a - |x|^2/2, of the token x that set it. */
static void push_top(const ll_attention_config *c, const oracle_top *top, double d, const double *x, double *dx) {
    const double scale = (double)c->input_scale;
    if (top->feature < 0) return;
    x += top->token * (size_t)c->D;
    dx += top->token * (size_t)c->D;
    for (int e = 0; e < c->D; e++)
        dx[e] += d * scale *
                 (oracle_trigonometric(c) ? scale * x[e]
                                          : oracle_weight(c, top->feature, e) - (c->max_of_u ? 0 : scale * x[e]));
}

static void head_backward(head_back *g, const oracle_top *of_query, const oracle_top *of_key) {
    const oracle_case *o = g->a.o;
    const int linear = !oracle_softmax(&o->c);
    const oracle_top *key = NULL;
    for (int i = 0; i < oracle_queries(o, g->a.b); i++) {
        const size_t row = oracle_row(o, g->a.b, g->a.h, i, o->T);
        if (linear && key && of_key[row].value != key->value) {
            flush_keys(g);
            if (o->c.max_gradient) push_top(&o->c, key, g->dshift, o->k, g->dk);
            g->dshift = 0;
        }
        key = &of_key[row];
        oracle_row_forward(&g->a, i, of_query[row].value, key->value);
        const double d = row_back(g, i, of_query[row].value);
        if (o->c.max_gradient) push_top(&o->c, &of_query[row], d, o->q, g->dq); /* one for all rows */
    }
    if (!linear || !key) return;
    flush_keys(g);
    if (o->c.max_gradient) push_top(&o->c, key, g->dshift, o->k, g->dk);
}

void oracle_backward(const oracle_case *o, double *dq, double *dk, double *dv, double *dr) {
    const size_t rows = (size_t)o->B * (size_t)o->c.H * (size_t)o->T, m = (size_t)oracle_features(&o->c);
    const size_t keys = (size_t)o->B * (size_t)o->c.H * (size_t)o->S;
    oracle_top *top = oracle_alloc(2 * rows, sizeof *top);
    oracle_tops(o, top, top + rows);
    memset(dq, 0, rows * (size_t)o->c.D * sizeof *dq);
    memset(dk, 0, keys * (size_t)o->c.D * sizeof *dk);
    memset(dv, 0, keys * (size_t)o->c.E * sizeof *dv);
    memset(dr, 0, (size_t)o->c.H * sizeof *dr);
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->c.H; h++) {
            head_back g = {.a = oracle_head_create(o, b, h), .dq = dq, .dk = dk, .dv = dv, .dr = dr};
            double *scratch = oracle_alloc((size_t)o->S * m + 3 * m, sizeof *scratch);
            g.dphi_q = scratch;
            g.plain = scratch + m;
            g.du = scratch + 2 * m;
            g.dphi_k = scratch + 3 * m;
            head_backward(&g, top, top + rows);
            free(scratch);
            oracle_head_free(&g.a);
        }
    free(top);
}

static double loss(const oracle_case *o, const oracle_top *top, double *y) {
    const size_t rows = (size_t)o->B * (size_t)o->c.H * (size_t)o->T;
    double sum = 0;
    oracle_forward(o, top, top ? top + rows : NULL, y);
    for (size_t i = 0; i < rows * (size_t)o->c.E; i++) sum += y[i] * o->g[i];
    return sum;
}

double oracle_difference(const oracle_case *o, double *x) {
    const size_t rows = (size_t)o->B * (size_t)o->c.H * (size_t)o->T;
    const double here = *x, step = 1e-6;
    double *y = oracle_alloc(rows * (size_t)o->c.E, sizeof *y), d[2];
    oracle_top *top = o->c.max_gradient ? NULL : oracle_alloc(2 * rows, sizeof *top);
    if (top) oracle_tops(o, top, top + rows); /* stopped gradients: c is constant */
    for (int side = 0; side < 2; side++) {
        *x = side ? here + step : here - step;
        d[side] = loss(o, top, y);
    }
    *x = here;
    free(top);
    free(y);
    return (d[1] - d[0]) / (2 * step);
}
