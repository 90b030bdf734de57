/* A model that starts with the weights of another one: tensors of the same name and shape. Random draws are copied too,
 * because the weights were learned with them; operators.c copies those. */
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "model/network.h"

enum { NAMED = 6 /* most new tensors that the summary names */ };

/* Rows stand for positions, or for tokens. Of such a table the rows that mean the same are taken. */
static int is_table(const ll_param *p) { return p->role == LL_ROLE_TOKENS || p->role == LL_ROLE_POSITIONS; }

/* Columns of the weights stand for classes. */
static int is_answer(const ll_param *p) { return p->role == LL_ROLE_HEAD_WEIGHT || p->role == LL_ROLE_HEAD_BIAS; }

static const ll_param *namesake(const ll_model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->param[i].name, name)) return &m->param[i];
    return NULL;
}

static const char *names_of(const ll_model *m) {
    const char *names = ll_recipe_get(m->recipe, "data.classes");
    return m->c->model.task == LL_TASK_CLASSIFY && names ? names : "";
}

/* Do the answers of two classifiers, by their names, mean different things? */
static int is_of_others(const ll_model *m, const ll_model *other) {
    const char *a = names_of(m), *b = names_of(other);
    return *a && *b && strcmp(a, b) != 0;
}

/* Rows of a tensor of the other model, and where they go in the one of the same name. */
typedef struct {
    int from, to, count;
} row_range;

static row_range common_rows(const ll_model *m, const ll_model *other, const ll_param *p, const ll_param *q) {
    const ll_position_options *c = &m->c->position, *d = &other->c->position;
    if (!q || q->cols != p->cols || (q->rows != p->rows && !is_table(p))) return (row_range){0};
    if (is_answer(p) && is_of_others(m, other)) return (row_range){0};
    row_range r = {0};
    if (p->role == LL_ROLE_POSITIONS && (c->offset != d->offset || c->cls != d->cls)) {
        const int both = c->cls && d->cls; /* the row of the CLS token comes before that of position 0 */
        r.from = d->offset + d->cls - both;
        r.to = c->offset + c->cls - both;
    }
    const int there = q->rows - r.from, here = p->rows - r.to;
    r.count = ll_min_int(there, here);
    return r;
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

/* others: the names of the other model's classes, where they are not those of this one; else "". */
static ll_status summarise(char **summary, int taken, int count, names *fresh, names *unused, const char *others) {
    const size_t capacity = sizeof fresh->text + sizeof unused->text + 300;
    char *text = *summary = ll_alloc(capacity, 1);
    if (!text) return LL_ENOMEM;
    tell_rest(fresh);
    tell_rest(unused);
    snprintf(text, capacity, "%d of %d tensors%s%s%s%s%s%.100s%s", taken, count,
             fresh->count > 1 ? "; new are "
             : fresh->count   ? "; new is "
                              : "",
             fresh->text, unused->count ? "; not used: " : "", unused->text,
             *others ? "; its classes are others: " : "", others, strlen(others) > 100 ? ".." : "");
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
        const row_range r = common_rows(m, from, p, q);
        if (r.count > 0)
            ll_param_floats(from, (int)(q - from->param), r.from, r.count, p->value + (size_t)r.to * (size_t)p->cols);
        else
            add_name(&fresh, p->name);
        taken += r.count > 0;
    }
    for (int i = 0; i < from->count; i++) {
        const ll_param *q = &from->param[i], *p = namesake(m, q->name);
        if (!p || common_rows(m, from, p, q).count < 1) add_name(&unused, q->name);
    }
    return summarise(summary, taken, m->count, &fresh, &unused, is_of_others(m, from) ? names_of(from) : "");
}
