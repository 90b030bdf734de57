/* How well random features estimate softmax attention at growing lengths, and how much of the error is rounding. The
 * paper's bound on the number of features does not depend on the length (Choromanski et al. 2021, Theorem 4). The same
 * estimate is also computed in double (reference/reference.h), for some of the queries. */
#include <math.h>
#include <stdio.h>

#include "analyse/analyse_internal.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "reference/reference.h"

enum { D = LL_ESTIMATOR_SIZE, FEATURES = 128, LENGTHS = 4, STEP = 4, QUERIES = 64 };

typedef struct {
    int L;     /* the greatest length */
    int first; /* of the lengths that differ: lengths first to LENGTHS - 1 */
    float *q, *k, *v, *exact, *y;
    ll_mean estimate[LL_ESTIMATORS][LENGTHS], rounding[LL_ESTIMATORS][LENGTHS];
} experiment;

static int length_at(const experiment *x, int i) {
    int L = x->L;
    for (; i < LENGTHS - 1; i++) L /= STEP;
    return ll_max_int(L, 2);
}

static ll_view view(float *data, int L) { return (ll_view){data, 0, (size_t)L * D, D}; }

static ll_status forward(const experiment *x, const ll_attention *op, int L, float *y) {
    const ll_attention_call call = {
        .B = 1, .T = L, .S = L, .q = view(x->q, L), .k = view(x->k, L), .v = view(x->v, L), .y = view(y, L)};
    return ll_attention_forward(op, &call);
}

static ll_status solve_exact(const experiment *x, int L) {
    ll_attention *op = NULL;
    const ll_attention_config c = ll_exact_attention();
    ll_status status = ll_attention_create(&op, &c);
    if (!status) status = forward(x, op, L, x->exact);
    ll_attention_free(op);
    return status;
}

/* |y - the same in double|, over the size of the latter. */
static ll_status against_double(double *error, const experiment *x, const ll_attention *op, int L) {
    ll_reference *reference = NULL;
    double sum = 0, size = 0, y[D];
    ll_status status = ll_reference_create(&reference, op, L);
    for (int t = 0; t < L && !status; t++)
        ll_reference_feed(reference, 0, x->k + (size_t)t * D, x->v + (size_t)t * D, NULL);
    const int every = L > QUERIES ? L / QUERIES : 1;
    for (int t = 0; t < L && !status; t += every) {
        ll_reference_answer(reference, 0, x->q + (size_t)t * D, y);
        for (int e = 0; e < D; e++) {
            const double d = (double)x->y[(size_t)t * D + (size_t)e] - y[e];
            sum += d * d, size += y[e] * y[e];
        }
    }
    *error = sqrt(sum / size);
    ll_reference_free(reference);
    return status;
}

static ll_status one_estimate(experiment *x, const ll_analysis *how, int kind, int i, int repeat) {
    float *W = NULL;
    ll_attention *op = NULL;
    ll_attention_config c;
    const int L = length_at(x, i);
    ll_status status = ll_estimator_draw(&c, &W, kind, FEATURES, how->seed, LENGTHS + i, repeat);
    if (!status) status = ll_attention_create(&op, &c);
    if (!status) status = forward(x, op, L, x->y);
    double size = 0, rounding = 0;
    const double error = status ? 0 : ll_square_error((size_t)L * D, x->y, x->exact, &size);
    if (!status) status = against_double(&rounding, x, op, L);
    if (!status) ll_mean_add(&x->estimate[kind][i], sqrt(error / size)), ll_mean_add(&x->rounding[kind][i], rounding);
    ll_attention_free(op);
    ll_free(W);
    return status;
}

static ll_status repeat(experiment *x, const ll_analysis *how, int r, int repeats) {
    ll_status status = LL_OK;
    ll_draw_inputs(how, 32, r, (size_t)x->L * D, x->q, x->k, x->v);
    for (int i = x->first; i < LENGTHS && !status; i++) {
        status = solve_exact(x, length_at(x, i));
        for (int kind = 0; kind < LL_ESTIMATORS && !status; kind++) status = one_estimate(x, how, kind, i, r);
        if (!status) status = ll_analyse_step(how, r * LENGTHS + i + 1, repeats * LENGTHS);
    }
    return status;
}

