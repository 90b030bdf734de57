/* Attention at its edges: padding behind noise that ends, numbers that are none in masked keys, gates that shut,
 * weights that are far apart. */
#include "drawn.h"

/* A call of one sequence on operands of its own, drawn from a seed. */
typedef struct {
    ll_attention *op;
    ll_attention_call call;
    float *kept[32], *ddecay;
    int n;
} sequence;

static float *keep(sequence *s, int n, uint64_t *seed) {
    float *x = drawn_normals(n, seed ? 0.5 : 0, seed ? seed : &(uint64_t){1});
    assert_true(s->n < 32);
    return s->kept[s->n++] = x;
}

static ll_view view(sequence *s, int H, int T, int width, uint64_t *seed) {
    return ll_view_packed(keep(s, H * T * width, seed), H, T, width);
}

/* Results are written over numbers that are none. */
static ll_view result(sequence *s, int H, int T, int width) {
    const ll_view v = view(s, H, T, width, NULL);
    for (int i = 0; i < H * T * width; i++) v.data[i] = NAN;
    return v;
}

static void make(sequence *s, const ll_attention_config *c, int T, uint64_t seed) {
    const int H = c->H, D = c->D, E = c->E;
    CHECK_OK(ll_attention_create(&s->op, c));
    s->call = (ll_attention_call){.B = 1, .T = T, .S = T, .threads = 1};
    s->call.q = view(s, H, T, D, &seed), s->call.k = view(s, H, T, D, &seed), s->call.v = view(s, H, T, E, &seed);
    s->call.g = view(s, H, T, E, &seed), s->call.y = result(s, H, T, E);
    s->call.dq = result(s, H, T, D), s->call.dk = result(s, H, T, D), s->call.dv = result(s, H, T, E);
    s->call.saved = keep(s, (int)ll_attention_saved(s->op, &s->call), NULL);
    s->call.ddecay = s->ddecay = c->decay ? keep(s, H, NULL) : NULL;
}

static void forward(const sequence *s) { CHECK_OK(ll_attention_forward(s->op, &s->call)); }
static void backward(const sequence *s) { CHECK_OK(ll_attention_backward(s->op, &s->call)); }

static void done(sequence *s) {
    ll_attention_free(s->op);
    for (int i = 0; i < s->n; i++) free(s->kept[i]);
}

static ll_attention_config config(ll_kernel kernel, int H, int D, int E) {
    return (ll_attention_config){.kernel = kernel, .causal = 1, .H = H, .D = D, .E = E, .input_scale = 1};
}

static ll_attention_config conv_spe(sequence *s, int taps, int rows, uint64_t *seed) {
    ll_attention_config c = config(LL_KERNEL_ELU1, 1, 4, 4);
    c.position = LL_POSITION_CONV_SPE, c.causal = 0;
    c.encoding.realizations = 16, c.encoding.taps = taps;
    c.encoding.filter_q = keep(s, 4 * taps, seed), c.encoding.filter_k = keep(s, 4 * taps, seed);
    c.encoding.noise_rows = rows;
    if (rows) c.encoding.noise = keep(s, 4 * rows * 16, seed);
    return c;
}

/* Noise that was given ends with the tokens in use: padding reads none, however long it is. */
static void test_padding_behind_noise(void **state) {
    (void)state;
    enum { N = 20, T = 200000, TAPS = 40 };
    uint64_t seed = 1;
    const int n = N;
    sequence s = {0};
    const ll_attention_config c = conv_spe(&s, TAPS, N + TAPS - 1, &seed);
    make(&s, &c, T, 2);
    s.call.lengths = &n;
    s.call.dposition.filter_q = keep(&s, 4 * TAPS, NULL);
    forward(&s), backward(&s);
    for (int i = 0; i < 4 * TAPS; i++) assert_true(isfinite(s.call.dposition.filter_q[i]));
    for (int i = 4 * N; i < 4 * T; i++) assert_true(s.call.dq.data[i] == 0 && s.call.dk.data[i] == 0);
    done(&s);
}

