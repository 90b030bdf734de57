/* The running state of linear attention, in double. A panel of a few rows of S stays in registers while all tokens of
 * the call update and read it. So S is loaded and stored once for each call, not once for each token. Meanwhile what
 * lies STATE_AHEAD numbers on is prefetched into L2. Every number is computed as if tokens came one by one. */

enum { STATE_ROWS = 4, STATE_AHEAD = 1024, STATE_LINE = 8 /* numbers in a line of memory */ };

/* STATE_ROWS features of the keys and queries of all tokens. */
typedef struct {
    double k[LL_STATE_TOKENS][STATE_ROWS], q[LL_STATE_TOKENS][STATE_ROWS];
} state_rows;

/* A panel of S: R rows of NV vectors; if TAIL, only `tail` numbers of the last vector exist. R, NV and TAIL are
 * constants after inlining. */
ALWAYS void state_panel(const int R, const int NV, const int TAIL, size_t tail, int C, const double *factor,
                        const state_rows *x, const double *v, double *num, size_t ldv, double *S, size_t n) {
    vd s[STATE_ROWS][2];
    for (int r = 0; r < R; r++)
        for (int j = 0; j < NV; j++) {
            const double *p = S + (size_t)r * n + j * VD;
            s[r][j] = TAIL && j == NV - 1 ? vd_load_n(p, tail) : vd_load(p);
        }
    for (int t = 0; t < C; t++, v += ldv, num += ldv) {
        vd value[2], sum[2];
#pragma GCC unroll 2
        for (int j = 0; j < NV; j++) value[j] = vd_load(v + j * VD), sum[j] = vd_load(num + j * VD);
        if (factor) {
            const vd f = vd_set(factor[t]);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++)
#pragma GCC unroll 2
                for (int j = 0; j < NV; j++) s[r][j] = vd_mul(f, s[r][j]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const vd k = vd_set(x->k[t][r]), q = vd_set(x->q[t][r]);
#pragma GCC unroll 2
            for (int j = 0; j < NV; j++) {
                s[r][j] = vd_fma(k, value[j], s[r][j]);
                sum[j] = vd_fma(q, s[r][j], sum[j]);
            }
        }
#pragma GCC unroll 2
        for (int j = 0; j < NV; j++) vd_store(num + j * VD, sum[j]);
    }
    for (int r = 0; r < R; r++)
        for (int j = 0; j < NV; j++) {
            double *p = S + (size_t)r * n + j * VD;
            if (TAIL && j == NV - 1) {
                vd_store_n(p, tail, s[r][j]);
            } else {
                vd_store(p, s[r][j]);
            }
        }
}

/* R rows of S over all columns, and of z. den[t][r] collects the products of row r for token t. */
ALWAYS void state_block(const int R, int C, int n, const double *factor, const float *k, const float *q, size_t ld,
                        const double *v, size_t ldv, double *S, double *z, double *num,
                        double den[LL_STATE_TOKENS][STATE_ROWS]) {
    state_rows x;
    for (int i = 0; i < R * n; i += STATE_LINE) __builtin_prefetch(S + STATE_AHEAD + i, 0, 2);
    for (int t = 0; t < C; t++)
        for (int r = 0; r < R; r++) {
            x.k[t][r] = (double)k[(size_t)t * ld + (size_t)r];
            x.q[t][r] = (double)q[(size_t)t * ld + (size_t)r];
            if (!z) continue;
            z[r] = (factor ? factor[t] : 1) * z[r] + x.k[t][r];
            den[t][r] += x.q[t][r] * z[r];
        }
    int j = 0;
    for (; j + 2 * VD <= n; j += 2 * VD) state_panel(R, 2, 0, 0, C, factor, &x, v + j, num + j, ldv, S + j, (size_t)n);
    const size_t left = (size_t)(n - j);
    if (left > VD) {
        state_panel(R, 2, 1, left - VD, C, factor, &x, v + j, num + j, ldv, S + j, (size_t)n);
    } else if (left) {
        state_panel(R, 1, 1, left, C, factor, &x, v + j, num + j, ldv, S + j, (size_t)n);
    }
}

static void state_tokens(int C, int m, int n, const double *factor, const float *k, const float *q, size_t ld,
                         const double *v, size_t ldv, double *S, double *z, double *num, double *den) {
    double sum[LL_STATE_TOKENS][STATE_ROWS] = {{0}};
    for (size_t i = 0; i < (size_t)C * ldv; i++) num[i] = 0;
    int a = 0;
    for (; a + STATE_ROWS <= m; a += STATE_ROWS)
        state_block(STATE_ROWS, C, n, factor, k + a, q + a, ld, v, ldv, S + (size_t)a * (size_t)n, z ? z + a : z, num,
                    sum);
    for (; a < m; a++)
        state_block(1, C, n, factor, k + a, q + a, ld, v, ldv, S + (size_t)a * (size_t)n, z ? z + a : z, num, sum);
    for (int t = 0; t < C; t++) den[t] = (sum[t][0] + sum[t][1]) + (sum[t][2] + sum[t][3]);
}
