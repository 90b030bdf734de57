/* One attention operator for each layer (two for layers of a decoder), made from the recipe and the layer's
 * constants (attention/constant.h), which a model file contains. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/constant.h"
#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "attention/table.h"
#include "model/config/compat.h"
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

static ll_constant_draw draw_of(const ll_model *m, int op) {
    static const ll_draw_kind kinds[] = {[LL_PROJ_ORTHOGONAL] = LL_DRAW_ORTHOGONAL,
                                         [LL_PROJ_IID] = LL_DRAW_IID,
                                         [LL_PROJ_HADAMARD] = LL_DRAW_HADAMARD,
                                         [LL_PROJ_GIVENS] = LL_DRAW_GIVENS};
    const ll_model_config *c = m->c;
    return (ll_constant_draw){.seed = (uint64_t)c->seed,
                              .layer = op,
                              .redraw = m->redraws,
                              .kind = kinds[ll_config_projection(c)],
                              .norms = c->attention.row_norms == LL_ROWS_SQRT_D ? LL_NORMS_SQRT_D : LL_NORMS_CHI,
                              .long_cycles = c->position.cycles == LL_CYCLES_LONG,
                              .decay_first = c->position.decay_first,
                              .decay_last = c->position.decay_last};
}

/* The constants of one operator, which copies them. */
typedef struct {
    ll_constant list[LL_CONSTANTS];
    void *value[LL_CONSTANTS]; /* NULL: the operator draws it */
    int count;
} constants;

/* Their list. Decays are there if the recipe asks for them. */
static constants constants_of(const ll_model *m, const ll_attention_config *a) {
    constants p = {.count = 0};
    ll_constant all[LL_CONSTANTS];
    const int n = ll_constants(a, all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, "decay") || m->c->position.decay == LL_DECAY_FIXED) p.list[p.count++] = all[i];
    return p;
}

static ll_status draw(const ll_model *m, const ll_attention_config *a, int op, constants *p) {
    const ll_constant_draw how = draw_of(m, op);
    ll_status status = LL_OK;
    for (int i = 0; i < p->count && !status; i++) {
        const ll_constant *c = &p->list[i];
        if (!c->draw) continue;
        p->value[i] = ll_alloc(ll_constant_bytes(c), 1);
        status = p->value[i] ? c->draw(a, c, &how, p->value[i]) : LL_ENOMEM;
    }
    return status;
}

/* "blocks.3.attention.WHAT", "decoder.blocks.3.cross.WHAT" */
enum { NAME = 64 };
static void name_of(const ll_model *m, int op, const char *what, char name[NAME]) {
    char prefix[LL_PREFIX];
    ll_operator_prefix(m, op, prefix);
    snprintf(name, NAME, "%s%s.%s", prefix, ll_operator_at(m, op).cross ? "cross" : "attention", what);
}

/* ---- From a file ---- */

/* The tensor of a constant. NULL: the operator draws it, as for old files without rotations. */
static ll_status find(const ll_st_tensor **out, const ll_model *m, const ll_safetensors *file, int op,
                      const ll_constant *c) {
    char name[NAME];
    name_of(m, op, c->name, name);
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    const char *path = ll_safetensors_path(file);
    if (!t && c->draw) return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", path, name);
    if (t && (t->dtype != c->dtype || t->rank != (c->cols ? 2 : 1) || t->shape[0] != (size_t)c->rows ||
              (c->cols && t->shape[1] != (size_t)c->cols)))
        return ll_fail(LL_EFORMAT, "%s: tensor %s is not what its recipe says: %d x %d of type %s", path, name, c->rows,
                       c->cols ? c->cols : 1, c->dtype == LL_I32 ? "I32" : "F32");
    *out = t;
    return LL_OK;
}

static ll_status read_floats(float *out, const ll_st_tensor *t, const char *path) {
    ll_st_floats(out, t);
    for (size_t i = 0; i < t->count; i++)
        if (!isfinite(out[i]))
            return ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", path, t->name, i);
    return LL_OK;
}

/* Rows that are permutations of n features. */
static ll_status read_permutations(int32_t *out, const ll_st_tensor *t, int rows, int n, const char *path) {
    ll_status status = LL_OK;
    unsigned char *seen = ll_alloc((size_t)n, 1);
    if (!seen) return LL_ENOMEM;
    memcpy(out, t->data, t->count * sizeof *out);
    for (int h = 0; h < rows && !status; h++) {
        const int32_t *p = out + (size_t)h * (size_t)n;
        memset(seen, 0, (size_t)n);
        for (int a = 0; a < n && !status; a++)
            if (p[a] < 0 || p[a] >= n || seen[p[a]]++)
                status = ll_fail(LL_EFORMAT, "%s: tensor %s is not a permutation: head %d has %d at %d", path, t->name,
                                 h, (int)p[a], a);
    }
    ll_free(seen);
    return status;
}

static ll_status read(const ll_model *m, const ll_safetensors *file, int op, constants *p) {
    const char *path = ll_safetensors_path(file);
    ll_status status = LL_OK;
    for (int i = 0; i < p->count && !status; i++) {
        const ll_constant *c = &p->list[i];
        const ll_st_tensor *t = NULL;
        status = find(&t, m, file, op, c);
        if (status || !t) continue;
        p->value[i] = ll_alloc(ll_constant_bytes(c), 1);
        if (!p->value[i]) return LL_ENOMEM;
        status = c->dtype == LL_I32 ? read_permutations(p->value[i], t, c->rows, c->cols, path)
                                    : read_floats(p->value[i], t, path);
    }
    return status;
}