/* Gradients of position parameters have the same bits without padding and with padding of ten times the length. */
static void test_padding_and_parameters(void **state) {
    (void)state;
    enum { N = 300, PADDED = 3000, D = 4, ALL = 160 };
    static const ll_position positions[] = {LL_POSITION_SINE_SPE, LL_POSITION_CONV_SPE, LL_POSITION_RELATIVE_S1};
    for (int i = 0; i < 3; i++) {
        float *gradient[2];
        sequence s[2] = {0};
        for (int padded = 0; padded < 2; padded++) {
            uint64_t seed = 7;
            const int n = N;
            sequence *x = &s[padded];
            ll_attention_config c = conv_spe(x, 40, 0, &seed);
            ll_position_config *w = &c.encoding;
            c.position = positions[i], w->sines = w->scales = 3, w->axes = 1;
            w->freqs = w->inv_freq = w->filter_q, w->offsets = w->gains = w->alpha = w->beta = w->filter_k;
            make(x, &c, padded ? PADDED : N, 0);
            ll_attention_call *call = &x->call;
            ll_view *const views[] = {&call->q, &call->k, &call->v, &call->g};
            for (int j = 0; j < 4 * N * D; j++) views[j % 4]->data[j / 4] = (float)(0.5 * draw_normal(&seed));
            call->lengths = &n;
            float *to = gradient[padded] = keep(x, 5 * ALL, NULL);
            call->dposition.filter_q = call->dposition.freqs = call->dposition.inv_freq = to;
            call->dposition.filter_k = call->dposition.offsets = call->dposition.alpha = to + ALL;
            call->dposition.gains = call->dposition.beta = to + 2 * ALL;
            forward(x), backward(x);
        }
        assert_true(gradient[0][0] != 0 && gradient[0][ALL] != 0);
        assert_memory_equal(gradient[0], gradient[1], 5 * ALL * sizeof(float));
        for (int j = N * D; j < PADDED * D; j++) assert_true(s[1].call.dq.data[j] == 0 && s[1].call.dk.data[j] == 0);
        done(&s[0]), done(&s[1]);
    }
}

/* Backward multiplies what comes from later tokens by what a run has decayed, and by what the gate of the next token
 * leaves. The product is smaller than a float, the gradient is not: token 20 is masked, and divides what the gate has
 * left by itself. */
static void test_gate_that_shuts(void **state) {
    (void)state;
    enum { T = 22 };
    for (float shut = -40; shut > -80; shut -= 10) {
        sequence s = {0};
        const ll_attention_config c = config(LL_KERNEL_ELU1, 1, 1, 1);
        make(&s, &c, T, 3);
        s.call.gate = view(&s, 1, T, 1, NULL), s.call.dgate = result(&s, 1, T, 1);
        float *mask = keep(&s, T, NULL);
        s.call.key_mask = mask;
        for (int t = 0; t < T; t++) {
            s.call.q.data[t] = s.call.k.data[t] = s.call.g.data[t] = 0, s.call.v.data[t] = (float)t;
            s.call.gate.data[t] = -1.3f, mask[t] = t < 20;
        }
        s.call.gate.data[20] = shut, s.call.g.data[20] = 1;
        forward(&s), backward(&s);
        double sum = 0;
        for (int t = 0; t < 20; t++) sum += exp(-1.3 * t);
        for (int t = 0; t < 20; t++)
            if (!(fabs((double)s.call.dv.data[t] - exp(-1.3 * (19 - t)) / sum) < 1e-6))
                fail_msg("gate %g, dv[%d] is %g", (double)shut, t, (double)s.call.dv.data[t]);
        done(&s);
    }
}

/* The same where threads share a head: it has the same bits as one thread. Gates shut in each tile of 64 tokens, and
 * the loss reads one of these tokens in each chunk of 256. */
static void test_gates_that_shut_in_chunks(void **state) {
    (void)state;
    enum { T = 1600, M = 70 };
    sequence s[2] = {0};
    const ll_attention_config c = config(LL_KERNEL_ELU1, 1, M, 3);
    for (int i = 0; i < 2; i++) {
        make(&s[i], &c, T, 4);
        ll_attention_set_tile(s[i].op, 64);
        s[i].call.saved = keep(&s[i], (int)ll_attention_saved(s[i].op, &s[i].call), NULL);
        s[i].call.threads = i ? 3 : 1;
        s[i].call.gate = view(&s[i], 1, T, 1, NULL), s[i].call.dgate = result(&s[i], 1, T, 1);
        float *mask = keep(&s[i], T, NULL);
        s[i].call.key_mask = mask;
        for (int t = 0; t < T; t++) {
            mask[t] = t % 64 != 40, s[i].call.gate.data[t] = mask[t] == 0 ? -68 : -1.3f * (float)(t % 2);
            for (int e = 0; e < 3 && t % 256 != 40; e++) s[i].call.g.data[3 * t + e] = 0;
        }
        forward(&s[i]), backward(&s[i]);
    }
    double most = 0;
    for (int t = 0; t < T * 3; t++) most = fmax(most, fabs((double)s[0].call.dv.data[t]));
    assert_true(most > 0.1 && most < 1e3);
    for (int t = 255; t < T - 256; t += 256) assert_true(s[1].call.dv.data[3 * t] != 0);
    assert_memory_equal(s[0].call.dv.data, s[1].call.dv.data, T * 3 * sizeof(float));
    assert_memory_equal(s[0].call.dk.data, s[1].call.dk.data, T * M * sizeof(float));
    done(&s[0]), done(&s[1]);
}

