/* Layers on rows, forward and backward. Elementwise work is divided into pieces of LL_PIECE rows, and sums over rows
 * into columns or fixed pieces: by shape alone, so that the bits do not depend on the number of threads. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "model/network.h"

enum {
    SLAB = 256,       /* columns of a task of a product of few rows are a multiple of this */
    FEW_ROWS = 16,    /* most rows for which packing the weights does not pay */
    SERIAL = 1 << 17, /* smaller products are not worth waking threads */
    COLUMNS = 64,     /* columns of one task of a column sum */
    SUM_ROWS = 256    /* rows summed in float before they are added in double */
};

/* What a task over rows or columns reads and writes. */
typedef struct {
    const ll_batch_run *run;
    const ll_kernels *k;
    int n, K, N, slab;
    const float *x, *y, *gain, *bias, *gate;
    float *out, *extra, *again;
    ll_matrix W;
    size_t ld, ldo;
    ll_rows rows;
    uint64_t stream;
    unsigned dropped;
    int add;
} job;

/* Rows of piece i. */
static int piece_rows(const job *j, size_t i) {
    const int left = j->n - (int)i * LL_PIECE;
    return ll_min_int(left, LL_PIECE);
}

/* ---- Linear ---- */

/* Sums as in ll_gemm, so that a row has the same bits among few rows and among many. */
static void slab_task(void *arg, size_t i) {
    const job *j = arg;
    const int first = (int)i * j->slab, left = j->N - first, n = ll_min_int(left, j->slab);
    float *out = j->out + first, part[FEW_ROWS * SLAB];
    for (int r = 0; r < j->n && j->bias; r++)
        memcpy(out + (size_t)r * j->ldo, j->bias + first, (size_t)n * sizeof *out);
    for (int k0 = 0; k0 < j->K; k0 += LL_GEMM_DEPTH) {
        const int depth = ll_min_int(j->K - k0, LL_GEMM_DEPTH), adds = j->bias || k0;
        const ll_matrix W = ll_matrix_from(j->W, (size_t)k0, (size_t)first);
        j->k->linear(j->n, n, depth, j->x + k0, j->ld, &W, adds ? part : out, adds ? (size_t)n : j->ldo);
        for (int r = 0; r < j->n && adds; r++) j->k->add((size_t)n, part + r * n, out + (size_t)r * j->ldo);
    }
}

/* The product of few rows, which generation spends its time in. It reads the weights once and packs nothing. Columns do
 * not depend on each other, so tasks have as many as threads and slab_task leave: memory gives whole rows of W faster
 * than parts of them. */
static void linear_rows(job j) {
    const int most = FEW_ROWS / j.n, each = ll_ceil_div(ll_ceil_div(j.N, SLAB), ll_threads());
    j.slab = SLAB * ll_min_int(each, most);
    const size_t slabs = (size_t)ll_ceil_div(j.N, j.slab);
    if ((size_t)j.n * (size_t)j.K * (size_t)j.N >= SERIAL) {
        ll_parallel_for(slabs, slab_task, &j);
        return;
    }
    for (size_t i = 0; i < slabs; i++) slab_task(&j, i);
}

void ll_product(const ll_batch_run *run, int ta, int tb, int M, int N, int K, const float *A, size_t lda,
                const float *B, size_t ldb, float *C, size_t ldc, int add, const float *bias) {
    if (run->grad && run->c->bf16) {
        ll_gemm_bf16(ta, tb, M, N, K, A, lda, B, ldb, C, ldc, add, bias, run->ws->packed);
    } else {
        ll_gemm(ta, tb, M, N, K, A, lda, B, ldb, C, ldc, add, bias, run->ws->packed);
    }
}

void ll_linear(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, ll_matrix W,
               const float *bias, float *out, size_t ldo) {
    if (n <= FEW_ROWS && run->ws->mode == LL_STREAM) {
        linear_rows((job){
            .k = run->k, .n = n, .K = K, .N = N, .x = in, .ld = ldi, .W = W, .bias = bias, .out = out, .ldo = ldo});
    } else if (W.f) {
        ll_product(run, 0, 0, n, N, K, in, ldi, W.f, W.ld, out, ldo, 0, bias);
    } else {
        ll_gemm_quantized(n, N, K, in, ldi, &W, out, ldo, bias, run->ws->packed);
    }
}

void ll_linear_weight_back(const ll_batch_run *run, int n, int K, int N, const float *in, size_t ldi, const float *dout,
                           size_t ldo, float *dW) {
    ll_product(run, 1, 0, K, N, n, in, ldi, dout, ldo, dW, (size_t)N, 1, NULL);
}

void ll_linear_input_back(const ll_batch_run *run, int n, int K, int N, const float *dout, size_t ldo, const float *W,
                          float *din, size_t ldi, int add) {
    ll_product(run, 0, 1, n, K, N, dout, ldo, W, (size_t)N, din, ldi, add, NULL);
}

