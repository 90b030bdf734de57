/* Calls of every kernel with every position. The numbers of a sequence depend only on the sequence and the token. */
#ifndef LL_SEQUENCES_H
#define LL_SEQUENCES_H

#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "oracle/oracle.h"
#include "test.h"

enum { H = 2, D = 6, E = 5, M = 8, ROOM = 70, ROWS = 2, SCALES = 2, SINES = 2, R = 7, TAPS = 3, CLIP = 3, RANK = 4 };

static const char *const kernel_names[] = {"softmax", "favor", "relu",      "elu1",    "exp",      "sigmoid",
                                           "abs",     "gelu",  "cos",       "tanh",    "identity", "square",
                                           "gla",     "value", "local", "linformer", "nystrom", "reformer"};
static const char *const position_names[] = {"none",        "sinusoidal", "learned", "permute",  "permute2d", "rope",
                                             "rope-linear", "sine-spe", "conv-spe",  "relative-s1",
                                             "relative-s2", "t5",       "shaw",      "orthogonal"};
enum { KERNELS = 18, POSITIONS = 14, LINEAR = LL_KERNEL_GLA };

/* Numbers for all parameters of a position. */
static float numbers[2048];
static int32_t permutation[H * 2 * M];
static float decay[H] = {0.9f, 0.97f};

static inline void make_numbers(void) {
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) numbers[i] = (float)draw_normal(&seed);
}

static inline void make_permutation(int n) {
    for (int h = 0; h < H; h++)
        for (int a = 0; a < n; a++) permutation[h * n + a] = (a + h + 1) % n;
}

/* The approximate operators have no features, and some have no keys. */
static inline int approximate_call(ll_attention_config *c, int position, int causal, int cross) {
    const ll_kernel k = c->kernel;
    const int whole = k == LL_KERNEL_LINFORMER || k == LL_KERNEL_NYSTROM;
    c->approximate.window = 5, c->approximate.length = ROOM, c->approximate.rank = RANK;
    c->approximate.linformer_k = numbers + 900, c->approximate.linformer_v = numbers + 1300;
    c->approximate.landmarks = 4, c->approximate.iterations = 3;
    c->approximate.buckets = 4, c->approximate.chunk = 3, c->approximate.rounds = 2;
    const int before = position == LL_POSITION_ROPE || position == LL_POSITION_SINE_SPE ||
                       position == LL_POSITION_CONV_SPE || position == LL_POSITION_RELATIVE_S1;
    if (whole ? causal : cross) return 0;
    if (k == LL_KERNEL_VALUE) return position == LL_POSITION_NONE;
    if (k == LL_KERNEL_REFORMER) return position == LL_POSITION_NONE || position == LL_POSITION_ROPE;
    return position == LL_POSITION_NONE || before;
}

/* The kernel with the position, with or without a projection. 0: they do not go together. */
static inline int describe(ll_attention_config *c, int kernel, int position, int causal, int cross) {
    *c = (ll_attention_config){.kernel = (ll_kernel)kernel, .position = (ll_position)position, .causal = causal};
    c->H = H, c->D = D, c->E = E, c->input_scale = 0.7f;
    if (kernel == LL_KERNEL_FAVOR) c->M = M;
    if (kernel == LL_KERNEL_RELU || kernel == LL_KERNEL_COS) c->M = M, c->feature_eps = 0.01f;
    c->projection = c->M ? numbers : NULL;
    ll_position_config *w = &c->encoding;
    w->realizations = R, w->sines = SINES, w->taps = TAPS, w->scales = SCALES, w->axes = 1, w->seed = 3;
    w->freqs = w->filter_q = numbers + 100, w->offsets = w->filter_k = numbers + 300, w->gains = numbers + 500;
    w->gate = numbers + 700, w->inv_freq = numbers + 750, w->alpha = numbers + 760, w->beta = numbers + 770;
    w->clip = CLIP, w->keyless = 1, w->rpe = numbers + 800, w->bias = numbers + 830;
    w->distance_k = numbers + 40, w->distance_v = numbers + 60;
    if (kernel > LINEAR) return approximate_call(c, position, causal, cross);
    if (kernel == LL_KERNEL_GLA && (!causal || position == LL_POSITION_RELATIVE_S2)) return 0;
    if (position == LL_POSITION_SINUSOIDAL || position == LL_POSITION_LEARNED) return 0; /* not for operators */
    const int softmax = kernel == LL_KERNEL_SOFTMAX, features = ll_feature_count(c);
    if (softmax && (position == LL_POSITION_PERMUTE || position == LL_POSITION_PERMUTE2D)) return 0;
    if (softmax && position == LL_POSITION_ROPE_LINEAR) return 0;
    if (causal && position == LL_POSITION_PERMUTE2D) return 0;
    if (position == LL_POSITION_PERMUTE || position == LL_POSITION_PERMUTE2D) {
        make_permutation(position == LL_POSITION_PERMUTE ? features : features / 2);
        c->permutation = permutation, c->width = 5, c->height = 4, c->before = 1;
    }
    if (softmax ? position == LL_POSITION_ORTHOGONAL : position == LL_POSITION_T5 || position == LL_POSITION_SHAW)
        return 0;
    if (position == LL_POSITION_ORTHOGONAL) w->basis = numbers + 1700, w->theta = numbers + 20;
    if (causal && !softmax && position != LL_POSITION_RELATIVE_S2) c->decay = decay;
    if (position == LL_POSITION_ROPE_LINEAR && c->M && kernel == LL_KERNEL_RELU) c->feature_eps = 0;
    return 1;
}

