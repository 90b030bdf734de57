/* Kernels of layers: LayerNorm, RMSNorm, SiLU and its kin, softmax cross-entropy, AdamW. */

/* 1 / sqrt(square), and 0 for a row of zeros (or of equal values) without eps. */
static float inverse_deviation(float square) { return square == 0 ? 0 : 1.0f / sqrtf(square); }

static void norm(int rows, int n, float eps, const float *x, const float *gain, const float *bias, float *y,
                 float *mean, float *rstd) {
    const size_t N = (size_t)n;
    for (int r = 0; r < rows; r++, x += N, y += N) {
        const float mu = sum(N, x) / (float)n;
        vf square = v_set(0);
        const vf vmu = v_set(mu);
        for (size_t i = 0; i < N; i += VW) {
            vf d = v_sub(load_upto(x + i, N - i), vmu);
            if (N - i < VW) store_upto(y + i, N - i, d), d = load_upto(y + i, N - i); /* zeroes the other lanes */
            square = v_fma(d, d, square);
        }
        const float rs = inverse_deviation(v_sum(square) / (float)n + eps);
        const vf vrs = v_set(rs);
        for (size_t i = 0; i < N; i += VW) {
            const vf h = v_mul(v_sub(load_upto(x + i, N - i), vmu), vrs);
            store_upto(y + i, N - i, v_fma(h, load_upto(gain + i, N - i), load_upto(bias + i, N - i)));
        }
        mean[r] = mu;
        rstd[r] = rs;
    }
}

/* With h = (x - mean) rstd and t = dy gain: dx += rstd (t - mean(t) - h mean(t h)). */
static void norm_back(int rows, int n, const float *x, const float *gain, const float *mean, const float *rstd,
                      const float *dy, float *dx, float *dgain, float *dbias) {
    const size_t N = (size_t)n;
    for (int r = 0; r < rows; r++, x += N, dy += N, dx += N) {
        const vf mu = v_set(mean[r]), rs = v_set(rstd[r]);
        vf st = v_set(0), sth = v_set(0);
        for (size_t i = 0; i < N; i += VW) {
            const size_t left = N - i;
            const vf g = load_upto(dy + i, left), t = v_mul(g, load_upto(gain + i, left));
            const vf h = v_mul(v_sub(load_upto(x + i, left), mu), rs);
            st = v_add(st, t);
            sth = v_fma(t, h, sth);
            store_upto(dgain + i, left, v_fma(g, h, load_upto(dgain + i, left)));
            store_upto(dbias + i, left, v_add(g, load_upto(dbias + i, left)));
        }
        const vf mt = v_set(v_sum(st) / (float)n), mth = v_set(v_sum(sth) / (float)n);
        for (size_t i = 0; i < N; i += VW) {
            const size_t left = N - i;
            const vf t = v_mul(load_upto(dy + i, left), load_upto(gain + i, left));
            const vf h = v_mul(v_sub(load_upto(x + i, left), mu), rs);
            const vf d = v_sub(v_sub(t, mt), v_mul(h, mth));
            store_upto(dx + i, left, v_fma(rs, d, load_upto(dx + i, left)));
        }
    }
}

static void rms_norm(int rows, int n, float eps, const float *x, const float *gain, float *y, float *rrms) {
    const size_t N = (size_t)n;
    for (int r = 0; r < rows; r++, x += N, y += N) {
        vf square = v_set(0);
        for (size_t i = 0; i < N; i += VW) {
            const vf u = load_upto(x + i, N - i); /* the other lanes are 0 */
            square = v_fma(u, u, square);
        }
        const float rs = inverse_deviation(v_sum(square) / (float)n + eps);
        const vf vrs = v_set(rs);
        for (size_t i = 0; i < N; i += VW)
            store_upto(y + i, N - i, v_mul(v_mul(load_upto(x + i, N - i), vrs), load_upto(gain + i, N - i)));
        rrms[r] = rs;
    }
}

