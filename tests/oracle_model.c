/* The forward pass of a model, as its documentation says it, in double. */
#include "oracle_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/operator.h"
#include "base/random.h"
#include "oracle_compat.h"
#include "oracle_model_position.h"

static double *zeros(size_t n) {
    return calloc(n + 1, sizeof(double));
}

oracle_model oracle_model_of(const ll_model *model, int B, int T) {
    oracle_model o = {.model = model, .B = B, .T = T, .params = zeros(model->size)};
    for (size_t i = 0; i < model->size; i++) o.params[i] = model->data[i];
    return o;
}

/* A parameter by name; layer < 0: of no layer. NULL: the model has none. */
static const double *param(const oracle_model *o, int layer, const char *name) {
    char full[96];
    if (layer < 0) {
        snprintf(full, sizeof full, "%s%s", o->prefix, name);
    } else {
        snprintf(full, sizeof full, "%sblocks.%d.%s", o->prefix, layer, name);
    }
    for (int i = 0; i < o->model->count; i++)
        if (!strcmp(o->model->param[i].name, full)) return o->params + o->model->param[i].offset;
    return NULL;
}

/* One that all stacks share. */
static const double *shared(const oracle_model *o, const char *name) {
    oracle_model all = *o;
    all.prefix = "";
    return param(&all, -1, name);
}

static int head_size(const ll_model_config *c) {
    return c->model.head_size ? c->model.head_size : c->model.width / c->model.heads;
}
static int cls_tokens(const oracle_model *o) {
    return !ll_task_per_token(o->model->c->model.task) && o->model->c->model.pool == LL_POOL_FIRST;
}
static int length(const oracle_model *o, int b) { return (o->lengths ? o->lengths[b] : o->T) + cls_tokens(o); }

/* y (n) = x (k) W (k, n) + bias */
static void linear(int k, int n, const double *x, const double *W, const double *bias, double *y) {
    for (int j = 0; j < n; j++) {
        y[j] = bias ? bias[j] : 0;
        for (int i = 0; i < k; i++) y[j] += x[i] * W[i * n + j];
    }
}

static void norm(const oracle_model *o, int layer, const char *name, const double *x, double *y) {
    char gain[64], bias[64];
    snprintf(gain, sizeof gain, "%s.gain", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const double *g = param(o, layer, gain), *b = param(o, layer, bias);
    const int C = o->model->c->model.width;
    double mean = 0, variance = 0;
    for (int i = 0; i < C; i++) mean += x[i] / C;
    for (int i = 0; i < C; i++) variance += (x[i] - mean) * (x[i] - mean) / C;
    for (int i = 0; i < C; i++) y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * g[i] + b[i];
}

/* x (C) of token t in sequence b under the mask of a site: 16 bits of four words for each of 8 columns. */
static void dropout(const oracle_model *o, int layer, int site, int b, int t, double *x) {
    const ll_model_config *c = o->model->c;
    if (!o->dropout || c->model.dropout == 0) return;
    const uint64_t stream =
        ll_stream_id(LL_RANDOM_DROPOUT, (uint32_t)(4 * (o->first + layer) + site), (uint32_t)o->draw);
    const double limit = floor(c->model.dropout * 65536 + 0.5);
    for (int i = 0; i < c->model.width; i++) {
        uint32_t word[4];
        ll_random4(word, (uint64_t)c->seed, stream,
                   ((uint64_t)b << 44) + (uint64_t)(t * ((c->model.width + 7) / 8) + i / 8));
        const uint32_t lane = (i % 2 ? word[i % 8 / 2] >> 16 : word[i % 8 / 2]) & 0xffff;
        x[i] = lane < limit ? 0 : x[i] * 65536 / (65536 - limit);
    }
}

static void embed(const oracle_model *o, int b, int t, double *x) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, p = t - cls_tokens(o);
    const double *E = shared(o, "embedding.weight"), *learned = param(o, -1, "embedding.position");
    double raw[256];
    for (int i = 0; i < C; i++) {
        if (p < 0) {
            raw[i] = param(o, -1, "embedding.first")[i];
            continue;
        }
        raw[i] = E[o->tokens[b * o->T + p] * C + i];
        if (c->position.type == LL_POSITION_LEARNED) raw[i] += learned[p * C + i];
        if (c->position.type == LL_POSITION_SINUSOIDAL) {
            const double angle = p * pow(10000, -2.0 * (i / 2) / C);
            raw[i] += ll_config_init_std(c) * (i % 2 ? cos(angle) : sin(angle));
        }
    }
    if (c->model.embedding_norm) {
        norm(o, -1, "embedding.norm", raw, x);
    } else {
        memcpy(x, raw, (size_t)C * sizeof *x);
    }
    dropout(o, 0, 0, b, t, x);
}

