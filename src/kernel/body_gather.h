/* Rows that lie anywhere in memory. */

/* Adds a multiple of a row to NV vectors of sums; if TAIL, only `tail` floats of the last vector exist. NV and TAIL are
 * constants after inlining. */
ALWAYS void gather_row(const int NV, const int TAIL, size_t tail, float factor, const float *x, vf *sum) {
    const vf a = v_set(factor);
#pragma GCC unroll 4
    for (int c = 0; c < NV; c++)
        sum[c] = v_fma(a, TAIL && c == NV - 1 ? v_load_n(x + c * VW, tail) : v_load(x + c * VW), sum[c]);
}

/* NV vectors of y from column j on, in two chains of additions. */
ALWAYS void gather_panel(const int NV, const int TAIL, size_t tail, int n, const float *factor, const float *const *row,
                         size_t j, float *y) {
    vf even[4], odd[4];
#pragma GCC unroll 4
    for (int c = 0; c < NV; c++) {
        even[c] = TAIL && c == NV - 1 ? v_load_n(y + j + c * VW, tail) : v_load(y + j + c * VW);
        odd[c] = v_set(0);
    }
    int i = 0;
    for (; i + 2 <= n; i += 2) {
        gather_row(NV, TAIL, tail, factor[i], row[i] + j, even);
        gather_row(NV, TAIL, tail, factor[i + 1], row[i + 1] + j, odd);
    }
    if (i < n) gather_row(NV, TAIL, tail, factor[i], row[i] + j, even);
#pragma GCC unroll 4
    for (int c = 0; c < NV; c++) {
        const vf all = v_add(even[c], odd[c]);
        if (TAIL && c == NV - 1) {
            v_store_n(y + j + c * VW, tail, all);
        } else {
            v_store(y + j + c * VW, all);
        }
    }
}

static void gather(int n, size_t cols, const float *factor, const float *const *row, float *y) {
    size_t j = 0;
    for (; j + 4 * VW <= cols; j += 4 * VW) gather_panel(4, 0, 0, n, factor, row, j, y);
    for (; j + 2 * VW <= cols; j += 2 * VW) gather_panel(2, 0, 0, n, factor, row, j, y);
    for (; j + VW <= cols; j += VW) gather_panel(1, 0, 0, n, factor, row, j, y);
    if (j < cols) gather_panel(1, 1, cols - j, n, factor, row, j, y);
}

static void gather_dots(int n, size_t cols, const float *x, const float *const *row, float *y) {
    for (; n >= 4; n -= 4, row += 4, y += 4) dots(4, cols, row, x, y, 0);
    for (; n > 0; n--, row++, y++) dots(1, cols, row, x, y, 0);
}

static void scatter(int n, size_t cols, const float *factor, const float *x, float *const *row) {
    for (int i = 0; i < n; i++)
        if (row[i]) axpy(cols, factor[i], x, row[i]);
}
