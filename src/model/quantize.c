/* Quantized weights. A generated token reads every weight once, so that memory bandwidth is the limit. The matrices of
 * the blocks, of patches and of the head, but for a tied output layer, become bfloat16, or integers of 8 or 4 bits with
 * a scale for each LL_GROUP rows of a column. All products read these: those of few rows as they are (`linear` of the
 * kernels), those of more rows through ll_gemm_quantized. Both compute on the same numbers and give the same bits.
 * Vectors and embeddings of tokens stay floats: vectors are small, and of the embedding a token reads one row. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bf16.h"
#include "base/finite.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/network.h"

struct ll_quantized {
    ll_precision precision;
    ll_matrix *matrix; /* (count) of each tensor; all pointers NULL: it is not quantized */
    uint8_t *block;    /* what they point to; NULL: they lie in the model's file */
};

static const char *const names[] = {
    [LL_FLOAT32] = "f32", [LL_BFLOAT16] = "bf16", [LL_INT8] = "int8", [LL_INT4] = "int4"};
enum { KINDS = sizeof names / sizeof *names };

/* Is tensor i one that ll_linear multiplies by? */
static int is_matrix(const ll_model *m, int i) {
    const ll_role role = m->param[i].role;
    const int multiplies = role == LL_ROLE_WEIGHT || role == LL_ROLE_RESIDUAL || role == LL_ROLE_HEAD_WEIGHT;
    return multiplies && m->param[i].cols > 1;
}

/* ---- Layout ---- */

/* Rows of the tensors that a matrix becomes, each of cols elements: of the weights, and of their scales (0: none). */
static size_t weight_rows(ll_precision p, size_t rows) { return p == LL_INT4 ? (rows + 1) / 2 : rows; }
static size_t scale_rows(ll_precision p, size_t rows) {
    return p == LL_BFLOAT16 ? 0 : ll_ceil_div_size(rows, LL_GROUP);
}
static size_t weight_size(ll_precision p) { return p == LL_BFLOAT16 ? sizeof(uint16_t) : 1; }
static enum ll_dtype weight_type(ll_precision p) {
    return p == LL_BFLOAT16 ? LL_ST_BF16 : p == LL_INT8 ? LL_ST_I8 : LL_U8;
}

static ll_matrix matrix_at(ll_precision p, const void *weights, const void *scale, size_t cols) {
    ll_matrix x = {.ld = cols, .scale = scale};
    if (p == LL_BFLOAT16) x.bf16 = weights;
    if (p == LL_INT8) x.int8 = weights;
    if (p == LL_INT4) x.int4 = weights;
    return x;
}

/* Pieces of a block for all matrices; without a block only counted. Returns its bytes. */
static size_t lay_out(ll_quantized *w, const ll_model *m) {
    ll_arena a = {(float *)(void *)w->block, 0};
    for (int i = 0; i < m->count; i++) {
        const size_t rows = (size_t)m->param[i].rows, cols = (size_t)m->param[i].cols;
        if (!is_matrix(m, i)) continue;
        const void *weights = ll_arena_bytes(&a, weight_rows(w->precision, rows) * cols, weight_size(w->precision));
        const size_t scales = scale_rows(w->precision, rows) * cols;
        const void *scale = scales ? ll_arena_bytes(&a, scales, sizeof(uint16_t)) : NULL;
        if (w->block) w->matrix[i] = matrix_at(w->precision, weights, scale, cols);
    }
    return a.used * sizeof(float);
}

static ll_status create(ll_quantized **out, const ll_model *m, ll_precision precision, int block) {
    ll_quantized *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    w->precision = precision;
    w->matrix = ll_alloc((size_t)m->count, sizeof *w->matrix);
    if (w->matrix && block && (w->block = ll_alloc(lay_out(w, m), 1))) lay_out(w, m);
    if (!w->matrix || (block && !w->block)) {
        ll_quantized_free(w);
        return LL_ENOMEM;
    }
    *out = w;
    return LL_OK;
}

void ll_quantized_free(ll_quantized *w) {
    if (!w) return;
    ll_free(w->matrix);
    ll_free(w->block);
    ll_free(w);
}

/* ---- Rounding ---- */

/* The numbers of one group of a column. */
typedef struct {
    int n;
    float x[LL_GROUP], largest; /* of the largest absolute value, with its sign */
    int q[LL_GROUP];
    uint16_t scale;
} group;

/* The nearest bfloat16 that is finite. */
static uint16_t finite_bf16(float x) {
    const uint16_t bits = ll_bf16_from_float(x);
    return (uint16_t)(bits - ((bits & 0x7fff) == 0x7f80));
}

/* q to the nearest of `least` to `most` with this scale. Returns the sum of squared errors. A subnormal scale is too
 * coarse: such a group becomes 0. A scale that is rounded up may make a number infinite: the one below does not. */
