/* A random rotation of n dimensions as its planes and angles.
 *
 * A uniform (Haar) rotation is B^T R B. B is uniform among orthogonal matrices. The angles of R are independent of B,
 * and have the distribution of Weyl's formula, in which angles repel each other. Their cosines are eigenvalues of a
 * small symmetric tridiagonal matrix, whose entries follow from independent beta variables (Killip and Nenciu 2004,
 * theorem 2, with beta = 2 and a = b = -1/2; for odd n a = 1/2). So no eigenvalues of an n x n matrix are needed, and a
 * draw is a function of its arguments. */
#include <math.h>

#include "attention/feature/projection.h"
#include "base/memory.h"
#include "base/random.h"

/* The square of a normal vector of n numbers. */
static double chi_square(ll_numbers *r, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        float x;
        ll_normal_fill(&x, 1, r->seed, r->stream, r->next++);
        sum += (double)x * (double)x;
    }
    return sum;
}

/* A number in (-1, 1) with the density (1 - x)^(s-1) (1 + x)^(t-1). 2 s and 2 t are whole numbers. */
static double beta(ll_numbers *r, int twice_s, int twice_t) {
    const double down = chi_square(r, twice_s), up = chi_square(r, twice_t);
    return (up - down) / (up + down);
}

/* Diagonal b (N) and side diagonal a (N - 1) of the matrix whose eigenvalues are twice the cosines of N angles. */
static void jacobi(ll_numbers *r, int N, int odd, double *a, double *b) {
    double before = 0, last = -1; /* alpha_(2k-2), alpha_(2k-1) */
    for (int k = 0; k < N; k++) {
        /* 2 s and 2 t of alpha_2k are 2N - 2k - 1 for a, b = -1/2, and s one more (of 2 s: two) for a = 1/2 */
        const int freedom = 2 * N - 2 * k;
        const double even = beta(r, freedom - 1 + 2 * odd, freedom - 1);
        const double next = k == N - 1 ? -1 : beta(r, freedom - 2 + 2 * odd, freedom - 2);
        b[k] = (1 - last) * even - (1 + last) * before;
        if (k < N - 1) a[k] = sqrt((1 - last) * (1 - even * even) * (1 + next));
        before = even, last = next;
    }
}

/* The number of eigenvalues below x, which is that of negative pivots of the matrix minus x (Sturm). */
static int below(int N, const double *a, const double *b, double x) {
    int count = 0;
    double pivot = 1;
    for (int k = 0; k < N; k++) {
        pivot = b[k] - x - (k ? a[k - 1] * a[k - 1] / pivot : 0);
        if (pivot == 0) pivot = 1e-300;
        count += pivot < 0;
    }
    return count;
}

static double eigenvalue(int N, const double *a, const double *b, int which) {
    double low = -2, high = 2;
    for (int i = 0; i < 52; i++) {
        const double middle = (low + high) / 2;
        if (below(N, a, b, middle) > which) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return (low + high) / 2;
}

static ll_numbers of_head(int n, uint64_t seed, int layer, int head) {
    return (ll_numbers){seed, ll_stream_id(LL_RANDOM_ROTATION, (uint32_t)layer, (uint32_t)head), (size_t)n * (size_t)n};
}

ll_status ll_draw_basis(float *basis, int n, uint64_t seed, int layer, int head) {
    const size_t size = (size_t)n * (size_t)n;
    double *B = ll_alloc(size, sizeof *B);
    if (!B) return LL_ENOMEM;
    ll_normal_fill(basis, size, seed, of_head(n, seed, layer, head).stream, 0);
    for (size_t i = 0; i < size; i++) B[i] = (double)basis[i];
    ll_orthonormalise(B, n, n);
    for (size_t i = 0; i < size; i++) basis[i] = (float)B[i];
    ll_free(B);
    return LL_OK;
}

ll_status ll_draw_angles(float *theta, int n, uint64_t seed, int layer, int head) {
    const int N = n / 2;
    ll_numbers r = of_head(n, seed, layer, head); /* those after the numbers of the basis */
    double *a = ll_alloc(2 * (size_t)n, sizeof *a), *b = a + n;
    if (!a) return LL_ENOMEM;
    jacobi(&r, N, n % 2, a, b);
    for (int t = 0; t < N; t++) theta[t] = (float)acos(eigenvalue(N, a, b, t) / 2);
    ll_free(a);
    return LL_OK;
}
