/* Kernels for positions: random words, normal numbers, sinusoids over tokens, rotations of pairs and scaling of
 * blocks. */

/* log u for 0 < u <= 1. rest = 1 - u is given too, because it has more digits than u where u is near 1. With u = 2^e m,
 * 1/2 < m^2 <= 2 and m = 1 + f, log u = e log 2 + f - f^2/2 + f^3 p(f). p is a Remez polynomial; the relative error is
 * 6e-9. */
static inline vf log_part(vf u, vf rest) {
    const vf two = v_mantissa(u), high = v_sub(two, v_set(1.41421356f));
    const vf e = v_add(v_exponent(u), v_positive(high, v_set(1)));
    const vf m = v_select_positive(high, v_mul(two, v_set(0.5f)), two);
    const vf f = v_select_positive(v_add(e, v_set(0.5f)), v_sub(v_set(0), rest), v_sub(m, v_set(1)));
    vf p = v_fma(v_set(-0.07634494f), f, v_set(0.127615746f));
    p = v_fma(p, f, v_set(-0.131601822f));
    p = v_fma(p, f, v_set(0.142017584f));
    p = v_fma(p, f, v_set(-0.166233574f));
    p = v_fma(p, f, v_set(0.200012269f));
    p = v_fma(p, f, v_set(-0.25000821f));
    p = v_fma(p, f, v_set(0.333333317f));
    const vf square = v_mul(f, f);
    const vf small = v_fma(v_mul(square, f), p, v_mul(square, v_set(-0.5f)));
    return v_fma(e, v_set(0.693147181f), v_add(small, f));
}

/* sin(2 pi w / 2^32). Half revolutions change the sign. */
static inline vf sin_of_revolutions(vi w) {
    const vf t = v_mul(v_from(vi_add(w, w)), v_set(0x1p-33f));
    return v_flip(quarter_sine(t), vi_add(w, vi_set(1 << 30)));
}

/* Box and Muller for each pair of lanes. Both lanes have the radius and the angle of the pair. The first lane adds a
 * quarter revolution to the angle, so that its sine is the cosine. */
static inline vf normal_pairs(vi words) {
    enum { Q = 1 << 30 };
    static const int quarter[16] = {Q, 0, Q, 0, Q, 0, Q, 0, Q, 0, Q, 0, Q, 0, Q, 0};
    const vi w = vi_even(words);
    const vf high = v_from(vi_high(w)), low = v_add(v_from(vi_low(w)), v_set(0.5f));
    const vf u = v_fma(high, v_set(0x1p-16f), v_mul(low, v_set(0x1p-32f)));
    const vf rest = v_fma(v_sub(v_set(65535), high), v_set(0x1p-16f), v_mul(v_sub(v_set(65536), low), v_set(0x1p-32f)));
    const vf radius = v_sqrt(v_mul(v_set(-2), log_part(u, rest)));
    return v_mul(radius, sin_of_revolutions(vi_add(vi_odd(words), vi_load(quarter))));
}

static void normals(size_t n, const uint32_t *words, float *x) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(x + i, normal_pairs(vi_load((const int *)(const void *)(words + i))));
    if (i == n) return;
    int rest[VW] = {0};
    memcpy(rest, words + i, (n - i) * sizeof *words);
    v_store_n(x + i, n - i, normal_pairs(vi_load(rest)));
}

/* One block of Philox4x32-10 in each lane: ten rounds on the words (index, index / 2^32, stream, stream / 2^32). */
static inline void philox(vi c[4], uint64_t seed) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const vi m0 = vi_set((int)0xd2511f53), m1 = vi_set((int)0xcd9e8d57);
    for (int round = 0; round < 10; round++, key[0] += 0x9e3779b9, key[1] += 0xbb67ae85) {
        const vi high0 = vi_mul_high(c[0], m0), high1 = vi_mul_high(c[2], m1);
        const vi next1 = vi_mul_low(c[2], m1), next3 = vi_mul_low(c[0], m0);
        c[0] = vi_xor(vi_xor(high1, c[1]), vi_set((int)key[0]));
        c[2] = vi_xor(vi_xor(high0, c[3]), vi_set((int)key[1]));
        c[1] = next1, c[3] = next3;
    }
}

/* The lanes hold the blocks in the order in which vi_store_blocks writes them. */
static void random_words(size_t blocks, uint64_t seed, uint64_t stream, uint64_t index, uint32_t *words) {
    uint32_t low[VW], high[VW], some[4 * VW];
    for (size_t done = 0; done < blocks; done += VW) {
        const size_t left = blocks - done, n = left < VW ? left : VW;
        for (size_t lane = 0; lane < VW; lane++) {
            const uint64_t i = index + done + (lane % 4 * (VW / 4) + lane / 4);
            low[lane] = (uint32_t)i, high[lane] = (uint32_t)(i >> 32);
        }
        vi c[4] = {vi_load((const int *)low), vi_load((const int *)high), vi_set((int)(uint32_t)stream),
                   vi_set((int)(uint32_t)(stream >> 32))};
        philox(c, seed);
        vi_store_blocks(n < VW ? some : words + 4 * done, c);
        if (n < VW) memcpy(words + 4 * done, some, 4 * n * sizeof *words);
    }
}

