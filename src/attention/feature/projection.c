/* Draws of projections and permutations from counter-based random numbers. */
#include "attention/feature/projection.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"

static double inner(int n, const double *x, const double *y) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

/* Gram-Schmidt over n <= D rows of standard normals. It is done twice, because once is not accurate if rows are nearly
 * dependent. Dividing by positive norms gives the uniform distribution on rotations. A Householder QR has other signs,
 * and would bias the estimate of the softmax kernel by up to a third. */
void ll_orthonormalise(double *G, int n, int D) {
    for (int i = 0; i < n; i++) {
        double *g = G + (size_t)i * (size_t)D;
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j < i; j++) {
                const double *q = G + (size_t)j * (size_t)D;
                const double part = inner(D, g, q);
                for (int e = 0; e < D; e++) g[e] -= part * q[e];
            }
        const double norm = sqrt(inner(D, g, g));
        for (int e = 0; e < D; e++) g[e] /= norm;
    }
}

static double random_sign(ll_numbers *r) { return ll_below(2, r->seed, r->stream, r->next++) ? 1 : -1; }

static int random_below(ll_numbers *r, int n) { return (int)ll_below((uint32_t)n, r->seed, r->stream, r->next++); }

/* g = H g / sqrt(D), H the Hadamard matrix: D log2(D) sums and differences (Sylvester's construction). */
static void hadamard_transform(double *g, int D) {
    for (int half = 1; half < D; half *= 2)
        for (int from = 0; from < D; from += 2 * half)
            for (int e = from; e < from + half; e++) {
                const double x = g[e], y = g[e + half];
                g[e] = x + y;
                g[e + half] = x - y;
            }
    for (int e = 0; e < D; e++) g[e] /= sqrt(D);
}

/* Rows of H S_3 H S_2 H S_1 / D^(3/2). With one factor all numbers have the same size. Three factors are so near to
 * uniform that the bias of the estimate is smaller than its noise. */
static void draw_hadamard(double *G, int n, int D, ll_numbers *r) {
    for (size_t i = 0; i < (size_t)n * (size_t)D; i++) G[i] = i % ((size_t)D + 1) == 0; /* rows of the identity */
    for (int factor = 0; factor < 3; factor++) {
        for (int i = 0; i < n; i++) hadamard_transform(G + (size_t)i * (size_t)D, D);
        for (int e = 0; e < D; e++) {
            const double sign = random_sign(r);
            for (int i = 0; i < n; i++) G[(size_t)i * (size_t)D + (size_t)e] *= sign;
        }
    }
}

/* Rows of C S G_1 G_2 ..: D ceil(ln D) rotations by uniform angles, in rounds of D / 2 planes that share no axis. After
 * so few rotations some directions are near an axis, and the estimate along them would be wrong by a multiple. Random
 * signs S and the cosine transform C, which has other axes, spread these directions. order: scratch (D). */
static void draw_givens(double *G, int n, int D, ll_numbers *r, int *order) {
    const int rotations = D * (int)ceil(log(D)), round = D / 2;
    for (int e = 0; e < D; e++) {
        const double sign = random_sign(r);
        order[e] = e;
        for (int i = 0; i < n; i++)
            G[(size_t)i * (size_t)D + (size_t)e] =
                sign * sqrt((i ? 2.0 : 1.0) / D) * cos(3.14159265358979324 * i * (e + 0.5) / D);
    }
    for (int k = 0; k < rotations; k++) {
        for (int e = D - 1; e > 0 && k % round == 0; e--) {
            const int other = random_below(r, e + 1), moved = order[e];
            order[e] = order[other];
            order[other] = moved;
        }
        const int p = order[2 * (k % round)], q = order[2 * (k % round) + 1];
        const double angle = 6.28318530717958648 * (double)ll_uniform(r->seed, r->stream, r->next++);
        const double c = cos(angle), s = sin(angle);
        for (int i = 0; i < n; i++) {
            double *g = G + (size_t)i * (size_t)D;
            const double x = g[p], y = g[q];
            g[p] = c * x - s * y;
            g[q] = s * x + c * y;
        }
    }
}

