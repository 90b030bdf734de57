/* Products of whole matrices. B is packed in slices of k, and each slice in strips of columns as wide as a register
 * tile. A task computes one block of C, which has few rows and many columns. For each slice it packs its rows of A and
 * multiplies them by one strip after the other. The strip stays in L1; the rows and the block of C stay in L2.
 * Meanwhile the task prefetches what it needs next. No sum crosses tasks, so the division into tasks changes no bits.
 * For products of bfloat16, packing rounds and makes pairs. */
#include <stdint.h>
#include <string.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "kernel/kernel.h"
#include "longline.h"

enum {
    DEPTH = LL_GEMM_DEPTH,  /* steps of a slice: terms, or pairs of terms */
    PIECE_TERMS = 2048,     /* terms of a piece of B, which is packed before use */
    PIECE_FLOATS = 1 << 20, /* packed floats of a piece */
    WIDEST = 32,            /* columns of a strip on any tier */
    GROUP = 128,            /* columns that are packed together */
    ROWS = 128,             /* rows of a block */
    MOST_ROWS = 256,        /* rows of a block that has all rows of its columns */
    COLS = 1024,            /* columns of a block */
    LEAST = 32,             /* fewest rows and columns of a block, where more tasks are needed */
    TASKS = 4,              /* fewest tasks for each of several threads */
    PAD = 16,               /* floats between packed rows, so that they fall into different sets of L1 */
    PREFETCH_ROWS = 8,      /* rows that are prefetched while B is packed */
    /* Packing B does not pay for fewer rows of A than this, nor packing A for fewer columns of B, */
    FEW_ROWS = 4,
    FEW_COLS = 256,
    /* nor if rows in memory lie closer than this, because they then stay in L1. */
    CLOSE = 128,
    CLOSE_A = 512, /* for A, along k */
    LINE = 16      /* floats of a cache line */
};

/* The buffers in which a task packs, at most 400 KiB. Threads of the pool have them on their stacks. The calling thread
 * may have a small stack (128 KiB of a thread under musl), so it uses the scratch of the call, which is only as large
 * as the product needs. */
typedef struct {
    float *strip; /* columns of B */
    float *rows;  /* of A */
} packing_space;

typedef struct {
    const ll_kernels *k;
    int pairs, ta, tb, M, N, K, add;
    const float *A, *B, *bias;
    const ll_matrix *weights; /* B in another form, and B is NULL; or NULL */
    float *C;
    size_t lda, ldb, ldc;
    enum { IN_PLACE, BY_TASKS, BEFORE } packing; /* of B; BY_TASKS: blocks have all rows of C */
    packing_space space;                         /* of the calling thread */
    size_t row;                                  /* floats from one packed row of A to the next */
    float *packed;                               /* BEFORE: a piece of B */
    int slice, strip;                            /* terms of a slice, columns of a strip */
    int threads;                                 /* ll_threads() when the call began */
    int k0, k1, j0, wide;                        /* the piece: terms k0 to k1, columns from j0 on */
    int rows, cols, tasks_m;                     /* of a block; number of blocks above each other */
} product;

/* The size of equal parts of n, at most `most` each, rounded up to a multiple of `unit`. */
static int part(int n, int most, int unit) { return ll_ceil_div(ll_ceil_div(n, ll_ceil_div(n, most)), unit) * unit; }

/* The address of row k0, column j0 of a matrix with rows along k (along j if transposed). */
static const float *at(const float *x, size_t ld, int transposed, int k0, int j0) {
    return transposed ? x + (size_t)j0 * ld + k0 : x + (size_t)k0 * ld + j0;
}

/* The terms of the slice that begins at k0, and the steps of so many terms. */
static int depth_at(const product *p, int k0) { return ll_min_int(p->slice, p->K - k0); }
static int steps(const product *p, int depth) { return p->pairs ? (depth + 1) / 2 : depth; }

/* ---- Packing ---- */

