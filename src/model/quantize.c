/* Weights in fewer bits, for generation: one token reads every weight once, and memory is what it waits for. The
 * matrices of the blocks and of an output layer of its own are rounded, to bfloat16 or to whole numbers of 8 bits with
 * one scale a column, both in place and into a copy that a row alone is multiplied with; so all paths compute on the
 * same numbers, to the same bits. Vectors and embeddings stay as they are: they are small, or looked up. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "model/network.h"

struct ll_quantized {
    uint16_t *half; /* (size), as the parameters lie; or NULL */
    int8_t *byte;   /* the same */
    float *scale;   /* (size of all columns) for bytes */
    size_t *column; /* (count) where a tensor's scales are; SIZE_MAX: it is not narrow */
};

static int narrows(const ll_model *m, int i) {
    return m->param[i].cols > 1 && m->param[i].decay && i != m->at.embedding;
}

/* To the nearest, ties to even; NaN stays one. */
static uint16_t half_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

/* COLUMNS of one matrix or fewer, rows `ld` apart. */
enum { COLUMNS = 64 };
typedef struct {
    int rows, cols;
    size_t ld;
    float *x;
} slab;

static void to_half(uint16_t *half, const slab *s) {
    for (int r = 0; r < s->rows; r++, half += s->ld) {
        float *x = s->x + (size_t)r * s->ld;
        for (int c = 0; c < s->cols; c++) {
            half[c] = half_of(x[c]);
            x[c] = ll_bf16_to_float(half[c]);
        }
    }
}

/* The largest weight of a column becomes 127. */
static void to_byte(int8_t *byte, float *scale, const slab *s) {
    const float nearest = 12582912; /* 1.5 2^23: added, it leaves no room for a fraction */
    float most[COLUMNS] = {0}, unit[COLUMNS];
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->cols; c++) {
            const float size = fabsf(s->x[(size_t)r * s->ld + (size_t)c]);
            most[c] = size > most[c] ? size : most[c];
        }
    for (int c = 0; c < s->cols; c++) {
        const float all = most[c] / 127;
        scale[c] = all >= FLT_MIN ? all : 0; /* smaller ones are too coarse to divide by, and are nothing */
        unit[c] = all >= FLT_MIN ? all : 1;
    }
    for (int r = 0; r < s->rows; r++, byte += s->ld) {
        float *x = s->x + (size_t)r * s->ld;
        for (int c = 0; c < s->cols; c++) {
            const float q = x[c] / unit[c] + nearest - nearest;
            byte[c] = (int8_t)q;
            x[c] = q * scale[c];
        }
    }
}

typedef struct {
    const ll_model *m;
    ll_quantized *w;
} job;

static void round_tensor(void *arg, size_t i) {
    const job *j = arg;
    const ll_param *p = &j->m->param[i];
    const ll_quantized *w = j->w;
    if (!narrows(j->m, (int)i)) return;
    for (int c = 0; c < p->cols; c += COLUMNS) {
        const slab s = {p->rows, p->cols - c < COLUMNS ? p->cols - c : COLUMNS, (size_t)p->cols, p->value + c};
        if (w->half)
            to_half(w->half + p->offset + c, &s);
        else
            to_byte(w->byte + p->offset + c, w->scale + w->column[i] + c, &s);
    }
}

static ll_status allocate(ll_quantized *w, const ll_model *m, ll_precision precision) {
    size_t columns = 0;
    w->column = ll_alloc((size_t)m->count, sizeof *w->column);
    for (int i = 0; w->column && i < m->count; i++) {
        w->column[i] = narrows(m, i) ? columns : SIZE_MAX;
        if (narrows(m, i)) columns += (size_t)m->param[i].cols;
    }
    if (precision == LL_BFLOAT16) {
        w->half = ll_alloc(m->size, sizeof *w->half);
    } else {
        w->byte = ll_alloc(m->size, sizeof *w->byte);
        w->scale = ll_alloc(columns, sizeof *w->scale);
    }
    return w->column && (w->half || (w->byte && w->scale)) ? LL_OK : LL_ENOMEM;
}

ll_status ll_model_quantize(ll_model *m, ll_precision precision) {
    if (precision == LL_FLOAT32) return LL_OK;
    if (precision != LL_BFLOAT16 && precision != LL_INT8)
        return ll_fail(LL_EINVAL, "weights of kind %d do not exist", (int)precision);
    if (m->narrow) return ll_fail(LL_EINVAL, "the weights of this model were rounded before; load it again");
    ll_quantized *w = ll_alloc(1, sizeof *w);
    const ll_status status = w ? allocate(w, m, precision) : LL_ENOMEM;
    if (status) {
        ll_quantized_free(w);
        return status;
    }
    ll_parallel_for((size_t)m->count, round_tensor, &(job){m, w});
    m->narrow = w;
    return LL_OK;
}

void ll_quantized_free(ll_quantized *w) {
    if (!w) return;
    ll_free(w->half);
    ll_free(w->byte);
    ll_free(w->scale);
    ll_free(w->column);
    ll_free(w);
}

ll_matrix ll_quantized_find(const ll_model *m, const float *weight) {
    ll_matrix w = {.f = weight};
    int i = 0;
    while (m->narrow && i < m->count && m->param[i].value != weight) i++;
    if (!m->narrow || i == m->count || m->narrow->column[i] == SIZE_MAX) return w;
    const size_t at = m->param[i].offset;
    if (m->narrow->half) {
        w.half = m->narrow->half + at;
    } else {
        w.byte = m->narrow->byte + at;
        w.scale = m->narrow->scale + m->narrow->column[i];
    }
    return w;
}
