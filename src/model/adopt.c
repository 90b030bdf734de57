/* A model that starts with the weights of another one: tensors of the same name and shape. Random draws are copied too,
 * because the weights were learned with them; operators.c copies those. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/network.h"

enum { NAMED = 6 /* most new tensors that the summary names */ };

/* Rows stand for tokens or positions. Rows that both tables have mean the same. */
static int is_table(const char *name) { return strstr(name, "embedding.weight") || strstr(name, "embedding.position"); }

static const ll_param *namesake(const ll_model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->param[i].name, name)) return &m->param[i];
    return NULL;
}

static int common_rows(const ll_param *p, const ll_param *q) {
    if (!q || q->cols != p->cols || (q->rows != p->rows && !is_table(p->name))) return 0;
    return q->rows < p->rows ? q->rows : p->rows;
}

/* Names of tensors, of which the first few are told. */
typedef struct {
    char text[NAMED * (sizeof((ll_param *)0)->name + 2) + 32];
    int count;
} names;

static void add_name(names *n, const char *name) {
    const size_t used = strlen(n->text);
    if (n->count < NAMED) snprintf(n->text + used, sizeof n->text - used, "%s%s", n->count ? ", " : "", name);
    n->count++;
}

static void tell_rest(names *n) {
    const size_t used = strlen(n->text);
    if (n->count > NAMED) snprintf(n->text + used, sizeof n->text - used, " and %d more", n->count - NAMED);
}

static ll_status summarise(char **summary, int taken, int count, names *fresh, names *unused) {
    const size_t capacity = sizeof fresh->text + sizeof unused->text + 100;
    char *text = *summary = ll_alloc(capacity, 1);
    if (!text) return LL_ENOMEM;
    tell_rest(fresh);
    tell_rest(unused);
    snprintf(text, capacity, "%d of %d tensors%s%s%s%s", taken, count,
             fresh->count > 1 ? "; new are " : fresh->count ? "; new is " : "", fresh->text,
             unused->count ? "; not used: " : "", unused->text);
    return LL_OK;
}

ll_status ll_params_adopt(ll_model *m, const ll_model *from, char **summary) {
    const ll_model_config *c = m->c, *d = from->c;
    if (c->model.width != d->model.width || c->model.heads != d->model.heads)
        return ll_fail(LL_EINVAL,
                       "its width and heads are %d and %d, those of the recipe %d and %d; set model.width=%d "
                       "and model.heads=%d",
                       d->model.width, d->model.heads, c->model.width, c->model.heads, d->model.width, d->model.heads);
    names fresh = {0}, unused = {0};
    int taken = 0;
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i], *q = namesake(from, p->name);
        const int rows = common_rows(p, q);
        if (rows)
            memcpy(p->value, q->value, (size_t)rows * (size_t)p->cols * sizeof *p->value);
        else
            add_name(&fresh, p->name);
        taken += rows > 0;
    }
    for (int i = 0; i < from->count; i++)
        if (!common_rows(&from->param[i], namesake(m, from->param[i].name))) add_name(&unused, from->param[i].name);
    return summarise(summary, taken, m->count, &fresh, &unused);
}
