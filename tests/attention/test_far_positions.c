/* Positions beyond 2^31: attention that depends on distances gives the same wherever a sequence begins, in calls and in
 * streams. Also extreme lengths: sequences of 0 and 1 tokens, rows whose keys are all masked, decay over a gap; parts
 * of a head's noise. */
#include "attention/attention_stream.h"
#include "attention/linear/linear.h"
#include "attention/position/postmap.h"
#include "attention/position/rotation.h"
#include "attention/position/spe.h"
#include "base/memory.h"
#include "drawn.h"
#include "test.h"

enum { H = 2, D = 8, E = 4, T = 70, M = 12 };
/* The last begins before digits of the position change (position/rotation.c). */
static const int64_t begins[] = {INT64_C(2147483640), INT64_C(1) << 33, (INT64_C(1) << 40) + 12345,
                                 (INT64_C(1) << 52) - 50};
/* Of relative-s1. */
static const float alpha[H * 2] = {1, 0.5f, 0.3f, 0.8f}, beta[H * 2] = {0.2f, 0, 0.7f, 0.1f};
static const float inv_freq[2] = {1, 0.37f};

typedef struct {
    ll_attention_config c;
    float q[H * T * D], k[H * T * D], v[H * T * E], y[H * T * E], projection[M * D], decay[H];
    int32_t permutation[H * M];
    ll_attention *op;
    ll_attention_call call;
} placed;

static placed *place(ll_kernel kernel, ll_position position, int decays) {
    placed *p = calloc(1, sizeof *p);
    uint64_t seed = 7;
    assert_non_null(p);
    for (int i = 0; i < H * T * D; i++) p->q[i] = (float)draw_normal(&seed), p->k[i] = (float)draw_normal(&seed);
    for (int i = 0; i < H * T * E; i++) p->v[i] = (float)draw_normal(&seed);
    for (int i = 0; i < M * D; i++) p->projection[i] = (float)draw_normal(&seed);
    p->decay[0] = 0.99f, p->decay[1] = 0.9f;
    p->c = ll_attention_default();
    p->c.kernel = kernel, p->c.position = position, p->c.causal = 1, p->c.H = H, p->c.D = D, p->c.E = E;
    p->c.input_scale = 0.6f;
    if (kernel == LL_KERNEL_LOCAL) p->c.approximate.window = 9;
    if (kernel == LL_KERNEL_FAVOR) p->c.M = M, p->c.projection = p->projection;
    if (kernel == LL_KERNEL_RELU) p->c.feature_eps = 0.1f; /* so that no product is much smaller than its terms */
    if (decays) p->c.decay = p->decay;
    const int m = kernel == LL_KERNEL_FAVOR ? M : D;
    for (int h = 0; h < H; h++) ll_permutation_random(p->permutation + h * m, m, 5, 0, h);
    if (position == LL_POSITION_PERMUTE) p->c.permutation = p->permutation;
    if (position == LL_POSITION_RELATIVE_S1) {
        p->c.encoding.scales = 2, p->c.encoding.axes = 1;
        p->c.encoding.alpha = alpha, p->c.encoding.beta = beta, p->c.encoding.inv_freq = inv_freq;
    }
    CHECK_OK(ll_attention_create(&p->op, &p->c));
    p->call = (ll_attention_call){.B = 1, .T = T, .S = T};
    p->call.q = (ll_view){p->q, H * T * D, T * D, D}, p->call.k = (ll_view){p->k, H * T * D, T * D, D};
    p->call.v = (ll_view){p->v, H * T * E, T * E, E}, p->call.y = (ll_view){p->y, H * T * E, T * E, E};
    return p;
}

static void drop(placed *p) {
    ll_attention_free(p->op);
    free(p);
}

static void check_same(const placed *p, const float *y, const char *what, int64_t begin) {
    for (int i = 0; i < H * T * E; i++)
        if (!(fabsf(p->y[i] - y[i]) <= 2e-5f))
            fail_msg("kernel %d, position %d, %s that begins at %lld: output %d is %g, at 0 it is %g", p->c.kernel,
                     p->c.position, what, (long long)begin, i, (double)p->y[i], (double)y[i]);
}