/* Packs a slice of n columns of a transposed B as a strip. For bfloat16 it first makes pairs, SOME columns at a time,
 * so that it transposes only half as much. */
static void pack_transposed_strip(const product *p, int n, int depth, const float *B, float *packed) {
    enum { SOME = 32 };
    _Alignas(64) float lines[SOME * (DEPTH + PAD)];
    if (!p->pairs) p->k->transpose(n, depth, B, p->ldb, packed, (size_t)p->strip);
    for (int j = 0; j < n && p->pairs; j += SOME, packed += SOME) {
        const int some = ll_min_int(SOME, n - j);
        for (int i = 0; i < some; i++, B += p->ldb) p->k->to_bf16((size_t)depth, B, lines + i * (DEPTH + PAD));
        p->k->transpose(some, steps(p, depth), lines, DEPTH + PAD, packed, (size_t)p->strip);
    }
}

/* Packs columns first to end of row k of B, or of rows k and k + 1 as pairs. Strips are `apart` floats from each
 * other. */
static void pack_row(const product *p, int k, int first, int end, int prefetch, float *packed, size_t apart) {
    if (p->weights) {
        for (int j = first; j < end; j += p->strip, packed += apart)
            p->k->dequantize(ll_min_int(p->strip, end - j), p->weights, k, j, packed);
        return;
    }
    const float *from = at(p->B, p->ldb, 0, k, first);
    for (int j = first; j < end; j += p->strip, from += p->strip, packed += apart) {
        const size_t n = (size_t)ll_min_int(p->strip, end - j);
        for (size_t line = 0; line < n && prefetch; line += LINE) {
            __builtin_prefetch(from + PREFETCH_ROWS * p->ldb + line);
            if (p->pairs) __builtin_prefetch(from + (PREFETCH_ROWS + 1) * p->ldb + line);
        }
        if (p->pairs) {
            p->k->interleave_bf16(n, from, k + 1 < p->K ? from + p->ldb : NULL, packed);
        } else if (n == WIDEST) {
            memcpy(packed, from, WIDEST * sizeof *from); /* a constant size, so that no call is made */
        } else {
            memcpy(packed, from, n * sizeof *from);
        }
    }
}

/* Packs a slice of columns first to end as strips. If B is not transposed, it goes row by row, in the order of
 * memory. */
static void pack_columns(const product *p, int k0, int first, int end, float *packed) {
    const int depth = depth_at(p, k0), step = p->pairs ? 2 : 1;
    const size_t apart = (size_t)p->strip * (size_t)steps(p, depth);
    for (int j = first; j < end && p->tb; j += p->strip, packed += apart)
        pack_transposed_strip(p, ll_min_int(p->strip, end - j), depth, at(p->B, p->ldb, 1, k0, j), packed);
    for (int k = 0; k < depth && !p->tb; k += step, packed += p->strip)
        pack_row(p, k0 + k, first, end, k + PREFETCH_ROWS < depth, packed, apart);
}

/* The strip of a packed slice that begins at column j of the piece. */
static float *strip_at(const product *p, int k0, int j) {
    const size_t wide = (size_t)ll_ceil_div(p->wide, p->strip) * (size_t)p->strip;
    return p->packed + (size_t)steps(p, k0 - p->k0) * wide + (size_t)steps(p, depth_at(p, k0)) * (size_t)j;
}

static void pack_group(void *arg, size_t index, int worker) {
    const product *p = arg;
    (void)worker;
    const int groups = ll_ceil_div(p->wide, GROUP), j = (int)index % groups * GROUP;
    const int k0 = p->k0 + (int)index / groups * p->slice;
    pack_columns(p, k0, p->j0 + j, p->j0 + ll_min_int(p->wide, j + GROUP), strip_at(p, k0, j));
}