#define CLAIM                                                                                                          \
    "claim: the error depends on the number of features and not on the length. With orthogonal positive features it "  \
    "is %.3g at %d tokens and %.3g at %d: %s. "

/* A bound with one digit: no less than the number. */
static double bound(double x) {
    const double unit = x > 0 ? pow(10, floor(log10(x))) : 1;
    return ceil(x / unit) * unit;
}

/* Do two errors agree? */
static void compare(char *out, size_t size, const ll_mean *a, const ll_mean *b) {
    const double deviation = fmax(ll_mean_deviation(a), ll_mean_deviation(b)), gap = fabs(a->mean - b->mean);
    if (a == b)
        snprintf(out, size, "not tested with one length");
    else if (!(deviation > 0 && isfinite(gap)))
        snprintf(out, size, "not tested, as a deviation needs 2 draws");
    else if (gap <= deviation)
        snprintf(out, size, "the same within a deviation of the draws");
    else
        ll_format_text(out, size, "%.1f deviations of the draws apart, so that it is not seen here", gap / deviation);
}

static ll_status report(ll_table *t, const experiment *x) {
    const ll_mean *shortest = &x->estimate[0][x->first], *longest = &x->estimate[0][LENGTHS - 1];
    const double first = shortest->mean, last = longest->mean;
    char agrees[80];
    double worst = 0;
    int unknown = 0; /* is there an estimate without its rounding? */
    ll_status status = LL_OK;
    for (int kind = 0; kind < LL_ESTIMATORS; kind++)
        for (int i = x->first; i < LENGTHS && !status; i++) {
            const ll_mean *e = &x->estimate[kind][i], *r = &x->rounding[kind][i];
            unknown |= !isfinite(r->mean / e->mean);
            worst = fmax(worst, r->mean / e->mean);
            status =
                ll_table_add(t, ll_estimators[kind].label,
                             (double[]){length_at(x, i), e->mean, ll_mean_deviation(e), r->mean, ll_mean_deviation(r)});
        }
    compare(agrees, sizeof agrees, shortest, longest);
    if (unknown)
        ll_table_verdict(t, CLAIM "Rounding is not known where features are beyond the range of double", first,
                         length_at(x, x->first), last, x->L, agrees);
    else
        ll_table_verdict(t, CLAIM "Rounding is at most %.1g of the error of any kind", first, length_at(x, x->first),
                         last, x->L, agrees, bound(worst));
    return status;
}

ll_status ll_analyse_lengths(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"length",      "output_l2",          "deviation",
                                          "rounding_l2", "rounding_deviation", NULL};
    static const ll_plot plots[] = {
        {"lengths", "Error of attention by 128 random features against the length", "tokens",
         "error over size, against exact attention", 0, 1, 2, 1, 1},
        {"lengths-rounding", "The same estimate in single against double precision", "tokens",
         "error over size, against double precision", 0, 3, 4, 1, 1},
    };
    const int repeats = how->repeats ? how->repeats : how->quick ? 2 : 15;
    experiment *x = ll_alloc(1, sizeof *x);
    if (!x) return LL_ENOMEM;
    x->L = how->length ? how->length : how->quick ? 256 : 16384;
    if (x->L < 2) x->L = 2;
    for (x->first = LENGTHS - 1; x->first && length_at(x, x->first - 1) < length_at(x, x->first);) x->first--;
    float **parts[] = {&x->q, &x->k, &x->v, &x->exact, &x->y};
    ll_status status = ll_table_create(table, "Error of linear attention against exact, by length", "draw and features",
                                       columns, 2, plots);
    for (int i = 0; i < 5 && !status; i++)
        if (!(*parts[i] = ll_alloc((size_t)x->L * D, sizeof(float)))) status = LL_ENOMEM;
    for (int r = 0; r < repeats && !status; r++) status = repeat(x, how, r, repeats);
    if (!status) status = report(*table, x);
    for (int i = 0; i < 5; i++) ll_free(*parts[i]);
    ll_free(x);
    return status;
}
