/* Text that a language model generates, and its loss at each position of a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "study/study.h"

/* ---- Text ---- */

enum { PROMPT = 64, WRITTEN = 480, BYTES = 16 /* longest token on average */ };

typedef struct {
    char text[(PROMPT + WRITTEN) * BYTES];
    size_t size;
} writing;

static void append(writing *w, const ll_study *s, int token) {
    w->size += ll_study_token(s, token, w->text + w->size, sizeof w->text - w->size);
}

/* Feeds the prompt again and samples n tokens after it. */
static ll_status continue_text(const ll_study *s, ll_stream *stream, float *logits, const int *prompt, int length,
                               int n, const ll_sampling *how, writing *w) {
    ll_stream_reset(stream);
    w->size = 0;
    ll_status status = ll_stream_feed(stream, prompt, length, logits);
    for (int i = 0; i < n && !status; i++) {
        const int token = ll_sample(logits, ll_tokenizer_vocab(s->tokenizer), how, ll_stream_position(stream));
        append(w, s, token);
        status = ll_stream_feed(stream, &token, 1, logits);
    }
    return status;
}

ll_status ll_study_sample(const ll_study *s) {
    static const float temperature[2] = {0.8f, 1};
    int prompt[PROMPT], length = 0, n = ll_study_bound(20 * ll_model_cost(s->model, PROMPT).multiply_adds, 40, WRITTEN);
    if (n > ll_position_limit(&s->c->position) - PROMPT) n = (int)ll_position_limit(&s->c->position) - PROMPT;
    if (n < 1) return ll_fail(LL_EINVAL, "The model's learned positions (position.max-length) end with the prompt.");
    ll_stream *stream = NULL;
    writing *w = ll_alloc(3, sizeof *w); /* the prompt, and a text for each temperature */
    float *logits = ll_alloc((size_t)s->c->model.vocab, sizeof *logits);
    ll_status status = w && logits ? ll_study_excerpt(s, 0.5, prompt, PROMPT, &length) : LL_ENOMEM;
    for (int i = 0; i < length; i++) append(&w[2], s, prompt[i]);
    if (!status) status = ll_stream_create(&stream, s->model);
    for (int i = 0; i < 2 && !status; i++) {
        const ll_sampling how = {.temperature = temperature[i], .top_p = 1, .seed = 1};
        status = continue_text(s, stream, logits, prompt, length, n, &how, &w[i]);
    }
    if (!status)
        ll_html_paragraph(s->h, "The beginning, in colour, is held-out data; the rest was written by the model.");
    for (int i = 0; i < 2 && !status; i++) {
        char label[64];
        ll_format_text(label, sizeof label, "Temperature %.1f", (double)temperature[i]);
        ll_html_sample(s->h, label, w[2].text, w[2].size, w[i].text, w[i].size);
    }
    ll_stream_free(stream);
    ll_free(logits);
    ll_free(w);
    return status;
}

/* ---- Loss against position ---- */

enum { POINTS = 24, WINDOWS = 64 };

typedef struct {
    int T, windows;
    double *sum, *count; /* (POINTS) */
} positions;

static ll_status add_window(const ll_study *s, positions *p, ll_batch *b, ll_workspace *ws, float *each,
                            int64_t number) {
    ll_tally tally = {.each = each};
    ll_reader_eval_batch(s->data, b, number);
    ll_status status = ll_model_run(s->model, ws, b, NULL, 0, 0, &tally);
    for (int t = 0; t < p->T && !status; t++) {
        if (b->targets[t] < 0) continue;
        const int at = (int)((int64_t)t * POINTS / p->T);
        p->sum[at] += each[t];
        p->count[at]++;
    }
    return status;
}

static ll_status measure(const ll_study *s, positions *p) {
    ll_workspace *ws = NULL;
    ll_batch batch = {0};
    float *each = ll_alloc((size_t)p->T, sizeof *each);
    ll_status status = each ? ll_batch_create(&batch, &s->window) : LL_ENOMEM;
    if (!status) status = ll_workspace_create(&ws, s->model, 1, p->T, 0);
    if (!status) {
        const int64_t all = ll_reader_eval_batches(s->data);
        p->windows = ll_study_bound(ll_model_cost(s->model, p->T).multiply_adds * p->T / 2, 1, WINDOWS);
        if (p->windows > all) p->windows = (int)all;
        for (int i = 0; i < p->windows && !status; i++)
            status = add_window(s, p, &batch, ws, each, i * all / p->windows);
    }
    ll_workspace_free(ws);
    ll_batch_free(&batch);
    ll_free(each);
    return status;
}

static void show_positions(const ll_study *s, const positions *p) {
    double x[POINTS], y[POINTS];
    char caption[300], windows[32], mark[64], length[32], unit[64];
    int n = 0;
    for (int i = 0; i < POINTS; i++) {
        const double first = ceil((double)i * p->T / POINTS), next = ceil((i + 1.0) * p->T / POINTS);
        if (next <= first) continue; /* there are fewer tokens than parts */
        x[n] = (first + next - 1) / 2;
        y[n++] = p->count[i] > 0 ? p->sum[i] / p->count[i] / M_LN2 : NAN;
    }
    const ll_curve curve = {"loss", n, x, y};
    snprintf(unit, sizeof unit, "bits per %s", s->unit);
    ll_count_text(windows, sizeof windows, p->windows);
    ll_count_text(length, sizeof length, s->c->train.length);
    snprintf(mark, sizeof mark, "trained on %s tokens", length);
    snprintf(caption, sizeof caption,
             "Held-out loss by the number of tokens before it, over %s %s of text. A model that uses what is far back "
             "goes on falling; one that only knows lengths it was trained on rises after them.",
             windows, p->windows == 1 ? "stretch" : "stretches");
    const ll_html_about about = {"loss-by-position", caption};
    const ll_figure f = {.title = "Loss against position",
                         .x_label = "position in the text",
                         .y_label = unit,
                         .n = 1,
                         .curves = &curve,
                         .mark = mark,
                         .mark_at = s->c->train.length};
    ll_html_plot(s->h, &about, &f, NULL);
}

ll_status ll_study_by_position(const ll_study *s) {
    double sum[POINTS] = {0}, count[POINTS] = {0};
    positions p = {.T = s->window.train.length, .sum = sum, .count = count};
    const ll_status status = measure(s, &p);
    if (!status) show_positions(s, &p);
    return status;
}
