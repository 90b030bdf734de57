/* The forward pass of a model by its documentation, in double. */
#include "oracle_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle_mechanism.h"
#include "oracle_model_position.h"

enum { WIDEST = 1032 /* columns of a model */ };

static double *zeros(size_t n) { return calloc(n + 1, sizeof(double)); }

oracle_model oracle_model_of(const ll_model *model, int B, int T) {
    if (model->c->model.width > WIDEST) abort();
    oracle_model o = {.model = model, .B = B, .T = T, .params = zeros(model->size)};
    for (size_t i = 0; i < model->size; i++) o.params[i] = model->data[i];
    return o;
}

/* A parameter by name; layer < 0: it belongs to no layer. NULL: the model has none. */
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

static int length(const oracle_model *o, int b) { return (o->lengths ? o->lengths[b] : o->T) + oracle_cls_tokens(o); }

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
    const int rms = o->model->c->model.norm_kind == LL_NORM_RMS;
    double mean = 0, variance = 0;
    for (int i = 0; i < C && !rms; i++) mean += x[i] / C;
    for (int i = 0; i < C; i++) variance += (x[i] - mean) * (x[i] - mean) / C;
    for (int i = 0; i < C; i++)
        y[i] = (x[i] - mean) / sqrt(variance + o->model->c->model.norm_eps) * g[i] + (rms ? 0 : b[i]);
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

/* The number of separators before token p, at most the last type. */
static int type_of(const oracle_model *o, int b, int p) {
    const ll_model_options *m = &o->model->c->model;
    int type = 0;
    for (int i = 0; i < p; i++) type += o->tokens[b * o->T + i] == m->type_separator;
    return type < m->token_types ? type : m->token_types - 1;
}

/* ESM-2's factor of the vectors of tokens. */
static double mask_scale(const oracle_model *o, int b, int token) {
    const int mask = o->model->c->model.mask_token, n = length(o, b) - oracle_cls_tokens(o);
    double masks = 0;
    for (int i = 0; i < n; i++) masks += o->tokens[b * o->T + i] == mask;
    if (mask < 0) return 1;
    return token == mask ? 0 : 0.88 / (1 - masks / n);
}

/* Output i of the convolution at patch p (Dosovitskiy et al. 2021, equation 1). */
static double patch_vector(const oracle_model *o, int b, int p, int i) {
    const ll_model_config *c = o->model->c;
    const int side = c->model.patch, n = c->model.channels, W = c->position.width, C = c->model.width;
    const int *image = o->tokens + b * W * c->position.height * n;
    const double *weight = param(o, -1, "embedding.patch.weight");
    double mean[3], deviation[3], sum = param(o, -1, "embedding.patch.bias")[i];
    if (ll_config_pixels(c, mean, deviation)) return NAN;
    for (int k = 0; k < n; k++)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const int row = p / (W / side) * side + y, column = p % (W / side) * side + x;
                const double v = (image[(row * W + column) * n + k] / 255.0 - mean[k]) / deviation[k];
                sum += v * weight[((k * side + y) * side + x) * C + i];
            }
    return sum;
}

