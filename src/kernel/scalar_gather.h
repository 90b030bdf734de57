/* Rows that lie anywhere in memory, in the plainest C. */

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
