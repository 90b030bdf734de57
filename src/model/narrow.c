/* Weights in fewer bits, for generation: one token reads every weight once, and memory is what it waits for. The
 * matrices of the blocks and of an output layer of its own are rounded, to bfloat16 or to whole numbers of 8 bits with
 * one scale a column, both in place and into a copy that a row alone is multiplied with; so all paths compute on the
 * same numbers, to the same bits. Vectors and embeddings stay as they are: they are small, or looked up. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "model/network.h"

struct ll_narrow {
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
    if (isnan(x)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void to_half(uint16_t *half, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        half[i] = half_of(x[i]);
        x[i] = ll_half_float(half[i]);
    }
}

/* A column at a time: its largest weight becomes 127. */
static void to_byte(int8_t *byte, float *scale, float *x, int rows, int cols) {
    for (size_t c = 0; c < (size_t)cols; c++) {
        float most = 0;
        for (int r = 0; r < rows; r++) most = fmaxf(most, fabsf(x[(size_t)r * (size_t)cols + c]));
        scale[c] = most / 127;
        for (int r = 0; r < rows; r++) {
            const size_t at = (size_t)r * (size_t)cols + c;
            byte[at] = (int8_t)(most > 0 ? lrintf(x[at] / scale[c]) : 0);
            x[at] = (float)byte[at] * scale[c];
        }
    }
}

static ll_status allocate(ll_narrow *w, const ll_model *m, ll_precision precision) {
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

ll_status ll_model_narrow(ll_model *m, ll_precision precision) {
    if (precision == LL_FLOAT32) return LL_OK;
    if (precision != LL_BFLOAT16 && precision != LL_INT8)
        return ll_fail(LL_EINVAL, "weights of kind %d do not exist", (int)precision);
    if (m->narrow) return ll_fail(LL_EINVAL, "the weights of this model were rounded before; load it again");
    ll_narrow *w = ll_alloc(1, sizeof *w);
    const ll_status status = w ? allocate(w, m, precision) : LL_ENOMEM;
    if (status) {
        ll_narrow_free(w);
        return status;
    }
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        float *x = m->data + p->offset;
        if (!narrows(m, i)) continue;
        if (w->half)
            to_half(w->half + p->offset, x, (size_t)p->rows * (size_t)p->cols);
        else
            to_byte(w->byte + p->offset, w->scale + w->column[i], x, p->rows, p->cols);
    }
    m->narrow = w;
    return LL_OK;
}

void ll_narrow_free(ll_narrow *w) {
    if (!w) return;
    ll_free(w->half);
    ll_free(w->byte);
    ll_free(w->scale);
    ll_free(w->column);
    ll_free(w);
}

ll_matrix ll_narrow_find(const ll_model *m, const float *weight) {
    ll_matrix w = {.f = weight};
    const size_t at = (size_t)(weight - m->data);
    int i = 0;
    while (m->narrow && i < m->count && m->param[i].offset != at) i++;
    if (!m->narrow || i == m->count || m->narrow->column[i] == SIZE_MAX) return w;
    if (m->narrow->half) {
        w.half = m->narrow->half + at;
    } else {
        w.byte = m->narrow->byte + at;
        w.scale = m->narrow->scale + m->narrow->column[i];
    }
    return w;
}
