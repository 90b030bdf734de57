/* One attention operator for each layer (two for layers of a decoder), made from the recipe and the layer's random
 * draws: projection, permutation, decay, rotations. A model file contains the draws, so that its meaning does not
 * depend on the version of the generator. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "attention/feature/projection.h"
#include "attention/table.h"
#include "model/compat.h"
#include "base/integer.h"
#include "base/memory.h"
#include "model/network.h"

/* Everything but the draws. */
static ll_attention_config describe(const ll_model *m, int op) {
    const ll_model_config *c = m->c;
    const ll_operator_location at = ll_operator_at(m, op);
    ll_attention_config a = ll_config_attention(c);
    const ll_rules *rules = ll_config_rules(c);
    const double eps = c->attention.feature_eps >= 0 ? c->attention.feature_eps
                       : rules->eps >= 0             ? rules->eps
                                                     : ll_kernel_row((int)a.kernel)->about.eps;
    a.causal = at.stack->causal && !at.cross;
    a.M = ll_config_rows(c);
    a.feature_eps = (float)eps;
    a.query_max = rules->query_max, a.key_max = rules->key_max;
    a.max_of_u = rules->max_of_u, a.max_gradient = rules->max_gradient;
    a.den = !ll_config_divides(c) ? LL_DEN_NONE : a.causal ? rules->causal_den : rules->den;
    a.den_eps = (float)rules->den_eps;
    ll_operator_params_config(m, op, &a);
    const float root = (float)pow(ll_attention_width(&a), ll_config_linear(c) ? -0.25 : -0.5);
    a.input_scale = ll_map_of(a.kernel) && !rules->scaled ? 1 : root; /* elementwise maps do not scale q and k */
    return a;
}

/* Numbers in a row of the rotations of reformer's hash. */
static int rotation_angles(const ll_attention_config *a) { return a->approximate.buckets / 2; }

/* scratch: of ll_draw_scratch floats, or NULL. */
static ll_status draw_projection(const ll_model_config *c, const ll_attention_config *a, int op, int64_t redraws,
                                 float *scratch, float *W) {
    static const ll_draw_kind kinds[] = {[LL_PROJ_ORTHOGONAL] = LL_DRAW_ORTHOGONAL,
                                         [LL_PROJ_IID] = LL_DRAW_IID,
                                         [LL_PROJ_HADAMARD] = LL_DRAW_HADAMARD,
                                         [LL_PROJ_GIVENS] = LL_DRAW_GIVENS};
    const ll_draw_kind kind = kinds[ll_config_projection(c)];
    const ll_row_norms norms = c->attention.row_norms == LL_ROWS_SQRT_D ? LL_NORMS_SQRT_D : LL_NORMS_CHI;
    const int D = ll_attention_width(a);
    return scratch ? ll_draw_projection_in(scratch, W, a->M, D, kind, norms, (uint64_t)c->seed, op, redraws)
                   : ll_draw_projection(W, a->M, D, kind, norms, (uint64_t)c->seed, op, redraws);
}

/* Space for the draws of any operator. */
typedef struct {
    float *projection, *decay;
    int32_t *permutation;
    float *basis, *angles;
    float *rotations; /* empty: the operator makes its own draws */
    int has_rotations;
} parts;

static int decays(const ll_model_config *c, const ll_attention_config *a) {
    return c->position.decay == LL_DECAY_FIXED && a->causal;
}

static ll_status draw(const ll_model *m, const ll_attention_config *a, int op, parts *p) {
    const ll_model_config *c = m->c;
    const int n = ll_permuted_features(a), whole = ll_rotated_features(a);
    ll_status status = LL_OK;
    for (int h = 0; n && h < a->H; h++) {
        int32_t *permutation = p->permutation + (size_t)h * (size_t)n;
        if (c->position.cycles == LL_CYCLES_LONG) {
            ll_permutation_long(permutation, n, op * a->H + h);
        } else {
            ll_permutation_random(permutation, n, (uint64_t)c->seed, op, h);
        }
    }
    for (int h = 0; whole && h < a->H && !status; h++)
        status = ll_draw_rotation(p->basis + (size_t)h * (size_t)whole * (size_t)whole,
                                  p->angles + (size_t)h * (size_t)(whole / 2), whole, (uint64_t)c->seed, op, h);
    for (int h = 0; decays(c, a) && h < a->H; h++)
        p->decay[h] = (float)(1 / (1 + exp(-(c->position.decay_first +
                                             (c->position.decay_last - c->position.decay_first) * h / a->H))));
    if (!status && a->M) status = draw_projection(c, a, op, m->redraws, NULL, p->projection);
    return status;
}

