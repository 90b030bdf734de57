/* The common parts of every page of a run: results, loss, cost, the recipe. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "report/run_page.h"

static double setting(const ll_run *run, const char *key) {
    return ll_scan_number(ll_recipe_get(run->recipe, key), NULL);
}

/* Chance: a model that gives all answers the same probability. The trainer prints such a warning, too (fit.c), with the
 * same remedies. */
static void warn_of_chance(ll_html *h, const ll_run *run, const ll_run_facts *f) {
    if (!run->recipe) return;
    const double clip = setting(run, "train.clip");
    const char *task = ll_recipe_get(run->recipe, "model.task");
    const int classes = !strcmp(task, "classify") || !strcmp(task, "match");
    const char *answers = ll_recipe_get(run->recipe, classes ? "model.classes" : "model.vocab");
    const double chance = log2(fmax(ll_scan_number(answers, NULL), 2));
    char text[300], bits[LL_BITS_TEXT];
    ll_bits_text(bits, f->train_bits, 3);
    if (!(f->train_bits > 2 * chance + 1 / log(2))) return;
    ll_format_text(text, sizeof text,
                   "The training loss, %s bits per %s, is far above chance, which is %.4g: "
                   "lower train.learning-rate = %g, or try %s.",
                   bits, run->unit, chance, setting(run, "train.learning-rate"),
                   clip > 0 && clip <= 1 ? "a longer train.warmup" : "train.clip = 1");
    ll_html_paragraph(h, text);
}

void ll_run_page_results(ll_html *h, const ll_run *run, const ll_run_facts *f) {
    const ll_html_table table = {.label = "Results", .cols = 2};
    char text[LL_RESULT_TEXT], about[512];
    ll_run_describe(run, about, sizeof about);
    ll_html_put(h, "<p class=\"lead\">");
    ll_html_text(h, about);
    ll_html_put(h, "</p>\n");
    ll_run_tiles(h, run, f);
    warn_of_chance(h, run, f);
    ll_html_table_begin(h, &table);
    for (int row = 0;; row++) {
        const char *label = ll_run_result(run, f, row, text);
        const char *const cells[2] = {label, text};
        if (!label) break;
        if (strcmp(text, "–")) ll_html_row(h, 2, cells, 0);
    }
    ll_html_table_end(h);
}

static ll_curve curve(const ll_run *run, const char *label, int column) {
    const ll_columns *t = &run->metrics;
    return (ll_curve){label, t->n, t->column[LL_RUN_STEP], t->column[column]};
}

static void plot_accuracy(ll_html *h, const ll_run *run) {
    char title[300];
    ll_curve right = curve(run, "held-out", LL_RUN_ACCURACY);
    double *percent = ll_alloc((size_t)right.n + 1, sizeof *percent);
    if (!percent) {
        ll_html_fail(h, LL_ENOMEM);
        return;
    }
    for (int i = 0; i < right.n; i++) percent[i] = 100 * right.y[i];
    right.y = percent;
    snprintf(title, sizeof title, "%s: accuracy", run->name);
    const ll_figure f = {
        .title = title, .x_label = "step", .y_label = "% right", .n = 1, .curves = &right, .y_most = 100};
    const ll_html_about about = {"accuracy", "Held-out examples whose likeliest class is the right one."};
    ll_html_plot(h, &about, &f, NULL);
    ll_free(percent);
}

/* What the run compares with its teacher; it has another unit than the losses of data. */
static void plot_matched(ll_html *h, const ll_run *run) {
    static const ll_html_about about[2] = {
        {"attention-missed", "Share of what the teacher's attention gives that is missed (train.distil)."},
        {"distillation-loss", "Loss while training that compares with the teacher's logits (train.distil)."}};
    for (int i = 0; i < 2; i++) {
        char title[300];
        ll_run_loss_parts parts;
        ll_figure f = ll_run_loss(run, i ? LL_RUN_DISTIL : LL_RUN_MISSED, &parts);
        snprintf(title, sizeof title, "%s: %s", run->name, about[i].name);
        f.title = title;
        ll_html_plot(h, &about[i], &f, NULL);
    }
}

void ll_run_page_loss(ll_html *h, const ll_run *run) {
    char title[300];
    ll_run_loss_parts parts;
    ll_figure f = ll_run_loss(run, LL_RUN_BITS, &parts);
    snprintf(title, sizeof title, "%s: loss", run->name);
    f.title = title;
    const ll_html_about about = {"loss", parts.faint ? "Loss while training; held-out data was never trained on."
                                                     : "Loss while training. There is none on held-out data."};
    ll_html_section(h, "learning", "Loss");
    ll_html_plot(h, &about, &f, parts.faint);
    plot_matched(h, run);
    if (!strcmp(run->unit, "example")) plot_accuracy(h, run);
}

void ll_run_page_costs(ll_html *h, const ll_run *run) {
    static const struct {
        int column;
        ll_html_about about;
        const char *y;
        int log_y;
    } figures[] = {
        {LL_RUN_SPEED, {"speed", "Speed of training."}, "tokens a second", 0},
        {LL_RUN_MEMORY, {"memory", "Memory of the program."}, "MiB", 0},
        {LL_RUN_RATE, {"learning-rate", "Learning rate."}, "learning rate", 0},
        {LL_RUN_NORM, {"gradient-norm", "Length of the gradient before clipping."}, "norm", 1},
    };
    ll_html_section(h, "costs", "Time and memory");
    ll_html_grid_begin(h);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char title[300];
        snprintf(title, sizeof title, "%s: %s", run->name, figures[i].about.name);
        const ll_curve c = curve(run, figures[i].y, figures[i].column);
        const ll_figure f = {.title = title,
                             .x_label = "step",
                             .y_label = figures[i].y,
                             .log_y = figures[i].log_y,
                             .n = 1,
                             .curves = &c};
        ll_html_plot(h, &figures[i].about, &f, NULL);
    }
    ll_html_grid_end(h);
}

/* Keys that are not at their defaults, or all of them. */
static void keys(ll_html *h, const ll_run *run, int all) {
    static const char *const head[3] = {"key", "value", "default"};
    const ll_html_table table = {
        .label = all ? "All keys of the recipe" : "Keys that were set", .cols = 3, .head = head};
    const ll_recipe_key *key;
    ll_html_table_begin(h, &table);
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        const char *value = ll_recipe_get(run->recipe, key->name);
        const int set = strcmp(value, key->fallback) != 0;
        const char *const cells[3] = {key->name, value, set ? key->fallback : ""};
        if (set || all) ll_html_row(h, 3, cells, 0);
    }
    ll_html_table_end(h);
}

void ll_run_page_recipe(ll_html *h, const ll_run *run) {
    if (!run->recipe) return;
    ll_html_section(h, "recipe", "Recipe");
    ll_html_paragraph(h, "Differences from the defaults:");
    keys(h, run, 0);
    ll_html_put(h, "<details>\n<summary>All keys</summary>\n");
    keys(h, run, 1);
    ll_html_put(h, "</details>\n");
}
