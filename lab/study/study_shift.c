/* Accuracy of an image classifier against the pixels by which images are shifted to the right. It takes images with
 * enough empty columns on both sides, so that nothing is lost. */
#include <stdio.h>

#include "base/integer.h"
#include "study/study.h"

enum { MOST = 8, FEWEST = 30, EXAMPLES = 250, SHARE = 8 /* of the work of other parts: there are many shifts */ };

typedef struct {
    int margin, n;          /* empty columns at each side; shifts, and ... */
    double x[2 * MOST + 1]; /* ... pixels of each */
    double accuracy[2 * MOST + 1];
    int64_t examples;
} shifts;

/* Images with as many empty columns as possible: 8 as in the paper, or a quarter of the width, or less if images are
 * full. */
static ll_status choose(ll_reader **reader, ll_config *c, int width) {
    ll_status status = LL_OK;
    for (c->data.margin = ll_min_int(width / 4, MOST); c->data.margin > 0; c->data.margin /= 2) {
        status = ll_reader_open(reader, c, ll_study_split(c));
        if (!status && (ll_reader_size(*reader) >= FEWEST || c->data.margin == 1)) return LL_OK;
        if (status && status != LL_EINVAL) return status;
        ll_reader_free(*reader);
        *reader = NULL;
    }
    return status;
}

static ll_status measure(const ll_study *s, const ll_config *c, ll_workspace *ws, ll_reader *reader, ll_batch *batch,
                         shifts *to, int i) {
    ll_tally tally = {0};
    ll_status status = LL_OK;
    const double work = ll_model_cost(s->model, c->train.length).multiply_adds * c->train.length * to->n / SHARE;
    const int most = ll_study_bound(work, 1, EXAMPLES) / c->train.batch;
    const int64_t n = ll_evaluate_batches(reader, most > 0 ? most : 1);
    const ll_evaluator e = ll_evaluator_alone(s->model, ws, reader, batch);
    ll_reader_shift(reader, (int)to->x[i]);
    for (int64_t k = 0; k < n && !status; k++) status = ll_evaluate_batch(&tally, &e, k, n);
    to->accuracy[i] = 100 * (double)tally.correct / (double)tally.count;
    to->examples = tally.count;
    return status;
}

static void show(const ll_study *s, const shifts *of) {
    char caption[240], examples[32];
    ll_count_text(examples, sizeof examples, (double)of->examples);
    snprintf(caption, sizeof caption,
             "Accuracy where the same %s held-out images, which have %d empty column%s at both sides, are moved to the "
             "right or, below 0, to the left. What a model has learnt holds at other places, too, where it stays "
             "level.",
             examples, of->margin, of->margin == 1 ? "" : "s");
    const ll_curve curve = {"accuracy", of->n, of->x, of->accuracy};
    const ll_html_about about = {"accuracy-by-shift", caption};
    const ll_figure f = {.title = "Accuracy against shift",
                         .x_label = "pixels",
                         .y_label = "% right",
                         .n = 1,
                         .curves = &curve,
                         .mark = "as in training",
                         .mark_at = s->c->data.shift,
                         .y_most = 100};
    ll_html_plot(s->h, &about, &f, NULL);
}

ll_status ll_study_shift(const ll_study *s) {
    int width, height;
    ll_config c = s->window;
    ll_reader *reader = NULL;
    ll_workspace *ws = NULL;
    ll_batch batch = {0};
    ll_reader_image(s->data, &width, &height);
    if (width < 4 || height < 2) return LL_OK;
    ll_status status = choose(&reader, &c, width);
    if (status == LL_EINVAL) return LL_OK; /* no image has empty columns on both sides */
    shifts all = {.margin = c.data.margin, .n = 2 * c.data.margin + 1};
    if (!status) status = ll_batch_create(&batch, &c);
    if (!status) status = ll_workspace_create(&ws, s->model, ll_config_sequences(&c), c.train.length, 0);
    for (int i = 0; i < all.n && !status; i++) {
        all.x[i] = i - c.data.margin;
        status = measure(s, &c, ws, reader, &batch, &all, i);
    }
    if (!status) show(s, &all);
    ll_workspace_free(ws);
    ll_batch_free(&batch);
    ll_reader_free(reader);
    return status;
}