/* "blocks.3.attention.WHAT", "decoder.blocks.3.cross.WHAT" */
enum { NAME = 64 };
static void name_of(const ll_model *m, int op, const char *what, char name[NAME]) {
    char prefix[LL_PREFIX];
    ll_operator_prefix(m, op, prefix);
    snprintf(name, NAME, "%s%s.%s", prefix, ll_operator_at(m, op).cross ? "cross" : "attention", what);
}

/* A draw in a file, and its operator. */
typedef struct {
    const ll_model *model;
    const ll_safetensors *file;
    int op;
} source;

/* The tensor of this name, type and shape; cols 0: a vector. */
static ll_status find(const ll_st_tensor **out, const source *s, const char *what, enum ll_dtype dtype, int rows,
                      int cols) {
    const ll_safetensors *file = s->file;
    char name[NAME];
    name_of(s->model, s->op, what, name);
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

/* Old files have no rotations; they are drawn then, from the seed, as before. */
static int is_there(const source *s, const char *what) {
    char name[NAME];
    name_of(s->model, s->op, what, name);
    return ll_safetensors_find(s->file, name) != NULL;
}

static ll_status read_floats(float *out, const source *s, const char *what, int rows, int cols) {
    const ll_st_tensor *t = NULL;
    ll_status status = find(&t, s, what, LL_F32, rows, cols);
    if (status) return status;
    ll_st_floats(out, t);
    for (size_t i = 0; i < t->count; i++)
        if (!isfinite(out[i]))
            return ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", ll_safetensors_path(s->file),
                           t->name, i);
    return LL_OK;
}

static ll_status read_permutation(int32_t *out, const source *s, int heads, int n) {
    const ll_st_tensor *t = NULL;
    ll_status status = find(&t, s, "permutation", LL_I32, heads, n);
    if (status) return status;
    unsigned char *seen = ll_alloc((size_t)n, 1);
    if (!seen) return LL_ENOMEM;
    memcpy(out, t->data, t->count * sizeof *out);
    for (int h = 0; h < heads && !status; h++) {
        const int32_t *p = out + (size_t)h * (size_t)n;
        memset(seen, 0, (size_t)n);
        for (int a = 0; a < n && !status; a++)
            if (p[a] < 0 || p[a] >= n || seen[p[a]]++)
                status = ll_fail(LL_EFORMAT, "%s: tensor %s is not a permutation: head %d has %d at %d",
                                 ll_safetensors_path(s->file), t->name, h, (int)p[a], a);
    }
    ll_free(seen);
    return status;
}

static ll_status read(const source *s, const ll_attention_config *a, parts *p) {
    const int permuted = ll_permuted_features(a), rotated = ll_rotated_features(a);
    ll_status status = LL_OK;
    if (a->M) status = read_floats(p->projection, s, "projection", a->M, ll_attention_width(a));
    if (!status && permuted) status = read_permutation(p->permutation, s, a->H, permuted);
    if (!status && decays(s->model->c, a)) status = read_floats(p->decay, s, "decay", a->H, 0);
    if (!status && rotated) status = read_floats(p->basis, s, "basis", a->H * rotated, rotated);
    if (!status && rotated) status = read_floats(p->angles, s, "angles", a->H, rotated / 2);
    if (status || !ll_hash_rows(a) || !is_there(s, "rotations")) return status;
    p->has_rotations = 1;
    return read_floats(p->rotations, s, "rotations", ll_hash_rows(a), rotation_angles(a));
}

