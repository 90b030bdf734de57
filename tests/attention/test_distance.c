/* Exact attention with T5's bias and Shaw's vectors against the definitions in double: each pair of tokens by its
 * distance. Tiles, gradients of all parameters, streams, bits. */
#include "base/memory.h"
#include "drawn.h"

enum { BIAS, KEYS, VALUES, PARAMETERS };

typedef struct {
    drawn *d;
    int n[PARAMETERS];
    double *parameter[PARAMETERS];
    float *stored[PARAMETERS], *gradient[PARAMETERS];
} placed;

static ll_attention_config configure(int t5, int causal, uint64_t *seed) {
    ll_attention_config c = {.kernel = LL_KERNEL_SOFTMAX, .position = t5 ? LL_POSITION_T5 : LL_POSITION_SHAW};
    c.causal = causal, c.H = draw_int(seed, 1, 3), c.D = draw_int(seed, 1, 20), c.E = draw_int(seed, 1, 20);
    c.input_scale = 0.4f;
    c.encoding.clip = draw_int(seed, 0, 2) ? draw_int(seed, 1, 6) : 40;
    return c;
}

/* which: Shaw's vectors of keys (1), of values (2), or both (3). */
static placed *create(ll_attention_config c, int which, int B, int T, int S, int how, uint64_t *seed) {
    placed *p = calloc(1, sizeof *p);
    assert_non_null(p);
    const int t5 = c.position == LL_POSITION_T5, n = c.encoding.clip * (c.causal ? 1 : 2) + 1;
    p->n[BIAS] = t5 ? 32 * c.H : 0;
    p->n[KEYS] = !t5 && which & 1 ? n * c.D : 0;
    p->n[VALUES] = !t5 && which & 2 ? n * c.E : 0;
    for (int i = 0; i < PARAMETERS; i++) {
        p->stored[i] = drawn_normals(p->n[i], 0.8, seed);
        p->gradient[i] = drawn_normals(p->n[i], 0, seed);
        p->parameter[i] = calloc((size_t)p->n[i] + 1, sizeof(double));
        for (int k = 0; k < p->n[i]; k++) p->parameter[i][k] = (double)p->stored[i][k];
    }
    c.encoding.bias = t5 ? p->stored[BIAS] : NULL;
    c.encoding.distance_k = p->n[KEYS] ? p->stored[KEYS] : NULL;
    c.encoding.distance_v = p->n[VALUES] ? p->stored[VALUES] : NULL;
    p->d = drawn_create(c, B, T, S, 1, how, seed);
    p->d->call.dposition.bias = p->gradient[BIAS];
    p->d->call.dposition.distance_k = p->gradient[KEYS];
    p->d->call.dposition.distance_v = p->gradient[VALUES];
    oracle_case *o = &p->d->o;
    o->bias = t5 ? p->parameter[BIAS] : NULL;
    o->distance_k = p->n[KEYS] ? p->parameter[KEYS] : NULL;
    o->distance_v = p->n[VALUES] ? p->parameter[VALUES] : NULL;
    drawn_solve(p->d, 0);
    return p;
}

static void destroy(placed *p) {
    for (int i = 0; i < PARAMETERS; i++) free(p->stored[i]), free(p->gradient[i]), free(p->parameter[i]);
    drawn_free(p->d);
    free(p);
}

static const char *name(const placed *p) {
    static char text[500];
    snprintf(text, sizeof text, "%s clip %d%s%s: %s", p->n[BIAS] ? "t5" : "shaw", p->d->config.encoding.clip,
             p->n[KEYS] ? " keys" : "", p->n[VALUES] ? " values" : "", drawn_name(p->d));
    return text;
}

/* Compares got (n) with central differences by x (n), at about `most` elements. */
static void check_differences(placed *p, const char *what, int n, double *x, const float *got, int most) {
    double worst = 0, scale = 0.05;
    uint64_t seed = (uint64_t)n;
    for (int i = draw_int(&seed, 0, n / most); i < n; i += 1 + n / most) {
        const double expected = oracle_difference(&p->d->o, x + i), error = abs_error((double)got[i], expected);
        scale = fmax(scale, fabs(expected));
        worst = fmax(worst, error);
    }
    if (!(worst <= 2e-4 * scale)) fail_msg("%s is wrong by %.3g of %.3g: %s", what, worst, scale, name(p));
}

