/* Mean squared errors of estimates of exp(<x, y>) by M random rows, and their formulas (Choromanski et al. 2021). With
 * s = exp(<x, y>), z = x + y, Z = |z|^2, d = x - y:
 *
 *   trigonometric  exp(Z) (1 - exp(-|d|^2))^2 / (2 M s^2)               Lemma 2
 *   positive       exp(Z) s^2 (1 - exp(-Z)) / M
 *   hyperbolic     (1 - exp(-Z)) / 2 of that
 *   orthogonal     positive - (1 - 1/M) exp(-|x|^2 - |y|^2) ( exp(Z) - 1F1(d; d/2; Z/2) ),  M <= d
 *
 * and so much less, too, for orthogonal hyperbolic ones. The last is exact: two orthogonal rows of chi lengths are
 * together a uniform direction of length chi with 2 d degrees of freedom. Theorem 2 bounds it: at most positive - 2 (1
 * - 1/M) / (d + 2) ( s - exp(-(|x|^2 + |y|^2)/2) )^2. */
#include <math.h>

#include "analyse/analyse_internal.h"
#include "attention/feature/projection.h"

enum { D = 16, M = 16, ANGLES = 9, KINDS = 5, LEAST_DRAWS = 30 }; /* of an interval by the normal distribution */
enum { TRIGONOMETRIC, POSITIVE, HYPERBOLIC, ORTHOGONAL, ORTHOGONAL_HYPERBOLIC };
static const double LENGTH = 0.5; /* length of x and y: longer vectors have errors whose mean needs too many draws */

typedef struct {
    double x[D], y[D], cosine, product, sum, difference; /* <x, y>, |x + y|^2, |x - y|^2 */
    ll_mean error[KINDS];                                /* squared */
} pair;

static void set_pair(pair *p, int i) {
    p->cosine = 2.0 * i / (ANGLES - 1) - 1;
    for (int e = 0; e < D; e++) p->x[e] = p->y[e] = 0;
    p->x[0] = LENGTH;
    p->y[0] = LENGTH * p->cosine;
    p->y[1] = LENGTH * sqrt(fmax(0, 1 - p->cosine * p->cosine));
    p->product = LENGTH * LENGTH * p->cosine;
    p->sum = 2 * LENGTH * LENGTH + 2 * p->product;
    p->difference = 2 * LENGTH * LENGTH - 2 * p->product;
}

/* 1F1(a; b; t) by its series, all of whose terms are positive. */
static double kummer(double a, double b, double t) {
    double term = 1, sum = 1;
    for (int k = 0; k < 200 && term > 1e-17 * sum; k++) {
        term *= (a + k) / (b + k) * t / (k + 1);
        sum += term;
    }
    return sum;
}

static double formula(const pair *p, int kind) {
    const double s = exp(p->product), Z = p->sum, positive = exp(Z) * s * s * (1 - exp(-Z)) / M;
    const double hyperbolic = (1 - exp(-Z)) / 2 * positive;
    const double gain = (1 - 1.0 / M) * exp(-2 * LENGTH * LENGTH) * (exp(Z) - kummer(D, D / 2.0, Z / 2));
    switch (kind) {
    case TRIGONOMETRIC: return exp(Z) / (s * s) * pow(1 - exp(-p->difference), 2) / (2 * M);
    case HYPERBOLIC: return hyperbolic;
    case ORTHOGONAL: return positive - gain;
    case ORTHOGONAL_HYPERBOLIC: return hyperbolic - gain;
    default: return positive;
    }
}

static double bound(const pair *p) {
    const double gap = exp(p->product) - exp(-LENGTH * LENGTH);
    return formula(p, POSITIVE) - 2 * (1 - 1.0 / M) / (D + 2) * gap * gap;
}

