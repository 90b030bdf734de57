/* The results of a run as words and numbers: from its metrics, its recipe, and from its model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/run_page.h"

void ll_count_text(char *out, size_t size, double v) {
    if (isfinite(v))
        ll_number_text(out, size, round(v), 1, fmin(fabs(v), 999999));
    else
        snprintf(out, size, "–");
}

static void duration(char *out, size_t size, double seconds) {
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(out, size, "–");
        return;
    }
    const long s = lround(seconds);
    if (seconds < 10)
        ll_format_text(out, size, "%.1f s", seconds);
    else if (s < 60)
        snprintf(out, size, "%ld s", s);
    else if (s < 3600)
        snprintf(out, size, "%ld min %ld s", s / 60, s % 60);
    else
        snprintf(out, size, "%ld h %ld min", s / 3600, s / 60 % 60);
}

static double value(const ll_run *run, int column, int row) {
    return row >= 0 ? run->metrics.column[column][row] : NAN;
}

static double largest(const ll_columns *t, int column) {
    double most = NAN;
    for (int i = 0; i < t->n; i++) most = fmax(most, t->column[column][i]); /* fmax ignores NaN */
    return most;
}

/* The mean of the last 10 steps, as the program prints it. A row has the mean of the steps since the one before. */
static double recent(const ll_columns *t, int column) {
    double sum = 0, left = 10;
    for (int i = ll_columns_last(t, column); i >= 0 && left > 0 && isfinite(t->column[column][i]); i--) {
        const double steps = t->column[LL_RUN_STEP][i] - (i ? t->column[LL_RUN_STEP][i - 1] : 0);
        const double n = fmin(fmax(steps, 0), left);
        sum += n * t->column[column][i];
        left -= n;
    }
    return left < 10 ? sum / (10 - left) : NAN;
}

ll_run_facts ll_run_facts_of(const ll_run *run) {
    const ll_columns *t = &run->metrics;
    const int best = ll_columns_least(t, LL_RUN_VALID);
    const char *steps = run->recipe ? ll_recipe_get(run->recipe, "train.steps") : NULL;
    return (ll_run_facts){
        .steps = value(run, LL_RUN_STEP, t->n - 1),
        .planned = steps ? ll_scan_number(steps, NULL) : NAN,
        .tokens = value(run, LL_RUN_TOKENS, ll_columns_last(t, LL_RUN_TOKENS)),
        .train_bits = recent(t, LL_RUN_BITS),
        .missed = recent(t, LL_RUN_MISSED),
        .distil = recent(t, LL_RUN_DISTIL),
        .best_bits = value(run, LL_RUN_VALID, best),
        .best_step = value(run, LL_RUN_STEP, best),
        .best_accuracy = value(run, LL_RUN_ACCURACY, best),
        .seconds = value(run, LL_RUN_SECONDS, ll_columns_last(t, LL_RUN_SECONDS)),
        .speed = round(ll_columns_median(t, LL_RUN_SPEED)),
        .memory = largest(t, LL_RUN_MEMORY) * 1048576,
        .majority = NAN,
    };
}

ll_status ll_run_speed(const char *folder, double *seconds, double *tokens_per_second) {
    ll_run run;
    const ll_status status = ll_run_open(&run, folder);
    if (status) return status;
    const ll_run_facts facts = ll_run_facts_of(&run);
    *seconds = facts.seconds;
    *tokens_per_second = facts.speed;
    ll_run_close(&run);
    return LL_OK;
}

/* ---- Rows of the table of results ---- */

static int classifies(const ll_run *run) {
    return !strcmp(run->unit, "example");
}

/* Bits, and what is computed from them. A perplexity that a number cannot hold is left out. */
static void loss(char *out, size_t size, const ll_run *run, double bits) {
    const double perplexity = exp(bits * log(2));
    char text[LL_BITS_TEXT], nats[LL_BITS_TEXT];
    ll_bits_text(text, bits, 4);
    ll_bits_text(nats, bits * log(2), 4);
    if (!isfinite(bits))
        snprintf(out, size, "–");
    else if (classifies(run))
        ll_format_text(out, size, "%s bits (%s nats)", text, nats);
    else if (isfinite(perplexity))
        ll_format_text(out, size,
                       perplexity < 1e6 ? "%s bits per %s, perplexity %.3f" : "%s bits per %s, perplexity %.3g", text,
                       run->unit, perplexity);
    else
        ll_format_text(out, size, "%s bits per %s", text, run->unit);
}

static void share(char *out, size_t size, double fraction) {
    if (isfinite(fraction))
        ll_format_text(out, size, "%.2f %%", 100 * fraction);
    else
        snprintf(out, size, "–");
}

static void nats(char *out, size_t size, double v) {
    char text[LL_BITS_TEXT];
    ll_bits_text(text, v, 4);
    snprintf(out, size, isfinite(v) ? "%s nats" : "–", text);
}

static void mebibytes(char *out, size_t size, double bytes) {
    if (!isfinite(bytes))
        snprintf(out, size, "–");
    else if (bytes < 1000 * 1048576.0)
        ll_format_text(out, size, "%.0f MiB", bytes / 1048576);
    else
        ll_format_text(out, size, "%.2f GiB", bytes / 1073741824);
}

/* " of 1,000": what a run that has not ended was to make. */
static void planned_steps(char *out, size_t size, const ll_run_facts *f) {
    char all[32] = "";
    if (f->steps < f->planned) ll_count_text(all, sizeof all, f->planned);
    snprintf(out, size, "%s%s", *all ? " of " : "", all);
}

