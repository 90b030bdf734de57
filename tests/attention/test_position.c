/* Positions that act on queries and keys, with every kernel: forward against the definition, gradients of all
 * parameters against central differences, streams in random blocks, random noise. */
#include "base/memory.h"
#include "drawn.h"
#include "oracle/oracle_position.h"

static const ll_position positions[] = {LL_POSITION_ROPE, LL_POSITION_ROPE_LINEAR, LL_POSITION_SINE_SPE,
                                        LL_POSITION_CONV_SPE, LL_POSITION_RELATIVE_S1};
enum { KERNELS = 7, POSITIONS = 5 };

/* A random call, its parameters in double, and the oracle's case on queries and keys with positions. */
typedef struct {
    drawn *d;
    double *parameter[ORACLE_PARAMETERS];
    float *stored[ORACLE_PARAMETERS], *gradient[ORACLE_PARAMETERS];
    oracle_case e;    /* with positions */
    oracle_top *tops; /* stabilisers are constants, which stay while elements change */
} placed;

static void set_kernel(ll_attention_config *c, int kernel) {
    static const ll_kernel kernels[KERNELS] = {LL_KERNEL_SOFTMAX, LL_KERNEL_RELU,  LL_KERNEL_ELU1, LL_KERNEL_FAVOR,
                                               LL_KERNEL_FAVOR,   LL_KERNEL_FAVOR, LL_KERNEL_EXP};
    const int is_rope_linear = c->position == LL_POSITION_ROPE_LINEAR;
    c->kernel = kernels[kernel];
    c->input_scale = 0.6f;
    if (c->kernel == LL_KERNEL_RELU) c->feature_eps = 0.01f;
    if (kernel >= 3) c->M = 12;
    if (kernel == 5) c->features = LL_FEATURES_HYPERBOLIC;
    c->query_max = LL_MAX_TOKEN;
    c->key_max = kernel != 4 || (c->causal && !is_rope_linear) ? LL_MAX_PREFIX : LL_MAX_SEQUENCE;
    if (kernel == 4) c->feature_eps = 0.01f;
}

/* Sizes and noise. `store` sets the parameters. */
static ll_attention_config configure(ll_position position, int kernel, int causal, int T, uint64_t *seed) {
    ll_attention_config c = {.position = position, .causal = causal, .H = 2, .D = 6, .E = 5};
    ll_position_config *w = &c.encoding;
    if (position == LL_POSITION_ROPE && draw_int(seed, 0, 1)) c.D = 7, w->rotary = 2 * draw_int(seed, 1, 3);
    if (position == LL_POSITION_ROPE && draw_int(seed, 0, 1)) /* of 3 pairs one turns often, and one seldom */
        w->base = 500, w->scaling = (ll_rope_scaling){8, draw_int(seed, 0, 1) ? 60 : 0, 0.5, 4};
    const int HD = c.H * c.D, image = !causal && draw_int(seed, 0, 1);
    set_kernel(&c, kernel);
    if (draw_int(seed, 0, 1) && c.kernel != LL_KERNEL_SOFTMAX) c.den = LL_DEN_EPS_L, c.den_eps = 0.01f;
    w->realizations = 8;
    w->sines = 2, w->taps = 3;
    w->noise_rows = T + 2, w->noise_cols = 1;
    w->scales = 2;
    w->axes = 1 + image;
    if (image) c.width = 5, c.height = T / 5 + 1, c.before = draw_int(seed, 0, 2);
    if (position == LL_POSITION_RELATIVE_S1 && !image) c.before = draw_int(seed, 0, 1);
    if (position == LL_POSITION_CONV_SPE && image) /* filters of one column are images, too */
        w->taps2 = draw_int(seed, 1, 2), w->noise_rows = c.height + 2, w->noise_cols = 4 + w->taps2;
    if (position == LL_POSITION_SINE_SPE) w->noise = drawn_normals(HD * 4 * 8, 1, seed);
    if (position == LL_POSITION_CONV_SPE) w->noise = drawn_normals(HD * w->noise_rows * w->noise_cols * 8, 1, seed);
    if (draw_int(seed, 0, 1))
        w->gate = w->gate_noise = drawn_normals(HD * 8, 1, seed); /* set_parameters sets w->gate */
    c.projection = c.M ? drawn_normals(c.M * oracle_width(&c), 1, seed) : NULL;
    return c;
}