static int gated(const oracle_model *o) {
    return o->model->c->attention.kernel == LL_KERNEL_GLA;
}

/* The mechanism as the recipe names it; the draws are the model's. */
static ll_attention_config mechanism(const oracle_model *o, int op, int causal, int placed) {
    const ll_model_config *c = o->model->c;
    const ll_attention_config *draws = &o->model->attention[op]->c;
    const int E = head_size(c), D = E * c->attention.query_multiple;
    ll_attention_config a = {.causal = causal, .H = c->model.heads, .D = D, .E = E, .input_scale = 1};
    if (placed) oracle_model_position_describe(o, &a);
    const int W = oracle_width(&a);
    if (c->attention.kernel == LL_KERNEL_SOFTMAX) a.kernel = LL_KERNEL_SOFTMAX, a.input_scale = (float)(1 / sqrt(W));
    if (c->attention.kernel == LL_KERNEL_FAVOR) {
        a.kernel = LL_KERNEL_FAVOR, a.input_scale = (float)(1 / sqrt(sqrt(W)));
        a.features = (ll_feature_kind)c->attention.features;
        a.M = c->attention.features == LL_FEATURES_POSITIVE ? c->attention.num_features : c->attention.num_features / 2;
    }
    a.baseline.window = c->attention.window, a.baseline.rank = c->attention.linformer_rank;
    a.baseline.rotations = draws->baseline.rotations;
    a.baseline.buckets = c->attention.buckets, a.baseline.chunk = c->attention.chunk,
    a.baseline.rounds = c->attention.rounds;
    a.baseline.landmarks = c->attention.landmarks, a.baseline.iterations = c->attention.iterations;
    if (c->attention.kernel > LL_KERNEL_GLA)
        a.kernel = (ll_kernel)c->attention.kernel, a.input_scale = (float)(1 / sqrt(W));
    if (c->attention.kernel >= LL_KERNEL_RELU && c->attention.kernel <= LL_KERNEL_GLA) {
        const int zero = c->attention.kernel == LL_KERNEL_ELU1 || c->attention.kernel == LL_KERNEL_EXP ||
                         c->attention.kernel == LL_KERNEL_SIGMOID || gated(o);
        a.kernel = (ll_kernel)c->attention.kernel, a.feature_eps = zero ? 0 : 1e-3f;
        if (c->attention.projection >= LL_PROJ_ORTHOGONAL || draws->projection) a.M = c->attention.num_features;
    }
    a.projection = draws->projection;
    a.den = LL_DEN_SUM;
    if (!c->attention.normalise || gated(o)) a.query_max = a.key_max = LL_MAX_NONE;
    oracle_compat(ll_recipe_get(o->model->recipe, "attention.compat"), W, &a);
    if (c->attention.feature_eps >= 0) a.feature_eps = (float)c->attention.feature_eps;
    if (!c->attention.normalise || gated(o)) a.den = LL_DEN_NONE;
    a.permutation = draws->permutation;
    if (c->position.type == LL_POSITION_PERMUTE && placed) a.position = LL_POSITION_PERMUTE;
    if (c->position.type == LL_POSITION_PERMUTE2D) {
        a.position = LL_POSITION_PERMUTE2D;
        a.width = c->position.width, a.height = c->position.height, a.before = cls_tokens(o);
    }
    a.decay = draws->decay;
    return a;
}

