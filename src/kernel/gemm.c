/* Products of whole matrices: cut into blocks of rows and columns by shape alone, each block one task, of small
 * matrices smaller blocks; within a task k runs in blocks that fit L2, and what the kernel would read in long strides
 * is packed first. */
#include <string.h>

#include "base/parallel.h"
#include "kernel/kernel.h"

enum { ROWS = 128, COLS = 128, DEPTH = LL_GEMM_DEPTH, PAD = 16 };
/* Of products of pairs, which take half as long: a larger block reads each number less often. */
enum { HALF_ROWS = 512, HALF_COLS = 256, PAIRS = DEPTH / 2, STRIP = 32 };
enum { TASKS = 8, LEAST = 32 /* rows and columns of a block, which are no fewer for the sake of more tasks */ };

typedef struct {
    const ll_kernels *k;
    int ta, tb, M, N, K, add;
    int rows, cols, tasks_m; /* of a block; blocks above each other */
    const float *A, *B, *bias;
    float *C;
    size_t lda, ldb, ldc;
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

/* op(B) [k0..k0+depth) x [j0..j0+n) as rows of n in `packed`. */
static void pack_b(const product *p, int k0, int depth, int j0, int n, float *packed, size_t ld) {
    if (p->tb) {
        p->k->transpose(n, depth, p->B + (size_t)j0 * p->ldb + k0, p->ldb, packed, ld);
        return;
    }
    for (int k = 0; k < depth; k++)
        memcpy(packed + (size_t)k * ld, p->B + (size_t)(k0 + k) * p->ldb + j0, (size_t)n * sizeof *packed);
}

/* Where a task's block of C begins, and what it holds before the first product. */
static float *begin_block(const product *p, int i0, int j0, int m, int n) {
    float *C = p->C + (size_t)i0 * p->ldc + j0;
    if (p->bias) add_bias(p, m, n, p->bias + j0, C);
    if (p->K == 0 && !p->bias && !p->add)
        for (int i = 0; i < m; i++) memset(C + (size_t)i * p->ldc, 0, (size_t)n * sizeof *C);
    return C;
}

static void block(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    _Alignas(64) float a[DEPTH * (ROWS + PAD)], b[DEPTH * COLS];
    const int i0 = (int)(index % (size_t)p->tasks_m) * p->rows, j0 = (int)(index / (size_t)p->tasks_m) * p->cols;
    const int m = least(p->rows, p->M - i0), n = least(p->cols, p->N - j0);
    float *C = begin_block(p, i0, j0, m, n);
    for (int k0 = 0; k0 < p->K; k0 += DEPTH) {
        const int depth = least(DEPTH, p->K - k0), add = p->add || p->bias || k0 > 0;
        const float *B = p->B + (size_t)k0 * p->ldb + j0;
        size_t ldb = p->ldb;
        if (p->tb || (m >= 16 && ldb > COLS)) {
            pack_b(p, k0, depth, j0, n, b, COLS);
            B = b, ldb = COLS;
        }
        if (p->ta && p->lda <= ROWS) {
            p->k->gemm(m, n, depth, p->A + (size_t)k0 * p->lda + i0, 1, p->lda, B, ldb, C, p->ldc, add);
        } else if (p->ta) {
            for (int k = 0; k < depth; k++)
                memcpy(a + (size_t)k * (ROWS + PAD), p->A + (size_t)(k0 + k) * p->lda + i0, (size_t)m * sizeof *a);
            p->k->gemm(m, n, depth, a, 1, ROWS + PAD, B, ldb, C, p->ldc, add);
        } else {
            p->k->gemm(m, n, depth, p->A + (size_t)i0 * p->lda + k0, p->lda, 1, B, ldb, C, p->ldc, add);
        }
    }
}

/* Rows k and k + 1 of x, depth in all, each n wide, become one row of pairs. */
static void pack_rows(const ll_kernels *kernels, int depth, int n, const float *x, size_t ldx, float *packed,
                      size_t ld) {
    for (int k = 0; k < depth; k += 2, x += 2 * ldx, packed += ld)
        kernels->pair((size_t)n, x, k + 1 < depth ? x + ldx : NULL, packed);
}

/* op(B) [k0..k0+depth) x [j0..j0+n) as rows of n pairs; a transposed B is rounded first, so that half as much is
 * transposed. */
static void pack_b_half(const product *p, int k0, int depth, int j0, int n, float *packed) {
    _Alignas(64) float strip[STRIP * (PAIRS + PAD)];
    if (!p->tb) {
        pack_rows(p->k, depth, n, p->B + (size_t)k0 * p->ldb + j0, p->ldb, packed, HALF_COLS);
        return;
    }
    for (int j = 0; j < n; j += STRIP) {
        const int rows = least(STRIP, n - j);
        for (int i = 0; i < rows; i++)
            p->k->halve((size_t)depth, p->B + (size_t)(j0 + j + i) * p->ldb + k0, strip + i * (PAIRS + PAD));
        p->k->transpose(rows, (depth + 1) / 2, strip, PAIRS + PAD, packed + j, HALF_COLS);
    }
}

static void block_half(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    _Alignas(64) float a[HALF_ROWS * (PAIRS + PAD)], b[PAIRS * HALF_COLS];
    const int i0 = (int)(index % (size_t)p->tasks_m) * p->rows, j0 = (int)(index / (size_t)p->tasks_m) * p->cols;
    const int m = least(p->rows, p->M - i0), n = least(p->cols, p->N - j0);
    float *C = begin_block(p, i0, j0, m, n);
    for (int k0 = 0; k0 < p->K; k0 += DEPTH) {
        const int depth = least(DEPTH, p->K - k0), pairs = (depth + 1) / 2, add = p->add || p->bias || k0 > 0;
        pack_b_half(p, k0, depth, j0, n, b);
        if (p->ta) {
            pack_rows(p->k, depth, m, p->A + (size_t)k0 * p->lda + i0, p->lda, a, HALF_ROWS + PAD);
        } else {
            for (int i = 0; i < m; i++)
                p->k->halve((size_t)depth, p->A + (size_t)(i0 + i) * p->lda + k0, a + (size_t)i * (PAIRS + PAD));
        }
        p->k->gemm_pairs(m, n, pairs, a, p->ta ? 1 : PAIRS + PAD, p->ta ? HALF_ROWS + PAD : 1, b, HALF_COLS, C, p->ldc,
                         add);
    }
}

static int pieces(int n, int piece) { return (n + piece - 1) / piece; }

/* In blocks of so many rows and columns, or smaller ones where those would be few. */
static void run(product *p, int rows, int cols, ll_task *task) {
    if (p->M <= 0 || p->N <= 0) return;
    while (pieces(p->M, rows) * pieces(p->N, cols) < TASKS && (rows > LEAST || cols > LEAST)) {
        const int of_rows = rows > LEAST && (cols == LEAST || least(p->M, rows) > least(p->N, cols));
        *(of_rows ? &rows : &cols) /= 2;
    }
    p->k = ll_kernel_table();
    p->rows = rows, p->cols = cols;
    p->tasks_m = pieces(p->M, rows);
    ll_parallel_for((size_t)p->tasks_m * (size_t)pieces(p->N, cols), task, p);
}

void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias) {
    product p = {NULL, ta, tb, M, N, K, add, 0, 0, 0, A, B, bias, C, lda, ldb, ldc};
    run(&p, ROWS, COLS, block);
}

void ll_gemm_half(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
                  size_t ldc, int add, const float *bias) {
    product p = {NULL, ta, tb, M, N, K, add, 0, 0, 0, A, B, bias, C, lda, ldb, ldc};
    run(&p, HALF_ROWS, HALF_COLS, block_half);
}