static void encode(placed *p) {
    drawn *d = p->d;
    oracle_encode(&d->config, p->parameter, 0, d->o.B, d->o.T, d->o.q, p->e.q);
    oracle_encode(&d->config, p->parameter, 1, d->o.B, d->o.S, d->o.k, p->e.k);
}

static void set_parameters(placed *p) {
    float **const g = p->gradient, **const s = p->stored;
    ll_position_gradients *d = &p->d->call.dposition;
    d->freqs = g[0], d->offsets = g[1], d->gains = g[2], d->filter_q = g[3], d->filter_k = g[4];
    d->gate = g[5], d->inv_freq = g[6], d->alpha = g[7], d->beta = g[8];
    ll_position_config *w = &p->d->config.encoding;
    w->freqs = s[0], w->offsets = s[1], w->gains = s[2], w->filter_q = s[3], w->filter_k = s[4];
    w->gate = w->gate ? s[5] : NULL;
    w->inv_freq = s[6], w->alpha = s[7], w->beta = s[8];
}

static placed *create(ll_attention_config c, int B, int T, int S, int how, uint64_t *seed) {
    placed *p = calloc(1, sizeof *p);
    assert_non_null(p);
    const int W = oracle_width(&c);
    p->d = drawn_create(c, B, T, S, 0.8, how, seed);
    for (int i = 0; i < ORACLE_PARAMETERS; i++) {
        const int n = oracle_parameter_count(&c, i);
        p->stored[i] = drawn_normals(n, 0.7, seed);
        p->gradient[i] = drawn_normals(n, 0, seed);
        p->parameter[i] = calloc((size_t)n + 1, sizeof(double));
        for (int k = 0; k < n; k++) p->parameter[i][k] = (double)p->stored[i][k];
    }
    set_parameters(p);
    p->e = p->d->o;
    p->e.c.D = W;
    if (c.position != LL_POSITION_ROPE_LINEAR) p->e.c.position = LL_POSITION_NONE;
    p->e.q = calloc((size_t)(B * c.H * T * W), sizeof(double));
    p->e.k = calloc((size_t)(B * c.H * S * W), sizeof(double));
    p->tops = calloc((size_t)(2 * B * c.H * T), sizeof *p->tops);
    assert_true(p->e.q && p->e.k && p->tops);
    encode(p);
    oracle_tops(&p->e, p->tops, p->tops + B * c.H * T);
    return p;
}

static void destroy(placed *p) {
    for (int i = 0; i < ORACLE_PARAMETERS; i++) {
        free(p->stored[i]);
        free(p->gradient[i]);
        free(p->parameter[i]);
    }
    free((void *)p->d->config.encoding.noise);
    free((void *)p->d->config.encoding.gate_noise);
    free(p->e.q);
    free(p->e.k);
    free(p->tops);
    drawn_free(p->d);
    free(p);
}

static void solve(placed *p, double *y) {
    encode(p);
    oracle_forward(&p->e, p->tops, p->tops + p->e.B * p->e.c.H * p->e.T, y);
}

static double loss(placed *p) {
    const int n = p->e.B * p->e.c.H * p->e.T * p->e.c.E;
    double *y = calloc((size_t)n, sizeof *y), sum = 0;
    solve(p, y);
    for (int i = 0; i < n; i++) sum += y[i] * p->e.g[i];
    free(y);
    return sum;
}

static const char *name(const placed *p) {
    static const char *const names[] = {"rope", "rope-linear", "sine-spe", "conv-spe", "relative-s1"};
    static char text[500];
    snprintf(text, sizeof text, "%s%s axes %d before %d: %s", names[p->d->config.position - LL_POSITION_ROPE],
             p->d->config.encoding.gate ? " gated" : "", p->d->config.encoding.axes, p->d->config.before,
             drawn_name(p->d));
    return text;
}

/* Compares got (n) with central differences by x (n), at about `most` elements. The gradient of a parameter is a sum
 * over all tokens, whose terms are larger than the sum; below 0.05 rounding decides. */