static void check_begins(ll_kernel kernel, ll_position position, int decays) {
    placed *p = place(kernel, position, decays);
    float y[H * T * E];
    ll_attention_stream *s;
    CHECK_OK(ll_attention_forward(p->op, &p->call));
    memcpy(y, p->y, sizeof y);
    CHECK_OK(ll_attention_stream_create(&s, p->op, 1));
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        p->call.query_offset = p->call.key_offset = begins[i];
        memset(p->y, 0, sizeof p->y);
        CHECK_OK(ll_attention_forward(p->op, &p->call));
        check_same(p, y, "a call", begins[i]);
        if (kernel == LL_KERNEL_LOCAL) continue; /* its window has keys from before */
        memset(p->y, 0, sizeof p->y);
        CHECK_OK(ll_attention_stream_seek(s, begins[i]));
        CHECK_OK(ll_attention_stream_feed(s, 30, p->call.q, p->call.k, p->call.v, (ll_view){0}, p->call.y));
        CHECK_OK(ll_attention_stream_feed(s, T - 30, ll_view_from(p->call.q, 30), ll_view_from(p->call.k, 30),
                                          ll_view_from(p->call.v, 30), (ll_view){0}, ll_view_from(p->call.y, 30)));
        check_same(p, y, "a stream", begins[i]);
        assert_true(s->position == begins[i] + T);
    }
    ll_attention_stream_free(s);
    drop(p);
}

static void test_only_distances_count(void **state) {
    (void)state;
    static const ll_kernel kernels[] = {LL_KERNEL_FAVOR, LL_KERNEL_RELU, LL_KERNEL_ELU1};
    static const ll_position positions[] = {LL_POSITION_NONE, LL_POSITION_ROPE_LINEAR, LL_POSITION_PERMUTE};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int decays = 0; decays < 2; decays++) check_begins(kernels[i], positions[j], decays);
    check_begins(LL_KERNEL_LOCAL, LL_POSITION_ROPE, 0);
    check_begins(LL_KERNEL_LOCAL, LL_POSITION_RELATIVE_S1, 0);
}

/* The sinusoids of sine-spe: the product of two depends on their distance, as near 0. */
static void test_sinusoids(void **state) {
    (void)state;
    static const double w[3] = {3, 0.3535533905932738, 1e-4}, phase[3] = {0.7, -2, 1.3};
    float at[T * 6], keys[T * 6];
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        ll_rotations(3, w, NULL, phase, begins[i], T, at, 6);
        ll_rotations(3, w, NULL, NULL, begins[i], T, keys, 6);
        for (int t = 0; t < T; t++)
            for (int p = 0; p < 3; p++) {
                const double product = (double)at[t * 6 + 2 * p] * (double)keys[2 * p] +
                                       (double)at[t * 6 + 2 * p + 1] * (double)keys[2 * p + 1];
                assert_true(fabs(product - cos(w[p] * t + phase[p])) < 4e-7);
            }
    }
}

/* The angles of relative-s1 are of so many tokens that their digits depend on how they are computed. */
static void test_cuts_change_no_bit(void **state) {
    (void)state;
    float y[H * T * E];
    placed *p = place(LL_KERNEL_ELU1, LL_POSITION_RELATIVE_S1, 0);
    ll_attention_stream *s;
    CHECK_OK(ll_attention_stream_create(&s, p->op, 1));
    for (int cut = 1; cut <= T; cut += 23) {
        CHECK_OK(ll_attention_stream_seek(s, begins[2]));
        for (int t = 0; t < T; t += cut)
            CHECK_OK(ll_attention_stream_feed(s, T - t < cut ? T - t : cut, ll_view_from(p->call.q, t),
                                              ll_view_from(p->call.k, t), ll_view_from(p->call.v, t), (ll_view){0},
                                              ll_view_from(p->call.y, t)));
        if (cut == 1) memcpy(y, p->y, sizeof y);
        assert_memory_equal(y, p->y, sizeof y);
    }
    ll_attention_stream_free(s);
    drop(p);
}

/* Pairs of features are rotated by angles as accurate far out as near, wherever a block begins, and rotated back.
 * Blocks begin before digits of the position (position/rotation.c) change. */
