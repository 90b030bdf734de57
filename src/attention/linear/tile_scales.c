/* The factors of a causal tile, from the decay and from the exponents of softmax features. All are at most 1. */
#include <math.h>

#include "attention/linear/linear.h"

/* Below this sum e^-sum is not used, so that its products with numbers of a tile cannot overflow. */
static const double FAR = -40;

/* 2^n for n <= 0. */
static float power2(int n) { return n < -148 ? 0 : ldexpf(1, n); }

/* log2 of a bound of the state after the tile: of the state before it, and of every key, after their decay. A large key
 * that has decayed must not make small later keys 0. */
static float reach_after(const ll_scales *f, const ll_head *j, float reach) {
    const float fall = j->op->c.decay && j->map->phi[LL_KEY] == LL_PHI_RUNNING ? log2f(j->op->c.decay[j->h]) : 0;
    const double octave = 1.4426950408889634, all = f->gated ? f->sum[f->n - 1] : 0;
    float next = reach + (f->gated ? (float)(all * octave) : (float)f->n * fall);
    for (int i = 0; i < f->n; i++) {
        const float fell = f->gated ? (float)((all - f->sum[i]) * octave) : (float)(f->n - 1 - i) * fall;
        if (!f->mask || f->mask[i] != 0) next = fmaxf(next, (float)f->e[i] + fell);
    }
    return next;
}

/* ---- Decay: powers of a constant, or sums of a gate's logarithms ---- */

static double log_decay(const ll_head *j) {
    return j->op->c.decay ? log((double)j->op->c.decay[j->h]) : 0;
}

static double gate_at(const ll_head *j, int t) {
    return (double)*ll_at(&j->at.gate, t) + log_decay(j);
}

static void set_gate(ll_scales *f, const ll_head *j, int t0, int n) {
    double sum = 0;
    f->gated = j->at.gate.data != NULL;
    if (!f->gated) return;
    for (int i = 0; i < n; i++) {
        f->sum[i] = sum += gate_at(j, t0 + i);
        f->rise[i] = sum >= FAR ? (float)exp(-sum) : 0;
    }
    f->next_gate = t0 + n < j->n ? gate_at(j, t0 + n) : 0;
}

float ll_scales_through(const ll_scales *f, const ll_head *j, int i) {
    return f->gated ? (float)exp(f->sum[i]) : j->power[i + 1];
}

float ll_scales_after(const ll_scales *f, const ll_head *j, int i) {
    return f->gated ? (float)exp(f->sum[f->n - 1] - f->sum[i]) : j->power[f->n - 1 - i];
}

float ll_scales_later(const ll_scales *f, const ll_head *j, int i) {
    return f->gated ? (float)exp(f->sum[f->n - 1] - f->sum[i] + f->next_gate) : j->power[f->n - i];
}

float ll_scales_first(const ll_scales *f, const ll_head *j, int i) {
    if (!f->gated) return j->power[i];
    return (float)exp((i < f->n ? f->sum[i] : f->sum[f->n - 1] + f->next_gate) - f->sum[0]);
}

float ll_decay_first(const ll_head *j) {
    return j->at.gate.data ? (float)exp(j->n ? gate_at(j, 0) : 0) : j->power[1];
}

float ll_decay_beyond(const ll_head *j) {
    return j->at.gate.data ? 1 : j->power[1];
}

/* ---- A tile ---- */

static void set_plain(ll_scales *f, const ll_head *j, int n) {
    f->plain = !j->op->c.decay && !f->gated;
    f->next = f->exponent = 0;
    for (int i = 0; i < n; i++) {
        f->P[i] = 0;
        f->state[i] = ll_scales_through(f, j, i);
        f->add[i] = ll_scales_after(f, j, i);
    }
    f->carry = ll_scales_through(f, j, n - 1);
}

void ll_scales_set(ll_scales *f, const ll_head *j, int t0, int n, int exponent, float reach) {
    const float *mask = j->mask ? j->mask + t0 : NULL;
    f->n = n;
    f->mask = mask;
    f->exponent = exponent;
    f->separable = 1;
    set_gate(f, j, t0, n);
    if (j->map->phi[LL_KEY] != LL_PHI_RUNNING && !mask) {
        set_plain(f, j, n);
        f->reach = reach;
        return;
    }
    f->plain = 0;
    int top = exponent;
    for (int i = 0; i < n; i++) {
        if ((!mask || mask[i] != 0) && f->e[i] > top) top = f->e[i];
        f->P[i] = top;
    }
    f->reach = reach_after(f, j, reach);
    f->next = top == LL_NO_EXPONENT ? top : (int)ceilf(f->reach);
    f->separable = top - f->P[0] <= 60;
    for (int i = 0; i < n; i++) {
        const float keep = mask ? mask[i] : 1;
        f->state[i] = f->P[i] == LL_NO_EXPONENT ? 0 : ll_scales_through(f, j, i) * power2(exponent - f->P[i]);
        f->low[i] = top == LL_NO_EXPONENT || keep == 0 ? 0 : keep * power2(f->e[i] - top);
        f->high[i] = f->separable ? ldexpf(1, top - f->P[i]) : 1;
        f->add[i] = keep == 0 ? 0 : keep * ldexpf(ll_scales_after(f, j, i), f->e[i] - f->next);
    }
    f->carry = exponent == LL_NO_EXPONENT ? 1 : ldexpf(ll_scales_through(f, j, n - 1), exponent - f->next);
}

/* e^(b_i - b_c) = e^(b_i) e^(-b_c), unless a factor could overflow. Only tokens up to i decide which form is used. */
static void apply_gate(const ll_scales *f, const ll_head *j, int i, float *row) {
    const size_t n = (size_t)i + 1;
    float factor[LL_TILE_MOST];
    if (f->sum[i] >= FAR) {
        j->k->mul(n, f->rise, row);
        j->k->scale(n, (float)exp(f->sum[i]), row);
        return;
    }
    for (int c = 0; c <= i; c++) factor[c] = (float)(f->sum[i] - f->sum[c]);
    j->k->exp_shift(n, 0, 1, 0, factor, factor);
    j->k->mul(n, factor, row);
}

void ll_scales_apply(const ll_scales *f, const ll_head *j, int i, int width, float *row) {
    for (int c = i + 1; c < width; c++) row[c] = 0;
    if (f->plain) return;
    const size_t n = (size_t)i + 1;
    if (f->gated) {
        apply_gate(f, j, i, row);
    } else if (j->op->c.decay) {
        j->k->mul(n, j->reverse + (j->tile - 1 - i), row);
    }
    if (j->map->phi[LL_KEY] != LL_PHI_RUNNING && !j->mask) return;
    if (f->separable) {
        j->k->mul(n, f->low, row);
        j->k->scale(n, f->high[i], row);
        return;
    }
    for (int c = 0; c <= i; c++) /* exponents differ by more than 60 inside this tile: term by term */
        row[c] *= f->mask && f->mask[c] == 0 ? 0 : power2(f->e[c] - f->P[i]);
}