static void embed(const oracle_model *o, int b, int t, double *x) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, p = t - oracle_cls_tokens(o);
    const double *E = c->model.patch ? NULL : shared(o, "embedding.weight");
    const double *learned = param(o, -1, "embedding.position");
    double raw[WIDEST];
    for (int i = 0; i < C; i++) {
        if (p < 0) {
            raw[i] = param(o, -1, "embedding.first")[i];
            if (c->position.cls) raw[i] += learned[c->position.offset * C + i];
            continue;
        }
        const int token = E ? o->tokens[b * o->T + p] : 0;
        raw[i] = E ? E[token * C + i] * mask_scale(o, b, token) : patch_vector(o, b, p, i);
        if (c->model.token_types) raw[i] += shared(o, "embedding.type")[type_of(o, b, p) * C + i];
        if (c->position.type == LL_POSITION_LEARNED)
            raw[i] += learned[(p + c->position.offset + c->position.cls) * C + i];
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

/* Rows 0..n-1 of the heads from `first` on, the last one first. */
static void reverse_rows(int first, int H, int S, int n, int width, double *x) {
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
    if (choice == LL_OUTPUT_NORM_OFF || (choice == LL_OUTPUT_NORM_AUTO && !oracle_gated(o))) return;
    for (int h = 0; h < H; h++) {
        double mean = 0;
        for (int e = 0; e < E; e++) mean += y[h * E + e] * y[h * E + e] / E;
        for (int e = 0; e < E; e++) y[h * E + e] /= sqrt(mean + 1e-5);
    }
}

/* F_j of attention for all tokens: a, out (B, T, C). Cross: keys and values come from o->top. */
static void attention(const oracle_model *o, int layer, int cross, int T, const double *a, double *out) {
    static const char *const names[2][3] = {
        {"attention.query.weight", "attention.key.weight", "attention.value.weight"},
        {"cross.query.weight", "cross.key.weight", "cross.value.weight"}};
    static const char *const biases[] = {"attention.query.bias", "attention.key.bias", "attention.value.bias"};
    const int C = o->model->c->model.width, B = o->B, from = o->model->c->position.cross, S = cross ? o->S : T;
    const int op = o->first + layer + (cross ? o->layers : 0);
    oracle_case s = {.c = oracle_mechanism(o, op, o->causal && !cross, !cross || from), .B = B, .T = T, .S = S};
    const int H = s.c.H, E = s.c.E, keyed = H - s.c.encoding.keyless, wide = H * s.c.D > H * E ? H * s.c.D : H * E;
    double *part[3], *row = zeros((size_t)wide), *y = zeros((size_t)(B * H * T * E));
    int *lengths = calloc((size_t)B, sizeof *lengths);
    for (int b = 0; b < B; b++) lengths[b] = !cross ? length(o, b) : o->source_lengths ? o->source_lengths[b] : S;
    for (int i = 0; i < 3; i++) {
        const int n = i < 2 ? s.c.D : E, heads = i == 1 ? keyed : H, N = i ? S : T;
        const int few = i ? o->model->c->model.kv_heads : 0, own = few ? few : heads, group = heads / own;
        const double *W = param(o, layer, names[cross][i]); /* some kernels lack queries or keys */
        const double *bias = cross ? NULL : param(o, layer, biases[i]);
        part[i] = zeros((size_t)(B * H * N * n));
        for (int r = 0; W && r < B * N; r++) {
            linear(C, own * n, (i && cross ? o->top : a) + r * C, W, bias, row);
            for (int e = 0; e < heads * n; e++)
                part[i][((r / N * H + e / n) * N + r % N) * n + e % n] = row[e / n / group * n + e % n];
        }
        for (int b = 0; i && cross && from >= LL_CROSS_END && b < B; b++)
            reverse_rows(from == LL_CROSS_BOTH ? H / 2 : 0, H, S, lengths[b], n, part[i] + b * H * S * n);
    }
    int *query_lengths = calloc((size_t)B, sizeof *query_lengths);
    for (int b = 0; b < B; b++) query_lengths[b] = length(o, b);
    s.lengths = lengths, s.query_lengths = query_lengths, s.q = part[0], s.k = part[1], s.v = part[2];
    s.r = zeros((size_t)H);
    for (int h = 0; h < H; h++) s.r[h] = s.c.decay ? s.c.decay[h] : 1;
    s.linformer_k = param(o, layer, "attention.linformer_k"), s.linformer_v = param(o, layer, "attention.linformer_v");
    if (oracle_gated(o)) s.gate = gates(o, layer, T, a);
    oracle_model_position_forward(o, layer, cross, &s, y);
    part[0] = s.q, part[1] = s.k;
    for (int r = 0; r < B * T; r++) {
        for (int e = 0; e < H * E; e++) row[e] = y[((r / T * H + e / E) * T + r % T) * E + e % E];
        head_norm(o, H, E, row);
        linear(H * E, C, row, param(o, layer, cross ? "cross.output.weight" : "attention.output.weight"),
               cross ? NULL : param(o, layer, "attention.output.bias"), out + r * C);
    }
    for (int i = 0; i < 3; i++) free(part[i]);
    free(row), free(y), free(lengths), free(query_lengths), free(s.r), free(s.gate);
}

static void feed(const oracle_model *o, int layer, const double *a, double *out) {
    const int C = o->model->c->model.width, ff = o->model->c->model.ff;
    const int gated = o->model->c->model.activation == LL_ACT_SWIGLU;
    double *u = zeros((size_t)ff), *gate = zeros((size_t)ff);
    linear(C, ff, a, param(o, layer, "feed.in.weight"), param(o, layer, "feed.in.bias"), u);
    if (gated) linear(C, ff, a, param(o, layer, "feed.gate.weight"), param(o, layer, "feed.gate.bias"), gate);
    for (int i = 0; i < ff; i++)
        u[i] = gated ? u[i] * oracle_activation(o->model->c, gate[i]) : oracle_activation(o->model->c, u[i]);
    linear(ff, C, u, param(o, layer, "feed.out.weight"), param(o, layer, "feed.out.bias"), out);
    free(u), free(gate);
}

/* Applies sublayer j to x (B T, C); `block` is the input of the block. */
static void sublayer(const oracle_model *o, int j, int T, const double *block, double *x) {
    const int C = o->model->c->model.width, rows = o->B * T, pre = o->model->c->model.norm != LL_NORM_POST;
    const int parts = o->cross ? 3 : 2, layer = j / parts, which = j % parts, feeds = which == parts - 1;
    const char *name = feeds ? "feed.norm" : which ? "cross.norm" : "attention.norm";
    double *a = zeros((size_t)(rows * C)), *F = zeros((size_t)(rows * C));
    memcpy(a, x, (size_t)(rows * C) * sizeof *a);
    const double *read = feeds && o->model->c->model.norm == LL_NORM_PARALLEL ? block : x;
    for (int r = 0; pre && r < rows; r++) norm(o, layer, name, read + r * C, a + r * C);
    if (!feeds) attention(o, layer, which, T, a, F);
    if (!feeds && o->attended) memcpy(o->attended + layer * rows * C, F, (size_t)(rows * C) * sizeof *F);
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

/* The layer of model.head-transform, in place. */
static void head_transform(const oracle_model *o, double *x) {
    const int C = o->model->c->model.width;
    double u[WIDEST];
    linear(C, C, x, shared(o, "head.transform.weight"), shared(o, "head.transform.bias"), u);
    for (int i = 0; i < C; i++) u[i] = oracle_activation(o->model->c, u[i]);
    norm(o, -1, "head.norm", u, x);
}

static void head(const oracle_model *o, const double *x, double *logits) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, classify = !ll_task_per_token(c->model.task),
              V = classify ? c->model.classes : c->model.vocab;
    const double *W = shared(o, "head.weight"), *E = shared(o, "embedding.weight");
    if (W) {
        linear(C, V, x, W, shared(o, "head.bias"), logits);
        return;
    }
    for (int v = 0; v < V; v++) {
        logits[v] = shared(o, "head.bias") ? shared(o, "head.bias")[v] : 0;
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
    double mean[WIDEST];
    for (int b = 0; b < o->B; b++) {
        pool(o, T, x, b, mean);
        head(o, mean, logits + b * o->model->c->model.classes);
    }
}

/* [u, v, u v, u - v] through a hidden layer. */
static void match(const oracle_model *o, int T, const double *x, double *logits) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, ff = c->model.ff;
    double u[WIDEST], v[WIDEST], both[4 * WIDEST], hidden[WIDEST];
    for (int b = 0; b + 1 < o->B; b += 2) {
        pool(o, T, x, b, u);
        pool(o, T, x, b + 1, v);
        for (int i = 0; i < C; i++) {
            both[i] = u[i], both[C + i] = v[i];
            both[2 * C + i] = u[i] * v[i], both[3 * C + i] = u[i] - v[i];
        }
        linear(4 * C, ff, both, shared(o, "head.in.weight"), shared(o, "head.in.bias"), hidden);
        for (int i = 0; i < ff; i++) hidden[i] = oracle_activation(c, hidden[i]);
        linear(ff, c->model.classes, hidden, shared(o, "head.weight"), shared(o, "head.bias"),
               logits + b / 2 * c->model.classes);
    }
}

/* The output of a stack, (B, T, C). */
static double *stack(const oracle_model *o) {
    const ll_model_config *c = o->model->c;
    const int C = c->model.width, T = o->T + oracle_cls_tokens(o), rows = o->B * T;
    double *x = zeros((size_t)(rows * C)), *block = zeros((size_t)(rows * C)), last[WIDEST];
    for (int r = 0; r < rows; r++)
        if (r % T < length(o, r / T)) embed(o, r / T, r % T, x + r * C);
    for (int j = 0; j < (o->cross ? 3 : 2) * o->layers; j++) {
        const size_t bytes = (size_t)(rows * C) * sizeof *x;
        if (j % 2 == 0 && o->given) memcpy(x, o->given + j / 2 * rows * C, bytes);
        if (j % 2 == 0 && o->entered) memcpy(o->entered + j / 2 * rows * C, x, bytes);
        if (j % 2 == 0) memcpy(block, x, bytes);
        sublayer(o, j, T, block, x);
    }
    free(block);
    for (int r = 0; c->model.final_norm && c->model.norm != LL_NORM_POST && r < rows; r++) {
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
    const int T = o.T + oracle_cls_tokens(&o);
    if (c->model.task == LL_TASK_MATCH) {
        match(&o, T, x, logits);
    } else if (c->model.task == LL_TASK_CLASSIFY) {
        classify(&o, T, x, logits);
    } else {
        for (int r = 0; r < o.B * T; r++) {
            double *row = x + r * c->model.width;
            if (c->model.head_transform) head_transform(&o, row);
            head(&o, row, logits + r * c->model.vocab);
        }
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
    const double x = o->params[i], h = 1e-6; /* a larger step would more often cross a kink of relu */
    o->params[i] = x + h;
    const double up = oracle_model_loss(o);
    o->params[i] = x - h;
    const double down = oracle_model_loss(o);
    o->params[i] = x;
    return (up - down) / (2 * h);
}
