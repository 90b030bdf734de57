/* The attention operator against its definition in double (oracle.c), forward and backward: every kernel, position and
 * rule in random sizes, all tile sizes, and lengths one less, equal to and one more than tiles and chunks. */
#include "drawn.h"

/* The oracle's gradients agree with differences of its y, for every kernel and rule, with a maximum that is constant or
 * differentiated. */
static void test_oracle_against_differences(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int n = 0; n < rounds(150); n++) {
        ll_attention_config c = draw_config(&seed);
        const int T = draw_int(&seed, 1, 6), S = c.causal ? T : draw_int(&seed, 1, 6);
        drawn *d = drawn_create(c, 2, T, S, 0.7, draw_int(&seed, 0, 3), &seed);
        drawn_solve(d, 1);
        struct {
            const char *name;
            double *x, *dx;
            int n;
        } part[] = {{"q", d->o.q, d->dq, 2 * c.H * T * c.D},
                    {"k", d->o.k, d->dk, 2 * c.H * S * c.D},
                    {"v", d->o.v, d->dv, 2 * c.H * S * c.E},
                    {"r", d->o.r, d->dr, c.decay ? c.H : 0}};
        for (int p = 0; p < 4; p++) {
            double scale = 1e-2;
            for (int i = 0; i < part[p].n; i++) scale = fmax(scale, fabs(part[p].dx[i]));
            for (int i = 0; i < part[p].n; i += 1 + part[p].n / 12) {
                const double difference = oracle_difference(&d->o, part[p].x + i);
                if (!(fabs(difference - part[p].dx[i]) <= 1e-6 * scale))
                    fail_msg("case %d, d%s[%d] is %.9g, differences say %.9g: %s", n, part[p].name, i, part[p].dx[i],
                             difference, drawn_name(d));
            }
        }
        drawn_free(d);
    }
}

static void test_random_operators(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int n = 0; n < rounds(400); n++) {
        ll_attention_config c = draw_config(&seed);
        const int tile = draw_int(&seed, 1, 40), most = draw_int(&seed, 0, 3) ? 50 : 150;
        const int T = draw_int(&seed, 1, most), S = c.causal || draw_int(&seed, 0, 1) ? T : draw_int(&seed, 1, most);
        const int how = draw_int(&seed, 0, 7), B = draw_int(&seed, 1, 3);
        drawn *d = drawn_create(c, B, T, S, 0.8, how, &seed);
        char what[40];
        snprintf(what, sizeof what, "case %d, tile %d", n, tile);
        drawn_solve(d, 1);
        drawn_run(d, tile, 1);
        drawn_check(d, what, 1, 1e-5, 1e-4);
        drawn_free(d);
    }
}

enum { KINDS = 10 };

/* A small configuration that uses every feature of a kernel. */
static ll_attention_config edge_config(int kind, uint64_t *seed) {
    ll_attention_config c = {.kernel = LL_KERNEL_RELU, .causal = 1, .H = 2, .D = 12, .E = 10, .input_scale = 1};
    c.feature_eps = 1e-3f;
    if (kind == 0) c.position = LL_POSITION_PERMUTE;
    if (kind == 1) c.kernel = LL_KERNEL_FAVOR, c.M = 20, c.feature_eps = 0, c.input_scale = 0.5f;
    if (kind == 2) c.kernel = LL_KERNEL_FAVOR, c.M = 20, c.query_max = LL_MAX_TOKEN, c.input_scale = 0.5f;
    if (kind == 3) c.kernel = LL_KERNEL_SOFTMAX, c.input_scale = 0.3f, c.feature_eps = 0;
    if (kind == 4) c.causal = 0, c.position = LL_POSITION_PERMUTE2D, c.width = 7, c.height = 9, c.before = 1;
    if (kind == 5) c.kernel = LL_KERNEL_SOFTMAX, c.input_scale = 0.3f, c.feature_eps = 0, c.causal = 0;
    if (kind >= 6 && kind < 9) c.kernel = LL_KERNEL_FAVOR, c.M = 20, c.feature_eps = 0, c.input_scale = 0.1f;
    if (kind == 6) c.features = LL_FEATURES_HYPERBOLIC, c.position = LL_POSITION_PERMUTE, c.input_scale = 0.5f;
    if (kind == 7) c.features = LL_FEATURES_HYPERBOLIC, c.feature_eps = 1e-4f, c.input_scale = 0.5f;
    if (kind == 8) c.features = LL_FEATURES_TRIGONOMETRIC;
    if (kind == 9) c.kernel = LL_KERNEL_EXP, c.position = LL_POSITION_PERMUTE;
    draw_parts(&c, kind == 0 || kind == 1 || kind == 6 || kind == 8 || kind == 9, seed);
    return c;
}