static void check_gradients(placed *p, int tile) {
    static const char *const names[] = {"dbias", "ddistance_k", "ddistance_v"};
    drawn *d = p->d;
    const int B = d->call.B, H = d->config.H, T = d->call.T, S = d->call.S, D = d->config.D, E = d->config.E;
    drawn_run(d, tile, 1);
    drawn_check(d, name(p), 0, 2e-5, 0);
    check_differences(p, "dq", B * H * T * D, d->o.q, drawn_packed(d, &d->call.dq, T, D), 8);
    check_differences(p, "dk", B * H * S * D, d->o.k, drawn_packed(d, &d->call.dk, S, D), 8);
    check_differences(p, "dv", B * H * S * E, d->o.v, drawn_packed(d, &d->call.dv, S, E), 4);
    for (int i = 0; i < PARAMETERS; i++)
        check_differences(p, names[i], p->n[i], p->parameter[i], p->gradient[i], p->n[i] > 200 ? 60 : p->n[i] + 1);
}

static void test_gradients(void **state) {
    (void)state;
    uint64_t seed = 71;
    for (int n = 0; n < rounds(60); n++)
        for (int causal = 0; causal < 2; causal++) {
            const int T = draw_int(&seed, 1, 30), S = causal ? T : draw_int(&seed, 1, 30);
            const int lengths = draw_int(&seed, 0, 1) * DRAW_LENGTHS;
            const int how = lengths | draw_int(&seed, 0, 1) * DRAW_TOKEN_MAJOR;
            placed *p = create(configure(n % 4 == 0, causal, &seed), n % 4, 2, T, S, how, &seed);
            check_gradients(p, draw_int(&seed, 1, 9));
            destroy(p);
        }
}

/* Distances beyond the last bucket, and several tiles of the default size, in both ways in which backward passes over
 * tiles. */
static void test_far(void **state) {
    (void)state;
    uint64_t seed = 72;
    for (int n = 0; n < (getenv("LL_FAST") ? 2 : 4); n++) {
        ll_attention_config c = configure(n / 2, n % 2, &seed);
        c.H = 1 + n % 3, c.D = c.E = 3;
        placed *p = create(c, 3, 1, 300, n % 2 ? 300 : 270, 0, &seed);
        check_gradients(p, 0);
        destroy(p);
    }
}

/* All that backward writes, one after the other. */
static float *results(placed *p, size_t *floats) {
    drawn *d = p->d;
    const ll_view *v[] = {&d->call.y, &d->call.dq, &d->call.dk, &d->call.dv};
    const int T = d->call.T, S = d->call.S, D = d->config.D, E = d->config.E;
    const int n[] = {T, T, S, S}, w[] = {E, D, D, E};
    float *all = malloc(((size_t)(d->call.B * d->config.H * (T + S) * (D + E)) + 4096) * sizeof *all), *to = all;
    for (int i = 0; i < 4; i++) {
        const size_t size = (size_t)(d->call.B * d->config.H * n[i] * w[i]);
        memcpy(to, drawn_packed(d, v[i], n[i], w[i]), size * sizeof *to);
        to += size;
    }
    for (int i = 0; i < PARAMETERS; i++) {
        memcpy(to, p->gradient[i], (size_t)p->n[i] * sizeof *to);
        to += p->n[i];
    }
    *floats = (size_t)(to - all);
    return all;
}

/* Backward passes over the tiles once or twice, as the numbers of heads and threads are. The bits are the same. */
static void test_threads(void **state) {
    (void)state;
    uint64_t seed = 73;
    static const int threads[] = {1, 2, 5};
    for (int n = 0; n < rounds(20); n++) {
        const int causal = n % 2, T = draw_int(&seed, 1, 400), S = causal ? T : draw_int(&seed, 1, 400);
        ll_attention_config c = configure(n % 4 < 2, causal, &seed);
        placed *p = create(c, 3, 1, T, S, 0, &seed);
        float *first = NULL;
        for (int t = 0; t < 3; t++) {
            size_t floats;
            ll_set_threads(threads[t]);
            for (int i = 0; i < PARAMETERS; i++) memset(p->gradient[i], 0, (size_t)p->n[i] * sizeof(float));
            drawn_run(p->d, n % 3 * 16, 1);
            float *all = results(p, &floats);
            if (first && memcmp(first, all, floats * sizeof *all))
                fail_msg("%d threads give other bits: %s", threads[t], name(p));
            if (first) free(all);
            if (!first) first = all;
        }
        free(first);
        destroy(p);
    }
    ll_set_threads(0);
}

