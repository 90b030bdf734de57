/* Positions inside attention, for the oracle of models. Noise is drawn in the numbering that docs/math.md gives. */
#include "oracle_model_position.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/operator.h"
#include "base/random.h"
#include "oracle_clipped.h"

void oracle_model_position_describe(const oracle_model *o, ll_attention_config *a) {
    static const char *const names[] = {"none",        "sinusoidal",  "learned",  "permute",   "permute2d",
                                        "rope",        "rope-linear", "sine-spe", "conv-spe",  "relative-s1",
                                        "relative-s2", "t5",          "shaw",     "orthogonal"};
    static const ll_position position[] = {LL_POSITION_ROPE,     LL_POSITION_ROPE_LINEAR, LL_POSITION_SINE_SPE,
                                           LL_POSITION_CONV_SPE, LL_POSITION_RELATIVE_S1, LL_POSITION_RELATIVE_S2,
                                           LL_POSITION_T5,       LL_POSITION_SHAW,        LL_POSITION_ORTHOGONAL};
    const ll_model_config *c = o->model->c;
    const char *name = ll_recipe_get(o->model->recipe, "position.type");
    static const float gate = 0;
    for (int i = 5; i < 14; i++)
        if (!strcmp(name, names[i])) a->position = position[i - 5];
    if (a->position < LL_POSITION_ROPE) return;
    ll_position_config *w = &a->encoding;
    w->realizations = c->position.realizations, w->sines = c->position.sines, w->scales = c->position.scales,
    w->axes = 1 + c->position.image;
    w->taps = c->position.taps, w->taps2 = c->position.image ? c->position.taps : 0;
    w->gate = c->position.gated ? &gate : NULL; /* whether there is one */
    if (c->position.image) a->width = c->position.width, a->height = c->position.height;
    if (a->position == LL_POSITION_RELATIVE_S2) w->keyless = c->model.heads / 2;
    w->clip = c->position.distances;
    w->base = c->position.base, w->rotary = c->position.rotary;
    w->scaling = (ll_rope_scaling){c->position.scaling, c->position.scaling_length, c->position.scaling_low,
                                   c->position.scaling_high};
    if (c->position.image || a->position == LL_POSITION_RELATIVE_S1 || a->position == LL_POSITION_RELATIVE_S2)
        a->before = !ll_task_per_token(c->model.task) && c->model.pool == LL_POOL_FIRST;
}

static double *parameter(const oracle_model *o, int layer, int cross, const char *name) {
    char full[80];
    if (o->model->c->position.shared || !strcmp(name, "inv_freq"))
        snprintf(full, sizeof full, "position.%s", name);
    else
        snprintf(full, sizeof full, "%sblocks.%d.%sposition.%s", o->prefix, layer, cross ? "cross." : "", name);
    for (int i = 0; i < o->model->count; i++)
        if (!strcmp(o->model->param[i].name, full)) return o->params + o->model->param[i].offset;
    return NULL;
}

/* n numbers of each head, and of a conv-spe that is no image re-sorted from (rows, D, R) to (D, rows, R). */
static float *noise(const oracle_model *o, int op, const ll_attention_config *a, int gate, int rows) {
    const int H = a->H, D = a->D, R = a->encoding.realizations, n = D * rows * R;
    uint64_t seed = (uint64_t)o->model->c->seed;
    uint32_t word[4];
    if (o->dropout) {
        ll_random4(word, seed, ll_stream_id(LL_RANDOM_NOISE, 0xffffff, 0), (uint64_t)o->draw);
        seed = (uint64_t)word[0] << 32 | word[1];
    }
    float *all = calloc((size_t)(n * H) + 1, sizeof *all), *out = calloc((size_t)(n * H) + 1, sizeof *out);
    for (int h = 0; h < H; h++)
        ll_normal_fill(
            all + h * n, (size_t)n, seed,
            ll_stream_id(LL_RANDOM_NOISE, o->model->c->position.shared ? 0 : (uint32_t)op, (uint32_t)(2 * h + gate)),
            0);
    const int sorted = gate || a->position == LL_POSITION_SINE_SPE || a->encoding.taps2;
    for (int i = 0; i < n * H; i++) {
        const int h = i / n, e = i / (rows * R) % D, row = i / R % rows;
        out[i] = sorted ? all[i] : all[h * n + (row * D + e) * R + i % R];
    }
    free(all);
    return out;
}

static void encode(const oracle_model *o, int layer, int cross, oracle_case *s) {
    static const char *const names[] = {"freqs", "offsets",  "gains", "filter_q", "filter_k",
                                        "gate",  "inv_freq", "alpha", "beta"};
    double *parameters[ORACLE_PARAMETERS];
    ll_attention_config *a = &s->c;
    ll_position_config *w = &a->encoding;
    if (a->position < LL_POSITION_ROPE || a->position == LL_POSITION_ROPE_LINEAR ||
        a->position > LL_POSITION_RELATIVE_S1)
        return;
    for (int i = 0; i < ORACLE_PARAMETERS; i++) parameters[i] = parameter(o, layer, cross, names[i]);
    const int longest = s->T > s->S ? s->T : s->S, op = o->first + layer + (cross ? o->layers : 0);
    w->noise_rows = (w->taps2 ? a->height : longest) + w->taps - 1;
    w->noise_cols = w->taps2 ? a->width + w->taps2 - 1 : 0;
    const int sine = a->position == LL_POSITION_SINE_SPE, conv = a->position == LL_POSITION_CONV_SPE;
    const int rows = sine ? 2 * w->sines : conv ? w->noise_rows * (w->taps2 ? w->noise_cols : 1) : 0;
    float *z = noise(o, op, a, 0, rows), *gate = noise(o, op, a, 1, sine || conv);
    w->noise = z, w->gate_noise = gate;
    const int W = oracle_width(a);
    double *x[2] = {s->q, s->k};
    for (int side = 0; side < 2; side++) {
        const int n = side ? s->S : s->T;
        double *out = calloc((size_t)(s->B * a->H * n * W), sizeof *out);
        oracle_encode(a, parameters, side, s->B, n, x[side], out);
        free(x[side]);
        x[side] = out;
    }
    free(z);
    free(gate);
    s->q = x[0], s->k = x[1];
    a->D = W;
    a->position = LL_POSITION_NONE;
}

void oracle_model_position_forward(const oracle_model *o, int layer, int cross, oracle_case *s, double *y) {
    if (s->c.position == LL_POSITION_RELATIVE_S2) {
        oracle_top *tops = calloc((size_t)(2 * s->B * s->c.H * s->T), sizeof *tops);
        oracle_clipped(&s->c, parameter(o, layer, cross, "rpe"), s, tops, NULL);
        oracle_clipped(&s->c, parameter(o, layer, cross, "rpe"), s, tops, y);
        free(tops);
        return;
    }
    if (s->c.position == LL_POSITION_ORTHOGONAL) { /* draws, as projections are */
        const ll_position_config *w = &o->model->attention[o->first + layer]->c.encoding;
        s->c.encoding.basis = w->basis, s->c.encoding.theta = w->theta;
    }
    s->bias = parameter(o, layer, cross, "bias");
    s->distance_k = parameter(o, layer, cross, "distance_k"), s->distance_v = parameter(o, layer, cross, "distance_v");
    encode(o, layer, cross, s);
    oracle_forward(s, NULL, NULL, y);
}
