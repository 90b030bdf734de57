/* Is every parameter of a model a finite number? */
#include "base/finite.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/network.h"

typedef struct {
    const ll_model *m;
    size_t *infinite; /* (count): for each tensor, its first element that is not finite */
} survey;

static size_t size_of(const ll_param *p) { return (size_t)p->rows * (size_t)p->cols; }

static void find_infinite(void *arg, size_t i) {
    const survey *s = arg;
    const ll_param *p = &s->m->param[i];
    s->infinite[i] = p->value ? ll_find_infinite(p->value, size_of(p)) : size_of(p);
}

/* The first parameter that is not finite, or m->count, and its element. Reads every parameter once, on all threads. */
static ll_status find_first(const ll_model *m, int *param, size_t *element) {
    const survey s = {m, ll_alloc((size_t)m->count, sizeof *s.infinite)};
    if (!s.infinite) return LL_ENOMEM;
    ll_parallel_for((size_t)m->count, find_infinite, (void *)&s);
    int i = 0;
    while (i < m->count && s.infinite[i] == size_of(&m->param[i])) i++;
    *param = i;
    *element = i < m->count ? s.infinite[i] : 0;
    ll_free(s.infinite);
    return LL_OK;
}

ll_status ll_model_check_file(const ll_model *m, const char *path) {
    int i = 0;
    size_t at = 0;
    const ll_status status = find_first(m, &i, &at);
    if (status || i == m->count) return status;
    return ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", path, m->param[i].name, at);
}

ll_status ll_model_finite(const ll_model *m, const char *what) {
    int i = 0;
    size_t at = 0;
    const ll_status status = find_first(m, &i, &at);
    if (status || i == m->count) return status;
    return ll_fail(LL_EDIVERGED, "tensor %s is %s at element %zu, and such a model cannot be %s", m->param[i].name,
                   ll_name_infinite((double)m->param[i].value[at]), at, what);
}
