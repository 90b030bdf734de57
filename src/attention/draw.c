/* Draws of projections and permutations from counter-based random numbers. */
#include "attention/draw.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

static double inner(int n, const double *x, const double *y) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

/* Gram-Schmidt over n <= D rows of standard normals, twice, since once loses orthogonality where rows are
 * nearly dependent. Dividing by positive norms gives the uniform distribution on rotations; the signs that a
 * Householder QR leaves would not (the estimate of the softmax kernel would be biased by up to a third). */
static void orthonormalise(double *G, int n, int D) {
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

/* Numbers 0 .. M D - 1 of the stream make directions; M D on, the vectors that lend their lengths. */
ll_status ll_draw_projection(float *W, int M, int D, uint64_t seed, int layer, int64_t redraw) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_PROJECTION, (uint32_t)layer, (uint32_t)redraw);
    const size_t width = (size_t)D, size = (size_t)M * width;
    double *G = ll_alloc(width * width, sizeof *G);
    float *length = ll_alloc(size, sizeof *length);
    if (!G || !length) {
        ll_free(G);
        ll_free(length);
        return LL_ENOMEM;
    }
    ll_normal_fill(W, size, seed, stream, 0);
    ll_normal_fill(length, size, seed, stream, size);
    for (int first = 0; first < M; first += D) {
        const int n = M - first < D ? M - first : D;
        float *w = W + (size_t)first * width;
        for (size_t i = 0; i < (size_t)n * width; i++) G[i] = w[i];
        orthonormalise(G, n, D);
        for (int r = 0; r < n; r++) {
            const float *x = length + (size_t)(first + r) * width;
            double square = 0;
            for (int e = 0; e < D; e++) square += (double)x[e] * x[e];
            for (size_t e = 0; e < width; e++)
                w[(size_t)r * width + e] = (float)(sqrt(square) * G[(size_t)r * width + e]);
        }
    }
    ll_free(G);
    ll_free(length);
    return LL_OK;
}

/* In a uniformly random permutation of n things the cycle through any one of them has a length uniform in
 * 1..n, and the rest is a uniformly random permutation again. Which features a cycle goes through does not
 * matter: what comes before the features (learnt weights, random rows) does not know their names. */
void ll_draw_permutation(int32_t *p, int n, uint64_t seed, int layer, int head) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_PERMUTATION, (uint32_t)layer, (uint32_t)head);
    for (int start = 0; start < n;) {
        const int length = 1 + (int)ll_below((uint32_t)(n - start), seed, stream, (uint64_t)start);
        for (int a = 0; a < length; a++) p[start + a] = start + (a + 1) % length;
        start += length;
    }
}
