/* One attention operator a layer, made from the recipe and the layer's draws: projection, permutation,
 * decay. A file carries the draws, so that it means the same under any version of the generator. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/draw.h"
#include "attention/maps.h"
#include "base/compat.h"
#include "base/memory.h"
#include "model/network.h"

_Static_assert((int)LL_ATT_REFORMER == (int)LL_KERNEL_REFORMER && (int)LL_FEAT_GAUSSIAN == (int)LL_FEATURES_GAUSSIAN,
               "recipes number kernels and features as the operator does");

/* All but the draws. */
static ll_attention_config describe(const ll_model *m, int layer) {
    const ll_config *c = m->c;
    const int D = m->queries / c->heads;
    ll_attention_config a = ll_attention_default();
    a.kernel = (ll_kernel)c->kernel;
    a.features = (ll_feature_kind)c->features;
    const ll_map *map = ll_map_of(a.kernel); /* what is not an estimate of softmax takes q and k as they are */
    ll_baseline_config_of(m, layer, &a);
    const ll_rules *rules = ll_config_rules(c);
    const double eps = c->feature_eps >= 0 ? c->feature_eps : rules->eps >= 0 ? rules->eps : map ? map->eps : 0;
    a.causal = c->task == LL_TASK_LM;
    a.H = c->heads, a.D = D, a.E = m->values / c->heads, a.M = ll_config_rows(c);
    a.feature_eps = (float)eps;
    a.query_max = rules->query_max, a.key_max = rules->key_max;
    a.max_of_u = rules->max_of_u, a.max_gradient = rules->max_gradient;
    a.den = !c->normalise ? LL_DEN_NONE : a.causal ? rules->causal_den : rules->den;
    a.den_eps = (float)rules->den_eps;
    if (c->position == LL_POS_PERMUTE) a.position = LL_POSITION_PERMUTE;
    if (c->position == LL_POS_PERMUTE2D) {
        a.position = LL_POSITION_PERMUTE2D;
        a.width = c->image_width, a.height = c->image_height, a.before = m->front;
    }
    ll_place_config(m, layer, &a);
    const float root = (float)pow(ll_attention_width(&a), c->kernel == LL_ATT_FAVOR || map ? -0.25 : -0.5);
    a.input_scale = map && !rules->scaled ? 1 : root;
    return a;
}

/* Numbers that a permutation moves, for each head. */
static int permuted(const ll_attention_config *a) {
    const int features = ll_feature_count(a);
    return a->position == LL_POSITION_PERMUTE2D ? features / 2 : a->position == LL_POSITION_PERMUTE ? features : 0;
}

/* Features that a matrix turns, for each head: its angles are half as many. */
static int turned(const ll_attention_config *a) {
    return a->position == LL_POSITION_ORTHOGONAL ? ll_feature_count(a) : 0;
}

static int decays(const ll_config *c) {
    return c->decay == LL_DECAY_FIXED && c->task == LL_TASK_LM;
}

static ll_status draw_projection(const ll_config *c, const ll_attention_config *a, int layer, int64_t redraws,
                                 float *W) {
    static const ll_draw_kind kinds[] = {LL_DRAW_ORTHOGONAL, LL_DRAW_IID, LL_DRAW_HADAMARD, LL_DRAW_GIVENS};
    const ll_draw_kind kind = kinds[ll_config_projection(c) - LL_PROJ_ORTHOGONAL];
    const ll_row_norms norms = c->row_norms == LL_ROWS_SQRT_D ? LL_NORMS_SQRT_D : LL_NORMS_CHI;
    return ll_draw_projection(W, a->M, ll_attention_width(a), kind, norms, (uint64_t)c->seed, layer, redraws);
}

typedef struct {
    float *projection, *decay;
    int32_t *permutation;
    float *basis, *angles;
} parts;

static ll_status draw(const ll_model *m, const ll_attention_config *a, int layer, parts *p) {
    const ll_config *c = m->c;
    const int n = permuted(a), whole = turned(a);
    ll_status status = LL_OK;
    for (int h = 0; n && h < a->H; h++)
        ll_draw_permutation(p->permutation + (size_t)h * (size_t)n, n, (uint64_t)c->seed, layer, h);
    for (int h = 0; whole && h < a->H && !status; h++)
        status = ll_draw_rotation(p->basis + (size_t)h * (size_t)whole * (size_t)whole,
                                  p->angles + (size_t)h * (size_t)(whole / 2), whole, (uint64_t)c->seed, layer, h);
    for (int h = 0; p->decay && h < a->H; h++)
        p->decay[h] = (float)(1 / (1 + exp(-(c->decay_first + (c->decay_last - c->decay_first) * h / a->H))));
    if (!status && a->M) status = draw_projection(c, a, layer, m->redraws, p->projection);
    return status;
}

