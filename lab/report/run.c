/* A run folder seen from outside: its recipe, its metrics, and the picture of its loss. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "report/report_internal.h"

/* In the order of the LL_RUN_... columns. */
static const char *const NAME[LL_RUN_COLUMNS] = {
    "step",          "bits",          "valid_bits",        "valid_accuracy", "seconds", "tokens",
    "learning_rate", "gradient_norm", "tokens_per_second", "memory_mib",     "loss",    "loss"};

/* The last part of a path, without a slash at its end. */
static void base_name(char *out, size_t size, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/') from--;
    snprintf(out, size, "%.*s", (int)(n - from), path + from);
}

static const char *const MATCHED[2] = {"nats of distillation loss", "% of attention missed"};

static double setting(const ll_run *run, const char *key) {
    return ll_scan_number(ll_recipe_get(run->recipe, key), NULL);
}

/* What a step compared with the teacher: LL_RUN_MISSED, LL_RUN_DISTIL; LL_RUN_BITS: nothing, its loss is of the data.
 */
static int kind_of_loss(const ll_run *run, double step) {
    const char *distil = run->recipe ? ll_recipe_get(run->recipe, "train.distil") : "none";
    if (!strcmp(distil, "none")) return LL_RUN_BITS;
    const double until = setting(run, "train.distil-until"), change = setting(run, "train.distil-switch");
    if (until > 0 && step > until) return LL_RUN_BITS;
    return !strcmp(distil, "attention") || (!strcmp(distil, "both") && step <= change) ? LL_RUN_MISSED : LL_RUN_DISTIL;
}

/* A loss that compares with a teacher codes no tokens, so that it has no bits. */
static void split_losses(ll_run *run) {
    static const int kinds[] = {LL_RUN_BITS, LL_RUN_MISSED, LL_RUN_DISTIL};
    const ll_columns *t = &run->metrics;
    for (int row = 0; row < t->n; row++)
        for (int i = 0; i < 3; i++)
            if (kinds[i] != kind_of_loss(run, t->column[LL_RUN_STEP][row])) t->column[kinds[i]][row] = NAN;
    for (int row = 0; row < t->n; row++) t->column[LL_RUN_MISSED][row] *= 100;
}

/* The column of the run's main loss; -1: it has none yet. */
static int main_loss(const ll_run *run) {
    static const int columns[] = {LL_RUN_VALID, LL_RUN_BITS, LL_RUN_DISTIL, LL_RUN_MISSED};
    for (int i = 0; i < 4; i++)
        if (ll_columns_last(&run->metrics, columns[i]) >= 0) return columns[i];
    return -1;
}

static ll_status recipe_of_model(ll_recipe **recipe, const char *path) {
    ll_safetensors *file = NULL;
    ll_status status = ll_safetensors_open(&file, path);
    const char *text = status ? NULL : ll_safetensors_meta(file, "recipe");
    if (text) status = ll_recipe_parse(recipe, text, path);
    ll_safetensors_free(file);
    return status;
}

/* recipe.ini of the run; where there is none, the recipe in a model of it. Without both there is none: the curves can
 * be drawn even so. */
static ll_status open_recipe(ll_recipe **recipe, const char *folder) {
    static const char *const files[] = {"recipe.ini", "best.safetensors", "last.safetensors"};
    ll_status status = LL_OK;
    for (int i = 0; i < 3 && !*recipe && !status; i++) {
        char *path = ll_path_join(folder, files[i]);
        if (!path) return LL_ENOMEM;
        if (!access(path, F_OK)) status = i ? recipe_of_model(recipe, path) : ll_recipe_load(recipe, path);
        ll_free(path);
    }
    return status;
}

