/* Products of whole matrices: cut into blocks of rows and columns, each block one task, of small matrices and for many
 * threads smaller blocks. No sum crosses them, so the cut changes no bits. Within a task k runs in slices that fit L2.
 * Of floats, a task packs what the kernel would read in long strides: a slice of B once for all its rows, which are as
 * many as leave every thread some tasks; and while it multiplies, it asks for what it will read next. Of pairs, whose
 * products take half as long, all is packed first. */
#include <string.h>

#include "base/parallel.h"
#include "kernel/kernel.h"
#include "longline.h"

enum { ROWS = 512, COLS = 128, STEP = 128 /* rows of A at a time */, DEPTH = LL_GEMM_DEPTH, PAD = 16 };
enum { WIDE_COLS = 256 }; /* where A is transposed, which is packed for every block beside another */
/* Of pairs: a slice of rows, one of columns and a block of C fit L2 together. */
enum { HALF_ROWS = 256, HALF_COLS = 256, HALF_DEPTH = 512, PAIRS = HALF_DEPTH / 2, STRIP = 32 };
enum { TASKS = 4 /* a thread, at least */, LEAST = 32 /* rows and columns of a block, no fewer for more tasks */ };

typedef struct {
    const ll_kernels *k;
    int ta, tb, M, N, K, add;
    const float *A, *B, *bias;
    float *C;
    size_t lda, ldb, ldc;
    int rows, cols, tasks_m, tasks_n; /* of a block; blocks above and beside each other */
    int slices;                       /* of k */
    size_t slice_a, slice_b;          /* floats of one slice of a block's rows or columns, packed */
    float *packed_a, *packed_b;
} product;

static int least(int a, int b) { return a < b ? a : b; }

/* C (m x n) = bias, or += bias. */
static void add_bias(const product *p, int m, int n, const float *bias, float *C) {
    for (int i = 0; i < m; i++, C += p->ldc) {
        if (p->add) {
            p->k->add((size_t)n, bias, C);
        } else {
            memcpy(C, bias, (size_t)n * sizeof *C);
        }
    }
}

/* Where a matrix (rows k, or columns if transposed) has its number at row k0, column j0. */
static const float *at(const float *x, size_t ld, int transposed, int k0, int j0) {
    return transposed ? x + (size_t)j0 * ld + k0 : x + (size_t)k0 * ld + j0;
}

/* `depth` rows of n columns of op(B), which begin at B, as rows of a block's width. */
static void pack_b(const product *p, int depth, int n, const float *B, float *packed) {
    const size_t ld = (size_t)p->cols;
    if (p->tb) {
        p->k->transpose(n, depth, B, p->ldb, packed, ld);
        return;
    }
    for (int k = 0; k < depth; k++, B += p->ldb, packed += ld) memcpy(packed, B, (size_t)n * sizeof *packed);
}

/* Where a task's block of C begins, and what it holds before the first product. */
static float *begin_block(const product *p, int i0, int j0, int m, int n) {
    float *C = p->C + (size_t)i0 * p->ldc + j0;
    if (p->bias) add_bias(p, m, n, p->bias + j0, C);
    if (p->K == 0 && !p->bias && !p->add)
        for (int i = 0; i < m; i++) memset(C + (size_t)i * p->ldc, 0, (size_t)n * sizeof *C);
    return C;
}

/* `depth` rows of n columns of a matrix that begin at x will be read. */
static void want(ll_ahead *next, int transposed, const float *x, size_t ld, int depth, int n) {
    ll_ahead_rows(next, x, ld, transposed ? n : depth, transposed ? depth : n);
}

/* After rows i of a block come the rows below, or the next slice of k. */
static ll_ahead after(const product *p, int i0, int j0, int m, int n, int i, int k0) {
    ll_ahead next = {0};
    const int below = m - i - STEP, deeper = p->K - k0 - DEPTH;
    if (below > 0) {
        want(&next, !p->ta, at(p->A, p->lda, !p->ta, k0, i0 + i + STEP), p->lda, least(DEPTH, p->K - k0),
             least(STEP, below));
    } else if (deeper > 0) {
        want(&next, !p->ta, at(p->A, p->lda, !p->ta, k0 + DEPTH, i0), p->lda, least(DEPTH, deeper), least(STEP, m));
        want(&next, p->tb, at(p->B, p->ldb, p->tb, k0 + DEPTH, j0), p->ldb, least(DEPTH, deeper), n);
    }
    return next;
}

