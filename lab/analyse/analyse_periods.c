/* How far permutations reach (Chen 2021). The i-th power of a permutation is the identity if i is a multiple of the
 * lengths of all its cycles. So a head distinguishes distances below the least common multiple of its cycles, and all
 * heads together those below that of all their cycles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/analyse_internal.h"
#include "attention/constant.h"
#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "attention/feature/projection.h"
#include "base/ascending.h"
#include "base/memory.h"
#include "model/model_internal.h"

enum { MOST = 4096 };

/* A least common multiple as powers of primes, because it may be too large for any number type. */
typedef struct {
    unsigned char power[MOST + 1]; /* exponent of the prime p, at p */
} multiple;

static void take(multiple *m, int n) {
    for (int p = 2; n > 1; p++) {
        int k = 0;
        for (; n % p == 0; n /= p) k++;
        if (k > m->power[p]) m->power[p] = (unsigned char)k;
    }
}

static void take_all(multiple *m, const multiple *other) {
    for (int p = 2; p <= MOST; p++)
        if (other->power[p] > m->power[p]) m->power[p] = other->power[p];
}

static double value(const multiple *m) {
    double x = 1;
    for (int p = 2; p <= MOST; p++) x *= pow(p, m->power[p]);
    return x;
}

/* The lengths of the cycles of p (n), with fixed points. */
static void take_cycles(multiple *m, const int32_t *p, int n, unsigned char *seen, double *fixed) {
    memset(seen, 0, (size_t)n);
    for (int a = 0; a < n; a++) {
        int length = 0;
        for (int b = a; !seen[b]; b = p[b]) seen[b] = 1, length++;
        if (length) take(m, length);
        if (length == 1) *fixed += 1;
    }
}

/* Quantiles over many draws of H heads with m features. */
static ll_status draws(ll_table *t, const ll_analysis *how, int m, int H, int repeats) {
    int32_t *p = ll_alloc((size_t)m, sizeof *p);
    unsigned char *seen = ll_alloc((size_t)m, 1);
    double *one = ll_alloc((size_t)repeats, sizeof *one), *all = ll_alloc((size_t)repeats, sizeof *all), fixed = 0;
    multiple *of = ll_alloc(2, sizeof *of);
    ll_status status = p && seen && one && all && of ? LL_OK : LL_ENOMEM;
    for (int r = 0; r < repeats && !status; r++) {
        memset(&of[1], 0, sizeof of[1]);
        for (int h = 0; h < H; h++) {
            memset(&of[0], 0, sizeof of[0]);
            ll_permutation_random(p, m, how->seed, r, h);
            take_cycles(&of[0], p, m, seen, &fixed);
            take_all(&of[1], &of[0]);
            if (h == 0) one[r] = value(&of[0]);
        }
        all[r] = value(&of[1]);
    }
    if (!status) {
        char label[LL_TABLE_LABEL];
        qsort(one, (size_t)repeats, sizeof *one, ll_ascending);
        qsort(all, (size_t)repeats, sizeof *all, ll_ascending);
        snprintf(label, sizeof label, "%d features", m);
        status = ll_table_add(t, label,
                              (double[]){m, H, one[repeats / 10], one[repeats / 2], all[repeats / 10], all[repeats / 2],
                                         fixed / repeats / H});
    }
    ll_free(p), ll_free(seen), ll_free(one), ll_free(all), ll_free(of);
    return status;
}

/* The permutations of a model: a row for each head, then one for all. */
static ll_status of_model(ll_table *t, const ll_model *model) {
    const ll_attention_config *c = &model->attention[0]->c;
    const int m = ll_constant_named(c, "permutation").cols;
    if (model->stacks > 1)
        return ll_fail(LL_EINVAL, "model.task = seq2seq has two stacks; only models with one can be analysed");
    if (!c->permutation) return ll_fail(LL_EINVAL, "the model has no permutations; its position.type is not permute");
    if (m > MOST) return ll_fail(LL_EINVAL, "permutations of %d features: at most %d are analysed", m, (int)MOST);
    unsigned char *seen = ll_alloc((size_t)m, 1);
    multiple *of = ll_alloc(2, sizeof *of);
    ll_status status = seen && of ? LL_OK : LL_ENOMEM;
    for (int l = 0; l < model->c->model.layers && !status; l++) {
        double fixed = 0;
        memset(&of[1], 0, sizeof of[1]);
        for (int h = 0; h < c->H && !status; h++) {
            char label[LL_TABLE_LABEL];
            memset(&of[0], 0, sizeof of[0]);
            fixed = 0;
            take_cycles(&of[0], model->attention[l]->c.permutation + (size_t)h * (size_t)m, m, seen, &fixed);
            take_all(&of[1], &of[0]);
            snprintf(label, sizeof label, "layer %d head %d", l, h);
            const double order = value(&of[0]), all_heads = h + 1 == c->H ? value(&of[1]) : NAN;
            status = ll_table_add(t, label, (double[]){m, h + 1, NAN, order, NAN, all_heads, fixed});
        }
    }
    ll_free(seen), ll_free(of);
    return status;
}

ll_status ll_analyse_periods(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {
        "features", "heads", "head_tenth", "head_median", "all_heads_tenth", "all_heads_median", "fixed_points", NULL};
    static const ll_plot plots[] = {{"periods", "Distances that all heads together distinguish, median of many draws",
                                     "heads", "least common multiple of the cycles", 1, 5, -1, 1, 1}};
    static const int sizes[] = {16, 32, 64, 128, 256}, heads[] = {1, 2, 4, 8, 16};
    const int repeats = how->repeats ? how->repeats : how->quick ? 50 : 1000;
    ll_status status = LL_OK;
    if (how->model) {
        status = ll_table_create(table, "Least common multiples of the cycles of the model's permutations",
                                 "layer and head", columns, 0, plots);
        return status ? status : of_model(*table, how->model);
    }
    status = ll_table_create(table, "Least common multiples of the cycles of random permutations", "size", columns, 1,
                             plots);
    if (status) return status;
    for (int i = 0; i < 5 && !status; i++)
        for (int j = 0; j < 5 && !status; j++) {
            status = draws(*table, how, sizes[i], heads[j], repeats);
            if (!status) status = ll_analyse_step(how, 5 * i + j + 1, 25);
        }
    if (status) return status;
    const double *row = (*table)->number + (size_t)(2 * 5 + 3) * (size_t)(*table)->columns;
    ll_table_verdict(*table,
                     "claim: distances far beyond any sequence are distinguished. 8 heads of 64 features (the released "
                     "language model: one draw, 3.2e11) have a median of %.3g, nine of ten draws more than %.3g",
                     row[5], row[4]);
    return LL_OK;
}