/* The tensor "blocks.LAYER.attention.WHAT" of this type and shape; cols 0: a vector. */
static ll_status find(const ll_st_tensor **out, const ll_safetensors *file, int layer, const char *what,
                      enum ll_dtype dtype, int rows, int cols) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.attention.%s", layer, what);
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    const char *path = ll_safetensors_path(file);
    if (!t) return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", path, name);
    if (t->dtype != dtype || t->rank != (cols ? 2 : 1) || t->shape[0] != (size_t)rows ||
        (cols && t->shape[1] != (size_t)cols))
        return ll_fail(LL_EFORMAT, "%s: tensor %s is not what its recipe says: %d x %d of type %s", path, name, rows,
                       cols ? cols : 1, dtype == LL_I32 ? "I32" : "F32");
    *out = t;
    return LL_OK;
}

static ll_status read_floats(float *out, const ll_safetensors *file, int layer, const char *what, int rows, int cols) {
    const ll_st_tensor *t = NULL;
    ll_status status = find(&t, file, layer, what, LL_F32, rows, cols);
    if (status) return status;
    ll_st_floats(out, t);
    for (size_t i = 0; i < t->count; i++)
        if (!isfinite(out[i]))
            return ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", ll_safetensors_path(file), t->name,
                           i);
    return LL_OK;
}

static ll_status read_permutation(int32_t *out, const ll_safetensors *file, int layer, int heads, int n) {
    const ll_st_tensor *t = NULL;
    ll_status status = find(&t, file, layer, "permutation", LL_I32, heads, n);
    if (status) return status;
    unsigned char *seen = ll_alloc((size_t)n, 1);
    if (!seen) return LL_ENOMEM;
    memcpy(out, t->data, t->count * sizeof *out);
    for (int h = 0; h < heads && !status; h++) {
        const int32_t *p = out + (size_t)h * (size_t)n;
        memset(seen, 0, (size_t)n);
        for (int a = 0; a < n && !status; a++)
            if (p[a] < 0 || p[a] >= n || seen[p[a]]++)
                status = ll_fail(LL_EFORMAT, "%s: tensor %s is no permutation: head %d has %d at %d",
                                 ll_safetensors_path(file), t->name, h, (int)p[a], a);
    }
    ll_free(seen);
    return status;
}

static ll_status read(const ll_safetensors *file, const ll_attention_config *a, int layer, parts *p) {
    ll_status status = LL_OK;
    if (a->M) status = read_floats(p->projection, file, layer, "projection", a->M, ll_attention_width(a));
    if (!status && permuted(a)) status = read_permutation(p->permutation, file, layer, a->H, permuted(a));
    if (!status && p->decay) status = read_floats(p->decay, file, layer, "decay", a->H, 0);
    if (!status && turned(a)) status = read_floats(p->basis, file, layer, "basis", a->H * turned(a), turned(a));
    if (!status && turned(a)) status = read_floats(p->angles, file, layer, "angles", a->H, turned(a) / 2);
    return status;
}

static ll_status create_layer(ll_model *m, const ll_safetensors *file, int layer, parts *p) {
    ll_attention_config a = describe(m, layer);
    ll_status status = file ? read(file, &a, layer, p) : draw(m, &a, layer, p);
    if (status) return status;
    a.projection = a.M ? p->projection : NULL;
    a.permutation = permuted(&a) ? p->permutation : NULL;
    a.decay = p->decay;
    if (turned(&a)) a.where.basis = p->basis, a.where.theta = p->angles;
    status = ll_attention_create(&m->attention[layer], &a);
    return status == LL_EINVAL && file ? ll_fail_in(LL_EFORMAT, ll_safetensors_path(file)) : status;
}