/* C (m x n) = or += op(A) [i0..i0+m) x [k0..k0+depth) times B. */
static void multiply(const product *p, int i0, int m, int k0, int depth, const float *B, size_t ldb, int n, float *C,
                     int add, ll_ahead next) {
    _Alignas(64) float a[DEPTH * (STEP + PAD)];
    const float *A = at(p->A, p->lda, !p->ta, k0, i0);
    size_t lda = p->lda;
    if (!p->ta) {
        p->k->gemm_ahead(m, n, depth, A, lda, 1, B, ldb, C, p->ldc, add, &next);
        return;
    }
    if (lda > STEP) {
        for (int k = 0; k < depth; k++, A += lda) memcpy(a + (size_t)k * (STEP + PAD), A, (size_t)m * sizeof *a);
        A = a, lda = STEP + PAD;
    }
    p->k->gemm_ahead(m, n, depth, A, 1, lda, B, ldb, C, p->ldc, add, &next);
}

static void block(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    _Alignas(64) float b[DEPTH * WIDE_COLS];
    const int i0 = (int)(index % (size_t)p->tasks_m) * p->rows, j0 = (int)(index / (size_t)p->tasks_m) * p->cols;
    const int m = least(p->rows, p->M - i0), n = least(p->cols, p->N - j0);
    float *C = begin_block(p, i0, j0, m, n);
    for (int k0 = 0; k0 < p->K; k0 += DEPTH) {
        const int depth = least(DEPTH, p->K - k0), add = p->add || p->bias || k0 > 0;
        const float *B = at(p->B, p->ldb, p->tb, k0, j0);
        size_t ldb = p->ldb;
        if (p->tb || (m >= 16 && ldb > (size_t)p->cols)) {
            pack_b(p, depth, n, B, b);
            B = b, ldb = (size_t)p->cols;
        }
        for (int i = 0; i < m; i += STEP)
            multiply(p, i0 + i, least(STEP, m - i), k0, depth, B, ldb, n, C + (size_t)i * p->ldc, add,
                     after(p, i0, j0, m, n, i, k0));
    }
}

static int pieces(int n, int piece) { return (n + piece - 1) / piece; }

/* Into blocks of so many rows and columns, or smaller ones where those would be few. */
static void cut(product *p, int rows, int cols) {
    const int tasks = TASKS * ll_threads();
    while (pieces(p->M, rows) * pieces(p->N, cols) < tasks && (rows > LEAST || cols > LEAST)) {
        const int of_rows = rows > LEAST && (cols == LEAST || least(p->M, rows) > least(p->N, cols));
        *(of_rows ? &rows : &cols) /= 2;
    }
    p->k = ll_kernel_table();
    p->rows = rows, p->cols = cols;
    p->tasks_m = pieces(p->M, rows), p->tasks_n = pieces(p->N, cols);
}

void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias) {
    product p = {NULL, ta, tb, M, N, K, add, A, B, bias, C, lda, ldb, ldc};
    if (M <= 0 || N <= 0) return;
    cut(&p, ROWS, ta ? WIDE_COLS : COLS);
    ll_parallel_for((size_t)p.tasks_m * (size_t)p.tasks_n, block, &p);
}

/* ---- Pairs ---- */

/* In a slice of k, of which K are left. */
static size_t half_pairs(int K) { return (size_t)(least(HALF_DEPTH, K) + 1) / 2; }

/* n columns of a matrix, `depth` of its rows, as rows of pairs: rows 2 k and 2 k + 1 become row k. They lie in strips
 * of STRIP columns, one after the other. Where the matrix is there transposed, it is rounded first, so that half as
 * much is transposed. */