/* NV vectors of sinusoids; if TAIL, only `tail` sinusoids of the last vector exist. NV and TAIL are constants after
 * inlining. */
ALWAYS void sinusoids_few(const int NV, const int TAIL, size_t tail, const double *c1, const double *s1, double *c,
                          double *s, int C, float *out, size_t ldo) {
    vd x[4], y[4], cos1[4], sin1[4], minus_sin1[4];
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) {
        const int part = TAIL && v == NV - 1, at = v * VD;
        x[v] = part ? vd_load_n(c + at, tail) : vd_load(c + at);
        y[v] = part ? vd_load_n(s + at, tail) : vd_load(s + at);
        cos1[v] = part ? vd_load_n(c1 + at, tail) : vd_load(c1 + at);
        sin1[v] = part ? vd_load_n(s1 + at, tail) : vd_load(s1 + at);
        minus_sin1[v] = vd_mul(vd_set(-1), sin1[v]);
    }
    for (int i = 0; i < C; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            const vd next = vd_fma(x[v], cos1[v], vd_mul(y[v], minus_sin1[v]));
            if (out && TAIL && v == NV - 1) {
                store_upto(out + v * VW, 2 * tail, v_pairs(x[v], y[v]));
            } else if (out) {
                v_store(out + v * VW, v_pairs(x[v], y[v]));
            }
            y[v] = vd_fma(y[v], cos1[v], vd_mul(x[v], sin1[v]));
            x[v] = next;
        }
        if (out) out += ldo;
    }
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) {
        vd_store_n(c + v * VD, TAIL && v == NV - 1 ? tail : VD, x[v]);
        vd_store_n(s + v * VD, TAIL && v == NV - 1 ? tail : VD, y[v]);
    }
}

static void sinusoids(size_t n, const double *c1, const double *s1, double *c, double *s, int C, float *out,
                      size_t ldo) {
    size_t j = 0;
    for (; j + 4 * VD <= n; j += 4 * VD)
        sinusoids_few(4, 0, 0, c1 + j, s1 + j, c + j, s + j, C, out ? out + 2 * j : NULL, ldo);
    for (; j < n; j += VD)
        sinusoids_few(1, 1, n - j < VD ? n - j : VD, c1 + j, s1 + j, c + j, s + j, C, out ? out + 2 * j : NULL, ldo);
}

static void rotate_pairs(int C, size_t n, int back, const float *cs, size_t ldc, const float *x, size_t ldx, float *out,
                         size_t ldo) {
    for (int i = 0; i < C; i++, cs += ldc, x += ldx, out += ldo)
        for (size_t j = 0; j < 2 * n; j += VW) {
            const vf a = load_upto(x + j, 2 * n - j), t = load_upto(cs + j, 2 * n - j);
            store_upto(out + j, 2 * n - j, back ? v_rotate_pairs_back(a, t) : v_rotate_pairs(a, t));
        }
}

static void scale_blocks(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, float *out,
                         size_t ldo) {
    for (int i = 0; i < C; i++, x += ldx, a += lda, out += ldo)
        for (int c = 0, at = 0; c < m; c++, at += n) {
            const vf weight = v_set(x[c]);
            for (int j = 0; j < n; j += VW)
                store_upto(out + at + j, (size_t)(n - j), v_mul(weight, load_upto(a + at + j, (size_t)(n - j))));
        }
}

static void scale_blocks_back(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda,
                              const float *dout, size_t ldd, float *dx, size_t lddx, float *sum) {
    for (int i = 0; i < C; i++, x += ldx, a += lda, dout += ldd, dx += lddx)
        for (int c = 0, at = 0; c < m; c++, at += n) {
            const vf weight = v_set(x[c]), late = v_set((float)i * x[c]);
            vf total = v_set(0);
            for (int j = at; j < at + n; j += VW) {
                const size_t left = (size_t)(at + n - j);
                const vf w = load_upto(a + j, left), d = load_upto(dout + j, left);
                const vf product = v_mul(w, d), swapped = v_mul(v_swap(w), d);
                float *const S0 = sum + j, *const S1 = S0 + m * n, *const S2 = S1 + m * n;
                total = v_add(total, product);
                store_upto(S0, left, v_fma(weight, product, load_upto(S0, left)));
                store_upto(S1, left, v_fma(weight, swapped, load_upto(S1, left)));
                store_upto(S2, left, v_fma(late, swapped, load_upto(S2, left)));
            }
            dx[c] = v_sum(total);
        }
}
