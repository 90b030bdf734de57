/* Products of whole matrices: cut into blocks of rows and columns by shape alone, each block one task;
 * within a task k runs in blocks that fit L2, and what the kernel would read in long strides is packed
 * first. */
#include <string.h>

#include "base/parallel.h"
#include "kernel/kernel.h"

enum { ROWS = 128, COLS = 128, DEPTH = LL_GEMM_DEPTH, PAD = 16 };

typedef struct {
    const ll_kernels *k;
    int ta, tb, M, N, K, add, tasks_m;
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

static void block(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    _Alignas(64) float a[DEPTH * (ROWS + PAD)], b[DEPTH * COLS];
    const int i0 = (int)(index % (size_t)p->tasks_m) * ROWS, j0 = (int)(index / (size_t)p->tasks_m) * COLS;
    const int m = least(ROWS, p->M - i0), n = least(COLS, p->N - j0);
    float *C = p->C + (size_t)i0 * p->ldc + j0;
    if (p->bias) add_bias(p, m, n, p->bias + j0, C);
    if (p->K == 0 && !p->bias && !p->add)
        for (int i = 0; i < m; i++) memset(C + (size_t)i * p->ldc, 0, (size_t)n * sizeof *C);
    for (int k0 = 0; k0 < p->K; k0 += DEPTH) {
        const int depth = least(DEPTH, p->K - k0), add = p->add || p->bias || k0 > 0;
        const float *B = p->B + (size_t)k0 * p->ldb + j0;
        size_t ldb = p->ldb;
        if (p->tb || m >= 16) {
            pack_b(p, k0, depth, j0, n, b, COLS);
            B = b, ldb = COLS;
        }
        if (p->ta) {
            for (int k = 0; k < depth; k++)
                memcpy(a + (size_t)k * (ROWS + PAD), p->A + (size_t)(k0 + k) * p->lda + i0, (size_t)m * sizeof *a);
            p->k->gemm(m, n, depth, a, 1, ROWS + PAD, B, ldb, C, p->ldc, add);
        } else {
            p->k->gemm(m, n, depth, p->A + (size_t)i0 * p->lda + k0, p->lda, 1, B, ldb, C, p->ldc, add);
        }
    }
}

void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias) {
    if (M <= 0 || N <= 0) return;
    product p = {ll_kernel_table(), ta, tb, M, N, K, add, (M + ROWS - 1) / ROWS, A, B, bias, C, lda, ldb, ldc};
    ll_parallel_for((size_t)p.tasks_m * (size_t)((N + COLS - 1) / COLS), block, &p);
}
