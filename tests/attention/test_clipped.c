/* Heads without keys (relative-s2), also beside heads with keys, against their definition in double: the weight of each
 * pair of tokens by its distance. Forward in tiles, gradients of all parameters, streams. */
#include "attention/feature/feature_map.h"
#include "base/memory.h"
#include "drawn.h"
#include "oracle/oracle_clipped.h"

enum { KERNELS = 11 };

/* A random call, the vectors in double, and the stabilisers. Stabilisers are constants, so they are kept while elements
 * change. */
typedef struct {
    drawn *d;
    int n; /* how many numbers the vectors have */
    double *rpe;
    float *stored, *gradient;
    oracle_top *tops; /* stabilisers of queries, then of keys (B, H, T) */
} clipped;

static int is_keyed(const ll_attention_config *c, int h) {
    return h < c->H - c->encoding.keyless;
}

static void solve(clipped *p, double *y) {
    oracle_clipped(&p->d->config, p->rpe, &p->d->o, p->tops, y);
}

static double loss(clipped *p) {
    const int n = p->d->o.B * p->d->o.c.H * p->d->o.T * p->d->o.c.E;
    double *y = calloc((size_t)n, sizeof *y), sum = 0;
    solve(p, y);
    for (int i = 0; i < n; i++) sum += y[i] * p->d->o.g[i];
    free(y);
    return sum;
}

static ll_attention_config configure(int kernel, int causal, int T, uint64_t *seed) {
    static const ll_kernel kernels[KERNELS] = {LL_KERNEL_SOFTMAX, LL_KERNEL_FAVOR, LL_KERNEL_FAVOR, LL_KERNEL_FAVOR,
                                               LL_KERNEL_RELU,    LL_KERNEL_ELU1,  LL_KERNEL_EXP,   LL_KERNEL_SQUARE,
                                               LL_KERNEL_SIGMOID, LL_KERNEL_FAVOR, LL_KERNEL_FAVOR};
    static const ll_den dens[] = {LL_DEN_SUM, LL_DEN_EPS, LL_DEN_EPS_PHI, LL_DEN_EPS_L, LL_DEN_NONE};
    ll_attention_config c = {.position = LL_POSITION_RELATIVE_S2,
                             .causal = causal,
                             .H = draw_int(seed, 1, 3),
                             .D = 5,
                             .E = 4,
                             .kernel = kernels[kernel],
                             .input_scale = 0.6f};
    c.encoding.clip = draw_int(seed, 1, 5);
    c.encoding.keyless = draw_int(seed, 1, c.H);
    c.encoding.axes = draw_int(seed, 1, 2);
    c.before = draw_int(seed, 0, 1);
    if (c.encoding.axes == 2) c.width = draw_int(seed, 1, 5), c.height = T / c.width - draw_int(seed, 0, 1);
    if (c.height < 1) c.height = 1;
    if (c.kernel == LL_KERNEL_FAVOR || kernel >= 6) c.M = 7;
    if (kernel == 2) c.features = LL_FEATURES_HYPERBOLIC;
    if (kernel == 9) c.features = LL_FEATURES_TRIGONOMETRIC, c.input_scale = 0.3f;
    c.query_max = LL_MAX_TOKEN;
    c.key_max = draw_int(seed, 0, 1) ? LL_MAX_PREFIX : LL_MAX_SEQUENCE;
    if (kernel == 3) c.feature_eps = 0.02f, c.key_max = causal ? LL_MAX_PREFIX : LL_MAX_SEQUENCE;
    if (c.kernel == LL_KERNEL_RELU || c.kernel == LL_KERNEL_SQUARE) c.feature_eps = 0.05f;
    if (draw_int(seed, 0, 1) && kernel) c.den = dens[draw_int(seed, 0, 4)], c.den_eps = 0.05f;
    if (c.kernel == LL_KERNEL_FAVOR && !ll_scale_cancels(&c)) c.key_max = causal ? LL_MAX_PREFIX : LL_MAX_SEQUENCE;
    if (kernel == 10) c.query_max = c.key_max = LL_MAX_NONE;
    c.projection = c.M ? drawn_normals(c.M * c.D, 1, seed) : NULL;
    return c;
}

static clipped *create(ll_attention_config c, int B, int T, int S, int how, double spread, uint64_t *seed) {
    clipped *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->n = (c.encoding.clip + 1) * c.D;
    p->stored = drawn_normals(p->n, spread, seed);
    p->gradient = drawn_normals(p->n, 0, seed);
    p->rpe = calloc((size_t)p->n, sizeof *p->rpe);
    for (int i = 0; i < p->n; i++) p->rpe[i] = (double)p->stored[i];
    c.encoding.rpe = p->stored;
    p->d = drawn_create(c, B, T, S, 0.8, how, seed);
    p->d->call.dposition.rpe = p->gradient;
    p->tops = calloc((size_t)(2 * B * c.H * T), sizeof *p->tops);
    assert_true(p->rpe && p->tops);
    solve(p, NULL);
    solve(p, p->d->y);
    return p;
}

