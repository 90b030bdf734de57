/* Inside the experiments. Each divides its work into steps and reports progress after each. */
#ifndef LL_ANALYSE_H
#define LL_ANALYSE_H

#include "attention/feature/projection.h"
#include "attention/operator.h"
#include "base/status.h"
#include "longline-lab.h"

enum { LL_TABLE_LABEL = 64 };

/* An empty table. Texts and plots are static, of the caller; columns end with NULL. */
LL_MUST_USE ll_status ll_table_create(ll_table **table, const char *title, const char *series,
                                      const char *const *columns, int plots, const ll_plot *plot);
/* Adds a row; the label is copied. */
LL_MUST_USE ll_status ll_table_add(ll_table *table, const char *label, const double *numbers);
void ll_table_verdict(ll_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* LL_ESTOPPED if the caller asks to stop. */
LL_MUST_USE ll_status ll_analyse_step(const ll_analysis *how, int64_t done, int64_t steps);

/* Running mean and deviation of numbers. */
typedef struct {
    int n;
    double mean, square;
} ll_mean;
void ll_mean_add(ll_mean *m, double x);
double ll_mean_deviation(const ll_mean *m); /* deviation of one number; NaN for fewer than two */

/* The estimators of softmax attention that are compared: a kind of features and of draw. Heads have size 16. */
enum { LL_ESTIMATORS = 6, LL_ESTIMATOR_SIZE = 16 };
typedef struct {
    const char *label;
    ll_draw_kind draw;
    ll_feature_kind kind;
} ll_estimator;
extern const ll_estimator ll_estimators[LL_ESTIMATORS];
/* Settings of a single head with m features. *W is drawn by (seed, layer, number); the caller frees it after the
 * operator, also after an error. */
LL_MUST_USE ll_status ll_estimator_draw(ll_attention_config *c, float **W, int estimator, int m, uint64_t seed,
                                        int layer, int number);

/* The settings of exact attention on the same heads. */
ll_attention_config ll_exact_attention(void);
/* Queries, keys and values of n standard normal numbers each, drawn by (seed, first, number); queries and keys times
 * how->spread. */
void ll_draw_inputs(const ll_analysis *how, uint32_t first, int number, size_t n, float *q, float *k, float *v);
/* Sum of (a - b)^2, and of b^2 in *size. */
double ll_square_error(size_t n, const float *a, const float *b, double *size);

/* A new model from keys, separated by |, with permutations as published. */
LL_MUST_USE ll_status ll_analyse_model(ll_model **model, const char *keys);

LL_MUST_USE ll_status ll_analyse_features(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_lengths(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_moments(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_layers(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_periods(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_positions(ll_table **table, const ll_analysis *how);
LL_MUST_USE ll_status ll_analyse_stream_error(ll_table **table, const ll_analysis *how);

#endif