static void column_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t first = i * COLUMNS, left = (size_t)j->N - first, n = ll_min_size(left, COLUMNS);
    double total[COLUMNS] = {0};
    for (int from = 0; from < j->n; from += SUM_ROWS) {
        float part[COLUMNS] = {0};
        const int to = j->n - from < SUM_ROWS ? j->n : from + SUM_ROWS;
        for (int r = from; r < to; r++) j->k->add(n, j->x + (size_t)r * j->ld + first, part);
        for (size_t c = 0; c < n; c++) total[c] += part[c];
    }
    for (size_t c = 0; c < n; c++) j->out[first + c] += (float)total[c];
}

void ll_bias_back(int n, int N, const float *dout, float *db) {
    ll_bias_back_rows(n, N, dout, (size_t)N, db);
}

void ll_bias_back_rows(int n, int N, const float *dout, size_t ldo, float *db) {
    job j = {.k = ll_kernel_table(), .n = n, .N = N, .x = dout, .ld = ldo, .out = db};
    ll_parallel_for((size_t)ll_ceil_div(N, COLUMNS), column_task, &j);
}

/* ---- Norm ---- */

static int is_rms(const ll_batch_run *run) {
    return run->c->model.norm_kind == LL_NORM_RMS;
}

static void norm_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t row = i * LL_PIECE, at = row * (size_t)j->N;
    const float eps = (float)j->run->c->model.norm_eps;
    if (!j->bias) {
        j->k->rms_norm(piece_rows(j, i), j->N, eps, j->x + at, j->gain, j->out + at, j->extra + LL_CHUNK + row);
        return;
    }
    j->k->norm(piece_rows(j, i), j->N, eps, j->x + at, j->gain, j->bias, j->out + at, j->extra + row,
               j->extra + LL_CHUNK + row);
}

void ll_norm(const ll_batch_run *run, int n, int gain, const float *x, float *y) {
    job j = {.run = run, .k = run->k, .n = n, .N = run->c->model.width, .x = x, .out = y};
    j.extra = run->ws->statistics;
    j.gain = ll_param_at(run->model, gain);
    j.bias = is_rms(run) ? NULL : ll_param_at(run->model, gain + 1);
    ll_parallel_for((size_t)ll_ceil_div(n, LL_PIECE), norm_task, &j);
}

static void norm_back_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t row = i * LL_PIECE, C = (size_t)j->N, at = row * C;
    const float *mean = j->run->ws->statistics + row;
    float *partial = j->extra + i * 2 * C;
    memset(partial, 0, 2 * C * sizeof *partial);
    if (is_rms(j->run)) {
        j->k->rms_norm_back(piece_rows(j, i), j->N, j->x + at, j->gain, mean + LL_CHUNK, j->y + at, j->out + at,
                            partial);
        return;
    }
    j->k->norm_back(piece_rows(j, i), j->N, j->x + at, j->gain, mean, mean + LL_CHUNK, j->y + at, j->out + at, partial,
                    partial + C);
}

void ll_norm_back(const ll_batch_run *run, int n, int gain, const float *x, const float *dy, float *dx) {
    job j = {.run = run, .k = run->k, .n = n, .N = run->c->model.width, .x = x, .y = dy, .out = dx};
    const size_t C = (size_t)j.N;
    j.gain = ll_param_at(run->model, gain);
    j.extra = run->ws->partial;
    ll_parallel_for((size_t)ll_ceil_div(n, LL_PIECE), norm_back_task, &j);
    float *dgain = ll_param_in(run->model, run->grad, gain);
    float *dbias = is_rms(run) ? NULL : ll_param_in(run->model, run->grad, gain + 1);
    for (size_t i = 0; i < (size_t)ll_ceil_div(n, LL_PIECE); i++) {
        run->k->add(C, j.extra + i * 2 * C, dgain);
        if (dbias) run->k->add(C, j.extra + i * 2 * C + C, dbias);
    }
}

/* ---- Activation ---- */

/* GELU by tanh: x / (1 + e^-2z) with z = sqrt(2 / pi) (x + 0.044715 x^3). */
static const float TANH_LINEAR = 1.59576912f, TANH_CUBIC = 0.0713548163f;

static void activate_numbers(const job *j, size_t n, const float *x, float *y) {
    switch (j->run->c->model.activation) {
    case LL_ACT_RELU: j->k->map[LL_MAP_RELU].forward(1, n, 0, x, n, y, n); break;
    case LL_ACT_GELU_TANH: j->k->swish(n, TANH_LINEAR, TANH_CUBIC, x, y); break;
    case LL_ACT_SILU:
    case LL_ACT_SWIGLU: j->k->swish(n, 1, 0, x, y); break;
    default: j->k->gelu(n, x, y);
    }
}