static void pack(const ll_kernels *k, int transposed, int n, int depth, const float *x, size_t ld, float *packed) {
    _Alignas(64) float lines[STRIP * (PAIRS + PAD)];
    const size_t pairs = ((size_t)depth + 1) / 2;
    if (!transposed) {
        for (int i = 0; i < depth; i += 2, x += 2 * ld, packed += STRIP)
            for (int j = 0; j < n; j += STRIP)
                k->pair((size_t)least(STRIP, n - j), x + j, i + 1 < depth ? x + ld + j : NULL,
                        packed + (size_t)j * pairs);
        return;
    }
    for (int j = 0; j < n; j += STRIP) {
        const int rows = least(STRIP, n - j);
        for (int i = 0; i < rows; i++) k->halve((size_t)depth, x + (size_t)(j + i) * ld, lines + i * (PAIRS + PAD));
        k->transpose(rows, (int)pairs, lines, PAIRS + PAD, packed + (size_t)j * pairs, STRIP);
    }
}

/* One slice of the rows or of the columns of a block. */
static void pack_half(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    const int which = (int)index / p->slices, k0 = (int)index % p->slices * HALF_DEPTH;
    const int depth = least(HALF_DEPTH, p->K - k0), of_a = which < p->tasks_m;
    const int i0 = which * p->rows, j0 = (which - p->tasks_m) * p->cols;
    if (of_a) {
        pack(p->k, !p->ta, least(p->rows, p->M - i0), depth, at(p->A, p->lda, !p->ta, k0, i0), p->lda,
             p->packed_a + index * p->slice_a);
    } else {
        pack(p->k, p->tb, least(p->cols, p->N - j0), depth, at(p->B, p->ldb, p->tb, k0, j0), p->ldb,
             p->packed_b + (index - (size_t)p->tasks_m * (size_t)p->slices) * p->slice_b);
    }
}

static void block_half(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    const size_t i = index % (size_t)p->tasks_m, j = index / (size_t)p->tasks_m, slices = (size_t)p->slices;
    const int i0 = (int)i * p->rows, j0 = (int)j * p->cols;
    const int m = least(p->rows, p->M - i0), n = least(p->cols, p->N - j0);
    const float *a = p->packed_a + i * slices * p->slice_a, *b = p->packed_b + j * slices * p->slice_b;
    float *C = begin_block(p, i0, j0, m, n);
    for (int k0 = 0; k0 < p->K; k0 += HALF_DEPTH, a += p->slice_a, b += p->slice_b) {
        const size_t pairs = half_pairs(p->K - k0);
        const int add = p->add || p->bias || k0 > 0;
        for (int jj = 0; jj < n; jj += STRIP)
            for (int ii = 0; ii < m; ii += STRIP)
                p->k->gemm_pairs(least(STRIP, m - ii), least(STRIP, n - jj), (int)pairs, a + (size_t)ii * pairs, 1,
                                 STRIP, b + (size_t)jj * pairs, STRIP, C + (size_t)ii * p->ldc + jj, p->ldc, add);
    }
}

size_t ll_gemm_half_scratch(int M, int N, int K) {
    return (size_t)pieces(K, HALF_DEPTH) * half_pairs(K) * ((size_t)M + HALF_ROWS + (size_t)N + HALF_COLS);
}

void ll_gemm_half(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
                  size_t ldc, int add, const float *bias, float *scratch) {
    product p = {NULL, ta, tb, M, N, K, add, A, B, bias, C, lda, ldb, ldc};
    if (M <= 0 || N <= 0) return;
    cut(&p, HALF_ROWS, HALF_COLS);
    p.slices = pieces(K, HALF_DEPTH);
    p.slice_a = half_pairs(K) * (size_t)p.rows, p.slice_b = half_pairs(K) * (size_t)p.cols;
    p.packed_a = scratch, p.packed_b = scratch + (size_t)p.tasks_m * (size_t)p.slices * p.slice_a;
    ll_parallel_for((size_t)(p.tasks_m + p.tasks_n) * (size_t)p.slices, pack_half, &p);
    ll_parallel_for((size_t)p.tasks_m * (size_t)p.tasks_n, block_half, &p);
}