/* Multiplies the keys from token `from` on by a power of two. */
static void enlarge_keys(drawn *d, int from, float factor) {
    double *of_oracle = (double *)d->o.k;
    for (int h = 0; h < d->config.H; h++)
        for (int t = 0; t < d->call.S; t++)
            for (int e = 0; e < d->config.D; e++, of_oracle++) {
                if (t < from) continue;
                *of_oracle *= (double)factor;
                ll_element(&d->call.k, 0, (size_t)h, (size_t)t)[e] *= factor;
            }
}

/* More keys or queries than one chunk sums (1024), with few of the others. Every fifth case has exponentials under
 * running scales, with late keys that are larger or smaller than early ones. Features of two signs are left out,
 * because some of thousands of sums would come near 0. */
static void test_sums_of_many(void **state) {
    (void)state;
    uint64_t seed = 8;
    for (int n = 0, done = 0; done < rounds(40); n++) {
        const int scales = n % 5 == 0;
        ll_attention_config c = scales ? edge_config(2, &seed) : draw_config(&seed);
        const int many = draw_int(&seed, 2000, 4000), few = draw_int(&seed, 1, 9), keys = n % 2;
        if (scales) c.causal = 0, c.feature_eps = 0;
        if (c.causal || c.kernel == LL_KERNEL_IDENTITY) {
            draw_config_free(&c);
            continue;
        }
        drawn *d = drawn_create(c, 1, keys ? few : many, keys ? many : few, 0.8, draw_int(&seed, 0, 7), &seed);
        char what[40];
        snprintf(what, sizeof what, "case %d, many %s", n, keys ? "keys" : "queries");
        if (scales) enlarge_keys(d, 1500, n % 4 < 2 ? 4 : 0.25F);
        drawn_solve(d, 1);
        drawn_run(d, draw_int(&seed, 5, 40), 1);
        drawn_check(d, what, 1, 1e-5, 1e-4);
        drawn_free(d);
        done++;
    }
}

static void test_edges_of_tiles(void **state) {
    (void)state;
    /* with these tiles a state is saved every 256 tokens */
    static const int tiles[] = {1, 2, 16, 64, 256}, lengths[] = {1, 15, 16, 17, 63, 65, 127, 129, 255, 257, 530};
    uint64_t seed = 3;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l += getenv("LL_FAST") ? 4 : 1) {
            drawn *d = drawn_create(edge_config(kind, &seed), 1, lengths[l], lengths[l], 0.8, 0, &seed);
            drawn_solve(d, 1);
            for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
                char what[40];
                snprintf(what, sizeof what, "kind %d, tile %d", kind, tiles[t]);
                drawn_run(d, tiles[t], 1);
                drawn_check(d, what, 1, 1e-5, 1e-4);
            }
            drawn_run(d, 0, 0); /* forward without backward, with the default tile */
            drawn_check(d, "default tile", 0, 1e-5, 0);
            drawn_free(d);
        }
}

/* A model uses one operator for many shapes in turn. */
static void test_shapes_in_turn(void **state) {
    (void)state;
    uint64_t seed = 4;
    static const int shapes[][2] = {{3, 40}, {1, 1}, {2, 100}, {5, 7}};
    for (int kind = 0; kind < KINDS; kind++) {
        ll_attention *op;
        ll_attention_config c = edge_config(kind, &seed);
        CHECK_OK(ll_attention_create(&op, &c));
        draw_config_free(&c); /* the operator has copies of both */
        c = op->c;
        for (int s = 0; s < 4; s++) {
            drawn *d = drawn_create(c, shapes[s][0], shapes[s][1], shapes[s][1], 0.8, s * 2, &seed);
            drawn_solve(d, 0);
            CHECK_OK(ll_attention_forward(op, &d->call));
            drawn_check(d, "one operator", 0, 1e-5, 0);
            d->config.projection = d->config.decay = NULL; /* NULL: the operator's own */
            d->config.permutation = NULL;
            drawn_free(d);
        }
        ll_attention_free(op);
    }
}

