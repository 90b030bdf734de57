/* How the error of random features grows through a Transformer (Choromanski et al. 2021, Figure 14). The same weights
 * run once with softmax attention and once with its estimate; the error is the difference of the outputs of each layer.
 * Weights are random, of a size that gives queries and keys unit variance. Every repeat draws new features. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/analyse_internal.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "model/network.h"

enum { LAYERS = 12, VOCAB = 256, SIZES = 3 };

/* Heads have size 16. */
static int width_of(const ll_analysis *how) {
    return how->quick ? 32 : 128;
}

typedef struct {
    ll_model *model;
    ll_workspace *ws;
} side;

static ll_status create(side *s, const char *kernel, int features, int T, const ll_analysis *how) {
    char keys[400];
    const int width = width_of(how);
    ll_format_text(keys, sizeof keys,
                   "model.layers=%d|model.width=%d|model.heads=%d|model.ff=%d|model.vocab=%d|model.task=classify|"
                   "model.init-std=%.9g|attention.kernel=%s|attention.num-features=%d|train.seed=%llu|train.length=%d",
                   LAYERS, width, width / 16, 4 * width, VOCAB, 1 / sqrt(width), kernel, features,
                   (unsigned long long)(how->seed % 1000000000), T);
    const ll_status status = ll_analyse_model(&s->model, keys);
    if (status) return status;
    float *embedding = ll_param_in(s->model, s->model->data, s->model->at.embedding);
    for (int i = 0; i < VOCAB * width; i++) embedding[i] *= (float)sqrt(width); /* as in Vaswani et al. 2017 */
    return ll_workspace_create(&s->ws, s->model, 1, T, 1); /* training keeps the output of every layer */
}

static void destroy(side *s) {
    ll_workspace_free(s->ws);
    ll_model_free(s->model);
}

static ll_status forward(const side *s, const int *tokens, int T) {
    const ll_batch in = {.B = 1, .T = T, .tokens = (int *)tokens};
    const ll_batch_run run = ll_network_begin(s->model, s->ws, &in);
    return ll_network_forward(&run);
}

/* |a - b| / |b| for the output of block `layer`. */
static double distance(const side *a, const side *b, int layer, int T) {
    const float *x = a->ws->residual[2 * layer], *y = b->ws->residual[2 * layer];
    double error = 0, size = 0;
    for (size_t i = 0; i < (size_t)T * (size_t)a->model->c->model.width; i++) {
        const double d = (double)x[i] - (double)y[i];
        error += d * d;
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(error / size);
}

static ll_status one_size(ll_table *t, const ll_analysis *how, const side *exact, const int *tokens, int T, int size,
                          int features, int repeats, double *last) {
    side estimate = {0};
    ll_mean error[LAYERS + 1] = {0};
    ll_status status = create(&estimate, "favor", features, T, how);
    if (!status) memcpy(estimate.model->data, exact->model->data, exact->model->size * sizeof(float));
    for (int r = 0; r < repeats && !status; r++) {
        status = ll_model_redraw(estimate.model, r);
        if (!status) status = forward(&estimate, tokens, T);
        for (int l = 1; l <= LAYERS && !status; l++) ll_mean_add(&error[l], distance(&estimate, exact, l, T));
        if (!status) status = ll_analyse_step(how, size * repeats + r + 1, SIZES * repeats);
    }
    char label[LL_TABLE_LABEL];
    snprintf(label, sizeof label, "%d features", features);
    for (int l = 1; l <= LAYERS && !status; l++)
        status = ll_table_add(t, label, (double[]){l, error[l].mean, ll_mean_deviation(&error[l])});
    last[0] = error[1].mean, last[1] = error[LAYERS].mean;
    destroy(&estimate);
    return status;
}

ll_status ll_analyse_layers(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"layer", "error", "deviation", NULL};
    static const ll_plot plots[] = {{"layers", "Difference between exact and estimated attention after each layer",
                                     "layer", "error over size, orthogonal positive features", 0, 1, 2, 0, 0}};
    static const int sizes[SIZES] = {64, 256, 1024};
    const int repeats = how->repeats ? how->repeats : how->quick ? 2 : 10;
    const int T = how->length ? how->length : how->quick ? 64 : 512;
    double ends[SIZES][2];
    side exact = {0};
    int *tokens = ll_alloc((size_t)T, sizeof *tokens);
    ll_status status =
        ll_table_create(table, "Error of estimated attention through 12 layers", "features", columns, 1, plots);
    if (!status && !tokens) status = LL_ENOMEM;
    for (int i = 0; i < T && !status; i++)
        tokens[i] = (int)ll_below(VOCAB, how->seed, ll_stream_id(LL_RANDOM_ANALYSE, 16, 0), (uint64_t)i);
    if (!status) status = create(&exact, "softmax", 16, T, how);
    if (!status) status = forward(&exact, tokens, T);
    for (int i = 0; i < SIZES && !status; i++)
        status = one_size(*table, how, &exact, tokens, T, i, sizes[i], repeats, ends[i]);
    if (!status)
        ll_table_verdict(*table,
                         "claim: the error grows through the layers. From layer 1 to %d it grows %.1f, %.1f and %.1f "
                         "times with %d, %d and %d features",
                         LAYERS, ends[0][1] / ends[0][0], ends[1][1] / ends[1][0], ends[2][1] / ends[2][0], sizes[0],
                         sizes[1], sizes[2]);
    ll_free(tokens);
    destroy(&exact);
    return status;
}