/* A padded batch gives the same bits as its sequences alone, and later tokens change no bit of a causal y. */
static void test_padding_and_later_tokens(void **state) {
    (void)state;
    uint64_t seed = 74;
    for (int n = 0; n < rounds(20); n++) {
        const int causal = n % 2, T = draw_int(&seed, 2, 300);
        placed *p = create(configure(n % 4 < 2, causal, &seed), 3, 2, T, T, DRAW_LENGTHS, &seed);
        drawn *d = p->d;
        const int used = d->call.lengths[0];
        const size_t row = (size_t)d->config.E * sizeof(float);
        float *y = malloc((size_t)(2 * d->config.H * T) * row);
        drawn_run(d, 0, 0);
        memcpy(y, drawn_packed(d, &d->call.y, T, d->config.E), (size_t)(2 * d->config.H * T) * row);
        const int *lengths = d->call.lengths;
        d->call.lengths = NULL;
        d->call.T = d->call.S = used;
        d->call.B = 1;
        drawn_run(d, 0, 0);
        for (int h = 0; h < d->config.H; h++)
            for (int i = 0; i < used; i++)
                if (memcmp(y + (h * T + i) * d->config.E,
                           d->call.y.data + (size_t)h * d->call.y.head + (size_t)i * d->call.y.token, row))
                    fail_msg("padding changes token %d of %d: %s", i, used, name(p));
        if (causal && used > 1) { /* without the last token */
            d->call.T = d->call.S = used - 1;
            drawn_run(d, 0, 0);
            for (int h = 0; h < d->config.H; h++)
                if (memcmp(y + h * T * d->config.E, d->call.y.data + (size_t)h * d->call.y.head, row))
                    fail_msg("a later token changes the first: %s", name(p));
        }
        d->call.lengths = lengths;
        d->call.T = d->call.S = T;
        d->call.B = 2;
        free(y);
        destroy(p);
    }
}

static void test_streams(void **state) {
    (void)state;
    uint64_t seed = 75;
    for (int n = 0; n < rounds(30); n++) {
        const int T = draw_int(&seed, 1, 400);
        placed *p = create(configure(n % 4 == 0, 1, &seed), n % 4, 2, T, T, 0, &seed);
        drawn_stream(p->d, name(p), 1, 2e-5, &seed);
        destroy(p);
    }
}

static void test_what_cannot_be(void **state) {
    (void)state;
    const float some[64] = {0};
    const int32_t pair[2] = {1, 0};
    const ll_attention_config t5 = {
        .position = LL_POSITION_T5, .H = 1, .D = 2, .E = 2, .input_scale = 1, .encoding = {.bias = some}};
    const ll_attention_config shaw = {.position = LL_POSITION_SHAW,
                                      .H = 1,
                                      .D = 2,
                                      .E = 2,
                                      .input_scale = 1,
                                      .encoding = {.clip = 4, .distance_k = some}};
    ll_attention_config c;
    ll_attention *op;
    REFUSED(t5, c.kernel = LL_KERNEL_RELU, "use softmax");
    REFUSED(shaw, c.kernel = LL_KERNEL_ELU1, "use softmax");
    REFUSED(t5, c.encoding.bias = NULL, "biases");
    REFUSED(t5, c.permutation = pair, "permut");
    REFUSED(shaw, c.encoding.clip = 0, "clips");
    REFUSED(shaw, c.encoding.clip = 256, "clips");
    REFUSED(shaw, c.encoding.distance_k = NULL, "vectors");
    for (int clip = 1; clip < 256; clip += 254) { /* the least and the most */
        c = shaw, c.encoding.clip = clip;
        CHECK_OK(ll_attention_create(&op, &c));
        ll_attention_free(op);
    }
    uint64_t seed = 76;
    for (int kind = 0; kind < 2; kind++) {
        placed *p = create(configure(kind, 1, &seed), 3, 1, 20, 20, 0, &seed);
        drawn_without_memory(p->d);
        destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_far),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_padding_and_later_tokens),
        cmocka_unit_test(test_streams),   cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