/* Rows 0..n-1 of the heads from `first` on, the last one first. */
static void turn_round(int first, int H, int S, int n, int width, double *x) {
    for (int h = first; h < H; h++)
        for (int t = 0; t < n / 2; t++)
            for (int e = 0; e < width; e++) {
                double *a = x + (h * S + t) * width + e, *b = x + (h * S + n - 1 - t) * width + e, kept = *a;
                *a = *b;
                *b = kept;
            }
}

/* log sigmoid(u) / 16 with u = a W + bias, (B, H, T). */
static double *gates(const oracle_model *o, int layer, int T, const double *a) {
    const int C = o->model->c->model.width, H = o->model->c->model.heads;
    double *gate = zeros((size_t)(o->B * H * T)), *u = zeros((size_t)H);
    for (int r = 0; r < o->B * T; r++) {
        linear(C, H, a + r * C, param(o, layer, "attention.gate.weight"), param(o, layer, "attention.gate.bias"), u);
        for (int h = 0; h < H; h++) gate[(r / T * H + h) * T + r % T] = -log(1 + exp(-u[h])) / 16;
    }
    free(u);
    return gate;
}

/* Each of H heads of y (H E) over the root of its mean square. */
static void head_norm(const oracle_model *o, int H, int E, double *y) {
    const int choice = o->model->c->attention.output_norm;
    if (choice == LL_OUTPUT_NORM_OFF || (choice == LL_OUTPUT_NORM_AUTO && !gated(o))) return;
    for (int h = 0; h < H; h++) {
        double mean = 0;
        for (int e = 0; e < E; e++) mean += y[h * E + e] * y[h * E + e] / E;
        for (int e = 0; e < E; e++) y[h * E + e] /= sqrt(mean + 1e-5);
    }
}

/* F_j of attention for all tokens: a, out (B, T, C). Cross: keys and values are made of o->top. */
static void attention(const oracle_model *o, int layer, int cross, int T, const double *a, double *out) {
    static const char *const names[2][3] = {
        {"attention.query.weight", "attention.key.weight", "attention.value.weight"},
        {"cross.query.weight", "cross.key.weight", "cross.value.weight"}};
    const int C = o->model->c->model.width, B = o->B, from = o->model->c->position.cross, S = cross ? o->S : T;
    const int op = o->first + layer + (cross ? o->layers : 0);
    oracle_case s = {.c = mechanism(o, op, o->causal && !cross, !cross || from), .B = B, .T = T, .S = S};
    const int H = s.c.H, E = s.c.E, keyed = H - s.c.where.keyless, wide = H * s.c.D > H * E ? H * s.c.D : H * E;
    double *part[3], *row = zeros((size_t)wide), *y = zeros((size_t)(B * H * T * E));
    int *lengths = calloc((size_t)B, sizeof *lengths);
    for (int b = 0; b < B; b++) lengths[b] = !cross ? length(o, b) : o->source_lengths ? o->source_lengths[b] : S;
    for (int i = 0; i < 3; i++) {
        const int n = i < 2 ? s.c.D : E, heads = i == 1 ? keyed : H, N = i ? S : T;
        const double *W = param(o, layer, names[cross][i]); /* some kernels lack queries or keys */
        part[i] = zeros((size_t)(B * H * N * n));
        for (int r = 0; W && r < B * N; r++) {
            linear(C, heads * n, (i && cross ? o->top : a) + r * C, W, NULL, row);
            for (int e = 0; e < heads * n; e++) part[i][((r / N * H + e / n) * N + r % N) * n + e % n] = row[e];
        }
        for (int b = 0; i && cross && from >= LL_CROSS_END && b < B; b++)
            turn_round(from == LL_CROSS_BOTH ? H / 2 : 0, H, S, lengths[b], n, part[i] + b * H * S * n);
    }
    int *query_lengths = calloc((size_t)B, sizeof *query_lengths);
    for (int b = 0; b < B; b++) query_lengths[b] = length(o, b);
    s.lengths = lengths, s.query_lengths = query_lengths, s.q = part[0], s.k = part[1], s.v = part[2];
    s.r = zeros((size_t)H);
    for (int h = 0; h < H; h++) s.r[h] = s.c.decay ? s.c.decay[h] : 1;
    s.linformer_k = param(o, layer, "attention.linformer_k"), s.linformer_v = param(o, layer, "attention.linformer_v");
    if (gated(o)) s.gate = gates(o, layer, T, a);
    oracle_model_position_forward(o, layer, cross, &s, y);
    part[0] = s.q, part[1] = s.k;
    for (int r = 0; r < B * T; r++) {
        for (int e = 0; e < H * E; e++) row[e] = y[((r / T * H + e / E) * T + r % T) * E + e % E];
        head_norm(o, H, E, row);
        linear(H * E, C, row, param(o, layer, cross ? "cross.output.weight" : "attention.output.weight"), NULL,
               out + r * C);
    }
    for (int i = 0; i < 3; i++) free(part[i]);
    free(row), free(y), free(lengths), free(query_lengths), free(s.r), free(s.gate);
}