/* Packs a slice of m <= MOST_ROWS columns of a matrix as rows. For bfloat16 it takes SOME of its rows at a time. */
static void pack_transposed_rows(const product *p, int m, int depth, const float *A, float *buffer) {
    enum { SOME = 32 };
    _Alignas(64) float lines[SOME / 2 * (MOST_ROWS + PAD)];
    if (!p->pairs) p->k->transpose(depth, m, A, p->lda, buffer, p->row);
    for (int k = 0; k < depth && p->pairs; k += SOME, buffer += SOME / 2) {
        const int some = ll_min_int(SOME, depth - k);
        for (int i = 0; i < some; i += 2, A += 2 * p->lda)
            p->k->interleave_bf16((size_t)m, A, i + 1 < some ? A + p->lda : NULL, lines + i / 2 * (MOST_ROWS + PAD));
        p->k->transpose(steps(p, some), m, lines, MOST_ROWS + PAD, buffer, p->row);
    }
}

/* A (m x steps): A(i, k) = x[i * row + k * col]. */
typedef struct {
    const float *x;
    size_t row, col;
} operand;

/* Rows i0 to i0 + m of op(A), in the slice that begins at k0. They are packed if that pays for n columns. */
static operand rows_at(const product *p, int i0, int m, int k0, int n, float *buffer) {
    const float *A = at(p->A, p->lda, !p->ta, k0, i0);
    const int depth = depth_at(p, k0), close = p->lda <= (p->ta ? CLOSE : CLOSE_A);
    if ((close || n < FEW_COLS) && !p->pairs) return p->ta ? (operand){A, 1, p->lda} : (operand){A, p->lda, 1};
    if (p->ta) pack_transposed_rows(p, m, depth, A, buffer);
    for (int i = 0; i < m && !p->ta; i++, A += p->lda) {
        float *row = buffer + (size_t)i * p->row;
        if (p->pairs) {
            p->k->to_bf16((size_t)depth, A, row);
        } else {
            memcpy(row, A, (size_t)depth * sizeof *row);
        }
    }
    return (operand){buffer, p->row, 1};
}

/* ---- Multiplying ---- */

/* Sets a block of C to what it contains before the first product. */
static void begin_block(const product *p, int m, int n, const float *bias, float *C) {
    for (int i = 0; i < m; i++, C += p->ldc) {
        if (bias && p->add) {
            p->k->add((size_t)n, bias, C);
        } else if (bias) {
            memcpy(C, bias, (size_t)n * sizeof *C);
        } else if (p->K == 0 && !p->add) {
            memset(C, 0, (size_t)n * sizeof *C);
        }
    }
}

/* Adds to `next` the n columns of B from column j of the piece on, in the slice that begins at k0. */
static void prefetch_columns(const product *p, ll_prefetch *next, int k0, int j, int n) {
    const int depth = depth_at(p, k0);
    if (p->packing == BEFORE) {
        ll_prefetch_rows(next, strip_at(p, k0, j), 0, 1, steps(p, depth) * n);
    } else if (p->ldb > CLOSE && !p->weights) {
        ll_prefetch_rows(next, at(p->B, p->ldb, p->tb, k0, p->j0 + j), p->ldb, p->tb ? n : depth, p->tb ? depth : n);
    }
}

/* What to prefetch while columns j to j + `strip` of a block are multiplied: the next strip of B, and their share of
 * the next slice of A, in rows as they lie in memory. */
static ll_prefetch prefetch_after(const product *p, int i0, int m, int j0, int n, int j, int strip, int k0) {
    ll_prefetch next = {0};
    const int then = j + strip, deeper = k0 + depth_at(p, k0);
    if (then < n) prefetch_columns(p, &next, k0, j0 + then, ll_min_int(strip, n - then));
    if (deeper >= p->k1) return next;
    if (then >= n) prefetch_columns(p, &next, deeper, j0, ll_min_int(strip, n));
    const int depth = depth_at(p, deeper), rows = p->ta ? depth : m;
    const int begin = (int)((int64_t)rows * j / n), end = (int)((int64_t)rows * ll_min_int(n, then) / n);
    const float *A = at(p->A, p->lda, !p->ta, deeper, i0) + (size_t)begin * p->lda;
    if (end > begin && p->lda > CLOSE) ll_prefetch_rows(&next, A, p->lda, end - begin, p->ta ? m : depth);
    return next;
}

