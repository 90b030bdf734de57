/* Numbers and tensors of a case, checked. */
#include <math.h>
#include <stdio.h>

#include "base/finite.h"
#include "base/memory.h"
#include "base/text.h"
#include "case/case.h"

/* ---- Metadata ---- */

/* A finite number, or `fallback` where the key is absent; NAN for a key that must be there. */
static ll_status number(const ll_case *a, const char *key, double fallback, double *value) {
    const char *text = ll_safetensors_meta(a->file, key);
    char *end = NULL;
    *value = fallback;
    if (!text && isnan(fallback)) return ll_fail(LL_EFORMAT, "metadata '%s' is missing", key);
    if (!text) return LL_OK;
    *value = ll_scan_number(text, &end);
    if (end == text || *end || !isfinite(*value) || fabs(*value) > 1e30)
        return ll_fail(LL_EFORMAT, "metadata '%s' is \"%.40s\", not a number", key, text);
    return LL_OK;
}

ll_status ll_case_number(const ll_case *a, const char *key, double fallback, float *value) {
    double x = 0;
    const ll_status status = number(a, key, fallback, &x);
    *value = (float)x;
    return status;
}

ll_status ll_case_integer(const ll_case *a, const char *key, double fallback, int most, int *value) {
    double x = 0;
    const ll_status status = number(a, key, fallback, &x);
    if (status) return status;
    if (x < 0 || x > most || x != floor(x))
        return ll_fail(LL_EFORMAT, "metadata '%s' is %.9g, must be a whole number from 0 to %d", key, x, most);
    *value = (int)x;
    return LL_OK;
}

/* ---- Tensors ---- */

static const char *shape_text(int rank, const size_t *shape, char *text, size_t size) {
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%zu", i ? " x " : "", shape[i]);
    return text;
}

/* The tensor's finite numbers, which must have this shape; *data stays NULL where it is not in the file. */
ll_status ll_case_tensor(const ll_case *a, const char *name, int rank, const size_t *shape, float **data) {
    const ll_st_tensor *t = ll_safetensors_find(a->file, name);
    char found[200], wanted[200];
    if (!t) return LL_OK;
    if (t->dtype == LL_OTHER) return ll_fail(LL_EFORMAT, "tensor '%s' is not of a numeric type that is read", name);
    int same = t->rank == rank;
    for (int i = 0; i < rank && same; i++) same = t->shape[i] == shape[i];
    if (!same)
        return ll_fail(LL_EFORMAT, "tensor '%s' is %s, must be %s", name,
                       shape_text(t->rank, t->shape, found, sizeof found),
                       shape_text(rank, shape, wanted, sizeof wanted));
    *data = ll_alloc(t->count, sizeof **data);
    if (!*data) return LL_ENOMEM;
    ll_st_floats(*data, t);
    const size_t i = ll_find_infinite(*data, t->count);
    if (i == t->count) return LL_OK;
    return ll_fail(LL_EFORMAT, "tensor '%s' holds %g at element %zu", name, (double)(*data)[i], i);
}

/* Axis i of a tensor of this rank that must be there. */
ll_status ll_case_axis(const ll_case *a, const char *name, int rank, int i, size_t *length) {
    const ll_st_tensor *t = ll_safetensors_find(a->file, name);
    if (!t) return ll_fail(LL_EFORMAT, "tensor '%s' is missing", name);
    if (t->rank != rank) return ll_fail(LL_EFORMAT, "tensor '%s' has %d axes, must have %d", name, t->rank, rank);
    *length = t->shape[i];
    if (*length < 1 || *length > LL_CASE_AXIS)
        return ll_fail(LL_EFORMAT, "tensor '%s': axis %d has %zu elements, must be 1 to %d", name, i, *length,
                       (int)LL_CASE_AXIS);
    return LL_OK;
}