/* n <= D directions in G. Kinds that need normal vectors take them from `w`. */
static void draw_block(double *G, const float *w, int n, int D, ll_draw_kind kind, ll_numbers *r, int *order) {
    if (kind == LL_DRAW_HADAMARD) {
        draw_hadamard(G, n, D, r);
    } else if (kind == LL_DRAW_GIVENS) {
        draw_givens(G, n, D, r, order);
    } else {
        for (size_t i = 0; i < (size_t)n * (size_t)D; i++) G[i] = w[i];
        if (kind == LL_DRAW_ORTHOGONAL) {
            ll_orthonormalise(G, n, D);
        } else {
            for (int i = 0; i < n; i++) ll_orthonormalise(G + (size_t)i * (size_t)D, 1, D);
        }
    }
}

/* Scratch: directions (D, D), vectors that lend their lengths (M, D), and an order of D. */
typedef struct {
    double *G;
    float *length;
    int *order;
} buffers;

static buffers take(int M, int D, ll_arena *a) {
    const size_t width = (size_t)D;
    buffers r = {.G = ll_arena_bytes(a, width * width, sizeof *r.G)};
    r.length = ll_arena_take(a, (size_t)M * width);
    r.order = ll_arena_bytes(a, width, sizeof *r.order);
    return r;
}

size_t ll_draw_scratch(int M, int D) {
    ll_arena a = {0};
    (void)take(M, D, &a);
    return a.used;
}

/* Numbers 0 .. M D - 1 of the stream make directions; M D on, the vectors that lend their lengths; 2 M D on, signs and
 * rotations. */
ll_status ll_draw_projection_in(float *scratch, float *W, int M, int D, ll_draw_kind kind, ll_row_norms norms,
                                uint64_t seed, int layer, int64_t redraw) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_PROJECTION, (uint32_t)layer, (uint32_t)redraw);
    const size_t width = (size_t)D, size = (size_t)M * width;
    ll_numbers r = {seed, stream, 2 * (uint64_t)size};
    if (kind == LL_DRAW_HADAMARD && (D & (D - 1)))
        return ll_fail(LL_EINVAL, "projection: hadamard needs vectors of a power of two numbers, not %d", D);
    ll_arena a = {.base = scratch};
    const buffers own = take(M, D, &a);
    ll_normal_fill(W, size, seed, stream, 0);
    ll_normal_fill(own.length, size, seed, stream, size);
    for (int first = 0; first < M; first += D) {
        const int n = ll_min_int(M - first, D);
        float *w = W + (size_t)first * width;
        draw_block(own.G, w, n, D, kind, &r, own.order);
        for (int i = 0; i < n; i++) {
            const float *x = own.length + (size_t)(first + i) * width;
            double square = norms == LL_NORMS_SQRT_D ? D : 0;
            for (int e = 0; e < D && norms == LL_NORMS_CHI; e++) square += (double)x[e] * x[e];
            for (size_t e = 0; e < width; e++)
                w[(size_t)i * width + e] = (float)(sqrt(square) * own.G[(size_t)i * width + e]);
        }
    }
    return LL_OK;
}

ll_status ll_draw_projection(float *W, int M, int D, ll_draw_kind kind, ll_row_norms norms, uint64_t seed, int layer,
                             int64_t redraw) {
    float *scratch = ll_alloc(ll_draw_scratch(M, D), sizeof *scratch);
    if (!scratch) return LL_ENOMEM;
    const ll_status status = ll_draw_projection_in(scratch, W, M, D, kind, norms, seed, layer, redraw);
    ll_free(scratch);
    return status;
}

/* In a uniformly random permutation of n things, the cycle through any one of them has a length uniform in 1..n, and
 * the rest is again a uniformly random permutation. Which features are in a cycle does not matter, because the weights
 * or random rows that make the features have no order. */
void ll_permutation_random(int32_t *p, int n, uint64_t seed, int layer, int head) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_PERMUTATION, (uint32_t)layer, (uint32_t)head);
    for (int start = 0; start < n;) {
        const int length = 1 + (int)ll_below((uint32_t)(n - start), seed, stream, (uint64_t)start);
        for (int a = 0; a < length; a++) p[start + a] = start + (a + 1) % length;
        start += length;
    }
}

/* Multiples of the golden ratio, less their whole parts, divide the numbers from 0 to 1 evenly, however many there
 * are. */
void ll_permutation_long(int32_t *p, int n, int head) {
    const uint32_t golden = 2654435769u, part = golden * (uint32_t)head; /* of 2^32 */
    const int length = n - (int)((uint64_t)part * (uint64_t)(n / 2) >> 32);
    for (int a = 0; a < n; a++) p[a] = a < length ? (a + 1) % length : a;
}