static void check_numbers(const char *what, int n, const float *x) {
    double most = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i])) fail_msg("%s[%d] is %g", what, i, (double)x[i]);
        most = fmax(most, fabs((double)x[i]));
    }
    if (most == 0) fail_msg("%s is 0", what);
}

/* The masked key 3 and its value are `as`. */
static void run_masked(sequence *s, const ll_attention_config *c, float as) {
    enum { T = 10 };
    const int H = c->H, D = c->D, E = c->E;
    make(s, c, T, 5);
    float *mask = keep(s, T, NULL);
    for (int t = 0; t < T; t++) mask[t] = t != 3;
    for (int h = 0; h < H; h++) {
        for (int i = 0; i < D; i++) s->call.k.data[(h * T + 3) * D + i] = as;
        for (int e = 0; e < E; e++) s->call.v.data[(h * T + 3) * E + e] = as;
    }
    s->call.key_mask = mask;
    ll_position_gradients *d = &s->call.dposition;
    const int sines = H * D * c->encoding.sines, taps = H * D * c->encoding.taps;
    if (sines) d->freqs = keep(s, sines, NULL), d->offsets = keep(s, sines, NULL), d->gains = keep(s, sines, NULL);
    if (taps) d->filter_q = keep(s, taps, NULL), d->filter_k = keep(s, taps, NULL);
    if (c->encoding.gate) d->gate = keep(s, H * D, NULL);
    forward(s), backward(s);
    check_numbers("y", H * T * E, s->call.y.data), check_numbers("dv", H * T * E, s->call.dv.data);
    check_numbers("dq", H * T * D, s->call.dq.data), check_numbers("dk", H * T * D, s->call.dk.data);
    if (s->ddecay) check_numbers("ddecay", H, s->ddecay);
    if (sines)
        check_numbers("freqs", sines, d->freqs), check_numbers("offsets", sines, d->offsets),
            check_numbers("gains", sines, d->gains);
    if (taps) check_numbers("filter_q", taps, d->filter_q), check_numbers("filter_k", taps, d->filter_k);
    if (d->gate) check_numbers("gate", H * D, d->gate);
}

/* All that such a run kept has the same bits, but for masked keys and values. */
static void check_masked(const ll_attention_config *c) {
    sequence number = {0}, none = {0};
    run_masked(&number, c, 1), run_masked(&none, c, NAN);
    const ll_position_gradients *a = &number.call.dposition, *b = &none.call.dposition;
    const float *const x[] = {number.ddecay, a->freqs, a->offsets, a->gains, a->filter_q, a->filter_k, a->gate};
    const float *const y[] = {none.ddecay, b->freqs, b->offsets, b->gains, b->filter_q, b->filter_k, b->gate};
    const int sines = c->D * c->encoding.sines, taps = c->D * c->encoding.taps;
    const int n[] = {1, sines, sines, sines, taps, taps, c->D};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < n[i] * c->H && x[i]; j++) assert_true(x[i][j] == y[i][j]);
    done(&number), done(&none);
}

