/* Positions that turn or weigh numbers: waves over tokens, and their products with rows. */

/* NV vectors of waves, the last of `tail` if TAIL; both are constants after inlining. */
ALWAYS void waves_few(const int NV, const int TAIL, size_t tail, const double *c1, const double *s1, double *c,
                      double *s, int C, float *out, size_t ldo) {
    vd x[4], y[4], along[4], across[4], against[4];
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) {
        const int part = TAIL && v == NV - 1, at = v * VD;
        x[v] = part ? vd_load_n(c + at, tail) : vd_load(c + at);
        y[v] = part ? vd_load_n(s + at, tail) : vd_load(s + at);
        along[v] = part ? vd_load_n(c1 + at, tail) : vd_load(c1 + at);
        across[v] = part ? vd_load_n(s1 + at, tail) : vd_load(s1 + at);
        against[v] = vd_mul(vd_set(-1), across[v]);
    }
    for (int i = 0; i < C; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            const vd next = vd_fma(x[v], along[v], vd_mul(y[v], against[v]));
            if (out && TAIL && v == NV - 1) {
                store_upto(out + v * VW, 2 * tail, v_pairs(x[v], y[v]));
            } else if (out) {
                v_store(out + v * VW, v_pairs(x[v], y[v]));
            }
            y[v] = vd_fma(y[v], along[v], vd_mul(x[v], across[v]));
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

static void waves(size_t n, const double *c1, const double *s1, double *c, double *s, int C, float *out, size_t ldo) {
    size_t j = 0;
    for (; j + 4 * VD <= n; j += 4 * VD)
        waves_few(4, 0, 0, c1 + j, s1 + j, c + j, s + j, C, out ? out + 2 * j : NULL, ldo);
    for (; j < n; j += VD)
        waves_few(1, 1, n - j < VD ? n - j : VD, c1 + j, s1 + j, c + j, s + j, C, out ? out + 2 * j : NULL, ldo);
}

static void turn(int C, size_t n, int back, const float *cs, size_t ldc, const float *x, size_t ldx, float *out,
                 size_t ldo) {
    for (int i = 0; i < C; i++, cs += ldc, x += ldx, out += ldo)
        for (size_t j = 0; j < 2 * n; j += VW) {
            const vf a = load_upto(x + j, 2 * n - j), t = load_upto(cs + j, 2 * n - j);
            store_upto(out + j, 2 * n - j, back ? v_turn_back(a, t) : v_turn(a, t));
        }
}

static void spread(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, float *out,
                   size_t ldo) {
    for (int i = 0; i < C; i++, x += ldx, a += lda, out += ldo)
        for (int c = 0, at = 0; c < m; c++, at += n) {
            const vf weight = v_set(x[c]);
            for (int j = 0; j < n; j += VW)
                store_upto(out + at + j, (size_t)(n - j), v_mul(weight, load_upto(a + at + j, (size_t)(n - j))));
        }
}

static void spread_back(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, const float *dout,
                        size_t ldd, float *dx, size_t lddx, float *sum) {
    for (int i = 0; i < C; i++, x += ldx, a += lda, dout += ldd, dx += lddx)
        for (int c = 0, at = 0; c < m; c++, at += n) {
            const vf weight = v_set(x[c]), late = v_set((float)i * x[c]);
            vf all = v_set(0);
            for (int j = at; j < at + n; j += VW) {
                const size_t left = (size_t)(at + n - j);
                const vf w = load_upto(a + j, left), d = load_upto(dout + j, left);
                const vf along = v_mul(w, d), across = v_mul(v_swap(w), d);
                float *const S0 = sum + j, *const S1 = S0 + m * n, *const S2 = S1 + m * n;
                all = v_add(all, along);
                store_upto(S0, left, v_fma(weight, along, load_upto(S0, left)));
                store_upto(S1, left, v_fma(weight, across, load_upto(S1, left)));
                store_upto(S2, left, v_fma(late, across, load_upto(S2, left)));
            }
            dx[c] = v_sum(all);
        }
}