static double round_with(group *g, float scale, int least, int most) {
    double error = 0;
    g->scale = fabsf(scale) >= FLT_MIN ? ll_bf16_from_float(scale) : 0;
    if (!isfinite(ll_bf16_to_float(g->scale) * (float)least)) g->scale--;
    const float unit = ll_bf16_to_float(g->scale);
    for (int i = 0; i < g->n; i++) {
        const float q = unit != 0 ? rintf(g->x[i] / unit) : 0;
        g->q[i] = q < (float)least ? least : q > (float)most ? most : (int)q;
        const double d = (double)g->x[i] - (double)((float)g->q[i] * unit);
        error += d * d;
    }
    return error;
}

/* Of 16 levels from -8 to 7, the largest number takes -8. Scales around that one leave less error where few numbers are
 * large: the best of seven is taken. */
static void round_int4(group *g) {
    static const float levels[] = {8, 7.5F, 8.5F, 7, 9, 6.5F, 9.5F};
    group best = *g;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const double error = round_with(g, -g->largest / levels[i], -8, 7);
        if (error < least) least = error, best = *g;
    }
    *g = best;
}

/* Rows k to k + LL_GROUP of column c. */
static void round_group(const ll_quantized *w, int i, const ll_param *p, int k, int c) {
    const size_t ld = (size_t)p->cols, at = (size_t)k * ld + (size_t)c;
    group g = {.n = ll_min_int(LL_GROUP, p->rows - k)};
    for (int r = 0; r < g.n; r++) {
        g.x[r] = p->value[at + (size_t)r * ld];
        if (fabsf(g.x[r]) > fabsf(g.largest)) g.largest = g.x[r];
    }
    if (w->precision == LL_INT8) {
        round_with(&g, fabsf(g.largest) / 127, -127, 127);
    } else {
        round_int4(&g);
    }
    ((uint16_t *)w->matrix[i].scale)[(size_t)k / LL_GROUP * ld + (size_t)c] = g.scale;
    for (int r = 0; r < g.n; r++) {
        if (w->precision == LL_INT8) {
            ((int8_t *)w->matrix[i].int8)[at + (size_t)r * ld] = (int8_t)g.q[r];
        } else {
            uint8_t *byte = (uint8_t *)w->matrix[i].int4 + (size_t)(k + r) / 2 * ld + (size_t)c;
            *byte = (uint8_t)(*byte | (g.q[r] + 8) << r % 2 * 4);
        }
    }
}

typedef struct {
    const ll_model *m;
    const ll_quantized *w;
} job;

static void quantize_tensor(void *arg, size_t i) {
    const job *j = arg;
    const ll_param *p = &j->m->param[i];
    const size_t size = (size_t)p->rows * (size_t)p->cols;
    if (!is_matrix(j->m, (int)i)) return;
    if (j->w->precision == LL_BFLOAT16) {
        for (size_t n = 0; n < size; n++) ((uint16_t *)j->w->matrix[i].bf16)[n] = finite_bf16(p->value[n]);
        return;
    }
    for (int k = 0; k < p->rows; k += LL_GROUP)
        for (int c = 0; c < p->cols; c++) round_group(j->w, (int)i, p, k, c);
}

/* From now on the matrices are these, and no floats. */
static void take_over(ll_model *m, ll_quantized *w) {
    m->quantized = w;
    for (int i = 0; i < m->count; i++)
        if (is_matrix(m, i)) m->param[i].value = NULL;
}

ll_status ll_model_quantize(ll_model *m, ll_precision precision) {
    LL_FLOAT_MODE;
    if ((int)precision < 0 || (int)precision >= KINDS)
        return ll_fail(LL_EINVAL, "weights of kind %d do not exist", (int)precision);
    if (m->quantized && m->quantized->precision == precision) return LL_OK;
    if (precision == LL_FLOAT32 && !m->quantized) return LL_OK;
    if (m->quantized)
        return ll_fail(LL_EINVAL, "the weights of this model are %s already; load the model that they were made of",
                       names[m->quantized->precision]);
    if (m->training)
        return ll_fail(LL_EINVAL, "a run is training the model; quantize it when the run has ended, or was stopped");
    ll_quantized *w = NULL;
    ll_status status = ll_model_finite(m, "quantized");
    if (!status) status = create(&w, m, precision, 1);
    if (status) return status;
    ll_parallel_for((size_t)m->count, quantize_tensor, &(job){m, w});
    take_over(m, w);
    return LL_OK;
}

/* ---- Use ---- */

ll_status ll_model_trainable(const ll_model *m) {
    return !m->quantized ? LL_OK
                         : ll_fail(LL_EINVAL,
                                   "the model's weights are %s and cannot be trained; train the model that they "
                                   "were made of",
                                   ll_quantized_name(m));
}

const char *ll_quantized_name(const ll_model *m) { return names[m->quantized ? m->quantized->precision : LL_FLOAT32]; }

