/* Learned positions as functions of the distance d = i - j between a query and a key (docs/math.md, 7): the expected
 * value of a code, for each feature of a head; or the number added to the logits, for each head. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/exact/logit_bias.h"
#include "base/integer.h"
#include "base/memory.h"
#include "study/study.h"

enum { DISTANCES = 129, FEATURES = 64, PANELS = 48, HEADS = 16 };
static const double TURN = 6.28318530717958647692;

typedef struct {
    const ll_study *s;
    int layer, first; /* distance of the first column */
    int head, features, axis;
} learned_position;

const float *ll_study_position(const ll_study *s, int layer, const char *name, int *cols) {
    static const char *const prefixes[] = {"", "decoder."};
    char own[64];
    const float *data = NULL;
    for (int i = 0; i < 2 && !data; i++) {
        snprintf(own, sizeof own, "%sblocks.%d.position.%s", prefixes[i], layer, name);
        data = ll_study_tensor(s, own, cols);
    }
    snprintf(own, sizeof own, "position.%s", name);
    return data ? data : ll_study_tensor(s, own, cols);
}

static const float *parameter(const learned_position *p, const char *name, int *cols) {
    return ll_study_position(p->s, p->layer, name, cols);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double softplus(double x) {
    return log1p(exp(-fabs(x))) + fmax(x, 0);
}

/* sum_t l_t^2 cos(2 pi f_t d + o_t) / 2K of feature c of the head. */
static double sine(const learned_position *p, size_t c, double d) {
    int K = 0;
    const float *freqs = parameter(p, "freqs", &K), *offsets = parameter(p, "offsets", NULL),
                *gains = parameter(p, "gains", NULL);
    double sum = 0;
    for (size_t i = c * (size_t)K; i < (c + 1) * (size_t)K; i++) {
        const double l = softplus((double)gains[i]), f = sigmoid((double)freqs[i]) / 2;
        sum += l * l * cos(TURN * f * d + (double)offsets[i]) / (2.0 * K);
    }
    return sum;
}

/* sum_t filter_q[t] filter_k[t + d]; of image filters along a row. */
static double convolution(const learned_position *p, size_t c, int d) {
    int all = 0;
    const float *q = parameter(p, "filter_q", &all), *k = parameter(p, "filter_k", NULL);
    const int taps = p->s->c->position.taps;
    double sum = 0;
    q += c * (size_t)all, k += c * (size_t)all;
    for (int i = 0; i < all; i++)
        if (i % taps + d >= 0 && i % taps + d < taps) sum += (double)q[i] * (double)k[i + d];
    return sum;
}

/* sum_t a_t cos w_t d + b_t sin w_t d of a head along an axis. */
static double wave(const learned_position *p, size_t head, double d) {
    int pairs = 0, one = 0;
    const float *alpha = parameter(p, "alpha", &pairs), *beta = parameter(p, "beta", NULL),
                *w = parameter(p, "inv_freq", &one);
    const int S = p->s->c->position.scales;
    double sum = 0;
    for (int t = 0; t < S; t++) {
        const size_t at = head * (size_t)pairs + (size_t)(p->axis * S + t);
        sum += (double)alpha[at] * cos((double)w[t] * d) + (double)beta[at] * sin((double)w[t] * d);
    }
    return sum;
}

/* What t5 adds for a key d tokens before the query. */
static double bias(const learned_position *p, size_t head, int d) {
    int buckets = 0;
    const float *b = parameter(p, "bias", &buckets);
    return (double)b[head * (size_t)buckets + (size_t)ll_t5_bucket(-d, p->s->c->model.task == LL_TASK_LM)];
}

/* Are they numbers that are added to logits? */
static int is_added(const ll_study *s) {
    return s->c->position.type == LL_POSITION_RELATIVE_S1 || s->c->position.type == LL_POSITION_T5;
}

/* Row `row` of a panel: a feature of the panel's head; or, for numbers added to logits, a head (along the panel's
 * axis). */
static double value(const learned_position *p, int row, int d) {
    if (p->s->c->position.type == LL_POSITION_T5) return bias(p, (size_t)row, d);
    if (is_added(p->s)) return wave(p, (size_t)row, d);
    const size_t c = (size_t)p->head * (size_t)p->features + (size_t)row;
    return p->s->c->position.type == LL_POSITION_SINE_SPE ? sine(p, c, d) : convolution(p, c, d);
}

int ll_study_layer(const ll_study *s, int i, int n) {
    return n > 1 ? (int)((int64_t)i * (s->c->model.layers - 1) / (n - 1)) : 0;
}

typedef struct {
    int layers, panels, rows, number[PANELS]; /* number: of a layer, from 1 */
    float *values;
    ll_heat_map group[PANELS];
    ll_panel panel[PANELS][HEADS];
    char title[PANELS][48], name[HEADS][24];
} kernels;

static void fill(kernels *k, const ll_study *s) {
    const int causal = s->c->model.task == LL_TASK_LM, step = is_added(s) ? 1 : k->rows;
    float *at = k->values;
    for (int i = 0; i < k->layers; i++) {
        const int layer = ll_study_layer(s, i, k->layers);
        k->number[i] = layer + 1;
        snprintf(k->title[i], sizeof k->title[i], "Functions of the distance, layer %d", layer + 1);
        k->group[i] = (ll_heat_map){
            .title = k->title[i],
            .x_label = causal ? "distance to the key, 0 to 128 tokens back" : "distance to the key, -64 to 64 tokens",
            .y_label = is_added(s) ? "heads, from the top" : "features of the head, from the top",
            .shades = LL_SHADES_ROW,
            .n = k->panels,
            .panels = k->panel[i]};
        for (int panel = 0; panel < k->panels; panel++) {
            k->panel[i][panel] = (ll_panel){k->name[panel], k->rows, DISTANCES, at};
            const learned_position p = {s, layer, causal ? 0 : -(DISTANCES / 2), panel, step, panel};
            for (int row = 0; row < k->rows; row++)
                for (int d = 0; d < DISTANCES; d++) *at++ = (float)value(&p, row, p.first + d);
        }
    }
}

ll_status ll_study_distance(const ll_study *s) {
    const ll_config *c = s->c;
    kernels *k = ll_alloc(1, sizeof *k);
    if (!k) return LL_ENOMEM;
    const int D = ll_config_query_size(s->model->c), image = c->position.image != 0;
    k->panels = is_added(s) ? 1 + image : ll_min_int(c->model.heads, HEADS);
    k->rows = is_added(s) ? ll_min_int(c->model.heads, FEATURES) : D;
    k->layers = ll_min_int(PANELS / k->panels, c->model.layers);
    if (c->position.shared) k->layers = 1;
    for (int i = 0; i < k->panels; i++) {
        if (is_added(s))
            snprintf(k->name[i], sizeof k->name[i], "%s", !image ? "" : i ? "along a row" : "along a column");
        else
            snprintf(k->name[i], sizeof k->name[i], "head %d", i + 1);
    }
    const size_t panels = (size_t)k->layers * (size_t)k->panels;
    k->values = ll_alloc(panels * (size_t)k->rows, DISTANCES * sizeof *k->values);
    ll_status status = k->values ? LL_OK : LL_ENOMEM;
    if (!status) {
        const ll_html_about about = {
            "distance", is_added(s)
                            ? "What each head adds to the logits at a distance, shaded up to its own largest."
                            : "P_d(m-n): what the codes of query and key come to at a distance, for each feature "
                              "of a head, shaded up to its own largest."};
        const ll_html_maps maps = {
            .tab = "Layer", .groups = k->layers, .number = k->number, .of = c->model.layers, .group = k->group};
        fill(k, s);
        ll_html_maps_write(s->h, &about, &maps);
    }
    ll_free(k->values);
    ll_free(k);
    return status;
}