/* All floats of the tensors that this call writes. */
static float *everything(drawn *d, size_t *count) {
    const ll_view *v[] = {&d->call.y, &d->call.dq, &d->call.dk, &d->call.dv};
    const int T = d->call.T, S = d->call.S, n[] = {T, T, S, S};
    const int width[] = {d->config.E, d->config.D, d->config.D, d->config.E};
    float *all = calloc((size_t)(d->call.B * d->config.H * (T + S) * (d->config.D + d->config.E) + d->config.H), 4);
    assert_non_null(all);
    *count = 0;
    for (int i = 0; i < 4; i++) {
        const size_t floats = (size_t)(d->call.B * d->config.H * n[i] * width[i]);
        memcpy(all + *count, drawn_packed(d, v[i], n[i], width[i]), floats * sizeof *all);
        *count += floats;
    }
    memcpy(all + *count, d->call.ddecay, (size_t)d->config.H * sizeof *all);
    *count += (size_t)d->config.H;
    return all;
}

/* Runs case n on 1 thread, then on 2, 3 and 5. All must give the same bits. */
static void check_threads(int n, ll_attention_config c, int B, int T, int S, int tile, uint64_t *seed) {
    static const int threads[] = {1, 2, 3, 5};
    drawn *d = drawn_create(c, B, T, S, 0.8, draw_int(seed, 0, 3), seed);
    float *one = NULL;
    for (int t = 0; t < 4; t++) {
        size_t count;
        ll_set_threads(threads[t]);
        drawn_run(d, tile, 1);
        float *all = everything(d, &count);
        if (one && memcmp(one, all, count * sizeof *all))
            fail_msg("case %d: %d threads and 1 differ: %s", n, threads[t], drawn_name(d));
        free(one);
        one = all;
    }
    free(one);
    drawn_free(d);
    ll_set_threads(0);
}

static void test_threads_give_the_same_bits(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int n = 0; n < rounds(60); n++) {
        ll_attention_config c = draw_config(&seed);
        const int T = draw_int(&seed, 1, 120), S = c.causal ? T : draw_int(&seed, 1, 120);
        check_threads(n, c, draw_int(&seed, 1, 3), T, S, 16, &seed);
    }
}

/* Threads share a head if there are fewer heads than threads and the sequence has several chunks (16 tiles). */
static void test_threads_share_a_head(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int n = 0, done = 0; done < rounds(60); n++) {
        ll_attention_config c = draw_config(&seed);
        const int tile = draw_int(&seed, 1, 6), T = draw_int(&seed, 32 * tile, 90 * tile);
        if (c.causal && c.H < 3) done++;
        if (!c.causal || c.H > 2) {
            draw_config_free(&c);
            continue;
        }
        check_threads(n, c, 1, T, T, tile, &seed);
    }
}

/* The same without causality, where each thread takes chunks of 1024 queries or keys. */
static void test_threads_share_a_head_both_ways(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int n = 0, done = 0; done < rounds(24); n++) {
        ll_attention_config c = draw_config(&seed);
        if (c.causal || c.H > 2) {
            draw_config_free(&c);
            continue;
        }
        const int T = draw_int(&seed, 1, 6000), S = draw_int(&seed, T < 2048 ? 2048 : 1, 6000);
        check_threads(n, c, 1, T, S, draw_int(&seed, 5, 40), &seed);
        done++;
    }
}