static void destroy(clipped *p) {
    drawn_free(p->d);
    free(p->rpe), free(p->stored), free(p->gradient), free(p->tops), free(p);
}

static const char *name(const clipped *p) {
    static char text[500];
    const ll_attention_config *c = &p->d->config;
    snprintf(text, sizeof text, "clip %d keyless %d axes %d image %d x %d before %d: %s", c->encoding.clip,
             c->encoding.keyless, c->encoding.axes, c->width, c->height, c->before, drawn_name(p->d));
    return text;
}

/* Compares got (n) with central differences by x (n), at about `most` elements. tokens: those of dk; 0 for other
 * tensors. */
static void check_differences(clipped *p, const char *what, int n, double *x, const float *got, int most, int tokens) {
    const double step = 1e-5;
    double worst = 0, scale = 0.05;
    const ll_attention_config *c = &p->d->config;
    uint64_t seed = 77 + (uint64_t)n;
    for (int i = draw_int(&seed, 0, n / most); i < n; i += 1 + n / most) {
        if (tokens && !is_keyed(c, i / (tokens * c->D) % c->H)) continue; /* heads without keys have no dk */
        const double here = x[i];
        x[i] = here + step;
        const double up = loss(p);
        x[i] = here - step;
        const double down = loss(p);
        x[i] = here;
        const double expected = (up - down) / (2 * step), error = abs_error((double)got[i], expected);
        scale = fmax(scale, fabs(expected));
        worst = fmax(worst, error);
    }
    if (!(worst <= 2e-4 * scale)) fail_msg("%s is wrong by %.3g of %.3g: %s", what, worst, scale, name(p));
}

static void check_pair(int kernel, int causal, uint64_t *seed) {
    const int T = draw_int(seed, 1, 24), S = causal || draw_int(seed, 0, 1) ? T : draw_int(seed, 1, 24);
    clipped *p = create(configure(kernel, causal, T, seed), 2, T, S, draw_int(seed, 0, 7), 0.7, seed);
    drawn *d = p->d;
    const ll_attention_config c = d->config;
    drawn_run(d, draw_int(seed, 1, 9), 1);
    const double error = drawn_error(d, "y");
    if (!(error <= 3e-5)) fail_msg("y is wrong by %.3g: %s", error, name(p));
    check_differences(p, "dq", 2 * c.H * T * c.D, d->o.q, drawn_packed(d, &d->call.dq, T, c.D), 8, 0);
    check_differences(p, "dk", 2 * c.H * S * c.D, d->o.k, drawn_packed(d, &d->call.dk, S, c.D), 8, S);
    check_differences(p, "dv", 2 * c.H * S * c.E, d->o.v, drawn_packed(d, &d->call.dv, S, c.E), 8, 0);
    check_differences(p, "drpe", p->n, p->rpe, p->gradient, 12, 0);
    destroy(p);
}

static void test_gradients_of_every_kernel(void **state) {
    (void)state;
    uint64_t seed = 61;
    for (int n = 0; n < rounds(20) * KERNELS; n++)
        for (int causal = 0; causal < 2; causal++) check_pair(n % KERNELS, causal, &seed);
}

/* Every key is near. Then the weights of far keys must not matter, although they are e^40 times as large, or e^100
 * times: a difference of sums with them would have no accurate digit left. */
static void test_nothing_is_far(void **state) {
    (void)state;
    uint64_t seed = 62;
    for (int n = 0; n < 4; n++) {
        const int causal = n / 2, near = n % 2 ? -15 : 0;
        ll_attention_config c = {.position = LL_POSITION_RELATIVE_S2, .causal = causal, .H = 1, .D = 4, .E = 3};
        c.kernel = LL_KERNEL_SOFTMAX, c.input_scale = 1;
        c.encoding = (ll_position_config){.clip = 6, .keyless = 1, .axes = 1};
        clipped *p = create(c, 1, 6, 6, 0, 0.5, &seed);
        for (int t = 0; t < 6; t++) p->d->call.q.data[(size_t)t * p->d->call.q.token] = 4, p->d->o.q[t * 4] = 4;
        for (int t = 0; t < 6 * 4; t += 4) p->stored[t] += (float)near, p->rpe[t] += near;
        p->stored[6 * 4] = 10, p->rpe[6 * 4] = 10;
        solve(p, p->d->y);
        drawn_run(p->d, 0, 1);
        drawn_check(p->d, name(p), 0, 1e-5, 0);
        check_differences(p, "drpe", p->n, p->rpe, p->gradient, 40, 0);
        destroy(p);
    }
}

static float *kept(drawn *d, const ll_view *v, int n, int width) {
    const size_t size = (size_t)(d->call.B * d->config.H * n * width) * sizeof(float);
    float *x = malloc(size + 1);
    assert_non_null(x);
    return memcpy(x, drawn_packed(d, v, n, width), size);
}