const char *ll_run_result(const ll_run *run, const ll_run_facts *f, int row, char out[LL_RESULT_TEXT]) {
    const ll_evaluation none = {.bits_per_token = NAN, .accuracy = NAN, .majority = NAN, .balanced = NAN};
    const ll_evaluation test = f->test.count > 0 ? f->test : none;
    char planned[40], examples[LL_RESULT_TEXT / 2];
    planned_steps(planned, sizeof planned, f);
    snprintf(examples, sizeof examples, f->test_whole ? " %ss" : " %ss, evenly spread", run->unit);
    const struct {
        const char *label;
        double value;
        void (*write)(char *out, size_t size, double value); /* NULL: a loss in bits */
        const char *more;                                    /* follows the value, or NULL */
    } result[] = {
        {"Parameters", f->parameters > 0 ? f->parameters : NAN, ll_count_text},
        {"Steps", f->steps, ll_count_text, planned},
        {"Tokens trained on", f->tokens, ll_count_text},
        {"Attention missed", f->missed / 100, share},
        {"Distillation loss", f->distil, nats},
        {"Training loss", f->train_bits},
        {"Held-out loss", f->best_bits},
        {"Lowest at step", f->best_step, ll_count_text},
        {"Held-out accuracy", f->best_accuracy, share},
        {"Most frequent held-out class", f->majority, share},
        {"Test loss", test.bits_per_token},
        {"Test accuracy", test.accuracy, share},
        {"Most frequent test class", test.majority, share},
        {"Test accuracy, mean over classes", test.balanced, share},
        {"Test data", test.count ? (double)test.count : NAN, ll_count_text, test.count ? examples : NULL},
        {"Wall time", f->seconds, duration},
        {"Tokens a second", f->speed, ll_count_text},
        {"Memory", f->memory, mebibytes},
    };
    if (row < 0 || (size_t)row >= sizeof result / sizeof *result) return NULL;
    if (result[row].write)
        result[row].write(out, LL_RESULT_TEXT, result[row].value);
    else
        loss(out, LL_RESULT_TEXT, run, result[row].value);
    const size_t size = strlen(out);
    if (result[row].more) snprintf(out + size, LL_RESULT_TEXT - size, "%s", result[row].more);
    return result[row].label;
}

/* ---- Above the table ---- */

static const char *get(const ll_run *run, const char *name) {
    const char *text = run->recipe ? ll_recipe_get(run->recipe, name) : NULL;
    return text ? text : "?";
}

static const char *kind(const ll_run *run) {
    static const char *const kinds[][2] = {{"classify", "Classifier"},
                                           {"match", "Classifier of pairs"},
                                           {"mlm", "Masked language model"},
                                           {"seq2seq", "Encoder-decoder"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(get(run, "model.task"), kinds[i][0])) return kinds[i][1];
    return "Language model";
}

void ll_run_describe(const ll_run *run, char *out, size_t size) {
    *out = 0;
    if (!run->recipe) return;
    const char *position = get(run, "position.type");
    snprintf(out, size, "%s with %s attention and %s positions; %s layer%s of width %s with %s heads.", kind(run),
             get(run, "attention.kernel"), strcmp(position, "none") ? position : "no", get(run, "model.layers"),
             strcmp(get(run, "model.layers"), "1") ? "s" : "", get(run, "model.width"), get(run, "model.heads"));
}

static void fact(ll_html *h, const char *name, const char *number, const char *more) {
    ll_html_put(h, "<div><dt>");
    ll_html_text(h, name);
    ll_html_put(h, "</dt><dd>");
    ll_html_text(h, number);
    ll_html_put(h, "<small>");
    ll_html_text(h, more);
    ll_html_put(h, "</small></dd></div>\n");
}

/* What a share of right answers is of, and what always giving one class would have. */
static void right_of(char *out, size_t size, const char *what, double majority) {
    if (isfinite(majority))
        ll_format_text(out, size, "of %s examples right; always one class: %.2f %%", what, 100 * majority);
    else
        snprintf(out, size, "of %s examples right", what);
}

void ll_run_tiles(ll_html *h, const ll_run *run, const ll_run_facts *f) {
    char number[64], more[128];
    const int valid = isfinite(f->best_bits);
    ll_html_put(h, "<dl class=\"facts\">\n");
    if (classifies(run) && valid) {
        ll_format_text(number, sizeof number, "%.2f %%", 100 * f->best_accuracy);
        right_of(more, sizeof more, "held-out", f->majority);
    } else {
        ll_bits_text(number, valid ? f->best_bits : f->train_bits, 3);
        snprintf(more, sizeof more, "bits per %s on %s data", run->unit, valid ? "held-out" : "training");
    }
    if (valid || isfinite(f->train_bits)) fact(h, classifies(run) && valid ? "Accuracy" : "Loss", number, more);
    if (f->test.count > 0) {
        if (classifies(run)) {
            ll_format_text(number, sizeof number, "%.2f %%", 100 * f->test.accuracy);
            right_of(more, sizeof more, "test", f->test.majority);
        } else {
            ll_bits_text(number, f->test.bits_per_token, 3);
            snprintf(more, sizeof more, "bits per %s on test data", run->unit);
        }
        fact(h, "Test", number, more);
    }
    ll_count_text(number, sizeof number, f->steps);
    ll_count_text(more, sizeof more, f->tokens);
    strncat(more, " tokens", sizeof more - strlen(more) - 1);
    fact(h, "Steps", number, more);
    duration(number, sizeof number, f->seconds);
    ll_count_text(more, sizeof more, f->speed);
    strncat(more, " tokens a second", sizeof more - strlen(more) - 1);
    fact(h, "Time", number, more);
    mebibytes(number, sizeof number, f->memory);
    fact(h, "Memory", number, "at most");
    ll_html_put(h, "</dl>\n");
}