static void test_rotated_features(void **state) {
    (void)state;
    enum { ROWS = 140, PAIRS = 3, LD = 2 * PAIRS };
    static const double angles[2 * PAIRS] = {1, 0.3535533905932738, 1e-4, 0.9, 2e-3, 0};
    static const int64_t from[] = {0, 63, 950, 16300, 262100, 262144 * 17 + 70, 1000000007};
    float x[ROWS * LD], all[ROWS * LD], one[LD];
    for (int i = 0; i < ROWS * LD; i++) x[i] = i % 2 ? 0 : 1;
    for (int heads = 1; heads <= 2; heads++) {
        ll_rotation_table table;
        CHECK_OK(ll_rotation_table_create(&table, (size_t)heads, PAIRS, angles));
        for (size_t f = 0; f < sizeof from / sizeof *from; f++) {
            ll_rotation_table_apply(&table, heads - 1, 0, ROWS, from + f, x, LD, all, LD);
            for (int t = 0; t < ROWS; t++) {
                const int64_t position = from[f] + t;
                ll_rotation_table_apply(&table, heads - 1, 0, 1, &position, x, LD, one, LD);
                assert_memory_equal(one, all + (size_t)t * LD, sizeof one);
                for (int p = 0; p < PAIRS; p++) {
                    const long double angle = (long double)angles[(heads - 1) * PAIRS + p] * (long double)position;
                    assert_true(fabs((double)(cosl(angle) - one[2 * p])) < 2e-7);
                    assert_true(fabs((double)(sinl(angle) - one[2 * p + 1])) < 2e-7);
                }
            }
            ll_rotation_table_apply(&table, heads - 1, 1, ROWS, from + f, all, LD, all, LD);
            for (int i = 0; i < ROWS * LD; i++) assert_true(fabsf(all[i] - x[i]) < 2e-7f);
        }
        ll_rotation_table_free(&table);
    }
}

/* A sequence without tokens, and one of one token, whose only key is its own. */
static void test_lengths_0_and_1(void **state) {
    (void)state;
    static const ll_kernel kernels[] = {LL_KERNEL_SOFTMAX, LL_KERNEL_FAVOR, LL_KERNEL_RELU, LL_KERNEL_LOCAL};
    for (int i = 0; i < 4; i++) {
        placed *p = place(kernels[i], LL_POSITION_NONE, 0);
        ll_attention_stream *s;
        CHECK_OK(ll_attention_stream_create(&s, p->op, 1));
        p->y[0] = 42;
        CHECK_OK(ll_attention_stream_feed(s, 0, p->call.q, p->call.k, p->call.v, (ll_view){0}, p->call.y));
        p->call.T = p->call.S = 0;
        CHECK_OK(ll_attention_forward(p->op, &p->call));
        assert_true(p->y[0] == 42); /* not written */
        p->call.T = p->call.S = 1;
        CHECK_OK(ll_attention_forward(p->op, &p->call));
        for (int e = 0; e < E; e++) assert_true(fabsf(p->y[e] - p->v[e]) <= 1e-6f * fabsf(p->v[e]));
        CHECK_OK(ll_attention_stream_feed(s, 1, p->call.q, p->call.k, p->call.v, (ll_view){0}, p->call.y));
        for (int e = 0; e < E; e++) assert_true(fabsf(p->y[e] - p->v[e]) <= 1e-6f * fabsf(p->v[e]));
        ll_attention_stream_free(s);
        drop(p);
    }
}

/* More keys than an int counts: a prompt that is read behind them is divided as tokens of a stream are. */
static void test_many_keys(void **state) {
    (void)state;
    static const ll_position positions[] = {LL_POSITION_NONE, LL_POSITION_ROPE_LINEAR};
    for (int i = 0; i < 2; i++) {
        placed *p = place(LL_KERNEL_ELU1, positions[i], 0);
        ll_attention_stream *s;
        float y[H * T * E];
        ll_attention_free(p->op);
        p->c.den = LL_DEN_EPS_L, p->c.den_eps = 1;
        CHECK_OK(ll_attention_create(&p->op, &p->c));
        for (int prompt = 0; prompt < 2; prompt++) {
            CHECK_OK(ll_attention_stream_create(&s, p->op, 1));
            CHECK_OK(ll_attention_stream_seek(s, INT64_C(3000000000)));
            if (prompt) CHECK_OK(ll_attention_stream_prefill(s, &p->call));
            if (!prompt)
                CHECK_OK(ll_attention_stream_feed(s, T, p->call.q, p->call.k, p->call.v, (ll_view){0}, p->call.y));
            if (!prompt) memcpy(y, p->y, sizeof y);
            ll_attention_stream_free(s);
        }
        for (int n = 0; n < H * T * E; n++)
            if (!(fabsf(y[n] - p->y[n]) <= 1e-4f * fabsf(y[n]) + 1e-13f))
                fail_msg("position %d: output %d is %g, and %g token by token", positions[i], n, (double)p->y[n],
                         (double)y[n]);
        drop(p);
    }
}

