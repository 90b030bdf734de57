/* How well random features estimate softmax attention, by kind, draw and number of features (Choromanski et al. 2021,
 * Figure 4). Queries, keys and values are standard normal: 4096 tokens, 16 numbers a head. The output is that of the
 * operator; so is the matrix, for some of the queries. */
#include <math.h>
#include <stdio.h>

#include "analyse/analyse_internal.h"
#include "base/integer.h"
#include "base/memory.h"

enum { D = LL_ESTIMATOR_SIZE, BLOCK = 256, NUMBERS = 6, KINDS = LL_ESTIMATORS };

typedef struct {
    int L, rows; /* tokens; queries whose weights are compared */
    float *q, *k, *v, *exact, *y, *weights, *A;
    ll_mean mse[KINDS][NUMBERS], l2[KINDS][NUMBERS], matrix[KINDS][NUMBERS];
} experiment;

static ll_view view(float *data, int stride, int L) {
    return (ll_view){data, 0, (size_t)L * D, (size_t)stride * D};
}

/* Output for all queries, weights for `rows` of them, evenly spread. */
static ll_status solve(const experiment *x, ll_attention_config c, float *y, float *A) {
    ll_attention *op = NULL;
    c.E = D;
    ll_status status = ll_attention_create(&op, &c);
    const ll_attention_call call = {.B = 1,
                                    .T = x->L,
                                    .S = x->L,
                                    .q = view(x->q, 1, x->L),
                                    .k = view(x->k, 1, x->L),
                                    .v = view(x->v, 1, x->L),
                                    .y = view(y, 1, x->L)};
    if (!status) status = ll_attention_forward(op, &call);
    ll_attention_free(op);
    op = NULL;
    c.E = BLOCK;
    if (!status) status = ll_attention_create(&op, &c);
    if (!status)
        status = ll_attention_matrix(op, view(x->q, x->L / x->rows, x->L), view(x->k, 1, x->L), (ll_view){0},
                                     x->rows, x->L, 0, A);
    ll_attention_free(op);
    return status;
}

static ll_status one_kind(experiment *x, int kind, int number, int m, uint64_t seed, int repeat) {
    float *W = NULL;
    ll_attention_config c;
    ll_status status = ll_estimator_draw(&c, &W, kind, m, seed, number, repeat);
    if (!status) status = solve(x, c, x->y, x->A);
    ll_free(W);
    if (status) return status;
    double size;
    const size_t n = (size_t)x->L * D;
    const double error = ll_square_error(n, x->y, x->exact, &size);
    ll_mean_add(&x->mse[kind][number], error / (double)n);
    ll_mean_add(&x->l2[kind][number], sqrt(error / size));
    const double weights = ll_square_error((size_t)x->rows * (size_t)x->L, x->A, x->weights, &size);
    ll_mean_add(&x->matrix[kind][number], sqrt(weights / size));
    return LL_OK;
}

static ll_status repeat(experiment *x, const ll_analysis *how, int r, int repeats, const int *numbers, int count) {
    ll_draw_inputs(how, 0, r, (size_t)x->L * D, x->q, x->k, x->v);
    ll_status status = solve(x, ll_exact_attention(), x->exact, x->weights);
    const int64_t all = (int64_t)count * KINDS;
    for (int i = 0; i < count && !status; i++)
        for (int kind = 0; kind < KINDS && !status; kind++) {
            status = one_kind(x, kind, i, numbers[i], how->seed, r);
            if (!status) status = ll_analyse_step(how, r * all + i * KINDS + kind + 1, repeats * all);
        }
    return status;
}

static ll_status report(ll_table *t, const experiment *x, const int *numbers, int count) {
    ll_status status = LL_OK;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < count && !status; i++) {
            const ll_mean *m = &x->mse[kind][i], *l = &x->l2[kind][i], *a = &x->matrix[kind][i];
            status = ll_table_add(t, ll_estimators[kind].label,
                                  (double[]){numbers[i], m->mean, ll_mean_deviation(m), l->mean, ll_mean_deviation(l),
                                             a->mean, ll_mean_deviation(a)});
        }
    const int last = count - 1;
    int orthogonal = 0, positive = 0;
    for (int i = 0; i < count; i++) {
        orthogonal += x->mse[0][i].mean < x->mse[1][i].mean;
        positive += x->mse[0][i].mean < x->mse[4][i].mean;
    }
    ll_table_verdict(
        t,
        "claim: orthogonal rows and positive features have the smaller error. Orthogonal below iid at %d of "
        "%d numbers of features, positive below trigonometric at %d; at %d features the error of the output "
        "is %.3g (orthogonal), %.3g (iid), %.3g (trigonometric)",
        orthogonal, count, positive, numbers[last], x->mse[0][last].mean, x->mse[1][last].mean, x->mse[4][last].mean);
    return status;
}

ll_status ll_analyse_features(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"features",     "output_mse", "deviation",        "output_l2",
                                          "l2_deviation", "matrix_l2",  "matrix_deviation", NULL};
    static const ll_plot plots[] = {
        {"features-output", "Error of the output of attention against the number of random features", "features",
         "mean squared error, queries and keys of size 16", 0, 1, 2, 1, 1},
        {"features-matrix", "Error of the attention matrix against the number of random features", "features",
         "error of the matrix over its size", 0, 5, 6, 1, 1},
    };
    static const int all[NUMBERS] = {16, 32, 64, 128, 256, 512}, few[] = {16, 64};
    const int repeats = how->repeats ? how->repeats : how->quick ? 2 : 15, count = how->quick ? 2 : NUMBERS;
    experiment *x = ll_alloc(1, sizeof *x);
    if (!x) return LL_ENOMEM;
    x->L = how->length ? how->length : how->quick ? 256 : 4096;
    x->rows = ll_min_int(x->L, BLOCK);
    const size_t n = (size_t)x->L * D, weights = (size_t)x->rows * (size_t)x->L;
    float **parts[] = {&x->q, &x->k, &x->v, &x->exact, &x->y, &x->weights, &x->A};
    ll_status status = ll_table_create(table, "Error of linear attention against exact, by features",
                                       "draw and features", columns, 2, plots);
    for (int i = 0; i < 7 && !status; i++)
        if (!(*parts[i] = ll_alloc(i < 5 ? n : weights, sizeof(float)))) status = LL_ENOMEM;
    for (int r = 0; r < repeats && !status; r++) status = repeat(x, how, r, repeats, how->quick ? few : all, count);
    if (!status) status = report(*table, x, how->quick ? few : all, count);
    for (int i = 0; i < 7; i++) ll_free(*parts[i]);
    ll_free(x);
    return status;
}
