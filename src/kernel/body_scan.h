/* The running state of linear attention in float (body_state.h has the one in double). A panel of VSCAN rows of S and
 * two vectors stays in registers while all tokens of the call update and read it. So causal attention makes only the
 * products that its definition has. A token costs 4 VSCAN multiply-adds, 2 VSCAN broadcasts, 4 loads and 2 stores. */

enum { SCAN_LINES = 2 };

/* What a panel prefetches for each token: lines of 16 floats. */
typedef struct {
    const float *line[SCAN_LINES];
    size_t ld[SCAN_LINES];
} scan_prefetch;

/* Takes the next two columns of lines of `next`, which may be NULL, for the coming panel. Lines side by side come from
 * memory faster than one column after the other. Where nothing is left, S itself is prefetched: a branch within the
 * loop over tokens would cost more. */
static scan_prefetch scan_lines(ll_prefetch *next, const ll_scan *x) {
    scan_prefetch p = {{x->S, x->S}, {0, 0}};
    for (int i = 0; next && i < SCAN_LINES && next->at < next->parts; i++) {
        const ll_prefetch_part *part = &next->part[next->at];
        p.line[i] = part->data + (size_t)16 * (size_t)next->row, p.ld[i] = part->ld;
        if (++next->row == part->lines) next->row = 0, next->at++;
    }
    return p;
}

/* One of so many panels takes lines, so that all lines are spread over the panels: at once they wait for memory. */
static int scan_pace(const ll_prefetch *next, int panels) {
    int columns = 0;
    for (int i = 0; next && i < next->parts; i++) columns += next->part[i].lines;
    return panels > columns ? panels * SCAN_LINES / (columns + 1) : 1;
}

/* A panel: R rows of NV vectors; if TAIL, only `tail` floats of the last vector exist. With APART, tokens are summed
 * from 0 and then added. Without READ only the state moves. The first five are constants after inlining. */
ALWAYS void scan_panel(const int R, const int NV, const int TAIL, const int APART, const int READ, size_t tail, int C,
                       const ll_scan *x, int a, int j, scan_prefetch next) {
    vf s[VSCAN][2], old[VSCAN][2];
    const float *k = x->k + a, *q = READ ? x->q + a : k, *v = x->v + j;
    float *y = READ ? x->y + j : NULL;
    const ptrdiff_t ldk = x->ldk, ldv = x->ldv;
    const vf carry = v_set(x->carry), after = v_set(x->after);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < NV; c++) {
            const float *p = x->S + (size_t)(a + r) * x->lds + j + c * VW;
            s[r][c] = v_mul(carry, TAIL && c == NV - 1 ? v_load_n(p, tail) : v_load(p));
            if (APART) old[r][c] = s[r][c], s[r][c] = v_set(0);
        }
    for (int t = 0; t < C; t++, k += ldk, q += ldk, v += ldv) {
        vf value[2], sum[2];
#pragma GCC unroll 2
        for (int i = 0; i < SCAN_LINES; i++, next.line[i - 1] += next.ld[i - 1])
            __builtin_prefetch(next.line[i], 0, 2);
#pragma GCC unroll 2
        for (int c = 0; c < NV; c++) {
            const int part = TAIL && c == NV - 1;
            value[c] = part ? v_load_n(v + c * VW, tail) : v_load(v + c * VW);
            if (READ) sum[c] = part ? v_load_n(y + c * VW, tail) : v_load(y + c * VW);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const vf key = v_set(k[r]), query = v_set(q[r]);
#pragma GCC unroll 2
            for (int c = 0; c < NV; c++) {
                s[r][c] = v_fma(key, value[c], s[r][c]);
                if (READ) sum[c] = v_fma(query, APART ? v_add(old[r][c], s[r][c]) : s[r][c], sum[c]);
            }
        }
        if (!READ) continue;
#pragma GCC unroll 2
        for (int c = 0; c < NV; c++) {
            if (TAIL && c == NV - 1) {
                v_store_n(y + c * VW, tail, sum[c]);
            } else {
                v_store(y + c * VW, sum[c]);
            }
        }
        y += ldv;
    }
    float *to = APART ? x->sum : x->S;
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < NV; c++) {
            float *p = to + (size_t)(a + r) * x->lds + j + c * VW;
            const int part = TAIL && c == NV - 1;
            if (APART && x->sum == x->S) {
                s[r][c] = v_add(old[r][c], s[r][c]);
            } else if (APART) {
                s[r][c] = v_add(part ? v_load_n(p, tail) : v_load(p), s[r][c]);
            }
            s[r][c] = v_mul(after, s[r][c]);
            if (part) {
                v_store_n(p, tail, s[r][c]);
            } else {
                v_store(p, s[r][c]);
            }
        }
}