static void check_differences(placed *p, const char *what, int n, double *x, const float *got, int most) {
    const double step = 1e-5;
    double worst = 0, scale = 0.05;
    for (int i = 0; i < n; i++) scale = fmax(scale, fabs((double)got[i]));
    for (int i = 0; i < n; i += 1 + n / most) {
        const double here = x[i];
        x[i] = here + step;
        const double up = loss(p);
        x[i] = here - step;
        const double down = loss(p);
        x[i] = here;
        const double error = abs_error((double)got[i], (up - down) / (2 * step));
        worst = fmax(worst, error);
    }
    if (!(worst <= 2e-4 * scale)) fail_msg("%s is wrong by %.3g of %.3g: %s", what, worst, scale, name(p));
}

static int legal(ll_position position, int kernel) {
    return position != LL_POSITION_ROPE_LINEAR || kernel != 0;
}

static void check_pair(ll_position position, int kernel, int causal, uint64_t *seed) {
    static const char *const parameters[] = {"dfreqs", "doffsets",  "dgains", "dfilter_q", "dfilter_k",
                                             "dgate",  "dinv_freq", "dalpha", "dbeta"};
    const int T = draw_int(seed, 3, 14), S = causal ? T : draw_int(seed, 3, 14);
    ll_attention_config c = configure(position, kernel, causal, T > S ? T : S, seed);
    placed *p = create(c, 2, T, S, draw_int(seed, 0, 7), seed);
    drawn *d = p->d;
    solve(p, d->y);
    drawn_run(d, draw_int(seed, 1, 9), 1);
    const double error = drawn_error(d, "y");
    if (!(error <= 2e-5)) fail_msg("y is wrong by %.3g: %s", error, name(p));
    check_differences(p, "dq", 2 * c.H * T * c.D, d->o.q, drawn_packed(d, &d->call.dq, T, c.D), 8);
    check_differences(p, "dk", 2 * c.H * S * c.D, d->o.k, drawn_packed(d, &d->call.dk, S, c.D), 8);
    check_differences(p, "dv", 2 * c.H * S * c.E, d->o.v, drawn_packed(d, &d->call.dv, S, c.E), 4);
    for (int i = 0; i < ORACLE_PARAMETERS; i++)
        check_differences(p, parameters[i], oracle_parameter_count(&d->config, i), p->parameter[i], p->gradient[i], 12);
    destroy(p);
}

static void test_gradients_of_every_pair(void **state) {
    (void)state;
    uint64_t seed = 56;
    for (int n = 0; n < rounds(40) * KERNELS; n++)
        for (int i = 0; i < POSITIONS; i++)
            if (legal(positions[i], n % KERNELS)) check_pair(positions[i], n % KERNELS, n / KERNELS % 2, &seed);
}

/* Lengths beyond the encoders' tiles, on several threads: the same bits, and the definition. */
static void test_long_sequences(void **state) {
    (void)state;
    uint64_t seed = 52;
    for (int i = 0; i < POSITIONS; i++)
        for (int T = 130; T <= (getenv("LL_FAST") ? 130 : 1200); T += 1070) {
            const int kernel = T > 1000 ? 1 : 3;
            placed *p = create(configure(positions[i], kernel, 1, T, &seed), 1, T, T, 0, &seed);
            solve(p, p->d->y);
            ll_set_threads(1);
            drawn_run(p->d, 0, 1);
            drawn_check(p->d, name(p), 0, 2e-5, 0);
            const size_t floats = (size_t)(p->d->config.H * T * p->d->config.D);
            float *one = calloc(floats, sizeof *one);
            memcpy(one, drawn_packed(p->d, &p->d->call.dq, T, p->d->config.D), floats * sizeof *one);
            ll_set_threads(3);
            drawn_run(p->d, 0, 1);
            assert_memory_equal(one, drawn_packed(p->d, &p->d->call.dq, T, p->d->config.D), floats * sizeof *one);
            free(one);
            ll_set_threads(0);
            destroy(p);
        }
}

/* With given noise or drawn noise, a stream in blocks of any size gives what the whole sequence gives. Drawn noise is
 * compared with a call only. */