/* With t = dy gain and h = x rrms: dx += rrms (t - h mean(t h)). */
static void rms_norm_back(int rows, int n, const float *x, const float *gain, const float *rrms, const float *dy,
                          float *dx, float *dgain) {
    const size_t N = (size_t)n;
    for (int r = 0; r < rows; r++, x += N, dy += N, dx += N) {
        const vf rs = v_set(rrms[r]);
        vf sth = v_set(0);
        for (size_t i = 0; i < N; i += VW) {
            const size_t left = N - i;
            const vf g = load_upto(dy + i, left), h = v_mul(load_upto(x + i, left), rs);
            sth = v_fma(v_mul(g, load_upto(gain + i, left)), h, sth);
            store_upto(dgain + i, left, v_fma(g, h, load_upto(dgain + i, left)));
        }
        const vf mth = v_set(v_sum(sth) / (float)n);
        for (size_t i = 0; i < N; i += VW) {
            const size_t left = N - i;
            const vf t = v_mul(load_upto(dy + i, left), load_upto(gain + i, left));
            const vf d = v_sub(t, v_mul(v_mul(load_upto(x + i, left), rs), mth));
            store_upto(dx + i, left, v_fma(rs, d, load_upto(dx + i, left)));
        }
    }
}

/* u is limited so that nothing overflows: the gate is 0 or 1 beyond. */
static inline vf swish_input(vf x) { return v_min(v_set(200), v_max(v_set(-200), x)); }
static inline vf swish_gate(vf a, vf b, vf u) {
    const vf z = v_mul(u, v_fma(b, v_mul(u, u), a));
    return v_div(v_set(1), v_add(v_set(1), exp_vector(v_sub(v_set(0), z))));
}

static void swish(size_t n, float a, float b, const float *x, float *y) {
    const vf va = v_set(a), vb = v_set(b);
    for (size_t i = 0; i < n; i += VW) {
        const vf u = load_upto(x + i, n - i);
        store_upto(y + i, n - i, v_mul(v_max(v_set(-200), u), swish_gate(va, vb, swish_input(u))));
    }
}

static void swish_back(size_t n, float a, float b, const float *x, const float *dy, float *dx) {
    const vf va = v_set(a), vb = v_set(b), vb3 = v_set(3 * b), one = v_set(1);
    for (size_t i = 0; i < n; i += VW) {
        const vf u = swish_input(load_upto(x + i, n - i)), s = swish_gate(va, vb, u);
        const vf inner = v_mul(u, v_mul(v_sub(one, s), v_fma(vb3, v_mul(u, u), va)));
        store_upto(dx + i, n - i, v_mul(v_fma(s, inner, s), load_upto(dy + i, n - i)));
    }
}

static void dropout(size_t n, const uint32_t *words, unsigned dropped, float scale, int add, const float *x, float *y) {
    const vf limit = v_set((float)dropped - 0.5f), by = v_set(scale);
    for (size_t i = 0; i < n; i += VW) {
        const vf above = v_sub(v_from(vi_load_halves(words + i / 2)), limit);
        const vf kept = v_positive(above, v_mul(by, load_upto(x + i, n - i)));
        store_upto(y + i, n - i, add ? v_add(load_upto(y + i, n - i), kept) : kept);
    }
}

static float softmax_loss(int n, float *logits, int target, float weight) {
    const size_t N = (size_t)n;
    const float top = max(N, logits), chosen = logits[target];
    const vf vt = v_set(top);
    for (size_t i = 0; i < N; i += VW)
        store_upto(logits + i, N - i, exp_below_88(v_sub(load_upto(logits + i, N - i), vt)));
    const float total = sum(N, logits);
    scale(N, weight / total, logits);
    logits[target] -= weight;
    return logf(total) + (top - chosen);
}

static void adam(size_t n, float *p, float *m, float *v, const float *g, float gscale, float beta1, float beta2,
                 float rate, float vscale, float eps, float decay) {
    const vf gs = v_set(gscale), b1 = v_set(beta1), c1 = v_set(1 - beta1), b2 = v_set(beta2), c2 = v_set(1 - beta2);
    const vf vr = v_set(-rate), vs = v_set(vscale), ve = v_set(eps), keep = v_set(1 - decay);
    for (size_t i = 0; i < n; i += VW) {
        const size_t left = n - i;
        const vf gi = v_mul(gs, load_upto(g + i, left));
        const vf mi = v_fma(b1, load_upto(m + i, left), v_mul(c1, gi));
        const vf vi_ = v_fma(b2, load_upto(v + i, left), v_mul(c2, v_mul(gi, gi)));
        store_upto(m + i, left, mi);
        store_upto(v + i, left, vi_);
        const vf step = v_div(mi, v_fma(v_sqrt(vi_), vs, ve));
        store_upto(p + i, left, v_fma(vr, step, v_mul(keep, load_upto(p + i, left))));
    }
}
