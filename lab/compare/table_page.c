/* The table as files: table.csv, and table.html with the curves of the first seeds and the differences from the
 * paper. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "compare/compare_internal.h"
#include "report/run_page.h"

enum { TEXT = 64, COLUMNS = 8 };

/* ---- table.csv ---- */

static ll_status put_text(ll_writer *w, const char *text) {
    ll_status status = ll_writer_put(w, "\"", 1);
    for (; *text && !status; text++) status = ll_writer_put(w, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    return status ? status : ll_writer_put(w, "\"", 1);
}

/* Empty if there is no value. */
static ll_status put_number(ll_writer *w, double value) {
    char text[LL_NUMBER_TEXT + 1] = ",", digits[LL_NUMBER_TEXT] = "";
    if (isfinite(value)) ll_print_number(digits, value);
    strcat(text, digits);
    return ll_writer_put(w, text, strlen(text));
}

static ll_status put_row(ll_writer *w, const ll_system *s) {
    const double numbers[] = {s->published, s->mean,   s->deviation, s->runs,       s->diverged,
                              s->steps,     s->tokens, s->seconds,   s->parameters, s->count};
    ll_status status = ll_writer_put(w, s->name, strlen(s->name));
    if (!status) status = ll_writer_put(w, ",", 1);
    if (!status) status = put_text(w, s->label);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) status = put_number(w, numbers[i]);
    return status ? status : ll_writer_put(w, "\n", 1);
}

static ll_status write_csv(const ll_comparison *c, const char *path) {
    static const char head[] =
        "system,label,published,mean,deviation,runs,diverged,steps,tokens,seconds,parameters,count\n";
    ll_writer *w = NULL;
    ll_system s;
    ll_status status = ll_writer_open(&w, path);
    if (status) return status;
    status = ll_writer_put(w, head, sizeof head - 1);
    for (int i = 0; ll_comparison_system(c, i, &s) && !status; i++) status = put_row(w, &s);
    if (!status) return ll_writer_commit(w);
    ll_writer_abandon(w);
    return status;
}

/* ---- table.html ---- */

static const char *decimals(char out[TEXT], const ll_comparison *c, double value, double deviation) {
    if (!isfinite(value)) return "–";
    if (isfinite(deviation))
        ll_format_text(out, TEXT, "%.*f ± %.*f", c->about.decimals, value, c->about.decimals, deviation);
    else
        ll_format_text(out, TEXT, "%.*f", c->about.decimals, value);
    return out;
}

static const char *count(char out[TEXT], double value) {
    if (!(value > 0)) return "–";
    ll_count_text(out, TEXT, value);
    return out;
}

static void write_row(ll_html *h, const ll_comparison *c, const ll_system *s, int best) {
    char text[COLUMNS][TEXT];
    snprintf(text[3], TEXT, s->diverged ? "%d, %d diverged" : "%d", s->runs, s->diverged);
    ll_format_text(text[6], TEXT, "%.1f", s->seconds / 60);
    const char *const cells[COLUMNS] = {s->label,
                                        decimals(text[1], c, s->mean, s->deviation),
                                        decimals(text[2], c, s->published, NAN),
                                        text[3],
                                        count(text[4], s->steps),
                                        count(text[5], s->tokens),
                                        s->steps > 0 ? text[6] : "–",
                                        count(text[7], s->parameters)};
    ll_html_row(h, COLUMNS, cells, best);
}

static void write_table(ll_html *h, const ll_comparison *c) {
    const ll_comparison_about *a = &c->about;
    const char *const head[COLUMNS] = {"system", a->metric, "published", "runs",
                                       "steps",  "tokens",  "minutes",   "parameters"};
    const ll_html_table table = {.label = a->title, .cols = COLUMNS, .head = head, .numbers = 1};
    char text[200];
    int best = -1, pairs, agree, diverged = 0;
    double top = 0;
    ll_system s;
    for (int i = 0; ll_comparison_system(c, i, &s); i++) {
        diverged += s.diverged;
        if (isfinite(s.mean) && !s.diverged && (best < 0 || (a->rises ? s.mean > top : s.mean < top)))
            best = i, top = s.mean;
    }
    ll_html_table_begin(h, &table);
    for (int i = 0; ll_comparison_system(c, i, &s); i++) write_row(h, c, &s, i == best);
    ll_html_table_end(h);
    snprintf(text, sizeof text,
             "On the %s split, mean and standard deviation over seeds; %s is better, and the best mean is marked.",
             a->split, a->rises ? "per cent right, more" : "less");
    ll_html_note(h, text);
    if (diverged)
        ll_html_note(
            h, "Means are of the runs that did not diverge. A system with a diverged run is not marked, and is in "
               "no pair of the published order.");
    ll_comparison_order(c, &pairs, &agree);
    snprintf(text, sizeof text, "%d of %d pairs of systems come in the published order.", agree, pairs);
    if (pairs) ll_html_paragraph(h, text);
}

static void write_differences(ll_html *h, const ll_comparison *c) {
    const ll_html_table table = {.label = "Differences from the paper", .cols = 2};
    if (!c->about.differences) return;
    ll_html_section(h, "differences", "What differs from the paper");
    ll_html_table_begin(h, &table);
    for (int i = 0; i < c->about.differences; i++)
        ll_html_row(h, 2, (const char *const[]){c->difference[i].what, c->difference[i].how}, 0);
    ll_html_table_end(h);
}

