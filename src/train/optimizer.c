/* Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019) over the block of parameters. The block is cut into
 * pieces by its table of tensors. One thread computes a piece, and sums over pieces run in the order of the table, so
 * that the number of threads changes no bit. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kernel/kernel.h"
#include "train/train_internal.h"

static size_t elements(const ll_param *p) {
    return (size_t)p->rows * (size_t)p->cols;
}

static void cut(ll_optimizer *o, const ll_param *param, int count) {
    ll_piece *next = o->piece;
    for (int i = 0; i < count; i++)
        for (size_t done = 0, n = elements(&param[i]); done < n; done += LL_PIECE_FLOATS)
            *next++ = (ll_piece){param[i].offset + done, ll_min_size(n - done, LL_PIECE_FLOATS),
                                 ll_param_decays(&param[i]), 1, ll_distil_is_attention(param[i].name)};
}

/* A page that is read before it is written faults twice, the second time on all processors. */
static void touch_piece(void *arg, size_t i) {
    const ll_optimizer *o = arg;
    const ll_piece *piece = &o->piece[i];
    if (!piece->own) return;
    memset(o->m + piece->offset, 0, piece->count * sizeof *o->m);
    memset(o->v + piece->offset, 0, piece->count * sizeof *o->v);
}

ll_status ll_optimizer_create(ll_optimizer **optimizer, const ll_param *param, int count, size_t size) {
    ll_optimizer *o = ll_alloc(1, sizeof *o);
    if (!o) return LL_ENOMEM;
    for (int i = 0; i < count; i++) o->pieces += ll_ceil_div_size(elements(&param[i]), LL_PIECE_FLOATS);
    o->piece = ll_alloc(o->pieces, sizeof *o->piece);
    o->sum = ll_alloc(o->pieces, sizeof *o->sum);
    /* A rank writes its own segments only, which lie closer together than huge pages are long. */
    void *(*const alloc)(size_t, size_t) = ll_group_all().count > 1 ? ll_alloc_sparse : ll_alloc;
    o->m = alloc(size, sizeof *o->m);
    o->v = alloc(size, sizeof *o->v);
    if (!o->piece || !o->sum || !o->m || !o->v) {
        ll_optimizer_free(o);
        return LL_ENOMEM;
    }
    cut(o, param, count);
    *optimizer = o;
    return LL_OK;
}

void ll_optimizer_begin(ll_optimizer *o) {
    ll_parallel_for(o->pieces, touch_piece, o);
}

void ll_optimizer_free(ll_optimizer *o) {
    if (!o) return;
    ll_free(o->piece);
    ll_free(o->sum);
    ll_free(o->m);
    ll_free(o->v);
    ll_free(o);
}

typedef struct {
    ll_optimizer *o;
    const float *block;
    double *sum;
    int all; /* with the pieces of other ranks */
} norm_work;

/* The squares of a piece in eight sums side by side; a single sum would wait for each addition. */
static void sum_squares(void *arg, size_t i) {
    const norm_work *w = arg;
    const ll_piece *piece = &w->o->piece[i];
    const float *x = w->block + piece->offset;
    double lane[8] = {0};
    size_t j = 0;
    if (!w->all && !piece->own) return;
    for (; j + 8 <= piece->count; j += 8)
        for (int k = 0; k < 8; k++) lane[k] += (double)x[j + k] * (double)x[j + k];
    for (; j < piece->count; j++) lane[j % 8] += (double)x[j] * (double)x[j];
    w->sum[i] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

double ll_optimizer_norm(ll_optimizer *o, const float *block) {
    norm_work work = {o, block, o->sum, 1};
    ll_parallel_for(o->pieces, sum_squares, &work);
    return ll_optimizer_root(o, o->sum);
}

void ll_optimizer_squares(ll_optimizer *o, const float *block, double *sum) {
    norm_work work = {o, block, sum, 0};
    ll_parallel_for(o->pieces, sum_squares, &work);
}

double ll_optimizer_root(const ll_optimizer *o, const double *piece) {
    double sum = 0;
    for (size_t i = 0; i < o->pieces; i++) sum += piece[i];
    return sqrt(sum);
}

double ll_clip_scale(double norm, double clip) {
    return clip > 0 && norm > clip ? clip / norm : 1;
}

/* Update number s of a tensor, and the factors that have it; s < 1: the tensor stays as it is. */
typedef struct {
    int64_t s;
    float rate, vscale;
} correction;

static correction correct(const ll_config *c, double rate, int64_t s) {
    if (s < 1) return (correction){0};
    return (correction){s, (float)(rate / (1 - pow(c->train.beta1, (double)s))),
                        (float)(1 / sqrt(1 - pow(c->train.beta2, (double)s)))};
}

typedef struct {
    ll_optimizer *o;
    const ll_config *c;
    const ll_kernels *k;
    float *params, *grad;
    float scale;
    correction of[2]; /* 1: tensors of attention */
    float decay, l2; /* weight decay of AdamW and of Adam; one of them is 0 */
} update_work;

static void update_piece(void *arg, size_t i) {
    const update_work *w = arg;
    const ll_piece *piece = &w->o->piece[i];
    float *p = w->params + piece->offset, *g = w->grad + piece->offset;
    const correction *of = &w->of[piece->attention];
    float scale = w->scale;
    if (!piece->own || !of->s) return;
    if (piece->decay && w->l2 != 0) {
        for (size_t j = 0; j < piece->count; j++) g[j] = g[j] * scale + w->l2 * p[j];
        scale = 1;
    }
    w->k->adam(piece->count, p, w->o->m + piece->offset, w->o->v + piece->offset, g, scale, (float)w->c->train.beta1,
               (float)w->c->train.beta2, of->rate, of->vscale, (float)w->c->train.eps, piece->decay ? w->decay : 0);
}

double ll_optimizer_rate(const ll_optimizer *o, const ll_config *c, int64_t step) {
    return ldexp(ll_schedule_rate(c, step), -o->halvings);
}

/* With s the number of the tensor's update and a its learning rate:
 *
 *   m = b1 m + (1 - b1) g    v = b2 v + (1 - b2) g^2
 *   p = p - [a wd p] - a / (1 - b1^s) m / (sqrt(v / (1 - b2^s)) + eps)
 *
 * The term in brackets is AdamW's; Adam adds wd p to g instead. Only tensors with decay have either. */
void ll_optimizer_update(ll_optimizer *o, const ll_config *c, float *params, float *grad, double scale, int64_t step) {
    const double rate = ll_optimizer_rate(o, c, step);
    const int decoupled = c->train.optimizer == LL_OPT_ADAMW;
    update_work work = {
        .o = o,
        .c = c,
        .k = ll_kernel_table(),
        .params = params,
        .grad = grad,
        .scale = (float)scale,
        .of = {correct(c, rate, step - o->attention_alone), correct(c, rate, step)},
        .decay = decoupled ? (float)(rate * c->train.weight_decay) : 0,
        .l2 = decoupled ? 0 : (float)c->train.weight_decay,
    };
    ll_parallel_for(o->pieces, update_piece, &work);
}