/* The estimates of one draw: means over its rows. */
static void draw(pair *p, const float *W, int orthogonal) {
    double positive = 0, hyperbolic = 0, trigonometric = 0;
    const double s = exp(p->product), n = LENGTH * LENGTH;
    for (int r = 0; r < M; r++) {
        double a = 0, b = 0;
        for (int e = 0; e < 2; e++) { /* the rest of x and y is 0 */
            a += (double)W[r * D + e] * (p->x[e] + p->y[e]);
            b += (double)W[r * D + e] * (p->x[e] - p->y[e]);
        }
        positive += exp(a - n) / M;
        hyperbolic += (exp(a - n) + exp(-a - n)) / (2 * M);
        trigonometric += exp(n) * cos(b) / M;
    }
    ll_mean_add(&p->error[orthogonal ? ORTHOGONAL : POSITIVE], (positive - s) * (positive - s));
    ll_mean_add(&p->error[orthogonal ? ORTHOGONAL_HYPERBOLIC : HYPERBOLIC], (hyperbolic - s) * (hyperbolic - s));
    if (!orthogonal) ll_mean_add(&p->error[TRIGONOMETRIC], (trigonometric - s) * (trigonometric - s));
}

static ll_status report(ll_table *t, const pair *pairs) {
    static const char *const labels[KINDS] = {"trigonometric", "positive", "hyperbolic", "orthogonal positive",
                                              "orthogonal hyperbolic"};
    int inside = 0, all = 0, below = 0;
    ll_status status = LL_OK;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < ANGLES && !status; i++) {
            const pair *p = &pairs[i];
            const ll_mean *m = &p->error[kind];
            const double half = m->n < LEAST_DRAWS ? NAN : 1.96 * ll_mean_deviation(m) / sqrt(m->n),
                         said = formula(p, kind);
            const int none = said < 1e-12; /* x = -y, or x = y: no error but rounding */
            status = ll_table_add(t, labels[kind],
                                  (double[]){p->cosine, exp(p->product), said, none ? 0 : m->mean, none ? 0 : half,
                                             none ? NAN : m->mean / said, kind == ORTHOGONAL ? bound(p) : NAN});
            if (none) continue;
            all++;
            inside += fabs(m->mean - said) <= half;
            below += kind == ORTHOGONAL && said <= bound(p) * (1 + 1e-12) && m->mean - half <= bound(p);
        }
    if (pairs->error[POSITIVE].n < LEAST_DRAWS)
        ll_table_verdict(t, "claim: Lemma 2 and Theorem 2. They are not tested: an interval needs %d draws",
                         LEAST_DRAWS);
    else
        ll_table_verdict(t,
                         "claim: Lemma 2 and Theorem 2. %d of %d measured errors have their formula within their 95 %% "
                         "interval; the orthogonal ones are within the bound of Theorem 2 at %d of %d angles",
                         inside, all, below, ANGLES - 1);
    return status;
}

ll_status ll_analyse_moments(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"cosine",   "kernel", "formula",         "measured",
                                          "interval", "ratio",  "theorem_2_bound", NULL};
    static const ll_plot plots[] = {{"moments", "Mean squared error of estimates of exp(<x, y>), 16 rows of size 16",
                                     "cosine of the angle between x and y, both of length 0.5", "mean squared error", 0,
                                     3, 4, 0, 1}};
    const int draws = how->repeats ? how->repeats : how->quick ? 2000 : 200000, step = 1000;
    pair pairs[ANGLES] = {0};
    float W[M * D];
    ll_status status = ll_table_create(table, "Mean squared errors against the formulas of Lemma 2 and Theorem 2",
                                       "estimator", columns, 1, plots);
    for (int i = 0; i < ANGLES; i++) set_pair(&pairs[i], i);
    for (int n = 0; n < draws && !status; n++)
        for (int orthogonal = 0; orthogonal < 2 && !status; orthogonal++) {
            const ll_draw_kind kind = orthogonal ? LL_DRAW_ORTHOGONAL : LL_DRAW_IID;
            status = ll_draw_projection(W, M, D, kind, LL_NORMS_CHI, how->seed, orthogonal, n);
            for (int i = 0; i < ANGLES && !status; i++) draw(&pairs[i], W, orthogonal);
            if (!status && n % step == step - 1) status = ll_analyse_step(how, n + 1, draws);
        }
    return status ? status : report(*table, pairs);
}