ll_matrix ll_param_matrix(const ll_model *m, int i) {
    if (i >= 0 && !m->param[i].value && m->quantized) return m->quantized->matrix[i];
    return (ll_matrix){.f = i < 0 ? NULL : m->param[i].value, .ld = i < 0 ? 0 : (size_t)m->param[i].cols};
}

void ll_param_floats(const ll_model *m, int i, int first, int rows, float *out) {
    const ll_matrix x = ll_param_matrix(m, i);
    const ll_kernels *k = ll_kernel_table();
    for (int r = 0; r < rows; r++) k->dequantize(m->param[i].cols, &x, first + r, 0, out + (size_t)r * x.ld);
}

/* ---- Files ---- */

ll_status ll_quantized_write(const ll_model *m, int i, ll_st_writer *writer) {
    const ll_param *p = &m->param[i];
    const ll_precision precision = m->quantized->precision;
    const ll_matrix *x = &m->quantized->matrix[i];
    const size_t rows = (size_t)p->rows, cols = (size_t)p->cols, scales = scale_rows(precision, rows);
    const void *weights = x->bf16 ? (const void *)x->bf16 : x->int8 ? (const void *)x->int8 : (const void *)x->int4;
    char name[LL_SCALE_NAME];
    snprintf(name, sizeof name, "%s.scale", p->name);
    ll_status status =
        ll_st_add(writer, p->name, weight_type(precision), 2, (size_t[]){weight_rows(precision, rows), cols}, weights);
    if (!status && scales) status = ll_st_add(writer, name, LL_ST_BF16, 2, (size_t[]){scales, cols}, x->scale);
    return status;
}

ll_status ll_quantized_kind(ll_precision *precision, const ll_safetensors *file) {
    const char *name = ll_safetensors_meta(file, "weights");
    int kind = 0;
    while (name && kind < KINDS && strcmp(name, names[kind])) kind++;
    if (kind == KINDS)
        return ll_fail(LL_EFORMAT, "%s: weights are \"%.20s\"; this program reads f32, bf16, int8 and int4",
                       ll_safetensors_path(file), name);
    *precision = (ll_precision)kind;
    return LL_OK;
}

/* One of the tensors that a matrix is in a file. */
static ll_status find(const void **out, const ll_safetensors *file, const char *name, enum ll_dtype type, size_t rows,
                      size_t cols) {
    const char *path = ll_safetensors_path(file);
    const ll_st_tensor *t = ll_safetensors_find(file, name);
    if (!t) return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", path, name);
    if (t->dtype != type || t->rank != 2 || t->shape[0] != rows || t->shape[1] != cols)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has not the type or the shape %zu x %zu of its quantized weights",
                       path, name, rows, cols);
    if (type == LL_ST_BF16) {
        const uint8_t *p = t->data;
        for (size_t i = 0; i < rows * cols; i++)
            if ((p[2 * i + 1] & 0x7f) == 0x7f && p[2 * i] & 0x80)
                return ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", path, name, i);
    }
    *out = t->data;
    return LL_OK;
}

static ll_status read_matrix(ll_quantized *w, const ll_model *m, int i, const ll_safetensors *file) {
    const ll_param *p = &m->param[i];
    const size_t rows = (size_t)p->rows, cols = (size_t)p->cols, stored = weight_rows(w->precision, rows),
                 scales = scale_rows(w->precision, rows);
    const void *weights = NULL, *scale = NULL;
    char name[LL_SCALE_NAME];
    snprintf(name, sizeof name, "%s.scale", p->name);
    ll_status status = find(&weights, file, p->name, weight_type(w->precision), stored, cols);
    if (!status && scales) status = find(&scale, file, name, LL_ST_BF16, scales, cols);
    if (status) return status;
    if (!w->block) {
        w->matrix[i] = matrix_at(w->precision, weights, scale, cols);
        return LL_OK;
    }
    const ll_matrix *x = &w->matrix[i];
    void *to = x->bf16 ? (void *)x->bf16 : x->int8 ? (void *)x->int8 : (void *)x->int4;
    memcpy(to, weights, stored * cols * weight_size(w->precision));
    if (scales) memcpy((void *)x->scale, scale, scales * cols * sizeof(uint16_t));
    return LL_OK;
}

ll_status ll_quantized_read(ll_model *m, ll_precision precision, const ll_safetensors *file, int in_place) {
    ll_quantized *w = NULL;
    ll_status status = create(&w, m, precision, !in_place);
    for (int i = 0; i < m->count && !status; i++)
        if (is_matrix(m, i)) status = read_matrix(w, m, i, file);
    if (status) {
        ll_quantized_free(w);
        return status;
    }
    take_over(m, w);
    return LL_OK;
}

int ll_is_quantized(const ll_model *m, int i) { return is_matrix(m, i); }
