/* The approximate kernels that papers compare with, against their definitions (oracle_approximate.c), and gradients
 * against central differences. Bits must not depend on threads, padding or later tokens. */
#include "drawn.h"

typedef struct {
    const char *name;
    ll_attention_config c;
    int T, S, tile;
    double spread, y, gradient; /* spread of queries and keys; tolerances of y and of gradients */
} example;

#define COMMON .H = 2, .input_scale = 0.4f
#define LOCAL(w, how) COMMON, .kernel = LL_KERNEL_LOCAL, .approximate.window = (w), .causal = (how)
#define LINFORMER(n, k) COMMON, .kernel = LL_KERNEL_LINFORMER, .approximate = {.length = (n), .rank = (k)}
#define NYSTROM(m, n) COMMON, .kernel = LL_KERNEL_NYSTROM, .approximate = {.landmarks = (m), .iterations = (n)}
#define REFORMER(n, c, r, how)                                                                                         \
    COMMON, .kernel = LL_KERNEL_REFORMER, .approximate = {.buckets = (n), .chunk = (c), .rounds = (r)}, .causal = (how)
static const example examples[] = {
    {"value", {COMMON, .kernel = LL_KERNEL_VALUE, .D = 3, .E = 5}, 37, 37, 0, 1, 0, 1e-6},
    {"value, causal", {COMMON, .kernel = LL_KERNEL_VALUE, .causal = 1, .D = 3, .E = 4}, 1500, 1500, 0, 1, 0, 1e-6},
    {"local", {LOCAL(9, 0), .D = 7, .E = 5}, 61, 61, 0, 1, 1e-5, 1e-4},
    {"local, causal", {LOCAL(9, 1), .D = 4, .E = 6}, 61, 61, 0, 1, 1e-5, 1e-4},
    {"local, small tiles", {LOCAL(9, 0), .D = 4, .E = 6}, 61, 61, 4, 1, 1e-5, 1e-4},
    {"local, causal, small tiles", {LOCAL(9, 1), .D = 4, .E = 6}, 61, 61, 5, 1, 1e-5, 1e-4},
    {"local of one", {LOCAL(1, 0), .D = 4, .E = 6}, 20, 20, 0, 1, 1e-5, 1e-4},
    {"local of one, causal", {LOCAL(1, 1), .D = 4, .E = 6}, 20, 20, 0, 1, 1e-5, 1e-4},
    {"local wider than all", {LOCAL(100, 0), .D = 4, .E = 6}, 40, 40, 7, 1, 1e-5, 1e-4},
    {"local, several tiles", {LOCAL(150, 0), .D = 2, .E = 2}, 400, 400, 0, 1, 1e-5, 1e-4},
    {"local, causal, several tiles", {LOCAL(300, 1), .D = 2, .E = 2}, 600, 600, 0, 1, 1e-5, 1e-4},
    {"linformer", {LINFORMER(60, 6), .D = 7, .E = 5}, 53, 53, 0, 1, 1e-5, 1e-4},
    {"linformer, small tiles", {LINFORMER(60, 11), .D = 7, .E = 5}, 60, 60, 4, 1, 1e-5, 1e-4},
    {"linformer, queries of others", {LINFORMER(300, 30), .D = 3, .E = 5}, 140, 270, 0, 1, 1e-5, 1e-4},
    {"linformer, as many", {LINFORMER(300, 20), .D = 3, .E = 5}, 20, 20, 0, 1, 1e-5, 1e-4},
    {"nystrom", {NYSTROM(6, 6), .D = 7, .E = 5}, 53, 53, 0, 2, 1e-4, 1e-3},
    {"nystrom, small tiles", {NYSTROM(5, 3), .D = 7, .E = 5}, 41, 41, 4, 2, 1e-4, 1e-3},
    {"nystrom, queries of others", {NYSTROM(17, 6), .D = 9, .E = 5}, 140, 47, 0, 2, 1e-4, 1e-3},
    {"nystrom, few queries", {NYSTROM(17, 6), .D = 9, .E = 5}, 17, 80, 0, 2, 1e-4, 1e-3},
    {"nystrom, long", {NYSTROM(32, 4), .D = 16, .E = 5}, 200, 200, 0, 1, 1e-4, 1e-3},
    {"reformer", {REFORMER(8, 4, 3, 0), .D = 7, .E = 5}, 61, 61, 0, 2, 1e-5, 1e-4},
    {"reformer, causal", {REFORMER(4, 5, 2, 1), .D = 7, .E = 5}, 61, 61, 0, 2, 1e-5, 1e-4},
    {"reformer, two buckets", {REFORMER(2, 9, 1, 1), .D = 1, .E = 3}, 50, 50, 0, 1, 1e-5, 1e-4},
    {"reformer, alone", {REFORMER(32, 1, 1, 1), .D = 9, .E = 3}, 12, 12, 0, 1, 1e-5, 1e-4},
    {"reformer, wide", {REFORMER(6, 300, 2, 0), .D = 9, .E = 3}, 150, 150, 0, 1, 1e-5, 1e-4},
    {"reformer, causal, long", {REFORMER(16, 16, 4, 1), .D = 8, .E = 3}, 200, 200, 0, 2, 1e-5, 1e-4},
    {"local, causal, narrow", {LOCAL(3, 1), .D = 2, .E = 2}, 400, 400, 0, 1, 1e-5, 1e-4},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* Parameters of linformer, the same in each case. Their gradients are added to ones. */
enum { WEIGHTS = 9000 };
static float rotations[WEIGHTS], weight[2][WEIGHTS], gradient[2][WEIGHTS];
static double wide[2][WEIGHTS];

static drawn *draw(const example *x, int B, int how, uint64_t *seed) {
    ll_attention_config c = x->c;
    uint64_t own = 5;
    for (int i = 0; i < 2 * WEIGHTS; i++) {
        wide[i % 2][i / 2] = (double)(weight[i % 2][i / 2] = (float)(0.3 * draw_normal(&own)));
        gradient[i % 2][i / 2] = 1;
    }
    for (int i = 0; i < WEIGHTS; i++) rotations[i] = (float)draw_normal(&own);
    c.approximate.rotations = rotations;
    c.approximate.linformer_k = weight[0], c.approximate.linformer_v = weight[1];
    drawn *d = drawn_create(c, B, x->T, x->S, x->spread, how, seed);
    d->o.linformer_k = wide[0], d->o.linformer_v = wide[1];
    d->call.dapproximate = (ll_approximate_gradients){gradient[0], gradient[1]};
    return d;
}

/* Compares some elements of a gradient with central differences. The unit is its largest element (or that of dv). */
static void check_gradient(drawn *d, const example *x, const char *what, const float *all, int size, double *of,
                           double floor, uint64_t *seed) {
    enum { SOME = 8 };
    double largest = floor;
    for (int i = 0; i < size; i++) {
        if (!isfinite(all[i])) fail_msg("%s: %s is %g at %d", x->name, what, (double)all[i], i);
        largest = fmax(largest, fabs((double)all[i]));
    }
    for (int i = 0; i < SOME; i++) {
        const int at = draw_int(seed, 0, size - 1);
        const double expected = oracle_difference(&d->o, of + at), error = fabs((double)all[at] - expected);
        if (!(error <= x->gradient * largest))
            fail_msg("%s: %s[%d] is %.9g, expected %.9g; error %.3g of %.3g", x->name, what, at, (double)all[at],
                     expected, error, largest);
    }
}

static double largest(drawn *d, const ll_view *view, int n, int width) {
    const float *all = drawn_packed(d, view, n, width);
    double most = 0;
    for (int i = 0; i < d->call.B * d->config.H * n * width; i++) most = fmax(most, fabs((double)all[i]));
    return most;
}

static void test_definitions(void **state) {
    (void)state;
    uint64_t seed = 41;
    for (int i = 0; i < EXAMPLES; i++)
        for (int how = 0; how < 2; how++) {
            const example *x = &examples[i];
            drawn *d = draw(x, 2, how ? DRAW_LENGTHS | DRAW_TOKEN_MAJOR : 0, &seed);
            ll_attention_call *c = &d->call;
            drawn_run(d, x->tile, 1);
            drawn_solve(d, 0);
            drawn_check(d, x->name, 0, x->y, 0);
            const double floor = largest(d, &c->dv, x->S, x->c.E) / 10;
            const int heads = 2 * x->c.H, T = x->T, S = x->S, D = x->c.D, E = x->c.E;
            check_gradient(d, x, "dq", drawn_packed(d, &c->dq, T, D), heads * T * D, d->o.q, floor, &seed);
            check_gradient(d, x, "dk", drawn_packed(d, &c->dk, S, D), heads * S * D, d->o.k, floor, &seed);
            check_gradient(d, x, "dv", drawn_packed(d, &c->dv, S, E), heads * S * E, d->o.v, 0, &seed);
            const int weights = x->c.approximate.length * x->c.approximate.rank;
            for (int s = 0; s < 2 && weights; s++) {
                for (int w = 0; w < weights; w++) gradient[s][w] -= 1;
                check_gradient(d, x, s ? "dF" : "dE", gradient[s], weights, wide[s], 0, &seed);
            }
            drawn_free(d);
        }
}

static void test_threads(void **state) {
    (void)state;
    uint64_t seed = 42;
    static const int threads[] = {1, 2, 5};
    for (int i = 0; i < EXAMPLES; i++) {
        drawn *d = draw(&examples[i], 2, 0, &seed);
        float *first = NULL;
        size_t size;
        for (int t = 0; t < 3; t++) {
            ll_set_threads(threads[t]);
            drawn_run(d, examples[i].tile, 1);
            float *all = drawn_results(d, &size);
            if (first && memcmp(first, all, size)) fail_msg("%s: %d threads, other bits", examples[i].name, threads[t]);
            if (first) free(all);
            if (!first) first = all;
        }
        free(first);
        drawn_free(d);
    }
    ll_set_threads(0);
}

/* Do rows 0..n-1 of (sequence b, head h) have the same bits in both views, and are the other rows of the first view, up
 * to T, 0? */
static int same(const ll_view *whole, const ll_view *one, int b, int h, int n, int T, int width) {
    int equal = 1;
    for (int t = 0; t < T; t++) {
        const float *a = whole->data + (size_t)b * whole->batch + (size_t)h * whole->head + (size_t)t * whole->token;
        if (t < n)
            equal &= !memcmp(a, one->data + (size_t)h * one->head + (size_t)t * one->token, (size_t)width * sizeof *a);
        for (int e = 0; t >= n && e < width; e++) equal &= a[e] == 0;
    }
    return equal;
}

/* Sequence b of a padded batch (its padding is NaN) equals that sequence alone. */
static void test_padding(void **state) {
    (void)state;
    uint64_t seed = 43;
    for (int i = 0; i < EXAMPLES; i++) {
        const example *x = &examples[i];
        if (x->S != x->T) continue;
        drawn *d = draw(x, 3, DRAW_LENGTHS, &seed);
        drawn_run(d, x->tile, 1);
        for (int b = 0; b < 3; b++) {
            const int used = d->call.lengths[b], D = x->c.D, E = x->c.E;
            example alone = *x;
            uint64_t other = 1;
            alone.T = alone.S = used > 0 ? used : 1;
            drawn *one = draw(&alone, 1, 0, &other);
            ll_view *from[] = {&d->call.q, &d->call.k, &d->call.v, &d->call.g},
                    *to[] = {&one->call.q, &one->call.k, &one->call.v, &one->call.g};
            for (int v = 0; v < 4; v++) {
                free(to[v]->data);
                *to[v] = *from[v];
                to[v]->data += (size_t)b * from[v]->batch;
            }
            one->call.T = one->call.S = used;
            drawn_run(one, x->tile, 1);
            for (int h = 0; h < x->c.H; h++)
                if (!same(&d->call.y, &one->call.y, b, h, used, x->T, E) ||
                    !same(&d->call.dq, &one->call.dq, b, h, used, x->T, D) ||
                    !same(&d->call.dk, &one->call.dk, b, h, used, x->T, D) ||
                    !same(&d->call.dv, &one->call.dv, b, h, used, x->T, E))
                    fail_msg("%s: sequence %d of length %d of %d differs", x->name, b, used, x->T);
            for (int v = 0; v < 4; v++) to[v]->data = NULL;
            drawn_free(one);
        }
        drawn_free(d);
    }
}

/* Later tokens, even those that are not finite, change no bit of a causal output. */
static void test_later_tokens(void **state) {
    (void)state;
    static const float factors[4] = {-9, 1e30f, INFINITY, NAN};
    uint64_t seed = 44;
    for (int i = 0; i < 4 * EXAMPLES; i++) {
        const example *x = &examples[i / 4];
        if (!x->c.causal) continue;
        drawn *d = draw(x, 1, 0, &seed);
        const int cut = draw_int(&seed, 1, x->T - 1), H = x->c.H, T = x->T, E = x->c.E;
        drawn_run(d, x->tile, 0);
        float *before = malloc((size_t)(H * T * E) * sizeof *before);
        memcpy(before, drawn_packed(d, &d->call.y, T, E), (size_t)(H * T * E) * sizeof *before);
        ll_view *const change[] = {&d->call.q, &d->call.k, &d->call.v};
        for (int v = 0; v < 3; v++)
            for (int h = 0; h < H; h++)
                for (int t = cut; t < T; t++)
                    for (int e = 0; e < (v == 2 ? E : x->c.D); e++)
                        ll_element(change[v], 0, (size_t)h, (size_t)t)[e] *= factors[i % 4];
        drawn_run(d, x->tile, 0);
        const float *after = drawn_packed(d, &d->call.y, T, E);
        for (int h = 0; h < H; h++)
            if (memcmp(before + h * T * E, after + h * T * E, (size_t)(cut * E) * sizeof *after))
                fail_msg("%s: tokens from %d of %d on change what came before", x->name, cut, T);
        free(before);
        drawn_free(d);
    }
}

/* A stream gives what a call gives, and the same bits however the tokens are divided among its calls. */
static void test_streams(void **state) {
    (void)state;
    uint64_t seed = 45;
    for (int i = 0; i < EXAMPLES; i++) {
        const example *x = &examples[i];
        if (!x->c.causal || x->c.kernel == LL_KERNEL_REFORMER) continue;
        drawn *d = draw(x, 2, 0, &seed);
        ll_attention *op;
        ll_attention_stream *s;
        float *first = NULL;
        const size_t size = (size_t)(2 * x->c.H * x->T * x->c.E) * sizeof(float);
        drawn_solve(d, 0);
        CHECK_OK(ll_attention_create(&op, &d->config));
        CHECK_OK(ll_attention_stream_create(&s, op, 2));
        for (int most = 1; most < 2000; most = most * 4 + 3) {
            ll_attention_stream_reset(s);
            for (int t = 0, n; t < x->T; t += n) {
                n = draw_int(&seed, 1, most);
                n = n < x->T - t ? n : x->T - t;
                ll_view v[4] = {d->call.q, d->call.k, d->call.v, d->call.y};
                for (int side = 0; side < 4; side++) v[side].data += (size_t)t * v[side].token;
                CHECK_OK(ll_attention_stream_feed(s, n, v[0], v[1], v[2], (ll_view){0}, v[3]));
            }
            drawn_check(d, x->name, 0, x->y, 0);
            const float *y = drawn_packed(d, &d->call.y, x->T, x->c.E);
            if (!first) {
                first = malloc(size);
                memcpy(first, y, size);
            }
            if (memcmp(first, y, size)) fail_msg("%s: cuts into %d change bits", x->name, most);
        }
        free(first);
        ll_attention_stream_free(s);
        ll_attention_free(op);
        drawn_free(d);
    }
}

/* Reformer's keys are its queries. The keys of a call are not read, whatever their number. */
static void test_stream_without_keys(void **state) {
    (void)state;
    enum { T = 150, D = 4 };
    uint64_t seed = 46;
    float x[T * D], y[2][T * D];
    const ll_view v = {x, 0, 0, D}, none = {NULL, 0, 0, D};
    ll_attention_config c = {REFORMER(4, 3, 2, 1), .D = D, .E = D, .position = LL_POSITION_ROPE};
    for (int i = 0; i < T * D; i++) x[i] = (float)draw_normal(&seed);
    c.H = 1;
    for (int i = 0; i < 2; i++) {
        ll_attention *op;
        ll_attention_stream *s;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        CHECK_OK(ll_attention_stream_feed(s, T, v, i ? none : v, v, (ll_view){0}, (ll_view){y[i], 0, 0, D}));
        ll_attention_stream_free(s);
        ll_attention_free(op);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Kernels that read no keys write zeros to their gradients, also behind a position. */
static void test_gradients_without_keys(void **state) {
    (void)state;
    enum { T = 9, D = 4 };
    uint64_t seed = 47;
    float x[T * D], y[T * D], dq[T * D], dk[T * D], dv[T * D];
    for (int i = 0; i < T * D; i++) x[i] = (float)draw_normal(&seed);
    for (int form = 0; form < 3; form++) {
        ll_attention_config c = {REFORMER(4, 3, 2, 1), .D = D, .E = D};
        ll_attention *op;
        c.H = 1, c.position = form == 1 ? LL_POSITION_ROPE : LL_POSITION_NONE;
        if (form == 2) c.kernel = LL_KERNEL_VALUE;
        CHECK_OK(ll_attention_create(&op, &c));
        ll_attention_call call = {.B = 1, .T = T, .S = T, .q = ll_view_packed(x, 1, T, D)};
        call.v = call.g = call.q, call.y = ll_view_packed(y, 1, T, D), call.dq = ll_view_packed(dq, 1, T, D);
        call.dk = ll_view_packed(dk, 1, T, D), call.dv = ll_view_packed(dv, 1, T, D);
        for (int i = 0; i < T * D; i++) dk[i] = NAN;
        call.saved = calloc(ll_attention_saved(op, &call) + 1, sizeof(float));
        CHECK_OK(ll_attention_forward(op, &call));
        CHECK_OK(ll_attention_backward(op, &call));
        for (int i = 0; i < T * D; i++) assert_true(dk[i] == 0);
        free(call.saved);
        ll_attention_free(op);
    }
}

/* ---- What cannot be ---- */

static void refused(ll_attention_config c, const char *word) {
    ll_attention *op = NULL;
    CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, word);
    assert_null(op);
}

static void test_refusals(void **state) {
    (void)state;
    const ll_attention_config value = {COMMON, .kernel = LL_KERNEL_VALUE, .D = 4, .E = 4};
    ll_attention_config c = value;
    const float one = 1;
    c.position = LL_POSITION_ROPE, refused(c, "no queries and keys");
    c.position = LL_POSITION_ROPE_LINEAR, refused(c, "value has no features");
    c.position = LL_POSITION_PERMUTE, refused(c, "value has no features");
    c = value, c.kernel = LL_KERNEL_LOCAL, refused(c, "window of 0");
    c.approximate.window = 4, c.M = 3, refused(c, "local has no features");
    c = (ll_attention_config){LINFORMER(8, 2), .D = 4, .E = 4}, refused(c, "needs its projections");
    c.approximate.linformer_k = c.approximate.linformer_v = &one, c.causal = 1, refused(c, "cannot be causal");
    c.causal = 0, c.approximate.rank = 0, refused(c, "from 8 tokens to 0");
    c = (ll_attention_config){NYSTROM(0, 6), .D = 4, .E = 4}, refused(c, "0 landmarks");
    c.approximate.landmarks = 3, c.approximate.iterations = 0, refused(c, "0 iterations");
    c.approximate.iterations = 6, c.causal = 1, refused(c, "cannot be causal");
    c = (ll_attention_config){REFORMER(3, 4, 1, 0), .D = 4, .E = 4}, refused(c, "3 buckets");
    c.approximate.buckets = 4, c.approximate.rounds = 0, refused(c, "0 rounds");
    c.approximate.rounds = 1, c.encoding = (ll_position_config){.realizations = 4, .sines = 1};
    c.position = LL_POSITION_SINE_SPE, refused(c, "tells them apart");
    c = value, c.kernel = (ll_kernel)99, refused(c, "no kernel 99");
}

static void test_calls_refused(void **state) {
    (void)state;
    const ll_attention_config c = {COMMON, .kernel = LL_KERNEL_VALUE, .D = 1, .E = 1};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0}, mask[4] = {1, 1, 1, 1};
    const ll_view v = {x, 8, 4, 1};
    ll_attention_call call = {.B = 1, .T = 4, .S = 3, .q = v, .k = v, .v = v, .y = {y, 8, 4, 1}};
    ll_attention *op;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "3 keys for 4 queries");
    call.threads = -1;
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "-1 threads");
    call.threads = 0;
    call.S = 4, call.key_mask = mask;
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "give value lengths");
    call.key_mask = NULL, call.q = call.k = (ll_view){0}; /* are not read */
    CHECK_OK(ll_attention_forward(op, &call));
    assert_memory_equal(x, y, sizeof x);
    ll_attention_free(op);
    const ll_attention_config linformer = {LINFORMER(3, 1), .D = 1, .E = 1, .approximate.linformer_k = mask,
                                           .approximate.linformer_v = mask};
    call.q = call.k = v;
    CHECK_OK(ll_attention_create(&op, &linformer));
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "4 tokens, but linformer's projections end at 3");
    const int lengths[] = {3}; /* padding does not count */
    call.lengths = lengths;
    CHECK_OK(ll_attention_forward(op, &call));
    ll_attention_free(op);
}

/* An operator keeps a copy of the rotations, and reads no others: AddressSanitizer sees where these end. */
static void test_rotations_are_copied(void **state) {
    (void)state;
    ll_attention_config c = {REFORMER(8, 4, 3, 1), .D = 7, .E = 5};
    ll_attention *op;
    const size_t n = 3 * 2 * 7 * 4; /* rounds, heads, width, half of the buckets */
    float *mine = malloc(n * sizeof *mine);
    assert_non_null(mine);
    for (size_t i = 0; i < n; i++) mine[i] = (float)i;
    c.approximate.rotations = mine;
    CHECK_OK(ll_attention_create(&op, &c));
    assert_true(op->c.approximate.rotations != mine);
    assert_memory_equal(op->c.approximate.rotations, mine, n * sizeof *mine);
    free(mine);
    ll_attention_free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_later_tokens),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_stream_without_keys),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_calls_refused),
        cmocka_unit_test(test_rotations_are_copied),
        cmocka_unit_test(test_gradients_without_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
