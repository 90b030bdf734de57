/* Parameters as matrices, and their first values. */
#include "attention/parameter.h"

#include "base/random.h"

static int product(const ll_parameter *p, int from, int to) {
    int n = 1;
    for (int i = from; i < to; i++) n *= p->shape[i];
    return n;
}

int ll_parameter_rows(const ll_parameter *p) { return product(p, 0, p->lead); }
int ll_parameter_cols(const ll_parameter *p) { return product(p, p->lead, p->rank); }
size_t ll_parameter_size(const ll_parameter *p) {
    return (size_t)ll_parameter_rows(p) * (size_t)ll_parameter_cols(p);
}

void ll_parameter_normal(const ll_parameter *p, const ll_parameter_draw *draw, float factor, float *x) {
    const size_t n = ll_parameter_size(p);
    ll_normal_fill(x, n, draw->seed, draw->stream, 0);
    for (size_t i = 0; i < n && factor != 1; i++) x[i] *= factor;
}