static void check_stream(ll_position position, int kernel, int drawn_noise, uint64_t *seed) {
    const int T = draw_int(seed, 1, 150);
    placed *p = create(configure(position, kernel, 1, T, seed), 2, T, T, 0, seed);
    drawn *d = p->d;
    const float *noise = d->config.encoding.noise;
    solve(p, d->y);
    d->config.encoding.seed = 5;
    if (drawn_noise) {
        d->config.encoding.noise = NULL;
        drawn_run(d, 0, 0);
        const float *y = drawn_packed(d, &d->call.y, T, d->config.E);
        for (int i = 0; i < 2 * d->config.H * T * d->config.E; i++) d->y[i] = (double)y[i];
    }
    drawn_stream(d, name(p), kernel == 0, 2e-5, seed);
    d->config.encoding.noise = noise;
    destroy(p);
}

static void test_streams(void **state) {
    (void)state;
    uint64_t seed = 53;
    for (int n = 0; n < rounds(10) * 4; n++)
        for (int i = 0; i < POSITIONS; i++)
            if (legal(positions[i], n % 4)) check_stream(positions[i], n % 4, n / 4 % 2, &seed);
}

/* The first key is e^76 to e^148 times as large as those after it, and decays until they are all that is left. */
static void test_decay_of_the_largest_key(void **state) {
    (void)state;
    enum { T = 240, H = 2, D = 6 };
    static const float decay[H] = {0.3f, 0.5f};
    uint64_t seed = 55;
    ll_attention_config c = configure(LL_POSITION_ROPE_LINEAR, 3, 1, T, &seed);
    c.den = LL_DEN_SUM, c.decay = decay;
    placed *p = create(c, 1, T, T, 0, &seed);
    drawn *d = p->d;
    for (int row = 0; row < H * T; row++) {
        double *k = d->o.k + (size_t)row * D, square = 0;
        float *stored = ll_element(&d->call.k, 0, row / T, row % T);
        for (int e = 0; e < D; e++) square += k[e] * k[e];
        for (int e = 0; e < D; e++) k[e] = (double)(stored[e] = (float)(row % T ? 25 * k[e] / sqrt(square) : 0));
    }
    solve(p, d->y); /* no eps, so that any stabiliser is exact */
    for (int tile = 0; tile <= 16; tile += 8) {
        drawn_run(d, tile, 1);
        drawn_check(d, name(p), 0, 1e-4, 0);
        check_differences(p, "dq", H * T * D, d->o.q, drawn_packed(d, &d->call.dq, T, D), 12);
        check_differences(p, "ddecay", H, p->e.r, d->call.ddecay, H);
    }
    drawn_stream(d, name(p), 0, 1e-4, &seed);
    d->config.decay = NULL, destroy(p);
}

/* With many realizations the product of codes approaches its expectation, the sum of l^2 cos(2 pi f (i - j) + o) / 2K.
 * Another seed gives another sample of it. */
static void test_drawn_noise_means_its_kernel(void **state) {
    (void)state;
    enum { R = 8192 };
    const float freqs[] = {-1, 0.5f}, offsets[] = {0.3f, -1}, gains[] = {1, 0.4f}, one = 1;
    ll_attention_config c = {.kernel = LL_KERNEL_SOFTMAX, .H = 1, .D = 1, .E = 1, .causal = 1};
    c.input_scale = (float)(1 / sqrt(R)); /* q^.k^ has the factor R / sqrt(R D) */
    c.position = LL_POSITION_SINE_SPE;
    c.encoding = (ll_position_config){
        .realizations = R, .sines = 2, .freqs = freqs, .offsets = offsets, .gains = gains};
    double logit[2];
    for (int draw = 0; draw < 2; draw++) {
        ll_attention *op;
        float v[] = {0, 1}, y[2];
        const float x[] = {one, one};
        const ll_view in = {(float *)x, 2, 2, 1};
        c.encoding.seed = 11 + (uint64_t)draw;
        CHECK_OK(ll_attention_create(&op, &c));
        ll_attention_call call = {.B = 1, .T = 2, .S = 2, .q = in, .k = in, .v = {v, 2, 2, 1}, .y = {y, 2, 2, 1}};
        CHECK_OK(ll_attention_forward(op, &call));
        logit[draw] = log((double)y[1] / (1 - (double)y[1])); /* q1.k1 - q1.k0 */
        ll_attention_free(op);
    }
    double expected = 0;
    for (int t = 0; t < 2; t++) {
        const double f = 1 / (1 + exp(-(double)freqs[t])) / 2, l = log(1 + exp((double)gains[t]));
        const double near = cos((double)offsets[t]), far = cos(6.283185307179586 * f + (double)offsets[t]);
        expected += l * l * (near - far) / 4;
    }
    for (int draw = 0; draw < 2; draw++) assert_true(fabs(logit[draw] / expected - 1) < 0.15);
    assert_true(fabs(logit[0] - logit[1]) > 1e-6);
}