ll_status ll_operators_create(ll_model *m, const ll_safetensors *file) {
    const ll_attention_config a = describe(m, 0);
    const int whole = turned(&a);
    const size_t heads = (size_t)a.H;
    const ll_st_tensor *t;
    /* All other sizes are those of parameters, which the file is known to hold. */
    ll_status status = file && a.M ? find(&t, file, 0, "projection", LL_F32, a.M, ll_attention_width(&a)) : LL_OK;
    if (!status && file && whole) status = find(&t, file, 0, "basis", LL_F32, a.H * whole, whole);
    if (status) return status;
    parts p = {.projection = ll_alloc((size_t)a.M * (size_t)ll_attention_width(&a), sizeof(float)),
               .permutation = ll_alloc(heads * (size_t)permuted(&a), sizeof(int32_t))};
    p.basis = ll_alloc(heads * (size_t)whole * (size_t)whole, sizeof(float));
    p.angles = ll_alloc(heads * (size_t)(whole / 2), sizeof(float));
    if (decays(m->c)) p.decay = ll_alloc(heads, sizeof(float));
    m->attention = ll_alloc((size_t)m->c->layers, sizeof(ll_attention *));
    const int there = p.projection && p.permutation && p.basis && p.angles && (p.decay || !decays(m->c));
    status = m->attention && there ? LL_OK : LL_ENOMEM;
    for (int l = 0; l < m->c->layers && !status; l++) status = create_layer(m, file, l, &p);
    ll_free(p.projection);
    ll_free(p.permutation);
    ll_free(p.decay);
    ll_free(p.basis);
    ll_free(p.angles);
    return status;
}

void ll_operators_free(ll_model *m) {
    for (int l = 0; m->attention && l < m->c->layers; l++) ll_attention_free(m->attention[l]);
    ll_free(m->attention);
    m->attention = NULL;
}

static ll_status write_layer(const ll_attention_config *a, ll_st_writer *writer, int layer) {
    char name[64];
    ll_status status = LL_OK;
    if (a->projection) {
        const size_t shape[2] = {(size_t)a->M, (size_t)ll_attention_width(a)};
        snprintf(name, sizeof name, "blocks.%d.attention.projection", layer);
        status = ll_st_add(writer, name, LL_F32, 2, shape, a->projection);
    }
    if (!status && a->permutation) {
        const size_t shape[2] = {(size_t)a->H, (size_t)permuted(a)};
        snprintf(name, sizeof name, "blocks.%d.attention.permutation", layer);
        status = ll_st_add(writer, name, LL_I32, 2, shape, a->permutation);
    }
    if (!status && a->decay) {
        const size_t shape[1] = {(size_t)a->H};
        snprintf(name, sizeof name, "blocks.%d.attention.decay", layer);
        status = ll_st_add(writer, name, LL_F32, 1, shape, a->decay);
    }
    if (!status && turned(a)) {
        const size_t shape[2] = {(size_t)a->H * (size_t)turned(a), (size_t)turned(a)};
        snprintf(name, sizeof name, "blocks.%d.attention.basis", layer);
        status = ll_st_add(writer, name, LL_F32, 2, shape, a->where.basis);
    }
    if (!status && turned(a)) {
        const size_t shape[2] = {(size_t)a->H, (size_t)turned(a) / 2};
        snprintf(name, sizeof name, "blocks.%d.attention.angles", layer);
        status = ll_st_add(writer, name, LL_F32, 2, shape, a->where.theta);
    }
    return status;
}

ll_status ll_operators_write(const ll_model *m, ll_st_writer *writer) {
    ll_status status = LL_OK;
    for (int l = 0; l < m->c->layers && !status; l++) status = write_layer(&m->attention[l]->c, writer, l);
    return status;
}

ll_status ll_model_redraw(ll_model *m, int64_t redraws) {
    const ll_attention_config a = describe(m, 0);
    if (!a.M) {
        m->redraws = redraws;
        return LL_OK;
    }
    const size_t size = (size_t)a.M * (size_t)ll_attention_width(&a);
    float *W = ll_alloc(size * (size_t)m->c->layers, sizeof *W);
    if (!W) return LL_ENOMEM;
    /* All layers before any changes: a model is never between two draws. */
    ll_status status = LL_OK;
    for (int l = 0; l < m->c->layers && !status; l++)
        status = draw_projection(m->c, &a, l, redraws, W + (size_t)l * size);
    for (int l = 0; l < m->c->layers && !status; l++)
        ll_attention_set_projection(m->attention[l], W + (size_t)l * size);
    if (!status) m->redraws = redraws;
    ll_free(W);
    return status;
}
