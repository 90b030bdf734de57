/* The factors of a causal tile, from the decay and from the exponents of softmax features. Within a run the state does
 * not decay. Instead keys grow, and what is read falls, by at most 2^GROWTH_MOST. So all but exact powers of two
 * depends on no later token. Powers of two are exact where no number becomes subnormal, which counts as 0: for features
 * down to 2^-(126 - GROWTH_MOST) of the largest of a row's keys. A later key of the run may make smaller ones 0. */
#include <math.h>

#include "attention/linear/linear.h"

enum { GROWTH_MOST = 40 };

static const double OCTAVE = 1.4426950408889634;

/* Has the state exponents that change? */
static int running(const ll_head *j) { return j->map->phi[LL_KEY] == LL_PHI_RUNNING; }

static int keeps(const ll_scales *f, int i) { return !f->mask || f->mask[i] != 0; }

/* log2 of the decay of token i of the tile. */
static double log2_decay(const ll_scales *f, const ll_head *j, int t0, int i) {
    return f->constant + (f->gated ? OCTAVE * (double)*ll_at(&j->at.gate, t0 + i) : 0);
}

/* The unit of a state whose numbers are at most 2^log2_bound; of one that a gate has made nearly empty, that of an
 * empty one. */
static int unit_of(float log2_bound) {
    return log2_bound > (float)LL_NO_EXPONENT ? (int)ceilf(log2_bound) : LL_NO_EXPONENT;
}

/* Where the run that begins at row a ends. exponent: the unit of the state before it, after the decay of row a. sum[i]:
 * log2 of the decay of tokens a + 1 .. i. */
static int end_of_run(ll_scales *f, const ll_head *j, int t0, int a, int exponent) {
    int top = exponent, first = LL_NO_EXPONENT;
    for (int i = a; i < f->n; i++) {
        f->sum[i] = i == a ? 0 : f->sum[i - 1] + log2_decay(f, j, t0, i);
        if (running(j) && keeps(f, i) && f->e[i] > top) top = f->e[i];
        if (first == LL_NO_EXPONENT) first = top;
        if (i > a && (top != LL_NO_EXPONENT ? top - first : 0) - f->sum[i] > GROWTH_MOST) return i;
        f->P[i] = top;
    }
    return f->n;
}

/* log2 of a bound of the state after rows a .. b - 1: of the state before them, and of every key, after their decay. A
 * large key that has decayed must not make small later keys 0. */
static float bound_after(const ll_scales *f, int a, int b, float log2_bound, double all) {
    float next = log2_bound + (float)all;
    for (int i = a; i < b; i++)
        if (keeps(f, i)) next = fmaxf(next, (float)f->e[i] + (float)(f->sum[b - 1] - f->sum[i]));
    return next;
}

static void set_run(ll_scales *f, const ll_head *j, int t0, int a, int b) {
    const double all = f->sum[b - 1] + log2_decay(f, j, t0, a);
    const int before = f->next;
    if (running(j)) {
        f->log2_bound = bound_after(f, a, b, f->log2_bound, all);
        f->next = f->P[b - 1] == LL_NO_EXPONENT ? LL_NO_EXPONENT : unit_of(f->log2_bound);
    }
    const int top = f->P[b - 1];
    for (int i = a; i < b; i++) {
        const float decay = (float)exp2(f->sum[i]), keep = f->mask ? f->mask[i] : 1;
        f->add[i] = keep == 0 ? 0 : keep * ldexpf(1 / decay, running(j) ? f->e[i] - top : 0);
        f->read[i] = f->P[i] == LL_NO_EXPONENT ? 0 : ldexpf(decay, top - f->P[i]);
    }
    f->carry[f->runs] = before == LL_NO_EXPONENT ? 0 : (float)ldexp(exp2(all - f->sum[b - 1]), before - top);
    f->after[f->runs] = (float)ldexp(exp2(f->sum[b - 1]), top - f->next);
    f->end[f->runs++] = b;
}

void ll_scales_set(ll_scales *f, const ll_head *j, int t0, int n, int exponent, float log2_bound) {
    f->n = n;
    f->mask = j->mask ? j->mask + t0 : NULL;
    f->gated = j->at.gate.data != NULL;
    f->constant = j->op->c.decay ? log2((double)j->op->c.decay[j->h]) : 0;
    f->plain = !running(j) && !f->mask && !j->op->c.decay && !f->gated;
    f->next = running(j) ? exponent : 0;
    f->log2_bound = log2_bound;
    f->runs = 0;
    if (f->plain) {
        for (int i = 0; i < n; i++) f->P[i] = 0, f->add[i] = f->read[i] = 1;
        f->carry[0] = f->after[0] = 1;
        f->end[f->runs++] = n;
        return;
    }
    for (int a = 0; a < n; a = f->end[f->runs - 1]) {
        const int decays = running(j) && f->next != LL_NO_EXPONENT;
        const int unit = decays ? unit_of(f->log2_bound + (float)log2_decay(f, j, t0, a)) : f->next;
        set_run(f, j, t0, a, end_of_run(f, j, t0, a, unit));
    }
}
