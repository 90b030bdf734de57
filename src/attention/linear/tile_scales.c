/* The bounded factors of a causal tile: decay and the exponents of softmax features, in one place. */
#include <math.h>

#include "attention/linear/linear.h"

/* 2^n for n <= 0. */
static float power2(int n) { return n < -148 ? 0 : ldexpf(1, n); }

/* What bounds the state after the tile, log2: what was before and every key, decayed. A large key that
 * has decayed must not keep small later ones at 0. */
static float reach_after(const ll_scales *f, const ll_head *j, float reach) {
    const float fall = j->op->c.decay && j->map->phi[LL_KEY] == LL_PHI_RUNNING ? log2f(j->op->c.decay[j->h]) : 0;
    float next = reach + (float)f->n * fall;
    for (int i = 0; i < f->n; i++)
        if (!f->mask || f->mask[i] != 0) next = fmaxf(next, (float)f->e[i] + (float)(f->n - 1 - i) * fall);
    return next;
}

static void set_plain(ll_scales *f, const ll_head *j, int n) {
    f->plain = !j->op->c.decay;
    f->next = f->exponent = 0;
    for (int i = 0; i < n; i++) {
        f->P[i] = 0;
        f->state[i] = j->power[i + 1];
        f->add[i] = j->power[n - 1 - i];
    }
    f->carry = j->power[n];
}

void ll_scales_set(ll_scales *f, const ll_head *j, int t0, int n, int exponent, float reach) {
    const float *mask = j->mask ? j->mask + t0 : NULL;
    f->n = n;
    f->mask = mask;
    f->exponent = exponent;
    f->separable = 1;
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
        f->state[i] = f->P[i] == LL_NO_EXPONENT ? 0 : j->power[i + 1] * power2(exponent - f->P[i]);
        f->low[i] = top == LL_NO_EXPONENT || keep == 0 ? 0 : keep * power2(f->e[i] - top);
        f->high[i] = f->separable ? ldexpf(1, top - f->P[i]) : 1;
        f->add[i] = keep == 0 ? 0 : keep * ldexpf(j->power[n - 1 - i], f->e[i] - f->next);
    }
    f->carry = exponent == LL_NO_EXPONENT ? 1 : ldexpf(j->power[n], exponent - f->next);
}

void ll_scales_apply(const ll_scales *f, const ll_head *j, int i, int width, float *row) {
    for (int c = i + 1; c < width; c++) row[c] = 0;
    if (f->plain) return;
    const size_t n = (size_t)i + 1;
    if (j->op->c.decay) j->k->mul(n, j->reverse + (j->tile - 1 - i), row);
    if (j->map->phi[LL_KEY] != LL_PHI_RUNNING && !j->mask) return;
    if (f->separable) {
        j->k->mul(n, f->low, row);
        j->k->scale(n, f->high[i], row);
        return;
    }
    for (int c = 0; c <= i; c++) /* a jump of more than 2^60 inside one tile: term by term */
        row[c] *= f->mask && f->mask[c] == 0 ? 0 : power2(f->e[c] - f->P[i]);
}