/* Another model's operator of the same name, features and position; or NULL. */
static const ll_attention_config *namesake(const ll_model *m, int op, const ll_model *from) {
    const ll_model_config *c = m->c, *d = from->c;
    char name[NAME], other[NAME];
    name_of(m, op, "", name);
    if (c->attention.kernel != d->attention.kernel || c->attention.features != d->attention.features ||
        c->attention.row_norms != d->attention.row_norms || ll_config_projection(c) != ll_config_projection(d) ||
        c->position.type != d->position.type)
        return NULL;
    for (int i = 0; i < from->operators; i++) {
        name_of(from, i, "", other);
        if (!strcmp(name, other)) return &from->attention[i]->c;
    }
    return NULL;
}

/* Copies its random draws where the sizes are the same. Permutations are copied where the recipes ask for the same. */
static void adopt(const ll_attention_config *a, const ll_attention_config *b, int same_cycles, parts *p) {
    const size_t H = (size_t)a->H, n = (size_t)ll_permuted_features(a), rotated = (size_t)ll_rotated_features(a);
    const size_t hashes = (size_t)ll_hash_rows(a), angles = (size_t)rotation_angles(a);
    if (!b || a->H != b->H || a->M != b->M || ll_attention_width(a) != ll_attention_width(b)) return;
    if (a->M) memcpy(p->projection, b->projection, (size_t)a->M * (size_t)ll_attention_width(a) * sizeof(float));
    if (n && same_cycles && (size_t)ll_permuted_features(b) == n)
        memcpy(p->permutation, b->permutation, H * n * sizeof(int32_t));
    if (rotated && (size_t)ll_rotated_features(b) == rotated) {
        memcpy(p->basis, b->encoding.basis, H * rotated * rotated * sizeof(float));
        memcpy(p->angles, b->encoding.theta, H * (rotated / 2) * sizeof(float));
    }
    p->has_rotations = hashes && (size_t)ll_hash_rows(b) == hashes && (size_t)rotation_angles(b) == angles;
    if (p->has_rotations) memcpy(p->rotations, b->approximate.rotations, hashes * angles * sizeof(float));
}

static ll_status create(ll_model *m, const ll_safetensors *file, const ll_model *other, int op, parts *p) {
    ll_attention_config a = describe(m, op);
    const source from = {m, file, op};
    p->has_rotations = 0;
    ll_status status = file ? read(&from, &a, p) : draw(m, &a, op, p);
    if (status) return status;
    if (other) adopt(&a, namesake(m, op, other), m->c->position.cycles == other->c->position.cycles, p);
    a.projection = a.M ? p->projection : NULL;
    a.permutation = ll_permuted_features(&a) ? p->permutation : NULL;
    a.decay = decays(m->c, &a) ? p->decay : NULL;
    if (ll_rotated_features(&a)) a.encoding.basis = p->basis, a.encoding.theta = p->angles;
    a.approximate.rotations = p->has_rotations ? p->rotations : NULL;
    status = ll_attention_create(&m->attention[op], &a);
    return status == LL_EINVAL && file ? ll_fail_in(LL_EFORMAT, ll_safetensors_path(file)) : status;
}

/* Floats of the largest projection. */
static size_t largest(const ll_model *m) {
    size_t most = 0;
    for (int op = 0; op < m->operators; op++) {
        const ll_attention_config a = describe(m, op);
        const size_t floats = (size_t)a.M * (size_t)ll_attention_width(&a);
        if (floats > most) most = floats;
    }
    return most;
}

ll_status ll_operators_create(ll_model *m, const ll_safetensors *file, const ll_model *other) {
    const ll_attention_config a = describe(m, 0);
    const int whole = ll_rotated_features(&a);
    const size_t heads = (size_t)a.H;
    const source from = {m, file, 0};
    const ll_st_tensor *t;
    /* All other sizes are those of parameters, and the file has been checked for those. */
    ll_status status = file && a.M ? find(&t, &from, "projection", LL_F32, a.M, ll_attention_width(&a)) : LL_OK;
    if (!status && file && whole) status = find(&t, &from, "basis", LL_F32, a.H * whole, whole);
    if (!status && file && ll_hash_rows(&a) && is_there(&from, "rotations"))
        status = find(&t, &from, "rotations", LL_F32, ll_hash_rows(&a), rotation_angles(&a));
    if (status) return status;
    parts p = {.projection = ll_alloc(largest(m), sizeof(float)),
               .decay = ll_alloc(heads, sizeof(float)),
               .permutation = ll_alloc(heads * (size_t)ll_permuted_features(&a), sizeof(int32_t))};
    p.basis = ll_alloc(heads * (size_t)whole * (size_t)whole, sizeof(float));
    p.angles = ll_alloc(heads * (size_t)(whole / 2), sizeof(float));
    p.rotations = ll_alloc((size_t)ll_hash_rows(&a) * (size_t)rotation_angles(&a), sizeof(float));
    m->attention = ll_alloc((size_t)m->operators, sizeof(ll_attention *));
    const int there = p.projection && p.decay && p.permutation && p.basis && p.angles && p.rotations;
    status = m->attention && there ? LL_OK : LL_ENOMEM;
    for (int op = 0; op < m->operators && !status; op++) status = create(m, file, other, op, &p);
    ll_free(p.projection);
    ll_free(p.permutation);
    ll_free(p.decay);
    ll_free(p.basis);
    ll_free(p.angles);
    ll_free(p.rotations);
    return status;
}

