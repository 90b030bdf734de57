/* The scan of a backward pass, for tiers that define VGRADIENT. A panel of VGRADIENT rows of S and four vectors stays
 * in registers. Each token updates it and reads it along both sides, so that of the four products of two scans three
 * are made. A token costs 12 VGRADIENT multiply-adds, 2 VGRADIENT broadcasts, 12 loads, 4 stores, and sums across
 * lanes. */

enum { GRADIENT_VECTORS = 4 };
_Static_assert(LL_GRADIENT_COLUMNS % (GRADIENT_VECTORS * VW) == 0, "panels fill the columns");

/* R rows of S from row a on, GRADIENT_VECTORS from column j on. With APART, tokens are summed from 0 and then added; S
 * itself is read from memory, because registers have room for one of the two. */
ALWAYS void gradient_panel(const int R, const int APART, int C, const ll_scan *x, const float *w, float *dk, int a,
                           int j, scan_prefetch next) {
    vf s[VGRADIENT][GRADIENT_VECTORS];
    const float *k = x->k + a, *q = x->q + a, *v = x->v + j;
    float *y = x->y + j;
    const ptrdiff_t ldk = x->ldk, ldv = x->ldv;
    float *S = x->S + (size_t)a * x->lds + j;
    w += j, dk += a;
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < GRADIENT_VECTORS; c++) {
            float *p = S + (size_t)r * x->lds + c * VW;
            s[r][c] = v_mul(v_set(x->carry), v_load(p));
            if (APART) v_store(p, s[r][c]), s[r][c] = v_set(0);
        }
    for (int t = 0; t < C; t++, k += ldk, q += ldk, v += ldv, w += ldv, y += ldv, dk += ldk) {
        vf key[VGRADIENT], query[VGRADIENT], across[VGRADIENT];
#pragma GCC unroll 2
        for (int i = 0; i < SCAN_LINES; i++, next.line[i - 1] += next.ld[i - 1]) __builtin_prefetch(next.line[i], 0, 2);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) key[r] = v_set(k[r]), query[r] = v_set(q[r]);
#pragma GCC unroll 4
        for (int c = 0; c < GRADIENT_VECTORS; c++) {
            const vf value = v_load(v + c * VW);
            vf sum = v_load(y + c * VW);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                s[r][c] = v_fma(key[r], value, s[r][c]);
                const vf now = APART ? v_add(v_load(S + (size_t)r * x->lds + c * VW), s[r][c]) : s[r][c];
                sum = v_fma(query[r], now, sum);
                across[r] = c ? v_fma(now, v_load(w + c * VW), across[r]) : v_mul(now, v_load(w));
            }
            v_store(y + c * VW, sum);
        }
        if (R == VGRADIENT) {
            v_add_sums(dk, across);
        } else {
            for (int r = 0; r < R; r++) dk[r] += v_sum(across[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < GRADIENT_VECTORS; c++) {
            float *p = S + (size_t)r * x->lds + c * VW;
            if (APART) s[r][c] = v_add(v_load(p), s[r][c]);
            v_store(p, v_mul(v_set(x->after), s[r][c]));
        }
}

ALWAYS void gradient_all(const int R, const int APART, int C, const ll_scan *x, const float *w, float *dk,
                         ll_prefetch *next) {
    for (int j = 0; j < x->n; j += GRADIENT_VECTORS * VW)
        for (int a = 0; a < x->m; a += R) {
            const scan_prefetch ahead = scan_lines(next, x);
            if (a + R <= x->m) gradient_panel(R, APART, C, x, w, dk, a, j, ahead);
            for (int row = a; a + R > x->m && row < x->m; row++) gradient_panel(1, APART, C, x, w, dk, row, j, ahead);
        }
}

static void scan_gradients(int C, const ll_scan *x, const float *w, float *dk, ll_prefetch *next) {
    float *y = x->y;
    for (int t = 0; t < C; t++, y += x->ldv)
        for (int j = 0; j < x->n; j += VW) v_store(y + j, v_set(0));
    if (x->sum) {
        gradient_all(VGRADIENT, 1, C, x, w, dk, next);
    } else {
        gradient_all(VGRADIENT, 0, C, x, w, dk, next);
    }
}
