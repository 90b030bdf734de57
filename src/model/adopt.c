/* A model that starts with the weights of another one: tensors of the same name and shape. Random draws are copied too,
 * because the weights were learned with them; operators.c copies those. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/network.h"

enum { NAMED = 6 /* most new tensors that the summary names */ };

/* Rows stand for tokens or positions. Rows that both tables have mean the same. */
static int is_table(const char *name) { return strstr(name, "embedding.weight") || strstr(name, "embedding.position"); }

static const ll_param *namesake(const ll_model *from, const ll_param *p) {
    for (int i = 0; i < from->count; i++)
        if (!strcmp(from->param[i].name, p->name)) return &from->param[i];
    return NULL;
}

static int common_rows(const ll_param *p, const ll_param *q) {
    if (!q || q->cols != p->cols || (q->rows != p->rows && !is_table(p->name))) return 0;
    return q->rows < p->rows ? q->rows : p->rows;
}

ll_status ll_params_adopt(ll_model *m, const ll_model *from, char **summary) {
    const ll_model_config *c = m->c, *d = from->c;
    if (c->model.width != d->model.width || c->model.heads != d->model.heads)
        return ll_fail(LL_EINVAL,
                       "its width and heads are %d and %d, those of the recipe %d and %d; set model.width=%d "
                       "and model.heads=%d",
                       d->model.width, d->model.heads, c->model.width, c->model.heads, d->model.width, d->model.heads);
    char fresh[NAMED * (sizeof m->param->name + 2) + 1] = "";
    int taken = 0;
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i], *q = namesake(from, p);
        const int rows = common_rows(p, q), missed = i - taken;
        if (rows) {
            memcpy(p->value, q->value, (size_t)rows * (size_t)p->cols * sizeof *p->value);
            taken++;
        } else if (missed < NAMED) {
            const size_t n = strlen(fresh);
            snprintf(fresh + n, sizeof fresh - n, "%s%s", missed ? ", " : "", p->name);
        }
    }
    const size_t capacity = sizeof fresh + 100;
    char *text = *summary = ll_alloc(capacity, 1);
    if (!text) return LL_ENOMEM;
    const int missed = m->count - taken, n = snprintf(text, capacity, "%d of %d tensors", taken, m->count);
    if (missed > NAMED)
        snprintf(text + n, capacity - (size_t)n, "; new are %s and %d more", fresh, missed - NAMED);
    else if (missed)
        snprintf(text + n, capacity - (size_t)n, "; new %s %s", missed == 1 ? "is" : "are", fresh);
    return LL_OK;
}