/* Keys and values that key_mask removes need not be numbers: gradients of parameters do not see them either. */
static void test_masked_keys_without_numbers(void **state) {
    (void)state;
    uint64_t seed = 6;
    const float decay[] = {0.9f, 0.8f};
    sequence s = {0};
    ll_attention_config c = config(LL_KERNEL_ELU1, 2, 8, 5);
    c.decay = decay;
    check_masked(&c);
    c.kernel = LL_KERNEL_FAVOR, c.M = 16, c.projection = keep(&s, 16 * 8, &seed);
    check_masked(&c);
    c.feature_eps = 1e-3f;
    check_masked(&c);
    c.decay = NULL, c.causal = 0, c.feature_eps = 0, c.den = LL_DEN_NONE;
    c.features = LL_FEATURES_TRIGONOMETRIC, c.max_gradient = 1; /* which sums over all keys */
    check_masked(&c);
    c = config(LL_KERNEL_ELU1, 2, 8, 5);
    c.position = LL_POSITION_SINE_SPE, c.encoding.realizations = 8, c.encoding.sines = 3;
    c.encoding.freqs = keep(&s, 48, &seed), c.encoding.offsets = keep(&s, 48, &seed);
    c.encoding.gains = keep(&s, 48, &seed), c.encoding.gate = keep(&s, 16, &seed);
    check_masked(&c);
    c.encoding.sines = 0, c.position = LL_POSITION_CONV_SPE;
    for (int taps = 9; taps <= 40; taps += 31) { /* both ways of filtering */
        c.encoding.taps = taps;
        c.encoding.filter_q = keep(&s, 16 * taps, &seed), c.encoding.filter_k = keep(&s, 16 * taps, &seed);
        check_masked(&c);
    }
    done(&s);
}

/* Heads without keys (relative-s2): the first four of eight tokens see no key as far as the clip. Far keys outweigh
 * near ones by e^logit, so that results are the same for any large one. */
static void run_clipped(sequence *s, float logit) {
    enum { T = 8, D = 4, CLIP = 4 };
    ll_attention_config c = config(LL_KERNEL_SOFTMAX, 1, D, 1);
    float *rpe = keep(s, (CLIP + 1) * D, NULL);
    rpe[CLIP * D] = logit;
    c.position = LL_POSITION_RELATIVE_S2;
    c.encoding.rpe = rpe, c.encoding.clip = CLIP, c.encoding.keyless = 1, c.encoding.axes = 1;
    make(s, &c, T, 8);
    for (int t = 0; t < T; t++) s->call.q.data[t * D] = 1;
    s->call.dposition.rpe = keep(s, (CLIP + 1) * D, NULL);
    forward(s), backward(s);
    ll_attention_stream *stream;
    const ll_view y = result(s, 1, T, 1);
    CHECK_OK(ll_attention_stream_create(&stream, s->op, 1));
    CHECK_OK(ll_attention_stream_feed(stream, T, s->call.q, s->call.k, s->call.v, (ll_view){0}, y));
    for (int t = 0; t < T; t++) assert_true(fabsf(y.data[t] - s->call.y.data[t]) < 1e-6f);
    ll_attention_stream_free(stream);
}

static void near_to(const char *what, int n, const float *x, const float *y) {
    for (int i = 0; i < n; i++)
        if (!(fabsf(x[i] - y[i]) < 1e-5f)) fail_msg("%s[%d] is %g, not %g", what, i, (double)y[i], (double)x[i]);
}

static void test_distance_that_is_not_there(void **state) {
    (void)state;
    sequence s = {0}, far = {0};
    run_clipped(&s, 30);
    run_clipped(&far, 200);
    double sum = 0;
    for (int t = 0; t < 4; t++) {
        sum += (double)s.call.v.data[t];
        assert_true(fabs((double)s.call.y.data[t] - sum / (t + 1)) < 1e-6);
    }
    near_to("y", 8, s.call.y.data, far.call.y.data), near_to("dv", 8, s.call.dv.data, far.call.dv.data);
    near_to("dq", 32, s.call.dq.data, far.call.dq.data);
    near_to("rpe", 20, s.call.dposition.rpe, far.call.dposition.rpe);
    done(&s), done(&far);
}

/* Weight of key j for query i of D features e^u. rope-linear rotates pairs, in the weighted sum alone. */
static double weight(const float *q, const float *k, int D, int distance, int rotates) {
    double sum = 0;
    for (int a = 0; a < D; a += 2) {
        const double angle = rotates ? distance * pow(10000, -(double)a / D) : 0;
        const double qa = exp((double)q[a]), qb = exp((double)q[a + 1]);
        const double ka = exp((double)k[a]), kb = exp((double)k[a + 1]);
        sum += cos(angle) * (qa * ka + qb * kb) + sin(angle) * (qa * kb - qb * ka);
    }
    return sum;
}

/* Features of exp are as far apart as e^120, and y is a ratio of sums: none overflows, in both directions, with
 * features that are rotated and without. */