static int diverged(const ll_contender *x) { return x->result[0].state == LL_RESULT_DIVERGED; }

/* Held-out loss of the first seeds, against the step and against time. One that exploded would make the others flat. */
static void write_curves(ll_html *h, const ll_comparison *c, const ll_run *runs) {
    static const struct {
        ll_html_about about;
        const char *x;
        int column;
    } kinds[2] = {{{"loss", "Held-out loss of the first seed of each system."}, "step", LL_RUN_STEP},
                  {{"loss-by-time", "The same against time."}, "seconds", LL_RUN_SECONDS}};
    ll_curve curves[LL_SYSTEMS_MOST];
    ll_run shown[LL_SYSTEMS_MOST]; /* the runs of the curves */
    char y[100], unit[LL_UNIT_TEXT];
    int n = 0;
    for (int kind = 0; kind < 2; kind++) {
        n = 0;
        for (int i = 0; i < c->systems; i++) {
            const ll_columns *t = &runs[i].metrics;
            if (!runs[i].folder || diverged(&c->system[i]) || ll_columns_last(t, LL_RUN_VALID) < 0) continue;
            shown[n] = runs[i];
            curves[n++] = (ll_curve){c->system[i].label, t->n, t->column[kinds[kind].column], t->column[LL_RUN_VALID]};
        }
        ll_common_unit(unit, shown, curves, n);
        snprintf(y, sizeof y, "bits per %s", unit);
        const ll_figure f = {.title = c->about.title, .x_label = kinds[kind].x, .y_label = y, .n = n, .curves = curves};
        if (n) ll_html_plot(h, &kinds[kind].about, &f, NULL);
    }
    ll_compare_note(h, shown, n);
    for (int i = 0; i < c->systems; i++)
        if (diverged(&c->system[i])) {
            char text[256];
            snprintf(text, sizeof text, "%.200s diverged, and has no curve here.", c->system[i].label);
            ll_html_note(h, text);
        }
}

/* runs[i].folder stays NULL if the first seed has no loss yet. */
static ll_status open_runs(ll_run *runs, char **paths, const ll_comparison *c, const char *folder) {
    for (int i = 0; i < c->systems; i++) {
        if (!(paths[i] = ll_contender_folder(&c->system[i], folder, 1))) return LL_ENOMEM;
        if (c->system[i].result[0].state < LL_RESULT_BEGUN || c->system[i].baseline) continue;
        const ll_status status = ll_run_open(&runs[i], paths[i]);
        if (status == LL_ENOMEM) return status;
        if (status) runs[i] = (ll_run){0}; /* no loss yet */
    }
    return LL_OK;
}

/* A link, if the run has written a page. */
static void write_run(ll_html *h, const ll_contender *x, const char *folder, int seed) {
    char *run = ll_contender_folder(x, folder, seed), *page = run ? ll_path_join(run, "report.html") : NULL;
    const int there = page && !access(page, F_OK);
    ll_html_put(h, "<li>");
    if (there) ll_html_print(h, "<a href=\"%s-%d/report.html\">", x->name, seed);
    ll_html_text(h, x->label);
    ll_html_print(h, ", seed %d%s</li>\n", seed, there ? "</a>" : "");
    if (!page) ll_html_fail(h, LL_ENOMEM);
    ll_free(run);
    ll_free(page);
}

static void write_runs(ll_html *h, const ll_comparison *c, const char *folder) {
    ll_html_section(h, "runs", "Runs");
    ll_html_put(h, "<ul>\n");
    for (int i = 0; i < c->systems; i++)
        for (int k = 0; k < c->seeds; k++)
            if (c->system[i].result[k].state >= LL_RESULT_DONE && !c->system[i].baseline)
                write_run(h, &c->system[i], folder, k + 1);
    ll_html_put(h, "</ul>\n");
}

static ll_status write_page(const ll_comparison *c, const char *folder, const char *path) {
    ll_html h;
    ll_run runs[LL_SYSTEMS_MOST] = {0};
    char *paths[LL_SYSTEMS_MOST] = {0};
    ll_status status = open_runs(runs, paths, c, folder);
    if (!status) status = ll_html_open(&h, path, c->about.title);
    if (!status) {
        ll_html_paragraph(&h, c->about.paper);
        write_table(&h, c);
        write_differences(&h, c);
        ll_html_section(&h, "learning", "Loss");
        write_curves(&h, c, runs);
        write_runs(&h, c, folder);
        status = ll_html_finish(&h);
    }
    for (int i = 0; i < c->systems; i++) {
        ll_run_close(&runs[i]);
        ll_free(paths[i]);
    }
    return status;
}

ll_status ll_comparison_write(const ll_comparison *c, const char *folder) {
    char *csv = ll_path_join(folder, "table.csv"), *page = ll_path_join(folder, "table.html");
    ll_status status = csv && page ? ll_folder_create(folder) : LL_ENOMEM;
    if (!status) status = write_csv(c, csv);
    if (!status) status = write_page(c, folder, page);
    ll_free(csv);
    ll_free(page);
    return status;
}