static double activation(const ll_model_config *c, double u) {
    return c->model.activation == LL_ACT_RELU ? fmax(u, 0) : u * 0.5 * erfc(-u / sqrt(2));
}

static void feed(const oracle_model *o, int layer, const double *a, double *out) {
    const int C = o->model->c->model.width, ff = o->model->c->model.ff;
    double *u = zeros((size_t)ff);
    linear(C, ff, a, param(o, layer, "feed.in.weight"), param(o, layer, "feed.in.bias"), u);
    for (int i = 0; i < ff; i++) u[i] = activation(o->model->c, u[i]);
    linear(ff, C, u, param(o, layer, "feed.out.weight"), param(o, layer, "feed.out.bias"), out);
    free(u);
}

/* x (B T, C) becomes what sublayer j makes of it. */
static void sublayer(const oracle_model *o, int j, int T, double *x) {
    const int C = o->model->c->model.width, rows = o->B * T, pre = o->model->c->model.norm == LL_NORM_PRE;
    const int parts = o->cross ? 3 : 2, layer = j / parts, which = j % parts, feeds = which == parts - 1;
    const char *name = feeds ? "feed.norm" : which ? "cross.norm" : "attention.norm";
    double *a = zeros((size_t)(rows * C)), *F = zeros((size_t)(rows * C));
    memcpy(a, x, (size_t)(rows * C) * sizeof *a);
    for (int r = 0; pre && r < rows; r++) norm(o, layer, name, x + r * C, a + r * C);
    if (!feeds) attention(o, layer, which, T, a, F);
    for (int r = 0; r < rows; r++) {
        if (feeds) feed(o, layer, a + r * C, F + r * C);
        dropout(o, layer, feeds ? 2 : which ? 3 : 1, r / T, r % T, F + r * C);
        for (int i = 0; i < C; i++) F[r * C + i] += x[r * C + i];
        if (pre) {
            memcpy(x + r * C, F + r * C, (size_t)C * sizeof *x);
        } else {
            norm(o, layer, name, F + r * C, x + r * C);
        }
    }
    free(a), free(F);
}

static void head(const oracle_model *o, const double *x, double *logits) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, classify = !ll_task_per_token(c->model.task),
              V = classify ? c->model.classes : c->model.vocab;
    const double *W = shared(o, "head.weight"), *E = shared(o, "embedding.weight");
    if (W) {
        linear(C, V, x, W, classify ? shared(o, "head.bias") : NULL, logits);
        return;
    }
    for (int v = 0; v < V; v++) {
        logits[v] = 0;
        for (int i = 0; i < C; i++) logits[v] += x[i] * E[v * C + i];
    }
}

static void pool(const oracle_model *o, int T, const double *x, int b, double *mean) {
    const ll_model_config *c = o->model->c;
    const int n = c->model.pool == LL_POOL_FIRST ? 1 : length(o, b);
    for (int i = 0; i < c->model.width; i++) mean[i] = 0;
    for (int t = 0; t < n; t++)
        for (int i = 0; i < c->model.width; i++) mean[i] += x[(b * T + t) * c->model.width + i] / n;
}

static void classify(const oracle_model *o, int T, const double *x, double *logits) {
    double mean[256];
    for (int b = 0; b < o->B; b++) {
        pool(o, T, x, b, mean);
        head(o, mean, logits + b * o->model->c->model.classes);
    }
}