/* ---- From another model ---- */

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

/* Is a constant copied? Decays are those of the recipe, and so are permutations where it asks for other cycles. */
static int is_copied(const ll_model *m, const ll_model *from, const char *name) {
    if (!strcmp(name, "decay")) return 0;
    return strcmp(name, "permutation") || m->c->position.cycles == from->c->position.cycles;
}

/* Copies those of the other model's operator that have the same sizes. */
static ll_status adopt(const ll_model *m, const ll_attention_config *a, int op, const ll_model *from, constants *p) {
    const ll_attention_config *b = namesake(m, op, from);
    if (!b || a->H != b->H || a->M != b->M || ll_attention_width(a) != ll_attention_width(b)) return LL_OK;
    for (int i = 0; i < p->count; i++) {
        const ll_constant *c = &p->list[i], d = ll_constant_named(b, c->name);
        if (!is_copied(m, from, c->name) || c->rows != d.rows || c->cols != d.cols) continue;
        if (!p->value[i]) p->value[i] = ll_alloc(ll_constant_bytes(c), 1);
        if (!p->value[i]) return LL_ENOMEM;
        memcpy(p->value[i], ll_constant_of(b, &d), ll_constant_bytes(c));
    }
    return LL_OK;
}

/* ---- Created and written ---- */

static ll_status create(ll_model *m, const ll_safetensors *file, const ll_model *other, int op) {
    ll_attention_config a = describe(m, op);
    constants p = constants_of(m, &a);
    ll_status status = file ? read(m, file, op, &p) : draw(m, &a, op, &p);
    if (!status && other) status = adopt(m, &a, op, other, &p);
    for (int i = 0; i < p.count; i++) ll_constant_set(&a, &p.list[i], p.value[i]);
    if (!status) {
        status = ll_attention_create(&m->attention[op], &a);
        if (status == LL_EINVAL && file) status = ll_fail_in(LL_EFORMAT, ll_safetensors_path(file));
    }
    for (int i = 0; i < p.count; i++) ll_free(p.value[i]);
    return status;
}

ll_status ll_operators_create(ll_model *m, const ll_safetensors *file, const ll_model *other) {
    m->attention = ll_alloc((size_t)m->operators, sizeof(ll_attention *));
    ll_status status = m->attention ? LL_OK : LL_ENOMEM;
    for (int op = 0; op < m->operators && !status; op++) status = create(m, file, other, op);
    return status;
}

void ll_operators_free(ll_model *m) {
    for (int op = 0; m->attention && op < m->operators; op++) ll_attention_free(m->attention[op]);
    ll_free(m->attention);
    m->attention = NULL;
}

static ll_status write(const ll_model *m, ll_st_writer *writer, int op) {
    const ll_attention_config *a = &m->attention[op]->c;
    const constants p = constants_of(m, a);
    ll_status status = LL_OK;
    for (int i = 0; i < p.count && !status; i++) {
        const ll_constant *c = &p.list[i];
        const size_t shape[2] = {(size_t)c->rows, (size_t)c->cols};
        char name[NAME];
        name_of(m, op, c->name, name);
        status = ll_st_add(writer, name, c->dtype, c->cols ? 2 : 1, shape, ll_constant_of(a, c));
    }
    return status;
}

ll_status ll_operators_write(const ll_model *m, ll_st_writer *writer) {
    ll_status status = LL_OK;
    for (int op = 0; op < m->operators && !status; op++) status = write(m, writer, op);
    return status;
}

/* ---- Redrawn ---- */

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

/* Floats from one operator's projection to the next in a block of all. */
static size_t place(const ll_model *m) { return ll_round_up(largest(m), LL_LINE); }

size_t ll_model_redraw_floats(const ll_model *m) {
    size_t scratch = 0;
    for (int op = 0; op < m->operators && largest(m); op++) {
        const ll_attention_config a = describe(m, op);
        const size_t floats = ll_draw_scratch(a.M, ll_attention_width(&a));
        if (floats > scratch) scratch = floats;
    }
    return (size_t)m->operators * place(m) + scratch;
}

void ll_model_swap_projections(ll_model *m, int64_t redraws, float *block) {
    const size_t next = place(m);
    for (int op = 0; op < m->operators && next; op++, block += next) {
        const ll_attention_config *c = &m->attention[op]->c;
        float *const own = (float *)c->projection;
        const size_t floats = (size_t)c->M * (size_t)m->attention[op]->D;
        for (size_t i = 0; i < floats; i++) {
            const float x = own[i];
            own[i] = block[i];
            block[i] = x;
        }
        ll_attention_set_projection(m->attention[op], own);
    }
    m->redraws = redraws;
}

ll_status ll_model_redraw_in(ll_model *m, int64_t redraws, float *block) {
    const size_t next = place(m);
    float *W = block, *const scratch = block + (size_t)m->operators * next;
    for (int op = 0; op < m->operators && next; op++, W += next) {
        const ll_attention *const attention = m->attention[op];
        const ll_constant_draw how = draw_of(m, op);
        const ll_status status = ll_draw_projection_in(scratch, W, attention->c.M, attention->D, how.kind, how.norms,
                                                       how.seed, op, redraws);
        if (status) return status;
    }
    ll_model_swap_projections(m, redraws, block);
    return LL_OK;
}

ll_status ll_model_redraw(ll_model *m, int64_t redraws) {
    float *scratch = ll_alloc(ll_model_redraw_floats(m), sizeof *scratch);
    if (!scratch) return LL_ENOMEM;
    const ll_status status = ll_model_redraw_in(m, redraws, scratch);
    ll_free(scratch);
    return status;
}
