/* Runs side by side: their curves in one figure, their results and recipes in columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "report/run_page.h"

enum { MOST = LL_CURVES_MOST };

/* Names, or folders if two names are equal. */
static void name_all(const ll_run *runs, int n, const char **names) {
    for (int i = 0; i < n; i++) {
        names[i] = runs[i].name;
        for (int j = 0; j < n; j++)
            if (i != j && !strcmp(runs[i].name, runs[j].name)) names[i] = runs[i].folder;
    }
}

void ll_common_unit(char out[LL_UNIT_TEXT], const ll_run *runs, const ll_curve *curves, int n) {
    size_t length = 0;
    *out = 0;
    for (int i = 0; i < n; i++) {
        int known = !curves[i].n;
        for (int j = 0; j < i; j++) known |= curves[j].n && !strcmp(runs[i].unit, runs[j].unit);
        if (!known && length < LL_UNIT_TEXT)
            length += (size_t)snprintf(out + length, LL_UNIT_TEXT - length, "%s%s", length ? " or " : "", runs[i].unit);
    }
}

static void figure(ll_html *h, const ll_run *runs, int n, const char **names, int x, const ll_html_about *about,
                   const char *x_label) {
    ll_curve curves[MOST] = {0};
    char y[100], unit[LL_UNIT_TEXT];
    int held_out = 1;
    for (int i = 0; i < n; i++) held_out &= ll_columns_last(&runs[i].metrics, LL_RUN_VALID) >= 0;
    for (int i = 0; i < n; i++) {
        const ll_columns *t = &runs[i].metrics;
        curves[i] = (ll_curve){names[i], t->n, t->column[x], t->column[held_out ? LL_RUN_VALID : LL_RUN_BITS]};
    }
    ll_common_unit(unit, runs, curves, n);
    snprintf(y, sizeof y, "bits per %s, %s data", unit, held_out ? "held-out" : "training");
    const ll_figure f = {.title = about->caption, .x_label = x_label, .y_label = y, .n = n, .curves = curves};
    ll_html_plot(h, about, &f, NULL);
}

/* Loss against position, of the runs whose reports have it. Other runs have curves without points, so that each run has
 * one colour on the whole page. */
static void positions(ll_html *h, const ll_run *runs, int n, const char **names) {
    static const char *const columns[2] = {"position in the text", "loss"};
    static const ll_html_about about = {"loss-by-position", "Held-out loss by the number of tokens before it, as the "
                                                            "reports of the runs have it."};
    ll_columns table[MOST] = {0};
    ll_curve curves[MOST] = {0};
    char y[100], unit[LL_UNIT_TEXT];
    int found = 0;
    for (int i = 0; i < n; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/figures/loss-by-position.csv", runs[i].folder);
        if (access(path, R_OK) || ll_columns_read(&table[i], path, columns, 2, 2)) table[i] = (ll_columns){0};
        curves[i] = (ll_curve){names[i], table[i].n, table[i].column[0], table[i].column[1]};
        found += table[i].n > 0;
    }
    ll_common_unit(unit, runs, curves, n);
    snprintf(y, sizeof y, "bits per %s, held-out data", unit);
    const ll_figure f = {
        .title = "Loss against position", .x_label = "position in the text", .y_label = y, .n = n, .curves = curves};
    if (found) ll_html_plot(h, &about, &f, NULL);
    for (int i = 0; i < n; i++) ll_columns_free(&table[i]);
}

static const char *key_of(const ll_run *run, const char *key) {
    return run->recipe ? ll_recipe_get(run->recipe, key) : "?";
}

/* Is it a loss a word, piece or token of vocabularies that differ? In a smaller one these are shorter, or fewer of them
 * are known, so that they cost fewer bits. */
static int other_vocab(const ll_run *a, const ll_run *b) {
    static const char *const units[] = {"word", "piece", "token"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(a->unit, units[i]) && !strcmp(b->unit, units[i]))
            return strcmp(key_of(a, "model.vocab"), key_of(b, "model.vocab")) != 0;
    return 0;
}

static int is_among(const char *word, const char *const *words) {
    for (; *words; words++)
        if (!strcmp(*words, word)) return 1;
    return 0;
}

/* The first key by which what is asked of the held-out data of two runs differs, or NULL. Data of train are held out
 * only where data.valid is empty, and some batches are looked at unless that is all; other_vocab compares
 * vocabularies. */
static const char *other_data(const ll_run *a, const ll_run *b) {
    static const char *const elsewhere[] = {"data.test",       "data.test-labels", "data.transpose",
                                            "data.vocab-size", "data.min-count",   NULL},
                             *const train[] = {"data.train", "data.train-labels", "data.limit", "data.valid-fraction",
                                               NULL},
                             *const batches[] = {"train.eval-batches", "train.batch", "train.length"};
    const int apart = *key_of(a, "data.valid") != 0; /* if that of b is empty, data.valid differs */
    const ll_recipe_key *key;
    if (!a->recipe || !b->recipe) return NULL; /* ll_compare_note says so */
    if (strcmp(key_of(a, "model.task"), key_of(b, "model.task"))) return "model.task";
    for (int k = 0; (key = ll_recipe_key_at(k)); k++) {
        if (strncmp(key->name, "data.", 5) || is_among(key->name, elsewhere)) continue;
        if (apart && is_among(key->name, train)) continue;
        if (strcmp(key_of(a, key->name), key_of(b, key->name))) return key->name;
    }
    for (int k = 0; k < (strcmp(key_of(a, *batches), "0") ? 3 : 1); k++)
        if (strcmp(key_of(a, batches[k]), key_of(b, batches[k]))) return batches[k];
    return NULL;
}

