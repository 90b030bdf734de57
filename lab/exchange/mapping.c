/* Which element of a foreign tensor is which of ours. Import and export both walk over these rules. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "exchange/family.h"

/* '*' becomes the prefix, '#' the layer. */
static void expand(char out[LL_TENSOR_NAME], const char *pattern, const char *prefix, int layer) {
    size_t n = 0;
    for (; *pattern && n + 40 < LL_TENSOR_NAME; pattern++) {
        if (*pattern == '*')
            n += (size_t)snprintf(out + n, LL_TENSOR_NAME - n, "%s", prefix);
        else if (*pattern == '#')
            n += (size_t)snprintf(out + n, LL_TENSOR_NAME - n, "%d", layer);
        else
            out[n++] = *pattern;
    }
    out[n] = 0;
}

static int tensor_of(const ll_model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->param[i].name, name)) return i;
    return -1;
}

int ll_mapped_at(ll_mapped *out, const ll_model *m, const ll_family *family, const char *prefix, int i) {
    const ll_tensor_rule *rule = family->rules;
    int layer = 0;
    for (; rule->theirs; rule++) { /* a rule of layers counts once for each layer */
        const int times = strchr(rule->theirs, '#') ? m->c->model.layers : 1;
        if (i < times) break;
        i -= times;
    }
    if (!rule->theirs) return 0;
    layer = i;
    out->rule = rule;
    out->tensor = -1;
    expand(out->theirs, rule->theirs, prefix, layer);
    if (!rule->ours) return 1;
    char ours[LL_TENSOR_NAME];
    expand(ours, rule->ours, "", layer);
    out->tensor = tensor_of(m, ours);
    return 1;
}

int ll_mapped_older(ll_mapped *m) {
    static const char *const names[][2] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                           {".LayerNorm.bias", ".LayerNorm.beta"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t e = strlen(names[i][0]);
        if (!ll_text_ends(m->theirs, names[i][0])) continue;
        snprintf(m->theirs + strlen(m->theirs) - e, e + 1, "%s", names[i][1]);
        return 1;
    }
    return 0;
}

/* The shape without what LL_BATCH_OF_ONE and LL_SQUARES say. */
static int plain_shape(const ll_model *m, const ll_mapped *x, size_t shape[2]) {
    const ll_param *p = &m->param[x->tensor];
    const size_t rows = (size_t)p->rows, cols = (size_t)p->cols, parts = (size_t)(x->rule->parts ? x->rule->parts : 1);
    const int vector = p->cols == 1 && !(x->rule->flags & LL_OUT_IN) && !strstr(p->name, "weight");
    if (vector) {
        shape[0] = rows * parts;
        return 1;
    }
    if (x->rule->flags & LL_OUT_IN) {
        shape[0] = cols * parts, shape[1] = rows;
    } else {
        shape[0] = rows, shape[1] = cols * parts;
    }
    return 2;
}

int ll_mapped_shape(const ll_model *m, const ll_mapped *x, size_t shape[LL_MAPPED_AXES]) {
    size_t plain[2] = {0, 0};
    const int rank = plain_shape(m, x, plain);
    const size_t side = (size_t)m->c->model.patch;
    if (x->rule->flags & LL_SQUARES) {
        shape[0] = plain[0], shape[1] = plain[1] / (side * side), shape[2] = shape[3] = side;
        return 4;
    }
    const int before = x->rule->flags & LL_BATCH_OF_ONE ? 3 - rank : 0;
    for (int i = 0; i < before; i++) shape[i] = 1;
    for (int i = 0; i < rank; i++) shape[before + i] = plain[i];
    return before + rank;
}

/* The foreign channel, within all parts, of our output number o. */
static size_t output_of(const ll_model *m, const ll_mapped *x, size_t o, size_t outputs) {
    const size_t D = (size_t)(m->queries / m->c->model.heads), n = (size_t)m->c->position.rotary;
    const size_t rotated = n ? n : D, parts = (size_t)(x->rule->parts ? x->rule->parts : 1),
                 part = (size_t)x->rule->part;
    size_t head = o / D, d = o % D;
    if (x->rule->flags & LL_ROTATED && d < rotated) d = d / 2 + (d % 2 ? rotated / 2 : 0);
    if (!(x->rule->flags & (LL_ROTATED | LL_BY_HEAD))) return part * outputs + o;
    return x->rule->flags & LL_BY_HEAD ? (head * parts + part) * D + d : part * outputs + head * D + d;
}

size_t ll_mapped_index(const ll_model *m, const ll_mapped *x, int row, int col) {
    size_t shape[2] = {0, 0};
    const ll_param *p = &m->param[x->tensor];
    const int rank = plain_shape(m, x, shape);
    if (rank == 1) return output_of(m, x, (size_t)row, (size_t)p->rows);
    const size_t out =
        x->rule->parts || x->rule->flags & LL_ROTATED ? output_of(m, x, (size_t)col, (size_t)p->cols) : (size_t)col;
    return x->rule->flags & LL_OUT_IN ? out * shape[1] + (size_t)row : (size_t)row * shape[1] + out;
}
