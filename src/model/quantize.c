/* Quantized weights for generation. A token reads every weight once, so that memory bandwidth is the limit. The
 * matrices of the blocks and of an untied output layer are rounded to bfloat16, or to 8-bit integers with one scale for
 * each column. The rounded numbers go into a copy, which products of one row read, and as floats back to their place,
 * which all other products read. So all paths compute on the same numbers and give the same bits. Vectors and
 * embeddings are not quantized: vectors are small, and of the embedding a token reads one row. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "model/network.h"

struct ll_quantized {
    uint16_t *bf16; /* (size), in the order of the parameters; or NULL */
    int8_t *int8;   /* the same */
    float *scale;   /* the scale of each column of int8 */
    size_t *column; /* (count) index of a tensor's first scale; SIZE_MAX: not quantized */
};

static int is_quantized(const ll_model *m, int i) {
    return m->param[i].cols > 1 && m->param[i].decay && i != m->at.embedding;
}

/* Rounds to the nearest bfloat16, ties to even. A NaN stays a NaN. */
static uint16_t bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

/* At most COLUMNS columns of one matrix, rows `ld` apart. */
enum { COLUMNS = 64 };
typedef struct {
    int rows, cols;
    size_t ld;
    float *x;
} slab;

static void to_bf16(uint16_t *bf16, const slab *s) {
    for (int r = 0; r < s->rows; r++, bf16 += s->ld) {
        float *x = s->x + (size_t)r * s->ld;
        for (int c = 0; c < s->cols; c++) {
            bf16[c] = bf16_of(x[c]);
            x[c] = ll_bf16_to_float(bf16[c]);
        }
    }
}

/* The scale of a column maps its largest absolute weight to 127. */
static void to_int8(int8_t *int8, float *scale, const slab *s) {
    const float nearest = 12582912; /* 1.5 2^23: a sum with it has no fraction bits */
    float most[COLUMNS] = {0}, unit[COLUMNS];
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->cols; c++) {
            const float size = fabsf(s->x[(size_t)r * s->ld + (size_t)c]);
            most[c] = size > most[c] ? size : most[c];
        }
    for (int c = 0; c < s->cols; c++) {
        const float all = most[c] / 127;
        scale[c] = all >= FLT_MIN ? all : 0; /* a subnormal scale is too coarse: such a column becomes 0 */
        unit[c] = all >= FLT_MIN ? all : 1;
    }
    for (int r = 0; r < s->rows; r++, int8 += s->ld) {
        float *x = s->x + (size_t)r * s->ld;
        for (int c = 0; c < s->cols; c++) {
            const float q = x[c] / unit[c] + nearest - nearest;
            int8[c] = (int8_t)q;
            x[c] = q * scale[c];
        }
    }
}

typedef struct {
    const ll_model *m;
    ll_quantized *w;
} job;

static void quantize_tensor(void *arg, size_t i) {
    const job *j = arg;
    const ll_param *p = &j->m->param[i];
    const ll_quantized *w = j->w;
    if (!is_quantized(j->m, (int)i)) return;
    for (int c = 0; c < p->cols; c += COLUMNS) {
        const slab s = {p->rows, p->cols - c < COLUMNS ? p->cols - c : COLUMNS, (size_t)p->cols, p->value + c};
        if (w->bf16)
            to_bf16(w->bf16 + p->offset + c, &s);
        else
            to_int8(w->int8 + p->offset + c, w->scale + w->column[i] + c, &s);
    }
}

static ll_status allocate(ll_quantized *w, const ll_model *m, ll_precision precision) {
    size_t columns = 0;
    w->column = ll_alloc((size_t)m->count, sizeof *w->column);
    for (int i = 0; w->column && i < m->count; i++) {
        w->column[i] = is_quantized(m, i) ? columns : SIZE_MAX;
        if (is_quantized(m, i)) columns += (size_t)m->param[i].cols;
    }
    if (precision == LL_BFLOAT16) {
        w->bf16 = ll_alloc(m->size, sizeof *w->bf16);
    } else {
        w->int8 = ll_alloc(m->size, sizeof *w->int8);
        w->scale = ll_alloc(columns, sizeof *w->scale);
    }
    return w->column && (w->bf16 || (w->int8 && w->scale)) ? LL_OK : LL_ENOMEM;
}

ll_status ll_model_quantize(ll_model *m, ll_precision precision) {
    if (precision == LL_FLOAT32) return LL_OK;
    if (precision != LL_BFLOAT16 && precision != LL_INT8)
        return ll_fail(LL_EINVAL, "weights of kind %d do not exist", (int)precision);
    if (m->quantized) return ll_fail(LL_EINVAL, "the weights of this model were rounded before; load it again");
    ll_quantized *w = ll_alloc(1, sizeof *w);
    const ll_status status = w ? allocate(w, m, precision) : LL_ENOMEM;
    if (status) {
        ll_quantized_free(w);
        return status;
    }
    ll_parallel_for((size_t)m->count, quantize_tensor, &(job){m, w});
    m->quantized = w;
    return LL_OK;
}

const char *ll_quantized_name(const ll_model *m) {
    return !m->quantized ? "f32" : m->quantized->bf16 ? "bf16" : "int8";
}

void ll_quantized_free(ll_quantized *w) {
    if (!w) return;
    ll_free(w->bf16);
    ll_free(w->int8);
    ll_free(w->scale);
    ll_free(w->column);
    ll_free(w);
}

ll_matrix ll_quantized_find(const ll_model *m, const float *weight) {
    ll_matrix w = {.f = weight};
    int i = 0;
    while (m->quantized && i < m->count && m->param[i].value != weight) i++;
    if (!m->quantized || i == m->count || m->quantized->column[i] == SIZE_MAX) return w;
    const size_t at = m->param[i].offset;
    if (m->quantized->bf16) {
        w.bf16 = m->quantized->bf16 + at;
    } else {
        w.int8 = m->quantized->int8 + at;
        w.scale = m->quantized->scale + m->quantized->column[i];
    }
    return w;
}