/* The same of all runs that have a held-out loss. */
static const char *data_that_differ(const ll_run *runs, const ll_run_facts *facts, int n) {
    int first = 0;
    while (first < n && !isfinite(facts[first].best_bits)) first++;
    for (int i = first + 1; i < n; i++) {
        const char *key = isfinite(facts[i].best_bits) ? other_data(&runs[i], &runs[first]) : NULL;
        if (key) return key;
    }
    return NULL;
}

/* The run with the least held-out loss; -1 if none has one, if they count it in several units, or if a unit is not
 * known. */
static int least(const ll_run *runs, const ll_run_facts *facts, int n) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (!isfinite(facts[i].best_bits)) continue;
        if (!runs[i].recipe) return -1;
        if (best >= 0 && (strcmp(runs[i].unit, runs[best].unit) || other_vocab(&runs[i], &runs[best]))) return -1;
        if (best < 0 || facts[i].best_bits < facts[best].best_bits) best = i;
    }
    return best;
}

void ll_compare_note(ll_html *h, const ll_run *runs, int n) {
    int units = 0, others = 0, unknown = 0;
    for (int i = 0; i < n; i++) {
        unknown |= !runs[i].recipe;
        for (int j = 0; j < i; j++) {
            units |= runs[i].recipe && runs[j].recipe && strcmp(runs[i].unit, runs[j].unit);
            others |= other_vocab(&runs[i], &runs[j]);
        }
    }
    if (unknown) ll_html_note(h, "A run has no recipe, so that it is not known whether its losses compare.");
    if (units) ll_html_note(h, "Losses in different units do not compare.");
    if (others)
        ll_html_note(
            h, "Losses of runs with another model.vocab do not compare: their words, pieces or tokens are others.");
}

static void results(ll_html *h, const ll_run *runs, const ll_run_facts *facts, int n, const char **names) {
    const char *head[MOST + 1] = {""}, *cells[MOST + 1];
    char text[MOST][LL_RESULT_TEXT];
    for (int i = 0; i < n; i++) head[i + 1] = names[i];
    const ll_html_table table = {.label = "Results of the runs", .cols = n + 1, .head = head};
    ll_html_section(h, "results", "Results");
    const char *differs = data_that_differ(runs, facts, n);
    const int best = n > 1 && !differs ? least(runs, facts, n) : -1;
    if (best >= 0) {
        char line[400], bits[LL_BITS_TEXT];
        ll_bits_text(bits, facts[best].best_bits, 4);
        ll_format_text(line, sizeof line, "Lowest held-out loss: %s, %s bits per %s.", names[best], bits,
                       runs[best].unit);
        ll_html_paragraph(h, line);
    }
    if (differs) {
        char line[200];
        snprintf(line, sizeof line, "Losses on different held-out data do not compare: %s differs.", differs);
        ll_html_note(h, line);
    }
    ll_compare_note(h, runs, n);
    ll_html_table_begin(h, &table);
    for (int row = 0; ll_run_result(runs, facts, row, text[0]); row++) {
        int any = 0;
        for (int i = 0; i < n; i++) {
            cells[0] = ll_run_result(&runs[i], &facts[i], row, text[i]);
            cells[i + 1] = text[i];
            any |= strcmp(text[i], "–") != 0;
        }
        if (any) ll_html_row(h, n + 1, cells, 0);
    }
    ll_html_table_end(h);
}

static void recipes(ll_html *h, const ll_run *runs, int n, const char **names, int all) {
    const char *head[MOST + 1] = {"key"}, *cells[MOST + 1];
    for (int i = 0; i < n; i++) head[i + 1] = names[i];
    const ll_html_table table = {
        .label = all ? "Recipes of the runs" : "Differences between the recipes", .cols = n + 1, .head = head};
    const ll_recipe_key *key;
    ll_html_table_begin(h, &table);
    for (int k = 0; (key = ll_recipe_key_at(k)); k++) {
        int differs = 0;
        cells[0] = key->name;
        for (int i = 0; i < n; i++) {
            cells[i + 1] = runs[i].recipe ? ll_recipe_get(runs[i].recipe, key->name) : "?";
            differs |= strcmp(cells[i + 1], cells[1]) != 0;
        }
        if (differs || all) ll_html_row(h, n + 1, cells, differs);
    }
    ll_html_table_end(h);
}

void ll_compare_page(ll_html *h, const ll_run *runs, const ll_run_facts *facts, int n) {
    static const ll_html_about by_step = {"loss", "Loss against the step."},
                               by_time = {"loss-by-time", "Loss against the time of training."};
    const char *names[MOST];
    name_all(runs, n, names);
    ll_html_section(h, "learning", "Loss");
    figure(h, runs, n, names, LL_RUN_STEP, &by_step, "step");
    figure(h, runs, n, names, LL_RUN_SECONDS, &by_time, "seconds");
    positions(h, runs, n, names);
    results(h, runs, facts, n, names);
    ll_html_section(h, "recipes", "Recipes");
    ll_html_paragraph(h, "Where the recipes differ:");
    recipes(h, runs, n, names, 0);
    ll_html_put(h, "<details>\n<summary>All keys</summary>\n");
    recipes(h, runs, n, names, 1);
    ll_html_put(h, "</details>\n");
}