/* [u, v, u v, u - v] through a hidden layer. */
static void match(const oracle_model *o, int T, const double *x, double *logits) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, ff = c->model.ff;
    double u[256], v[256], both[1024], hidden[256];
    for (int b = 0; b + 1 < o->B; b += 2) {
        pool(o, T, x, b, u);
        pool(o, T, x, b + 1, v);
        for (int i = 0; i < C; i++) {
            both[i] = u[i], both[C + i] = v[i];
            both[2 * C + i] = u[i] * v[i], both[3 * C + i] = u[i] - v[i];
        }
        linear(4 * C, ff, both, shared(o, "head.in.weight"), shared(o, "head.in.bias"), hidden);
        for (int i = 0; i < ff; i++) hidden[i] = activation(c, hidden[i]);
        linear(ff, c->model.classes, hidden, shared(o, "head.weight"), shared(o, "head.bias"),
               logits + b / 2 * c->model.classes);
    }
}

/* What leaves a stack, (B, T, C). */
static double *stack(const oracle_model *o) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, T = o->T + cls_tokens(o), rows = o->B * T;
    double *x = zeros((size_t)(rows * C)), last[256];
    for (int r = 0; r < rows; r++)
        if (r % T < length(o, r / T)) embed(o, r / T, r % T, x + r * C);
    for (int j = 0; j < (o->cross ? 3 : 2) * o->layers; j++) sublayer(o, j, T, x);
    for (int r = 0; c->model.final_norm && c->model.norm == LL_NORM_PRE && r < rows; r++) {
        memcpy(last, x + r * C, (size_t)C * sizeof *last);
        norm(o, -1, "norm", last, x + r * C);
    }
    return x;
}

void oracle_model_logits(const oracle_model *of, double *logits) {
    const ll_model_config *c = of->model->c;
    oracle_model o = *of;
    double *top = NULL;
    o.prefix = "", o.layers = c->model.layers, o.causal = c->model.task == LL_TASK_LM;
    if (c->model.task == LL_TASK_SEQ2SEQ) {
        oracle_model e = o;
        e.prefix = "encoder.", e.layers = c->model.encoder_layers ? c->model.encoder_layers : c->model.layers;
        e.tokens = o.source, e.lengths = o.source_lengths, e.T = o.S;
        o.top = top = stack(&e);
        o.prefix = "decoder.", o.first = e.layers, o.causal = o.cross = 1;
    }
    double *x = stack(&o);
    const int T = o.T + cls_tokens(&o);
    if (c->model.task == LL_TASK_MATCH) {
        match(&o, T, x, logits);
    } else if (c->model.task == LL_TASK_CLASSIFY) {
        classify(&o, T, x, logits);
    } else {
        for (int r = 0; r < o.B * T; r++) head(&o, x + r * c->model.width, logits + r * c->model.vocab);
    }
    free(x);
    free(top);
}

double oracle_model_loss(const oracle_model *o) {
    const ll_model_config *c = o->model->c;
    const int classifier = !ll_task_per_token(c->model.task), V = classifier ? c->model.classes : c->model.vocab;
    const int rows = c->model.task == LL_TASK_MATCH ? o->B / 2 : classifier ? o->B : o->B * o->T;
    double *logits = zeros((size_t)(rows * V)), loss = 0;
    oracle_model_logits(o, logits);
    for (int r = 0; r < rows; r++) {
        if (o->targets[r] < 0 || (!classifier && r % o->T >= length(o, r / o->T))) continue;
        double top = -INFINITY, sum = 0;
        for (int v = 0; v < V; v++) top = fmax(top, logits[r * V + v]);
        for (int v = 0; v < V; v++) sum += exp(logits[r * V + v] - top);
        loss += top + log(sum) - logits[r * V + o->targets[r]];
    }
    free(logits);
    return loss;
}

double oracle_model_difference(oracle_model *o, size_t i) {
    const double x = o->params[i], h = 1e-6; /* a longer step would more often cross a kink of relu */
    o->params[i] = x + h;
    const double up = oracle_model_loss(o);
    o->params[i] = x - h;
    const double down = oracle_model_loss(o);
    o->params[i] = x;
    return (up - down) / (2 * h);
}