/* Gradients of all parameters: of positions, then of linformer. */
enum { POSITION_PARTS = 13, PARTS = POSITION_PARTS + 2, PART = 1024 };
typedef struct {
    float part[PARTS][PART], ddecay[H];
} learnt;

static inline void want(ll_attention_call *c, learnt *d) {
    ll_position_gradients *p = &c->dposition;
    float **const to[POSITION_PARTS] = {&p->freqs, &p->offsets,    &p->gains,     &p->filter_q, &p->filter_k,
                                        &p->gate,  &p->inv_freq,   &p->alpha,     &p->beta,     &p->rpe,
                                        &p->bias,  &p->distance_k, &p->distance_v};
    for (int i = 0; i < POSITION_PARTS; i++) *to[i] = d->part[i];
    c->dapproximate.linformer_k = d->part[POSITION_PARTS], c->dapproximate.linformer_v = d->part[POSITION_PARTS + 1];
    c->ddecay = d->ddecay;
}

/* A call with its arrays: rows of `rows` sequences of up to T queries and S keys. */
typedef struct {
    ll_attention_call call;
    float *data;
    size_t size;
} arrays;

static inline ll_view cut(arrays *a, size_t *used, int B, int n, int width) {
    const size_t row = (size_t)(H * width), batch = (size_t)n * row; /* token-major, as in models */
    ll_view v = {a->data ? a->data + *used : NULL, batch, (size_t)width, row};
    *used += (size_t)B * batch;
    return v;
}

static inline arrays arrays_of(const ll_attention *op, int B, int T, int S, int segments) {
    arrays a = {.call = {.B = B, .T = T, .S = S}};
    for (int measured = 0; measured < 2; measured++) {
        size_t used = 0;
        ll_attention_call *c = &a.call;
        c->q = cut(&a, &used, B, T, D), c->y = cut(&a, &used, B, T, E), c->g = cut(&a, &used, B, T, E);
        c->dq = cut(&a, &used, B, T, D), c->k = cut(&a, &used, B, S, D), c->v = cut(&a, &used, B, S, E);
        c->dk = cut(&a, &used, B, S, D), c->dv = cut(&a, &used, B, S, E);
        if (op->gated) c->gate = cut(&a, &used, B, T, 1), c->dgate = cut(&a, &used, B, T, 1);
        a.size = used;
        if (!a.data) a.data = calloc(used + 1, sizeof *a.data);
    }
    const size_t saved = ll_attention_saved(op, &(ll_attention_call){.B = B, .T = T, .S = S, .segments = segments});
    a.call.saved = calloc(saved + 1, sizeof(float));
    for (size_t i = 0; i < saved; i++) a.call.saved[i] = NAN;
    for (size_t i = 0; i < a.size; i++) a.data[i] = NAN; /* padding must be neither read nor written */
    return a;
}

static inline void arrays_free(arrays *a) {
    free(a->data);
    free(a->call.saved);
}

/* Tokens of a sequence: numbers that depend on the sequence and the token alone. */
static inline void fill(const ll_view *v, int row, int first, int n, int width, uint64_t salt) {
    for (int h = 0; h < H; h++)
        for (int t = 0; t < n; t++)
            for (int e = 0; e < width; e++) {
                uint64_t seed = salt * 1000003 + (uint64_t)((h * 1000 + t) * 100 + e);
                v->data[(size_t)row * v->batch + (size_t)h * v->head + (size_t)(first + t) * v->token + (size_t)e] =
                    (float)draw_normal(&seed);
            }
}

static inline void fill_sequence(const ll_attention_call *c, const ll_segment *s, uint64_t number) {
    fill(&c->q, s->row, s->query, s->queries, D, 5 * number);
    fill(&c->k, s->row, s->key, s->keys, D, 5 * number + 1);
    fill(&c->v, s->row, s->key, s->keys, E, 5 * number + 2);
    fill(&c->g, s->row, s->query, s->queries, E, 5 * number + 3);
    if (!c->gate.data) return;
    fill(&c->gate, s->row, s->query, s->queries, 1, 5 * number + 4);
    for (int h = 0; h < H; h++)
        for (int t = s->query; t < s->query + s->queries; t++) {
            float *log_r = ll_element(&c->gate, (size_t)s->row, (size_t)h, (size_t)t);
            *log_r = -fabsf(*log_r) / 8;
        }
}

#endif