/* R rows of S, or the fewer that are left, and two vectors or what is left of the columns. */
ALWAYS void scan_part(const int R, const int APART, const int READ, int C, const ll_scan *x, int a, int j,
                      scan_prefetch next) {
    const size_t left = (size_t)(x->n - j);
    if (left >= 2 * VW) {
        scan_panel(R, 2, 0, APART, READ, 0, C, x, a, j, next);
    } else if (left > VW) {
        scan_panel(R, 2, 1, APART, READ, left - VW, C, x, a, j, next);
    } else {
        scan_panel(R, 1, 1, APART, READ, left, C, x, a, j, next);
    }
}

/* The inner loop goes along the shorter side of S, so that the rows of tokens which it reads again stay in L1. */
ALWAYS void scan_all(const int R, const int APART, const int READ, int C, const ll_scan *x, ll_prefetch *next) {
    const int down = x->m < x->n, panels = (x->m + R - 1) / R * ((x->n + 2 * VW - 1) / (2 * VW));
    const int pace = scan_pace(next, panels);
    for (int panel = 0, a = 0, j = 0; panel < panels; panel++) {
        const scan_prefetch ahead = scan_lines(panel % pace ? NULL : next, x);
        if (a + R <= x->m) scan_part(R, APART, READ, C, x, a, j, ahead);
        for (int row = a; a + R > x->m && row < x->m; row++) scan_part(1, APART, READ, C, x, row, j, ahead);
        if (down) {
            a += R;
            if (a >= x->m) a = 0, j += 2 * VW;
        } else {
            j += 2 * VW;
            if (j >= x->n) j = 0, a += R;
        }
    }
}

/* With APART a panel has half the rows, because it holds the state twice. */
static void scan(int C, const ll_scan *x, ll_prefetch *next) {
    float *y = x->y;
    for (int t = 0; t < C && y; t++, y += x->ldv)
        for (int j = 0; j < x->n; j += VW) store_upto(y + j, (size_t)(x->n - j), v_set(0));
    if (x->sum) {
        if (y) {
            scan_all(VSCAN / 2, 1, 1, C, x, next);
        } else {
            scan_all(VSCAN / 2, 1, 0, C, x, next);
        }
    } else if (y) {
        scan_all(VSCAN, 0, 1, C, x, next);
    } else {
        scan_all(VSCAN, 0, 0, C, x, next);
    }
}

/* Four vectors of z, and of the sum of the tokens, stay in registers. `now` is z itself, unless that sum is apart. */
static void scan_weights(int C, int m, const float *factor, const float *k, const float *q, size_t ld, const float *z,
                         float *sum, float *den) {
    enum { VECTORS = 4 };
    const int apart = sum != z;
    for (int t = 0; t < C; t++) den[t] = 0;
    for (int a = 0; a < m; a += VECTORS * VW) {
        size_t n[VECTORS]; /* floats of each vector */
        vf old[VECTORS], now[VECTORS];
        int vectors = 0;
        for (int i = a; i < m && vectors < VECTORS; i += VW, vectors++) {
            n[vectors] = m - i < VW ? (size_t)(m - i) : VW;
            old[vectors] = v_set(0), now[vectors] = load_upto(z + i, n[vectors]);
            if (apart) old[vectors] = now[vectors], now[vectors] = v_set(0);
        }
        for (int t = 0; t < C; t++) {
            const float *key = k + (size_t)t * ld + a, *query = q + (size_t)t * ld + a;
            const vf f = v_set(factor[t]);
            vf read = v_set(0);
            for (int i = 0; i < vectors; i++) {
                now[i] = v_fma(f, load_upto(key + i * VW, n[i]), now[i]);
                read = v_fma(load_upto(query + i * VW, n[i]), v_add(old[i], now[i]), read);
            }
            den[t] += v_sum(read);
        }
        for (int i = 0; i < vectors; i++) {
            float *to = sum + a + i * VW;
            store_upto(to, n[i], apart ? v_add(load_upto(to, n[i]), now[i]) : now[i]);
        }
    }
}
