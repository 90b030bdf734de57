/* What attention reads. For text, or any sequence: the matrix of each head over a short excerpt. For images: the
 * weights of all pixels for the pixel in the middle, as an image. */
#include <math.h>
#include <stdio.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "study/study.h"

enum { TOKENS = 48, PANELS = 48, HEADS = 16, COLUMNS = 5, TEXT = 24 };

typedef struct {
    int layers, heads; /* that are shown */
    int layer[PANELS]; /* which, from 1 */
    int rows, cols;    /* of a panel */
    float *weights;    /* (layers, H, n, N) of those layers */
    int n, N;
    float *values; /* (layers, heads, rows, cols) */
    ll_heat_map group[PANELS];
    ll_panel panel[PANELS][HEADS];
    char name[HEADS][TEXT];
    const char **cell; /* (layers, heads, COLUMNS) */
    char (*text)[TEXT];
    char title[PANELS][40];
} attention_study;

static void attention_study_free(attention_study *l) {
    ll_free(l->weights);
    ll_free(l->values);
    ll_free((void *)l->cell);
    ll_free(l->text);
}

/* As many layers, evenly spread, as fit. */
static ll_status prepare(attention_study *l, const ll_study *s) {
    const int layers = s->c->model.layers, heads = s->c->model.heads;
    l->heads = ll_min_int(heads, HEADS);
    l->layers = ll_min_int(PANELS / l->heads, layers);
    for (int i = 0; i < l->layers; i++) l->layer[i] = ll_study_layer(s, i, l->layers) + 1;
    for (int h = 0; h < l->heads; h++) snprintf(l->name[h], TEXT, "head %d", h + 1);
    const size_t panels = (size_t)l->layers * (size_t)l->heads;
    l->weights = ll_alloc((size_t)l->layers * (size_t)heads * (size_t)l->n, (size_t)l->N * sizeof *l->weights);
    l->values = ll_alloc(panels * (size_t)l->rows, (size_t)l->cols * sizeof *l->values);
    l->cell = ll_alloc(panels * COLUMNS, sizeof *l->cell);
    l->text = ll_alloc(panels * COLUMNS, sizeof *l->text);
    return l->weights && l->values && l->cell && l->text ? LL_OK : LL_ENOMEM;
}

/* Row `query` of a shown panel. */
static float *row_of(const attention_study *l, const ll_study *s, int layer, int head, int query) {
    const size_t at = ((size_t)layer * (size_t)s->c->model.heads + (size_t)head) * (size_t)l->n + (size_t)query;
    return l->weights + at * (size_t)l->N;
}

static float *panel_of(const attention_study *l, int layer, int head) {
    return l->values + ((size_t)layer * (size_t)l->heads + (size_t)head) * (size_t)l->rows * (size_t)l->cols;
}

static void describe_groups(attention_study *l, ll_shades shades, const char *x, const char *y) {
    for (int i = 0; i < l->layers; i++) {
        snprintf(l->title[i], sizeof l->title[i], "Attention of layer %d", l->layer[i]);
        for (int h = 0; h < l->heads; h++) l->panel[i][h] = (ll_panel){l->name[h], l->rows, l->cols, panel_of(l, i, h)};
        l->group[i] = (ll_heat_map){
            .title = l->title[i], .x_label = x, .y_label = y, .shades = shades, .n = l->heads, .panels = l->panel[i]};
    }
}

/* ---- Sequences ---- */

/* Means over queries: own weight, weight of the token before, distance, and e^entropy: the number of tokens that share
 * the weight. Negative weights count by their size. */
static void sum_up(const attention_study *l, const ll_study *s, int layer, int head, double mean[4]) {
    for (int k = 0; k < 4; k++) mean[k] = 0;
    for (int i = 0; i < l->n; i++) {
        const float *w = row_of(l, s, layer, head, i);
        double total = 0, distance = 0, entropy = 0;
        for (int j = 0; j < l->N; j++) total += fabs((double)w[j]);
        if (!(total > 0)) continue;
        for (int j = 0; j < l->N; j++) {
            const double p = fabs((double)w[j]) / total;
            distance += p * fabs((double)(i - j));
            if (p > 0) entropy -= p * log(p);
        }
        mean[0] += fabs((double)w[i]) / total / l->n;
        if (i > 0 && l->n > 1) mean[1] += fabs((double)w[i - 1]) / total / (l->n - 1);
        mean[2] += distance / l->n;
        mean[3] += exp(entropy) / l->n;
    }
}

static void fill_sequence(attention_study *l, const ll_study *s) {
    static const char *const format[4] = {"%.3f", "%.3f", "%.1f", "%.1f"};
    for (int i = 0; i < l->layers; i++)
        for (int h = 0; h < l->heads; h++) {
            const int at = (i * l->heads + h) * COLUMNS;
            double mean[4];
            float *panel = panel_of(l, i, h);
            sum_up(l, s, i, h, mean);
            l->cell[at] = l->name[h];
            for (int k = 0; k < 4; k++) {
                ll_format_text(l->text[at + 1 + k], TEXT, format[k], mean[k]);
                l->cell[at + 1 + k] = l->text[at + 1 + k];
            }
            for (int q = 0; q < l->n; q++)
                for (int j = 0; j < l->N; j++)
                    panel[q * l->cols + j] = j > q && s->c->model.task == LL_TASK_LM ? NAN : row_of(l, s, i, h, q)[j];
        }
    describe_groups(l, LL_SHADES_ROW, "key: the token that is read", "query: the token that reads, from the top");
}