static void test_large_exponents(void **state) {
    (void)state;
    enum { T = 5, D = 4, E = 3 };
    for (int form = 0; form < 4; form++) {
        ll_attention_config c = config(LL_KERNEL_EXP, 1, D, E);
        sequence s = {0};
        const int rotates = form / 2;
        c.causal = form % 2, c.position = rotates ? LL_POSITION_ROPE_LINEAR : LL_POSITION_NONE;
        make(&s, &c, T, 21);
        for (int i = 0; i < T * D; i++) s.call.q.data[i] *= 100, s.call.k.data[i] *= 100;
        forward(&s), backward(&s);
        for (int i = 0; i < T; i++)
            for (int e = 0; e < E; e++) {
                double sum = 0, all = 0, scale = 0;
                for (int j = 0; j < (c.causal ? i + 1 : T); j++) {
                    const float *q = s.call.q.data + i * D, *k = s.call.k.data + j * D;
                    const double w = weight(q, k, D, i - j, rotates), v = (double)s.call.v.data[j * E + e];
                    sum += w * v, scale = fmax(scale, fabs(w * v)), all += weight(q, k, D, 0, 0);
                }
                const double error = fabs((double)s.call.y.data[i * E + e] - sum / all);
                if (!(error <= 1e-5 * (1e-3 + scale / all)))
                    fail_msg("form %d: y[%d] is %g, expected %g", form, i, (double)s.call.y.data[i * E + e], sum / all);
            }
        for (int i = 0; i < T * D; i++) assert_true(isfinite(s.call.dq.data[i]) && isfinite(s.call.dk.data[i]));
        for (int i = 0; i < T * E; i++) assert_true(isfinite(s.call.dv.data[i]));
        done(&s);
    }
}

/* A query that reads a feature e^-60 of the largest one of its keys sees no larger key behind it. */
static void test_small_features_before_a_large_key(void **state) {
    (void)state;
    const ll_attention_config c = config(LL_KERNEL_EXP, 1, 2, 1);
    for (int T = 1; T <= 2; T++) {
        sequence s = {0};
        make(&s, &c, T, 12);
        const float q[] = {-90, 0, 0, 0}, k[] = {0, -60, 27, -60}, v[] = {7, 3};
        memcpy(s.call.q.data, q, (size_t)T * 2 * sizeof *q), memcpy(s.call.k.data, k, (size_t)T * 2 * sizeof *k);
        memcpy(s.call.v.data, v, (size_t)T * sizeof *v);
        forward(&s);
        assert_true(s.call.y.data[0] == 7);
        done(&s);
    }
}

/* Where divisors are too small for their inverse, y is 0, and so are all gradients. */
static void test_tiny_divisors(void **state) {
    (void)state;
    ll_attention_config c = config(LL_KERNEL_RELU, 1, 4, 3);
    sequence s = {0};
    c.decay = &(float){0.5f};
    make(&s, &c, 6, 13);
    for (int i = 0; i < 24; i++) s.call.q.data[i] *= 1e-19f, s.call.k.data[i] *= 1e-19f;
    forward(&s), backward(&s);
    for (int i = 0; i < 18; i++) assert_true(s.call.y.data[i] == 0 && s.call.dv.data[i] == 0);
    assert_true(*s.ddecay == 0), done(&s);
}

/* value saves nothing: backward takes no memory for it. */
static void test_backward_of_value(void **state) {
    (void)state;
    sequence s = {0};
    const ll_attention_config c = config(LL_KERNEL_VALUE, 1, 2, 2);
    make(&s, &c, 3, 11);
    assert_int_equal(ll_attention_saved(s.op, &s.call), 0);
    s.call.saved = NULL;
    forward(&s), backward(&s);
    assert_memory_equal(s.call.dv.data, s.call.g.data, 6 * sizeof(float));
    done(&s);
    const ll_attention_config softmax = config(LL_KERNEL_SOFTMAX, 1, 2, 2);
    sequence other = {0};
    make(&other, &softmax, 3, 11);
    other.call.saved = NULL;
    CHECK_FAILS(ll_attention_backward(other.op, &other.call), LL_EINVAL, "what forward saved");
    done(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding_behind_noise),
        cmocka_unit_test(test_padding_and_parameters),
        cmocka_unit_test(test_gate_that_shuts),
        cmocka_unit_test(test_gates_that_shut_in_chunks),
        cmocka_unit_test(test_masked_keys_without_numbers),
        cmocka_unit_test(test_distance_that_is_not_there),
        cmocka_unit_test(test_large_exponents),
        cmocka_unit_test(test_small_features_before_a_large_key),
        cmocka_unit_test(test_tiny_divisors),
        cmocka_unit_test(test_backward_of_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