/* y gets what activate_numbers gives, unless it is NULL. */
static void numbers_back(const job *j, size_t n, const float *x, const float *dy, float *dx, float *y) {
    if (y && j->run->c->model.activation != LL_ACT_GELU) activate_numbers(j, n, x, y);
    switch (j->run->c->model.activation) {
    case LL_ACT_RELU: j->k->map[LL_MAP_RELU].back(1, n, 0, x, n, dy, n, dx, n); break;
    case LL_ACT_GELU_TANH: j->k->swish_back(n, TANH_LINEAR, TANH_CUBIC, x, dy, dx); break;
    case LL_ACT_SILU:
    case LL_ACT_SWIGLU: j->k->swish_back(n, 1, 0, x, dy, dx); break;
    default: j->k->gelu_back(n, x, dy, dx, y);
    }
}

static void activate_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t at = i * LL_PIECE * (size_t)j->N, n = (size_t)piece_rows(j, i) * (size_t)j->N;
    activate_numbers(j, n, (j->gate ? j->gate : j->x) + at, j->out + at);
    if (j->gate) j->k->mul(n, j->x + at, j->out + at);
}

void ll_activate(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *y) {
    job j = {.run = run, .k = run->k, .n = n, .N = width, .x = x, .gate = gate, .out = y};
    ll_parallel_for((size_t)ll_ceil_div(n, LL_PIECE), activate_task, &j);
}

static void activate_back_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t at = i * LL_PIECE * (size_t)j->N, n = (size_t)piece_rows(j, i) * (size_t)j->N;
    float *dy = j->extra + at;
    if (!j->gate) {
        numbers_back(j, n, j->x + at, dy, j->out + at, j->again ? j->again + at : NULL);
        return;
    }
    activate_numbers(j, n, j->gate + at, j->out + at);
    j->k->mul(n, dy, j->out + at);
    j->k->mul(n, j->x + at, dy);
    numbers_back(j, n, j->gate + at, dy, dy, NULL);
}

void ll_activate_back(const ll_batch_run *run, int n, int width, const float *x, const float *gate, float *dy,
                      float *dx, float *y) {
    job j = {.run = run, .k = run->k, .n = n, .N = width, .x = x, .gate = gate, .extra = dy, .out = dx, .again = y};
    ll_parallel_for((size_t)ll_ceil_div(n, LL_PIECE), activate_back_task, &j);
}

/* ---- Dropout and copies ---- */

/* Eight columns share one draw of four words, 16 bits each. Column 8 g + l of token t in sequence b of the whole batch
 * is dropped if lane l of draw b 2^44 + t ceil(C / 8) + g is below 2^16 p. Masks are never stored. */
static void drop_row(const job *j, size_t row, const float *x, float *y) {
    enum { MOST = 128 }; /* draws at a time */
    uint32_t word[4 * MOST];
    const size_t T = (size_t)j->run->T, C = (size_t)j->N;
    const uint64_t b = (uint64_t)j->run->first + row / T, t = (uint64_t)j->run->position + row % T;
    const uint64_t base = b << 44 | t * ((C + 7) / 8);
    const float scale = 65536.0f / (float)(65536 - j->dropped);
    for (size_t c = 0, n; c < C; c += n) {
        n = ll_min_size(C - c, 8 * MOST);
        const size_t draws = ll_round_up((n + 7) / 8, LL_LINE / 4); /* whole cache lines */
        j->k->random_words(draws, (uint64_t)j->run->c->seed, j->stream, base + c / 8, word);
        j->k->dropout(n, word, j->dropped, scale, j->add, x + c, y + c);
    }
}

static void drop_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t C = (size_t)j->N, n = (size_t)piece_rows(j, i), first = i * LL_PIECE;
    const float *x = j->x + first * C;
    float *y = j->out + first * C;
    if (j->dropped) {
        for (size_t r = 0; r < n; r++) drop_row(j, j->rows.first + first + r, x + r * C, y + r * C);
    } else if (j->add) {
        j->k->add(n * C, x, y);
    } else if (x != y) {
        memcpy(y, x, n * C * sizeof *y);
    }
}

void ll_dropout(const ll_batch_run *run, ll_rows rows, int layer, int site, const float *x, float *y, int add) {
    job j = {
        .run = run, .k = run->k, .n = rows.n, .N = run->c->model.width, .x = x, .out = y, .rows = rows, .add = add};
    if (run->grad && run->c->model.dropout > 0) {
        const double share = run->c->model.dropout * 65536 + 0.5;
        j.dropped = share < 65535 ? (unsigned)share : 65535;
        j.stream =
            ll_stream_id(LL_RANDOM_DROPOUT, (uint32_t)((run->stack->first + layer) * 4 + site), (uint32_t)run->draw);
    } else if (x == y) {
        return;
    }
    ll_parallel_for((size_t)ll_ceil_div(rows.n, LL_PIECE), drop_task, &j);
}

void ll_copy_rows(const ll_batch_run *run, int n, const float *x, float *y) {
    job j = {.run = run, .n = n, .N = run->c->model.width, .x = x, .out = y};
    ll_parallel_for((size_t)ll_ceil_div(n, LL_PIECE), drop_task, &j);
}