static void show_sequence(attention_study *l, const ll_study *s, const int *tokens, int length) {
    static const char *const head[COLUMNS] = {"head", "on itself", "on the one before", "mean distance",
                                              "tokens in view"};
    static const ll_html_about about = {
        "attention",
        "How much each token (a row) takes from every token (a column), on held-out data. Each row is shaded "
        "up to its own largest weight."};
    char text[8 * TOKENS];
    size_t size = 0, from = 0;
    const ll_html_maps maps = {.tab = "Layer",
                               .groups = l->layers,
                               .number = l->layer,
                               .of = s->c->model.layers,
                               .group = l->group,
                               .head = head,
                               .cols = COLUMNS,
                               .summary = l->cell};
    fill_sequence(l, s);
    for (int i = 0; i < length; i++) size += ll_study_token(s, tokens[i], text + size, sizeof text - size);
    ll_html_maps_write(s->h, &about, &maps);
    while (from < size && text[from] == '\n') from++; /* the token of a beginning, which has no text */
    ll_html_sample(s->h, "The text of these tokens", "", 0, text + from, size - from);
}

/* ---- Images ---- */

static void show_image(attention_study *l, const ll_study *s, const int *tokens, int cls_tokens) {
    const int n = l->cols * l->rows;
    int width, height;
    ll_reader_image(s->data, &width, &height);
    char caption[80];
    const char *const captions[1] = {caption};
    const ll_html_about about = {
        "attention",
        "The weights of every token (a pixel, or a patch) for the one in the middle of a held-out image, each head "
        "shaded up to its own largest weight."};
    unsigned char *pixels = ll_alloc((size_t)width * (size_t)height, 1);
    if (!pixels) {
        ll_html_fail(s->h, LL_ENOMEM);
        return;
    }
    ll_study_gray(s, tokens, pixels);
    snprintf(caption, sizeof caption, "The image; token %d of row %d looks", l->cols / 2 + 1, l->rows / 2 + 1);
    for (int i = 0; i < l->layers; i++)
        for (int h = 0; h < l->heads; h++)
            for (int j = 0; j < n; j++) panel_of(l, i, h)[j] = row_of(l, s, i, h, 0)[cls_tokens + j];
    describe_groups(l, LL_SHADES_PANEL, "columns of tokens", "rows of tokens");
    const ll_html_maps maps = {
        .tab = "Layer", .groups = l->layers, .number = l->layer, .of = s->c->model.layers, .group = l->group};
    const ll_html_images image = {1, width, height, pixels, captions};
    ll_html_images_write(s->h, &image);
    ll_html_maps_write(s->h, &about, &maps);
    ll_free(pixels);
}

/* ---- Both ---- */

ll_status ll_study_attention(const ll_study *s) {
    attention_study *l = ll_alloc(1, sizeof *l);
    int width = 0, height = 0, length = 0, query[TOKENS + 1];
    ll_status status = l ? LL_OK : LL_ENOMEM;
    ll_reader_image(s->data, &width, &height);
    const int image = width * height > 1, cls_tokens = s->model->cls_tokens;
    const int most = image ? width * height * ll_reader_channels(s->data) : TOKENS;
    const int side = s->c->model.patch ? s->c->model.patch : 1, columns = width / side, rows = height / side;
    int *tokens = ll_alloc((size_t)most, sizeof *tokens);
    if (!status) status = tokens ? ll_study_excerpt(s, 0.5, tokens, most, &length) : LL_ENOMEM;
    if (!status) {
        l->N = (image ? rows * columns : length) + cls_tokens;
        l->n = image ? 1 : l->N;
        l->rows = image ? rows : l->n;
        l->cols = image ? columns : l->N;
        for (int i = 0; i < l->n; i++) query[i] = image ? cls_tokens + rows / 2 * columns + columns / 2 : i;
        status = prepare(l, s);
    }
    if (!status && ll_study_bound(ll_model_cost(s->model, length).multiply_adds * length * l->layers / 16, 0, 1) < 1)
        status = ll_fail(LL_EINVAL, "One image is too much work for this model to be shown here.");
    for (int i = 0; !status && i < l->layers; i++)
        status = ll_model_attention_rows(s->model, tokens, length, l->layer[i] - 1, query, l->n, row_of(l, s, i, 0, 0));
    if (!status && image) show_image(l, s, tokens, cls_tokens);
    if (!status && !image) show_sequence(l, s, tokens, length);
    if (l) attention_study_free(l);
    ll_free(tokens);
    ll_free(l);
    return status;
}