/* A state counts more keys than a float can, also where each call adds a single one. */
static void test_keys_of_short_calls(void **state) {
    (void)state;
    const int64_t before = (INT64_C(1) << 40) - 3;
    for (int causal = 0; causal < 2; causal++) {
        placed *p = place(LL_KERNEL_ELU1, LL_POSITION_NONE, 0);
        ll_attention_free(p->op);
        p->c.causal = causal, p->c.den = LL_DEN_EPS_L, p->c.den_eps = 1;
        CHECK_OK(ll_attention_create(&p->op, &p->c));
        const size_t floats = ll_carried_floats(p->op);
        float *one = calloc(H * floats, sizeof *one);
        assert_non_null(one);
        for (int h = 0; h < H; h++) ll_carried_set_keys(p->op, one + (size_t)h * floats, before);
        p->call.T = p->call.S = 1;
        p->call.state_in = p->call.state_out = one;
        for (int t = 0; t < 10; t++) CHECK_OK(ll_attention_forward(p->op, &p->call));
        for (int h = 0; h < H; h++) assert_true(ll_carried_keys(p->op, one + (size_t)h * floats) == before + 10);
        free(one);
        drop(p);
    }
}

/* One key, followed by thousands of masked ones. It is the only key, however far it has decayed. With favor the
 * exponent of the state falls with it. With other kernels the state falls below the range of float, and rows become
 * 0. */
static void test_decay_over_a_gap(void **state) {
    (void)state;
    enum { GAP = 5000 };
    static float mask[GAP], q[H * GAP * D], k[H * GAP * D], v[H * GAP * E], y[H * GAP * E];
    uint64_t seed = 9;
    for (int i = 0; i < H * GAP * D; i++) q[i] = (float)draw_normal(&seed), k[i] = (float)draw_normal(&seed);
    for (int i = 0; i < H * GAP * E; i++) v[i] = (float)draw_normal(&seed);
    mask[0] = 1;
    for (int relu = 0; relu < 2; relu++) {
        placed *p = place(relu ? LL_KERNEL_RELU : LL_KERNEL_FAVOR, LL_POSITION_NONE, 1);
        p->call = (ll_attention_call){.B = 1, .T = GAP, .S = GAP, .key_mask = mask};
        p->call.q = (ll_view){q, H * GAP * D, GAP * D, D}, p->call.k = (ll_view){k, H * GAP * D, GAP * D, D};
        p->call.v = (ll_view){v, H * GAP * E, GAP * E, E}, p->call.y = (ll_view){y, H * GAP * E, GAP * E, E};
        for (int first = 1; first >= 0; first--) {
            mask[0] = (float)first; /* first = 0: no row has a key */
            CHECK_OK(ll_attention_forward(p->op, &p->call));
            for (int h = 0; h < H; h++)
                for (int t = 0; t < GAP; t++)
                    for (int e = 0; e < E; e++) {
                        const float got = y[(h * GAP + t) * E + e], value = v[h * GAP * E + e];
                        const int fades = relu && (float)t * -logf(p->decay[h]) > 60;
                        const float share = first ? got / value : 1 - got;
                        if (!(fabsf(share - 1) <= 1e-5f || (fades && share >= 0 && share <= 1.01f)))
                            fail_msg("%s, head %d, %d tokens on: %g, not %g", relu ? "relu" : "favor", h, t,
                                     (double)got, (double)value);
                    }
        }
        mask[0] = 1;
        drop(p);
    }
}

/* Any part of a head's noise is what the whole has there. */
static void test_parts_of_noise(void **state) {
    (void)state;
    enum { ALL = 1500 };
    static const int parts[][2] = {{0, 1}, {1, 2}, {3, 700}, {4, 256}, {255, 2}, {257, 1000}, {600, 900}};
    ll_premap b = {.c = {.encoding = {.seed = 9, .layer = 2}}};
    float whole[ALL], part[ALL];
    ll_spe_noise(&b, 1, 0, whole, ALL, 0);
    for (int i = 1; i < ALL; i++) assert_true(whole[i] != whole[i - 1]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ll_spe_noise(&b, 1, 0, part, (size_t)parts[i][1], (uint64_t)parts[i][0]);
        assert_memory_equal(part, whole + parts[i][0], (size_t)parts[i][1] * sizeof *part);
    }
}

/* Noise that was given: a call of the last query alone, with all keys, gives the last row of the whole call. What
 * counts against the end of the noise are the tokens in use, each sequence from where it begins. */
