/* Means and deviations over seeds, and whether the systems come in the published order. */
#include <math.h>

#include "compare/compare_internal.h"

/* The metric of a run; NaN if it has none. */
static double metric_of(const ll_comparison *c, const ll_result *r) {
    if (r->state != LL_RESULT_DONE) return NAN;
    switch (c->metric) {
    case LL_METRIC_PERPLEXITY: return exp(r->loss);
    case LL_METRIC_ACCURACY: return 100 * r->accuracy;
    case LL_METRIC_BITS: return r->loss / log(2);
    default: return r->loss;
    }
}

int ll_mean_of(const double *value, int n, double *mean, double *deviation) {
    double sum = 0, square = 0;
    int count = 0;
    for (int k = 0; k < n; k++)
        if (isfinite(value[k])) sum += value[k], count++;
    *mean = count ? sum / count : NAN;
    for (int k = 0; k < n; k++)
        if (isfinite(value[k])) square += (value[k] - *mean) * (value[k] - *mean);
    *deviation = count > 1 ? sqrt(square / (count - 1)) : NAN;
    return count;
}

int ll_comparison_system(const ll_comparison *c, int i, ll_system *s) {
    if (i < 0 || i >= c->systems) return 0;
    const ll_contender *x = &c->system[i];
    double value[LL_SEEDS_MOST];
    *s = (ll_system){.name = x->name, .label = x->label, .published = x->published};
    for (int k = 0; k < c->seeds; k++) {
        const ll_result *r = &x->result[k];
        value[k] = metric_of(c, r);
        if (r->state < LL_RESULT_DONE) continue;
        s->runs++;
        if (!x->baseline) s->steps += (double)r->steps;
        s->tokens += r->tokens, s->seconds += r->seconds;
        s->parameters = r->parameters, s->count = r->count > s->count ? r->count : s->count;
        s->diverged += !isfinite(value[k]); /* also a loss that is finite, but not its perplexity */
    }
    if (s->runs) s->steps /= s->runs, s->tokens /= s->runs, s->seconds /= s->runs;
    ll_mean_of(value, c->seeds, &s->mean, &s->deviation);
    return 1;
}

void ll_comparison_order(const ll_comparison *c, int *pairs, int *agree) {
    *pairs = *agree = 0;
    for (int i = 0; i < c->systems; i++)
        for (int k = 0; k < i; k++) {
            ll_system a, b;
            ll_comparison_system(c, i, &a);
            ll_comparison_system(c, k, &b);
            const double paper = a.published - b.published, here = a.mean - b.mean;
            if (!isfinite(paper) || !isfinite(here) || paper == 0 || a.diverged || b.diverged) continue;
            ++*pairs;
            *agree += (paper > 0) == (here > 0) && here != 0;
        }
}