ll_status ll_run_open(ll_run *run, const char *folder) {
    *run = (ll_run){.folder = folder};
    char real[PATH_MAX];
    const char *last = strrchr(folder, '/');
    const int dots = (last ? last[1] : folder[0]) == '.' || (last && !last[1]); /* "." and "../" are not names */
    base_name(run->name, sizeof run->name, dots && realpath(folder, real) ? real : folder);
    char *metrics = ll_path_join(folder, "metrics.csv");
    ll_status status = metrics ? ll_run_folder_check(folder, "metrics.csv") : LL_ENOMEM;
    if (!status) status = ll_columns_read(&run->metrics, metrics, NAME, LL_RUN_COLUMNS, LL_RUN_ACCURACY);
    if (!status) status = open_recipe(&run->recipe, folder);
    if (!status) run->unit = run->recipe ? ll_recipe_unit(run->recipe) : "token"; /* unit of the losses: bits per ... */
    if (!status) split_losses(run);
    if (!status && main_loss(run) < 0)
        status = ll_fail(LL_EFORMAT, "%s has no loss yet; draw it when the run has made some steps", metrics);
    ll_free(metrics);
    if (status) ll_run_close(run);
    return status;
}

void ll_run_close(ll_run *run) {
    ll_columns_free(&run->metrics);
    ll_recipe_free(run->recipe);
    *run = (ll_run){0};
}

void ll_bits_text(char out[LL_BITS_TEXT], double bits, int decimals) {
    if (!isfinite(bits))
        snprintf(out, LL_BITS_TEXT, "–");
    else if (fabs(bits) < 9999.95)
        ll_format_text(out, LL_BITS_TEXT, "%.*f", fabs(bits) < 99.95 ? decimals : 1, bits);
    else
        ll_number_text(out, LL_BITS_TEXT, fabs(bits) < 1e12 ? round(bits) : bits, 1, bits);
}

static void write_title(char *out, size_t size, const ll_run *run, int column) {
    const ll_columns *t = &run->metrics;
    const int last = ll_columns_last(t, column), bits = column == LL_RUN_VALID || column == LL_RUN_BITS;
    const double step = t->column[LL_RUN_STEP][last];
    char step_text[24], loss[LL_BITS_TEXT], unit[64];
    ll_bits_text(loss, t->column[column][last], 3);
    ll_number_text(step_text, sizeof step_text, step, 1, fmin(step, 999999));
    snprintf(unit, sizeof unit, "bits per %s on %s data", run->unit, column == LL_RUN_VALID ? "held-out" : "training");
    ll_format_text(out, size, "%s: %s %s after %s steps", run->name, loss,
                   bits ? unit : MATCHED[column == LL_RUN_MISSED], step_text);
}

ll_figure ll_run_loss(const ll_run *run, int column, ll_run_loss_parts *parts) {
    static const int faint[2] = {0, 1};
    const ll_columns *t = &run->metrics;
    const double *step = t->column[LL_RUN_STEP];
    const int held_out = ll_columns_last(t, LL_RUN_VALID) >= 0;
    ll_figure f = {.x_label = "step", .y_label = parts->y_label, .curves = parts->curve};
    parts->faint = NULL;
    if (column != LL_RUN_MISSED && column != LL_RUN_DISTIL) {
        snprintf(parts->y_label, sizeof parts->y_label, "bits per %s", run->unit);
        parts->curve[f.n++] = (ll_curve){"held-out", t->n, step, t->column[LL_RUN_VALID]};
        parts->curve[f.n++] = (ll_curve){"training", t->n, step, t->column[LL_RUN_BITS]};
        if (held_out) parts->faint = faint;
    } else {
        snprintf(parts->y_label, sizeof parts->y_label, "%s", MATCHED[column == LL_RUN_MISSED]);
        parts->curve[f.n++] = (ll_curve){"training", t->n, step, t->column[column]};
    }
    return f;
}

ll_status ll_run_picture(const char *folder, const char *path) {
    ll_run run;
    ll_status status = ll_run_open(&run, folder);
    if (status) return status;
    char title[512];
    ll_run_loss_parts parts;
    const int column = main_loss(&run);
    ll_figure f = ll_run_loss(&run, column, &parts);
    write_title(title, sizeof title, &run, column);
    f.title = title;
    status = ll_figure_draw(&f, parts.faint, path);
    ll_run_close(&run);
    return status;
}
