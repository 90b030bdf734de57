/* Learned vectors of distances (docs/math.md, 7 and 9): their numbers against the distance, as for other learned
 * positions, and their lengths. shaw adds vectors to keys and optionally to values; relative-s2 has them in place of
 * the keys of half of the heads. */
#include <math.h>
#include <stdio.h>

#include "base/integer.h"
#include "base/memory.h"
#include "study/study.h"

enum { LAYERS = 12, TENSORS = 2, MOST = 2 * 255 + 1 };

typedef struct {
    const char *name, *label; /* the tensor; its panel */
} tensor;
static const tensor added[TENSORS] = {{"distance_k", "added to keys"}, {"distance_v", "added to values"}},
                  instead[TENSORS] = {{"rpe", "in place of keys"}};

typedef struct {
    const ll_study *s;
    const tensor *tensor;
    int tensors, layers, n; /* n: distances */
    int least;            /* the first of them */
    int number[LAYERS];   /* of the layers that are shown, from 1 */
    int cols[TENSORS];
    float *values; /* (layers, tensors, cols, n) */
    double distance[MOST], length[LAYERS][TENSORS][MOST];
    ll_panel panel[LAYERS][TENSORS];
    ll_heat_map group[LAYERS];
    ll_curve curve[LAYERS * TENSORS];
    char title[LAYERS][48], label[LAYERS * TENSORS][48];
} vectors;

/* The row of distance number i. shaw's rows go from the farthest key before the query to the farthest after it, j - i =
 * -clip .. clip. Here the order is reversed, so that distances are i - j. */
static int row_of(const vectors *v, int i) { return v->s->c->position.type == LL_POSITION_SHAW ? v->n - 1 - i : i; }

/* A panel: rows are the numbers of the vectors, columns distances. */
static float *transpose(vectors *v, int picture, int k, float *at) {
    int D = 0;
    const float *x = ll_study_position(v->s, ll_study_layer(v->s, picture, v->layers), v->tensor[k].name, &D);
    v->panel[picture][k] = (ll_panel){v->tensor[k].label, D, v->n, at};
    for (int i = 0; i < v->n; i++) {
        double square = 0;
        for (int c = 0; c < D; c++) {
            const float value = x[(size_t)row_of(v, i) * (size_t)D + (size_t)c];
            at[(size_t)c * (size_t)v->n + (size_t)i] = value;
            square += (double)value * (double)value;
        }
        v->length[picture][k][i] = sqrt(square);
    }
    return at + (size_t)D * (size_t)v->n;
}

static void fill(vectors *v, const char *axis) {
    float *at = v->values;
    for (int i = 0; i < v->n; i++) v->distance[i] = v->least + i;
    for (int i = 0; i < v->layers; i++) {
        const int layer = v->number[i] = ll_study_layer(v->s, i, v->layers) + 1;
        snprintf(v->title[i], sizeof v->title[i], "Vectors of distances, layer %d", layer);
        v->group[i] = (ll_heat_map){.title = v->title[i],
                                    .x_label = axis,
                                    .y_label = "numbers of the vector, from the top",
                                    .n = v->tensors,
                                    .panels = v->panel[i]};
        for (int k = 0; k < v->tensors; k++) {
            const int number = i * v->tensors + k;
            const char *which = v->tensors > 1 ? k ? " values" : " keys" : "";
            at = transpose(v, i, k, at);
            if (v->s->c->position.shared)
                snprintf(v->label[number], sizeof *v->label, "all layers%s", which);
            else
                snprintf(v->label[number], sizeof *v->label, "layer %d%s", layer, which);
            v->curve[number] = (ll_curve){v->label[number], v->n, v->distance, v->length[i][k]};
        }
    }
}

static void show(vectors *v) {
    const ll_config *c = v->s->c;
    const int s2 = c->position.type == LL_POSITION_RELATIVE_S2;
    const char *what = s2 && c->position.image           ? "pixels away"
                       : c->model.task == LL_TASK_LM ? "tokens back"
                       : s2                    ? "tokens away"
                                               : "tokens back (below 0: after the query)";
    char axis[96], caption[400];
    snprintf(axis, sizeof axis, "distance to the key, %d to %d %s", v->least, v->least + v->n - 1, what);
    fill(v, axis);
    snprintf(caption, sizeof caption,
             "What is learned for each distance: a vector, whose numbers are rows; columns are the %s. Keys that are "
             "farther have the outermost. %s",
             axis,
             s2 ? "A query weighs a value by its product with the vector of the distance."
                : "Its product with a query is what the logit gains.");
    ll_html_maps_write(
        v->s->h, &(ll_html_about){"distance", caption},
        &(ll_html_maps){
            .tab = "Layer", .groups = v->layers, .number = v->number, .of = c->model.layers, .group = v->group});
    const ll_figure f = {.title = "Length of the vectors of distances",
                         .x_label = what,
                         .y_label = "length",
                         .n = v->layers * v->tensors,
                         .curves = v->curve};
    ll_html_plot(v->s->h,
                 &(ll_html_about){"distance-length", "How long the vectors are: how much a distance can weigh for "
                                                     "queries of one length, whatever they look for."},
                 &f, NULL);
}

ll_status ll_study_vectors(const ll_study *s) {
    const ll_config *c = s->c;
    vectors *v = ll_alloc(1, sizeof *v);
    if (!v) return LL_ENOMEM;
    const int s2 = c->position.type == LL_POSITION_RELATIVE_S2, both = !s2 && c->model.task != LL_TASK_LM;
    v->s = s;
    v->tensor = s2 ? instead : added;
    v->tensors = !s2 && c->position.distance_values ? 2 : 1;
    v->layers = c->position.shared ? 1 : ll_min_int(c->model.layers, LAYERS);
    v->least = both ? -c->position.distances : 0;
    v->n = c->position.distances - v->least + 1;
    size_t rows = 0;
    for (int k = 0; k < v->tensors; k++) {
        int D = 0;
        ll_study_position(s, 0, v->tensor[k].name, &D);
        rows += (size_t)D;
    }
    v->values = ll_alloc((size_t)v->layers * rows, (size_t)v->n * sizeof *v->values);
    const ll_status status = v->values ? LL_OK : LL_ENOMEM;
    if (!status) show(v);
    ll_free(v->values);
    ll_free(v);
    return status;
}