/* The bits do not depend on the number of threads, and those of a causal y not on later tokens. */
static void test_same_bits(void **state) {
    (void)state;
    uint64_t seed = 63;
    for (int n = 0; n < rounds(30); n++) {
        const int T = draw_int(&seed, 2, 200), cut = draw_int(&seed, 1, T - 1), causal = n % 2;
        ll_attention_config c = configure(n % KERNELS, causal, T, &seed);
        clipped *p = create(c, 2, T, T, 0, 0.7, &seed);
        drawn *d = p->d;
        memset(p->gradient, 0, (size_t)p->n * sizeof(float));
        ll_set_threads(1);
        drawn_run(d, n % 3 * 16, 1);
        float *y = kept(d, &d->call.y, T, c.E), *dv = kept(d, &d->call.dv, T, c.E);
        float *rpe = memcpy(drawn_normals(p->n, 0, &seed), p->gradient, (size_t)p->n * sizeof(float));
        memset(p->gradient, 0, (size_t)p->n * sizeof(float));
        ll_set_threads(3);
        drawn_run(d, n % 3 * 16, 1);
        const size_t bytes = (size_t)(2 * c.H * T * c.E) * sizeof(float);
        assert_memory_equal(y, drawn_packed(d, &d->call.y, T, c.E), bytes);
        assert_memory_equal(dv, drawn_packed(d, &d->call.dv, T, c.E), bytes);
        assert_memory_equal(rpe, p->gradient, (size_t)p->n * sizeof(float));
        const ll_view *v = &d->call.v;
        for (size_t b = 0; b < 2; b++)
            for (size_t h = 0; h < (size_t)c.H; h++)
                for (size_t t = (size_t)cut; t < (size_t)T; t++)
                    v->data[b * v->batch + h * v->head + t * v->token] *= -9;
        if (causal) drawn_run(d, n % 3 * 16, 0);
        const float *after = drawn_packed(d, &d->call.y, T, c.E);
        for (int h = 0; h < 2 * c.H && causal; h++)
            if (memcmp(y + h * T * c.E, after + h * T * c.E, (size_t)(cut * c.E) * sizeof(float)))
                fail_msg("tokens from %d on change what came before: %s", cut, name(p));
        free(y), free(dv), free(rpe);
        destroy(p);
    }
    ll_set_threads(0);
}

static void test_streams(void **state) {
    (void)state;
    uint64_t seed = 64;
    for (int n = 0; n < rounds(10) * KERNELS; n++) {
        const int T = draw_int(&seed, 1, 150);
        clipped *p = create(configure(n % KERNELS, 1, T, &seed), 2, T, T, 0, 0.7, &seed);
        drawn_stream(p->d, name(p), p->d->config.kernel == LL_KERNEL_SOFTMAX, 3e-5, &seed);
        destroy(p);
    }
}

static void test_what_cannot_be(void **state) {
    (void)state;
    const float some[64] = {0}, one[2] = {1, 1};
    const ll_attention_config base = {.position = LL_POSITION_RELATIVE_S2,
                                      .kernel = LL_KERNEL_RELU,
                                      .H = 2,
                                      .D = 2,
                                      .E = 2,
                                      .input_scale = 1,
                                      .causal = 1,
                                      .encoding = {.clip = 3, .keyless = 1, .axes = 1, .rpe = some}};
    ll_attention_config c;
    ll_attention *op;
    REFUSED(base, c.encoding.clip = 0, "clip");
    REFUSED(base, c.encoding.clip = 256, "clip");
    for (int clip = 1; clip < 256; clip += 254) { /* the least and the most */
        c = base, c.encoding.clip = clip;
        CHECK_OK(ll_attention_create(&op, &c));
        ll_attention_free(op);
    }
    REFUSED(base, c.encoding.keyless = 3, "heads");
    REFUSED(base, c.encoding.keyless = 0, "heads");
    REFUSED(base, c.encoding.rpe = NULL, "vectors");
    REFUSED(base, c.encoding.axes = 0, "axes");
    REFUSED(base, c.encoding.axes = 2, "image size");
    REFUSED(base, c.before = -1, "position");
    REFUSED(base, c.decay = one, "decay");
    REFUSED(base, (c.kernel = LL_KERNEL_FAVOR, c.features = LL_FEATURES_TRIGONOMETRIC, c.M = 2, c.projection = some,
             c.den = LL_DEN_NONE, c.query_max = LL_MAX_SEQUENCE, c.key_max = LL_MAX_SEQUENCE),
            "token");
    uint64_t seed = 65;
    clipped *p = create(configure(1, 1, 20, &seed), 1, 20, 20, 0, 0.7, &seed);
    drawn_without_memory(p->d);
    destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_every_kernel),
        cmocka_unit_test(test_nothing_is_far),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