static void test_given_noise_ends(void **state) {
    (void)state;
    enum { R = 2, TAPS = 3, KEYS = 4, ROWS = KEYS + TAPS - 1 };
    float *noise = malloc(sizeof *noise * H * D * ROWS * R), *copied = malloc(sizeof *noise * H * D * ROWS * R);
    float filter[H * D * TAPS], whole[H * T * E];
    uint64_t seed = 11;
    assert_true(noise && copied);
    for (int i = 0; i < H * D * ROWS * R; i++) noise[i] = (float)draw_normal(&seed);
    for (int i = 0; i < H * D * TAPS; i++) filter[i] = (float)draw_normal(&seed);
    placed *p = place(LL_KERNEL_ELU1, LL_POSITION_NONE, 0);
    ll_attention_free(p->op);
    p->c.causal = 0, p->c.position = LL_POSITION_CONV_SPE;
    ll_position_config *w = &p->c.encoding;
    w->realizations = R, w->taps = TAPS, w->noise_rows = ROWS, w->noise = noise;
    w->filter_q = w->filter_k = filter;
    CHECK_OK(ll_attention_create(&p->op, &p->c));
    memcpy(copied, noise, sizeof *noise * H * D * ROWS * R);
    free(noise);
    p->call.T = p->call.S = KEYS;
    CHECK_OK(ll_attention_forward(p->op, &p->call));
    memcpy(whole, p->y, sizeof whole);
    p->call.T = 1, p->call.query_offset = KEYS - 1;
    p->call.q.data += (KEYS - 1) * D;
    CHECK_OK(ll_attention_forward(p->op, &p->call));
    for (int i = 0; i < H * E; i++)
        assert_float_equal(p->y[i / E * T * E + i % E], whole[(i / E * T + KEYS - 1) * E + i % E], 1e-5f);
    ll_attention_call padded = {.B = 2, .T = KEYS, .S = KEYS, .lengths = (int[]){KEYS, 1}};
    float two[2 * H * T * E];
    padded.q = (ll_view){p->q, 0, T * D, D}, padded.k = (ll_view){p->k, 0, T * D, D};
    padded.v = (ll_view){p->v, 0, T * E, E}, padded.y = (ll_view){two, H * T * E, T * E, E};
    ll_attention_free(p->op);
    p->c.causal = 1, p->c.encoding.noise = copied;
    CHECK_OK(ll_attention_create(&p->op, &p->c));
    padded.offsets = (int64_t[]){0, KEYS - 1};
    CHECK_OK(ll_attention_forward(p->op, &padded));
    padded.offsets = (int64_t[]){0, KEYS};
    CHECK_FAILS(ll_attention_forward(p->op, &padded), LL_EINVAL, "5 tokens, but the noise that was given ends after 4");
    free(copied);
    p->call.T = p->call.S, p->call.q.data = p->q, p->call.key_offset = KEYS;
    p->call.query_offset = KEYS;
    CHECK_FAILS(ll_attention_forward(p->op, &p->call), LL_EINVAL, "the noise that was given ends after 4");
    drop(p);
}

/* Softmax keeps all tokens, and has no memory for 2^30 more. The stream goes on as if nobody had asked. */
static void test_a_seek_that_fails_moves_nothing(void **state) {
    (void)state;
    placed *p = place(LL_KERNEL_SOFTMAX, LL_POSITION_NONE, 0);
    ll_attention_stream *s;
    float y[H * T * E];
    CHECK_OK(ll_attention_forward(p->op, &p->call));
    memcpy(y, p->y, sizeof y);
    memset(p->y, 0, sizeof p->y);
    CHECK_OK(ll_attention_stream_create(&s, p->op, 1));
    CHECK_OK(ll_attention_stream_feed(s, 30, p->call.q, p->call.k, p->call.v, (ll_view){0}, p->call.y));
    CHECK_FAILS(ll_attention_stream_seek(s, (INT64_C(1) << 30) + 1), LL_EINVAL, "stops at 2^30");
    assert_true(s->position == 30);
    CHECK_OK(ll_attention_stream_feed(s, T - 30, ll_view_from(p->call.q, 30), ll_view_from(p->call.k, 30),
                                      ll_view_from(p->call.v, 30), (ll_view){0}, ll_view_from(p->call.y, 30)));
    check_same(p, y, "a stream", 0);
    ll_attention_stream_free(s);
    drop(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_noise),       cmocka_unit_test(test_given_noise_ends),
        cmocka_unit_test(test_only_distances_count), cmocka_unit_test(test_sinusoids),
        cmocka_unit_test(test_cuts_change_no_bit),   cmocka_unit_test(test_rotated_features),
        cmocka_unit_test(test_lengths_0_and_1),      cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_keys_of_short_calls),  cmocka_unit_test(test_decay_over_a_gap),
        cmocka_unit_test(test_a_seek_that_fails_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