/* One slice of a block: the rows A times the columns from j0 of the piece on. */
static void multiply_slice(const product *p, int i0, int m, int j0, int n, int k0, operand A, float *own, float *C) {
    const int add = p->add || p->bias || k0 > 0, strip = p->packing == IN_PLACE ? n : p->strip;
    for (int j = 0; j < n; j += strip) {
        const int some = ll_min_int(strip, n - j), from = p->j0 + j0 + j;
        const float *B = own;
        if (p->packing == IN_PLACE) {
            B = at(p->B, p->ldb, 0, k0, from);
        } else if (p->packing == BY_TASKS) {
            pack_columns(p, k0, from, from + some, own);
        } else {
            B = strip_at(p, k0, j0 + j);
        }
        ll_prefetch next = prefetch_after(p, i0, m, j0, n, j, strip, k0);
        (p->pairs ? p->k->gemm_bf16 : p->k->gemm_prefetch)(m, some, steps(p, depth_at(p, k0)), A.x, A.row, A.col, B,
                                                         p->packing == IN_PLACE ? p->ldb : (size_t)strip, C + j,
                                                         p->ldc, add, &next);
    }
}

static void block_in(const product *p, size_t index, packing_space space) {
    const int i0 = (int)(index % (size_t)p->tasks_m) * p->rows, j0 = (int)(index / (size_t)p->tasks_m) * p->cols;
    const int m = ll_min_int(p->rows, p->M - i0), n = ll_min_int(p->cols, p->wide - j0);
    float *C = p->C + (size_t)i0 * p->ldc + p->j0 + j0;
    if (p->k0 == 0) begin_block(p, m, n, p->bias ? p->bias + p->j0 + j0 : NULL, C);
    for (int k0 = p->k0; k0 < p->k1; k0 += p->slice)
        multiply_slice(p, i0, m, j0, n, k0, rows_at(p, i0, m, k0, n, space.rows), space.strip, C);
}

/* ---- Tasks ---- */

/* Not inlined, because the calling thread must not have this frame. */
static __attribute__((noinline)) void block_on_stack(const product *p, size_t index) {
    _Alignas(64) float strip[GROUP * DEPTH], rows[MOST_ROWS * (DEPTH + PAD)];
    block_in(p, index, (packing_space){strip, rows});
}

static void block(void *arg, size_t index, int worker) {
    const product *p = arg;
    if (worker) {
        block_on_stack(p, index);
    } else {
        block_in(p, index, p->space);
    }
}

/* Cuts a piece into equal blocks, smaller ones if there would be too few. With BY_TASKS, each block has all rows. For
 * bfloat16 each of these packs all rows of A, so that more than one for each thread would pack them again. */
static void cut_blocks(product *p) {
    const int cut_rows = p->packing != BY_TASKS, one_each = p->threads == 1 || (p->pairs && !cut_rows);
    const int tasks = one_each ? p->threads : TASKS * p->threads;
    int rows = cut_rows ? ROWS : MOST_ROWS, cols = COLS;
    while (ll_ceil_div(p->M, rows) * ll_ceil_div(p->wide, cols) < tasks &&
           ((rows > LEAST && cut_rows) || cols > LEAST)) {
        const int of_rows =
            cut_rows && rows > LEAST && (cols == LEAST || ll_min_int(p->M, rows) > ll_min_int(p->wide, cols));
        *(of_rows ? &rows : &cols) /= 2;
    }
    p->rows = part(p->M, rows, p->k->rows), p->cols = part(p->wide, cols, WIDEST);
    p->tasks_m = ll_ceil_div(p->M, p->rows);
}