static void refuse(ll_attention_config c, const char *word) {
    ll_attention *op = NULL;
    CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, word);
    assert_null(op);
}

static void test_what_cannot_be(void **state) {
    (void)state;
    float some[64] = {0};
    ll_attention_config c = ll_attention_default();
    c.D = 5, c.position = LL_POSITION_ROPE;
    refuse(c, "odd");
    c.D = 8;
    c.encoding.scaling.factor = 0.5;
    refuse(c, "divided by 0.5; it must be at least 1");
    c.encoding.scaling = (ll_rope_scaling){8, 100, 4, 4};
    refuse(c, "needs 0 <= low < high");
    c.encoding.scaling = (ll_rope_scaling){8, -1, 1, 4};
    refuse(c, "a length of at least 0");
    c.position = LL_POSITION_ROPE_LINEAR;
    refuse(c, "softmax");
    c.kernel = LL_KERNEL_RELU;
    c.den = LL_DEN_EPS_PHI;
    refuse(c, "divisor");
    c.den = LL_DEN_SUM;
    c.position = LL_POSITION_SINE_SPE;
    refuse(c, "sines");
    c.encoding.sines = 2;
    refuse(c, "freqs");
    c.encoding.freqs = c.encoding.offsets = c.encoding.gains = some;
    refuse(c, "realizations");
    c.position = LL_POSITION_CONV_SPE;
    for (int taps = 0; taps <= 4097; taps += 4097) c.encoding.taps = taps, refuse(c, "taps");
    c.encoding.taps = 2, c.encoding.taps2 = 2, c.encoding.realizations = 4;
    c.encoding.filter_q = c.encoding.filter_k = some;
    refuse(c, "causal");
    c.causal = 0;
    refuse(c, "image size");
    c.position = LL_POSITION_RELATIVE_S1;
    refuse(c, "scales");
    c.encoding.scales = 2;
    refuse(c, "axes");
}

/* If given noise ends, the stream says so and is unchanged. Refused memory leaves nothing behind. */
static void test_ends(void **state) {
    (void)state;
    uint64_t seed = 54;
    placed *p = create(configure(LL_POSITION_CONV_SPE, 1, 1, 20, &seed), 1, 20, 20, 0, &seed);
    ll_attention_call *call = &p->d->call;
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &p->d->config));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    CHECK_OK(ll_attention_stream_feed(s, 20, call->q, call->k, call->v, (ll_view){0}, call->y));
    CHECK_FAILS(ll_attention_stream_feed(s, 1, call->q, call->k, call->v, (ll_view){0}, call->y), LL_EINVAL, "noise");
    ll_attention_stream_free(s);
    ll_attention_free(op);
    for (long n = 1;; n++) {
        ll_memory_fail_at(n);
        ll_status status = ll_attention_create(&op, &p->d->config);
        if (!status) {
            status = ll_attention_stream_create(&s, op, 1);
            if (!status) ll_attention_stream_free(s);
            if (!status) status = ll_attention_forward(op, call);
            ll_attention_free(op);
        }
        ll_memory_fail_at(0);
        if (!status) break;
        assert_int_equal(status, LL_ENOMEM);
    }
    destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_every_pair),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_decay_of_the_largest_key),
        cmocka_unit_test(test_drawn_noise_means_its_kernel),
        cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
