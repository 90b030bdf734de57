/* What experiments share: progress, models, the tables that they fill, means. */
#include "analyse/analyse_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

ll_status ll_analyse_step(const ll_analysis *how, int64_t done, int64_t steps) {
    if (!how->progress || !how->progress((double)done / (double)steps, how->arg)) return LL_OK;
    return ll_fail(LL_ESTOPPED, "stopped");
}

ll_status ll_analyse_model(ll_model **model, const char *keys) {
    char copy[640];
    ll_recipe *recipe = NULL;
    ll_status status = ll_recipe_create(&recipe);
    snprintf(copy, sizeof copy, "position.cycles=random|%s", keys);
    for (char *rest = copy, *key; !status && (key = strtok_r(rest, "|", &rest));) status = ll_recipe_set(recipe, key);
    if (!status) status = ll_model_create(model, recipe);
    ll_recipe_free(recipe);
    return status;
}

/* ---- Tables ---- */

/* The public part comes first, so that one pointer serves both. */
typedef struct {
    ll_table t;
    int capacity;
    char (*label)[LL_TABLE_LABEL];
    const char **labels;
    double *number;
    char verdict[400];
} growing;

ll_status ll_table_create(ll_table **table, const char *title, const char *series, const char *const *columns,
                          int plots, const ll_plot *plot) {
    growing *g = ll_alloc(1, sizeof *g);
    if (!g) return LL_ENOMEM;
    g->t = (ll_table){.title = title, .series = series, .column = columns, .plots = plots, .plot = plot};
    g->t.verdict = g->verdict;
    while (columns[g->t.columns]) g->t.columns++;
    *table = &g->t;
    return LL_OK;
}

static ll_status grow(growing *g) {
    const size_t capacity = g->capacity ? 2 * (size_t)g->capacity : 64, columns = (size_t)g->t.columns,
                 n = (size_t)g->t.rows;
    char(*label)[LL_TABLE_LABEL] = ll_alloc(capacity, sizeof *label);
    const char **labels = ll_alloc(capacity, sizeof *labels);
    double *number = ll_alloc(capacity, columns * sizeof *number);
    if (!label || !labels || !number) {
        ll_free(label), ll_free(labels), ll_free(number);
        return LL_ENOMEM;
    }
    if (n) memcpy(label, g->label, n * sizeof *label), memcpy(number, g->number, n * columns * sizeof *number);
    for (size_t i = 0; i < capacity; i++) labels[i] = label[i];
    ll_free(g->label), ll_free(g->labels), ll_free(g->number);
    g->label = label, g->labels = labels, g->number = number;
    g->t.label = labels, g->t.number = number, g->capacity = (int)capacity;
    return LL_OK;
}

ll_status ll_table_add(ll_table *table, const char *label, const double *numbers) {
    growing *g = (growing *)table;
    if (table->rows == g->capacity) {
        const ll_status status = grow(g);
        if (status) return status;
    }
    snprintf(g->label[table->rows], LL_TABLE_LABEL, "%s", label);
    memcpy(g->number + (size_t)table->rows * (size_t)table->columns, numbers, (size_t)table->columns * sizeof *numbers);
    table->rows++;
    return LL_OK;
}

void ll_table_verdict(ll_table *table, const char *format, ...) {
    growing *g = (growing *)table;
    va_list list;
    va_start(list, format);
    ll_format_text_list(g->verdict, sizeof g->verdict, format, list);
    va_end(list);
}

void ll_table_free(ll_table *table) {
    growing *g = (growing *)table;
    if (!g) return;
    ll_free(g->label);
    ll_free(g->labels);
    ll_free(g->number);
    ll_free(g);
}

/* ---- Means (Welford) ---- */

void ll_mean_add(ll_mean *m, double x) {
    const double before = x - m->mean;
    m->mean += before / ++m->n;
    m->square += before * (x - m->mean);
}

double ll_mean_deviation(const ll_mean *m) {
    return m->n > 1 ? sqrt(m->square / (m->n - 1)) : NAN;
}