/* Multiplies a piece of B. It has all of k if nothing is packed before. */
static void multiply_piece(product *p) {
    const int terms = p->packing == BEFORE ? PIECE_TERMS : p->K;
    cut_blocks(p);
    p->k0 = 0;
    do {
        p->k1 = terms < p->K - p->k0 ? p->k0 + terms : p->K;
        if (p->packing == BEFORE)
            ll_parallel_among(p->threads,
                              (size_t)ll_ceil_div(p->wide, GROUP) * (size_t)ll_ceil_div(p->k1 - p->k0, p->slice),
                              pack_group, p);
        ll_parallel_among(p->threads, (size_t)p->tasks_m * (size_t)ll_ceil_div(p->wide, p->cols), block, p);
        p->k0 = p->k1;
    } while (p->k0 < p->K);
}

/* The steps that a packed slice has space for: whole cache lines, and with PAD not a power of two. */
static size_t depth_capacity(int K) { return K <= DEPTH / 4 ? DEPTH / 4 : K <= DEPTH / 2 ? DEPTH / 2 : DEPTH; }

static size_t strip_floats(int K) { return GROUP * depth_capacity(K); }
static size_t rows_floats(int M, int K) {
    return (size_t)ll_min_int(M < 0 ? 0 : M, MOST_ROWS) * (depth_capacity(K) + PAD);
}

static float *on_a_line(float *x) { return x + (LINE - (uintptr_t)x / sizeof *x % LINE) % LINE; }

static void multiply(product p, float *scratch) {
    if (p.M <= 0 || p.N <= 0) return;
    scratch = on_a_line(scratch);
    p.row = depth_capacity(p.K) + PAD;
    p.space = (packing_space){scratch, scratch + strip_floats(p.K)};
    p.packed = p.space.rows + rows_floats(p.M, p.K);
    p.k = ll_kernel_table();
    p.threads = ll_threads();
    p.slice = p.pairs ? 2 * DEPTH : DEPTH;
    const int in_place = !p.weights && !p.pairs && !p.tb && (p.M < FEW_ROWS || p.ldb <= CLOSE);
    p.packing = in_place ? IN_PLACE : p.M <= MOST_ROWS ? BY_TASKS : BEFORE;
    p.strip = p.packing == BY_TASKS ? GROUP : p.k->width > 1 ? 2 * p.k->width : WIDEST;
    const int packed = steps(&p, ll_min_int(p.K, PIECE_TERMS)),
              most = packed ? PIECE_FLOATS / packed / WIDEST * WIDEST : p.N;
    const int wide = p.packing == BEFORE ? part(p.N, most, WIDEST) : p.N;
    for (p.j0 = 0; p.j0 < p.N; p.j0 += wide) {
        p.wide = ll_min_int(wide, p.N - p.j0);
        multiply_piece(&p);
    }
}

size_t ll_gemm_scratch(int M, int N, int K) {
    const size_t all = (size_t)ll_min_int(K, PIECE_TERMS) * (size_t)ll_ceil_div(N, WIDEST) * WIDEST;
    return LINE + strip_floats(K) + rows_floats(M, K) + (M <= MOST_ROWS ? 0 : all < PIECE_FLOATS ? all : PIECE_FLOATS);
}

void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias, float *scratch) {
    multiply((product){NULL, 0, ta, tb, M, N, K, add, A, B, bias, NULL, C, lda, ldb, ldc}, scratch);
}

void ll_gemm_quantized(int M, int N, int K, const float *A, size_t lda, const ll_matrix *B, float *C, size_t ldc,
                       const float *bias, float *scratch) {
    if (B->f) {
        ll_gemm(0, 0, M, N, K, A, lda, B->f, B->ld, C, ldc, 0, bias, scratch);
    } else {
        multiply((product){NULL, 0, 0, 0, M, N, K, 0, A, NULL, bias, B, C, lda, B->ld, ldc}, scratch);
    }
}

void ll_gemm_bf16(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
                  size_t ldc, int add, const float *bias, float *scratch) {
    multiply((product){NULL, 1, ta, tb, M, N, K, add, A, B, bias, NULL, C, lda, ldb, ldc}, scratch);
}
