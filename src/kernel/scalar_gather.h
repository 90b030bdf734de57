/* The plain products and sums of rows of scalar.c, which includes this. */
#include <stddef.h>

static float dot(size_t n, const float *x, const float *y) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * y[i];
    return (float)s;
}

static void axpy(size_t n, float a, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

static void gather(int n, size_t cols, const float *factor, const float *const *row, float *y) {
    for (int i = 0; i < n; i++) axpy(cols, factor[i], row[i], y);
}

static void gather_dots(int n, size_t cols, const float *x, const float *const *row, float *y) {
    for (int i = 0; i < n; i++) y[i] = dot(cols, row[i], x);
}

static void scatter(int n, size_t cols, const float *factor, const float *x, float *const *row) {
    for (int i = 0; i < n; i++)
        if (row[i]) axpy(cols, factor[i], x, row[i]);
}