void ll_operators_free(ll_model *m) {
    for (int op = 0; m->attention && op < m->operators; op++) ll_attention_free(m->attention[op]);
    ll_free(m->attention);
    m->attention = NULL;
}

/* A draw of an operator; cols 0: a vector. data NULL: there is none. */
static ll_status add(ll_st_writer *writer, const ll_model *m, int op, const char *what, enum ll_dtype dtype, int rows,
                     int cols, const void *data) {
    const size_t shape[2] = {(size_t)rows, (size_t)cols};
    char name[NAME];
    if (!data) return LL_OK;
    name_of(m, op, what, name);
    return ll_st_add(writer, name, dtype, cols ? 2 : 1, shape, data);
}

/* What a kind of operator does not have is NULL. */
static ll_status write(const ll_model *m, ll_st_writer *writer, int op) {
    const ll_attention_config *a = &m->attention[op]->c;
    const int H = a->H, whole = ll_rotated_features(a), hashes = ll_hash_rows(a);
    ll_status status = add(writer, m, op, "projection", LL_F32, a->M, ll_attention_width(a), a->projection);
    if (!status) status = add(writer, m, op, "permutation", LL_I32, H, ll_permuted_features(a), a->permutation);
    if (!status) status = add(writer, m, op, "decay", LL_F32, H, 0, a->decay);
    if (!status) status = add(writer, m, op, "basis", LL_F32, H * whole, whole, a->encoding.basis);
    if (!status) status = add(writer, m, op, "angles", LL_F32, H, whole / 2, a->encoding.theta);
    if (!status) status = add(writer, m, op, "rotations", LL_F32, hashes, rotation_angles(a), a->approximate.rotations);
    return status;
}

ll_status ll_operators_write(const ll_model *m, ll_st_writer *writer) {
    ll_status status = LL_OK;
    for (int op = 0; op < m->operators && !status; op++) status = write(m, writer, op);
    return status;
}

size_t ll_model_redraw_floats(const ll_model *m) {
    size_t scratch = 0;
    for (int op = 0; op < m->operators && largest(m); op++) {
        const ll_attention_config a = describe(m, op);
        const size_t floats = ll_draw_scratch(a.M, ll_attention_width(&a));
        if (floats > scratch) scratch = floats;
    }
    return ll_round_up(largest(m), LL_LINE) + scratch;
}

ll_status ll_model_redraw_in(ll_model *m, int64_t redraws, float *scratch) {
    ll_arena a = {.base = scratch};
    float *const W = ll_arena_take(&a, largest(m));
    for (int op = 0; op < m->operators && largest(m); op++) {
        /* If one draw fails for memory, the first one fails, so a model is never between two draws. */
        const ll_attention_config config = describe(m, op);
        const ll_status status = draw_projection(m->c, &config, op, redraws, scratch + a.used, W);
        if (status) return status;
        ll_attention_set_projection(m->attention[op], W);
    }
    m->redraws = redraws;
    return LL_OK;
}

ll_status ll_model_redraw(ll_model *m, int64_t redraws) {
    float *scratch = ll_alloc(ll_model_redraw_floats(m), sizeof *scratch);
    if (!scratch) return LL_ENOMEM;
    const ll_status status = ll_model_redraw_in(m, redraws, scratch);
    ll_free(scratch);
    return status;
}