/* A key of mask 0 may be of any size, also where its features are too large for a float. */
static void test_large_masked_keys(void **state) {
    (void)state;
    static const struct {
        ll_kernel kernel;
        ll_feature_kind features;
        ll_max key_max;
    } of[] = {{LL_KERNEL_FAVOR, LL_FEATURES_TRIGONOMETRIC, LL_MAX_SEQUENCE},
              {LL_KERNEL_FAVOR, LL_FEATURES_TRIGONOMETRIC, LL_MAX_NONE},
              {LL_KERNEL_FAVOR, LL_FEATURES_POSITIVE, LL_MAX_SEQUENCE},
              {LL_KERNEL_EXP, LL_FEATURES_POSITIVE, LL_MAX_PREFIX}};
    enum { N = 20, SIZE = 4, ALL = N * SIZE, ROWS = 6 };
    for (int n = 0; n < 16; n++) {
        uint64_t seed = 9;
        float x[8 * ALL], projection[ROWS * SIZE], mask[N], before[4 * ALL], ddecay[2] = {0}, decay = 0.9f;
        for (int i = 0; i < 8 * ALL; i++) x[i] = (float)(0.3 * draw_normal(&seed));
        for (int i = 0; i < ROWS * SIZE; i++) projection[i] = (float)draw_normal(&seed);
        for (int i = 0; i < N; i++) mask[i] = i % 3 != 0;
        ll_attention_config c = ll_attention_default();
        c.kernel = of[n % 4].kernel, c.features = of[n % 4].features, c.key_max = of[n % 4].key_max;
        c.D = c.E = SIZE, c.input_scale = 1, c.query_max = LL_MAX_TOKEN, c.den = LL_DEN_EPS, c.den_eps = 1e-3f;
        if (c.kernel == LL_KERNEL_FAVOR) c.M = ROWS, c.projection = projection;
        c.causal = n & 4 ? 1 : 0, c.max_gradient = n & 8 ? 1 : 0;
        if (c.causal) c.decay = &decay;
        ll_attention *op;
        CHECK_OK(ll_attention_create(&op, &c));
        ll_attention_call call = {.B = 1, .T = N, .S = N, .key_mask = mask};
        ll_view *const views[] = {&call.y, &call.dq, &call.dk, &call.dv, &call.q, &call.k, &call.v, &call.g};
        for (int i = 0; i < 8; i++) *views[i] = (ll_view){x + i * ALL, ALL, ALL, SIZE};
        call.saved = calloc(ll_attention_saved(op, &call) + 1, sizeof(float));
        for (int large = 0; large < 2; large++) {
            for (int i = 0; i < ALL && large; i++)
                if (mask[i / SIZE] == 0) x[5 * ALL + i] = 100;
            call.ddecay = ddecay + large;
            CHECK_OK(ll_attention_forward(op, &call));
            CHECK_OK(ll_attention_backward(op, &call));
            if (!large) memcpy(before, x, sizeof before);
        }
        for (int i = 0; i < 4 * ALL; i++)
            if (!(before[i] == x[i])) /* not NaN either */
                fail_msg("case %d: number %d is %g, and %g with small keys", n, i, (double)x[i], (double)before[i]);
        assert_true(ddecay[0] == ddecay[1]);
        free(call.saved);
        ll_attention_free(op);
    }
}

/* Reformer with a position reads no keys and writes no gradient of keys that the call does not have. */
static void test_reformer_without_dk(void **state) {
    (void)state;
    enum { N = 9, SIZE = 4 };
    float x[7][N * SIZE] = {{0}};
    ll_attention_config c = ll_attention_default();
    c.kernel = LL_KERNEL_REFORMER, c.position = LL_POSITION_ROPE, c.D = c.E = SIZE;
    c.approximate.buckets = 4, c.approximate.chunk = 4, c.approximate.rounds = 1;
    ll_attention *op;
    CHECK_OK(ll_attention_create(&op, &c));
    for (int i = 0; i < N * SIZE; i++) x[0][i] = x[1][i] = x[2][i] = x[3][i] = (float)(i % 5) - 2;
    ll_attention_call call = {.B = 1, .T = N, .S = N};
    ll_view *const views[] = {&call.q, &call.k, &call.v, &call.g, &call.y, &call.dq, &call.dv};
    for (int i = 0; i < 7; i++) *views[i] = (ll_view){x[i], N * SIZE, N * SIZE, SIZE};
    call.saved = calloc(ll_attention_saved(op, &call) + 1, sizeof(float));
    for (int keys = 1; keys >= 0; keys--) {
        if (!keys) call.k.data = NULL;
        CHECK_OK(ll_attention_forward(op, &call));
        CHECK_OK(ll_attention_backward(op, &call));
    }
    free(call.saved);
    ll_attention_free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle_against_differences),
        cmocka_unit_test(test_random_operators),
        cmocka_unit_test(test_sums_of_many),
        cmocka_unit_test(test_edges_of_tiles),
        cmocka_unit_test(test_shapes_in_turn),
        cmocka_unit_test(test_threads_give_the_same_bits),
        cmocka_unit_test(test_threads_share_a_head),
        cmocka_unit_test(test_threads_share_a_head_both_ways),
        cmocka_unit_test(test_large_masked_keys),
        cmocka_unit_test(test_reformer_without_dk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
