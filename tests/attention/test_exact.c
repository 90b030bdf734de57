/* Softmax attention in tiles, in every tier of this machine, against the definition in double (oracle.c): sequences of
 * several tiles, padded lengths, cross attention, values that are not finite. Some results must have the same bits. */
#include "drawn.h"
#include "guard.h"

static ll_attention_config config(int causal, int H, int D, int E) {
    ll_attention_config c = ll_attention_default();
    c.causal = causal, c.H = H, c.D = D, c.E = E, c.input_scale = 0.4f;
    return c;
}

/* Several default tiles, lengths around the edge of a tile, and short ones. */
static void test_sizes(void **state) {
    (void)state;
    static const struct {
        int causal, T, S, D, E, tile;
    } cases[] = {{1, 1, 1, 1, 1, 0},       {1, 300, 300, 16, 24, 0}, {0, 300, 300, 24, 16, 0}, {0, 129, 257, 33, 17, 0},
                 {0, 257, 129, 8, 40, 0},  {0, 1, 300, 9, 9, 0},     {0, 300, 1, 9, 9, 0},     {1, 520, 520, 12, 12, 0},
                 {1, 128, 128, 64, 64, 0}, {0, 256, 256, 64, 64, 0}, {1, 50, 50, 7, 5, 1},     {1, 97, 97, 7, 5, 13},
                 {0, 60, 97, 7, 5, 16},    {1, 300, 300, 8, 8, 256}};
    uint64_t seed = 21;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++) {
        CHECK_OK(ll_set_cpu(k->name));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int how = 0; how < 2; how++) {
                drawn *d = drawn_create(config(cases[i].causal, 2, cases[i].D, cases[i].E), 3, cases[i].T, cases[i].S,
                                        1, how ? DRAW_LENGTHS | DRAW_TOKEN_MAJOR : 0, &seed);
                char what[60];
                snprintf(what, sizeof what, "%s, case %zu, tile %d", k->name, i, cases[i].tile);
                drawn_solve(d, 1);
                drawn_run(d, cases[i].tile, 1);
                drawn_check(d, what, 1, 1e-5, 1e-4);
                drawn_free(d);
            }
    }
    CHECK_OK(ll_set_cpu(NULL));
}

/* Backward passes over the tiles once, or with few heads for the threads twice: for keys and for queries. One to eight
 * heads do both, with the same bits. */
static void test_threads(void **state) {
    (void)state;
    uint64_t seed = 22;
    static const int threads[] = {1, 2, 5}, heads[] = {1, 2, 3, 8};
    for (int n = 0; n < 16; n++) {
        const int causal = n & 1, T = draw_int(&seed, 1, 400), S = causal ? T : draw_int(&seed, 1, 400);
        drawn *d = drawn_create(config(causal, heads[n / 2 % 4], 8, 8), 1, T, S, 1, 0, &seed);
        size_t size = 0;
        float *first = NULL;
        for (int t = 0; t < 3; t++) {
            ll_set_threads(threads[t]);
            drawn_run(d, n & 4 ? 32 : 0, 1);
            float *all = drawn_results(d, &size);
            if (first && memcmp(first, all, size))
                fail_msg("%d threads give other bits: %s", threads[t], drawn_name(d));
            if (first) free(all);
            if (!first) first = all;
        }
        free(first);
        drawn_free(d);
    }
    ll_set_threads(0);
}

/* Sequence b of a padded batch (its padding is NaN) gives the same bits as that sequence alone. */
static void test_padding(void **state) {
    (void)state;
    uint64_t seed = 23;
    for (int n = 0; n < 12; n++) {
        const int causal = n & 1, T = draw_int(&seed, 2, 330);
        drawn *d = drawn_create(config(causal, 2, 11, 9), 3, T, T, 1, DRAW_LENGTHS, &seed);
        drawn_run(d, 0, 1);
        for (int b = 0; b < 3; b++) {
            const int used = d->call.lengths[b];
            drawn one = *d;
            ll_attention_call *c = &one.call;
            float *y = malloc(((size_t)(2 * T * 9) + 1) * sizeof *y),
                  *dk = malloc(((size_t)(2 * T * 11) + 1) * sizeof *dk);
            float *rest = malloc(((size_t)(2 * T * 20) + 1) * sizeof *rest);
            const size_t t = (size_t)T;
            c->q.data += (size_t)b * c->q.batch, c->k.data += (size_t)b * c->k.batch;
            c->v.data += (size_t)b * c->v.batch, c->g.data += (size_t)b * c->g.batch;
            c->y = (ll_view){y, 0, t * 9, 9}, c->dk = (ll_view){dk, 0, t * 11, 11};
            c->dv = (ll_view){rest, 0, t * 9, 9}, c->dq = (ll_view){rest + 2 * t * 9, 0, t * 11, 11};
            c->B = 1, c->T = c->S = used, c->lengths = NULL;
            drawn_run(&one, 0, 1);
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < T; i++) {
                    const float *a = d->call.y.data + (size_t)b * d->call.y.batch + (size_t)h * d->call.y.head +
                                     (size_t)i * d->call.y.token;
                    const float *e = d->call.dk.data + (size_t)b * d->call.dk.batch + (size_t)h * d->call.dk.head +
                                     (size_t)i * d->call.dk.token;
                    const size_t at = (size_t)(h * T + i);
                    const int same = i < used ? !memcmp(a, y + at * 9, 36) && !memcmp(e, dk + at * 11, 44)
                                              : a[0] == 0 && a[8] == 0 && e[0] == 0 && e[10] == 0;
                    if (!same) fail_msg("case %d, sequence %d of length %d of %d: token %d differs", n, b, used, T, i);
                }
            free(y), free(dk), free(rest);
        }
        drawn_free(d);
    }
}

/* Softmax, a window, or buckets, by turns. */
static ll_attention_config exact_config(int n, uint64_t *seed) {
    ll_attention_config c = config(1, 2, 12, 12);
    ll_approximate_config *a = &c.approximate;
    if (n % 3 == 1) c.kernel = LL_KERNEL_LOCAL, a->window = draw_int(seed, 1, 60);
    if (n % 3 == 2) c.kernel = LL_KERNEL_REFORMER, a->buckets = 4, a->chunk = draw_int(seed, 4, 20), a->rounds = 2;
    return c;
}

/* What a run left in y, in new memory. */
static float *copy_of_y(drawn *d) {
    const int T = (int)d->call.T, E = d->config.E;
    const size_t size = (size_t)(d->config.H * T * E) * sizeof(float);
    float *copy = malloc(size);
    memcpy(copy, drawn_packed(d, &d->call.y, T, E), size);
    return copy;
}

/* Changes tokens from `cut` on; or their values, which then are not finite. */
static void change_later(drawn *d, int cut, int nonfinite) {
    const ll_attention_config *c = &d->config;
    const ll_view *const change[] = {&d->call.q, &d->call.k, &d->call.v};
    for (int v = nonfinite ? 2 : 0; v < 3; v++)
        for (int h = 0; h < c->H; h++)
            for (int t = cut; t < d->call.T; t++)
                for (int e = 0; e < (v == 2 ? c->E : c->D); e++) {
                    float *x = ll_element(change[v], 0, (size_t)h, (size_t)t) + e;
                    *x = !nonfinite ? *x * -9 : (t + e) % 3 ? INFINITY : (t + e) % 2 ? -INFINITY : NAN;
                }
}

/* Later tokens, even values that are not finite, change no bit of a causal output, for every kernel. */
static void test_later_tokens(void **state) {
    (void)state;
    uint64_t seed = 24;
    for (int n = 0; n < 90; n++) {
        ll_attention_config c = n % 2 ? draw_config(&seed) : exact_config(n / 2, &seed);
        const int later = c.key_max == LL_MAX_SEQUENCE || c.key_max == LL_MAX_BATCH;
        if (!c.causal || (c.kernel == LL_KERNEL_FAVOR && later)) {
            draw_config_free(&c);
            continue;
        }
        const int T = draw_int(&seed, 2, 300), cut = draw_int(&seed, 1, T - 1), tile = draw_int(&seed, 0, 1) * 16;
        drawn *d = drawn_create(c, 1, T, T, 0.8, 0, &seed);
        d->call.bf16 = n / 6 % 2;
        drawn_run(d, tile, 0);
        float *before = copy_of_y(d);
        for (int nonfinite = 0; nonfinite < 2; nonfinite++) {
            change_later(d, cut, nonfinite);
            drawn_run(d, tile, 0);
            const float *after = drawn_packed(d, &d->call.y, T, c.E);
            for (int h = 0; h < c.H; h++)
                if (memcmp(before + (size_t)(h * T * c.E), after + (size_t)(h * T * c.E),
                           (size_t)(cut * c.E) * sizeof(float)))
                    fail_msg("case %d: tokens from %d of %d on%s change what came before: %s", n, cut, T,
                             nonfinite ? ", not finite," : "", drawn_name(d));
        }
        free(before);
        drawn_free(d);
    }
}

/* Makes the value of each head infinite in column 5 of one token. */
static void make_infinite(drawn *d, int at) {
    for (int h = 0; h < d->config.H; h++) ll_element(&d->call.v, 0, (size_t)h, (size_t)at)[5] = INFINITY;
}

/* A value that is not finite shows in the rows that see it, in its column. All else keeps its bits. */
static void test_nonfinite_is_seen(void **state) {
    (void)state;
    uint64_t seed = 26;
    for (int n = 0; n < 24; n++) {
        ll_attention_config c = exact_config(n % 2, &seed);
        c.causal = n / 2 % 2;
        const int T = draw_int(&seed, 100, 300), at = draw_int(&seed, 0, T - 1);
        const int window = n % 2 ? c.approximate.window : T;
        drawn *d = drawn_create(c, 1, T, T, 0.8, 0, &seed);
        d->call.bf16 = n / 4 % 2;
        drawn_run(d, 0, 0);
        float *before = copy_of_y(d);
        make_infinite(d, at);
        drawn_run(d, 0, 0);
        const float *after = drawn_packed(d, &d->call.y, T, c.E);
        for (int i = 0; i < c.H * T * c.E; i++) {
            const int t = i / c.E % T, sees = i % c.E == 5 && (!c.causal || t >= at) && abs(t - at) < window;
            if (sees ? isfinite(after[i]) : after[i] != before[i])
                fail_msg("case %d: row %d, infinity at %d of %d: %g, was %g: %s", n, t, at, T, (double)after[i],
                         (double)before[i], drawn_name(d));
        }
        free(before);
        drawn_free(d);
    }
}

/* The call in two parts, of which the second takes the state of the first. */
static void run_parts(const drawn *d, int cut) {
    const ll_attention_call *c = &d->call;
    ll_attention *op;
    size_t floats;
    CHECK_OK(ll_attention_create(&op, &d->config));
    CHECK_OK(ll_attention_state_floats(op, &floats));
    float *passed = calloc(floats, sizeof *passed);
    ll_attention_call first = *c, second = *c;
    first.T = first.S = cut, first.state_out = passed;
    second.T = second.S = c->T - cut, second.state_in = passed;
    second.query_offset = second.key_offset = cut;
    second.q = ll_view_from(c->q, cut), second.k = ll_view_from(c->k, cut);
    second.v = ll_view_from(c->v, cut), second.y = ll_view_from(c->y, cut);
    CHECK_OK(ll_attention_forward(op, &first));
    CHECK_OK(ll_attention_forward(op, &second));
    ll_attention_free(op);
    free(passed);
}

/* So does one that comes with the state of an earlier call, or with the call that takes a state. */
static void test_nonfinite_is_carried(void **state) {
    (void)state;
    uint64_t seed = 27;
    for (int n = 0; n < 80; n++) {
        ll_attention_config c = exact_config(1 + n % 2, &seed);
        const int T = 200, cut = draw_int(&seed, 50, 150), at = cut + draw_int(&seed, -50, 49);
        drawn *d = drawn_create(c, 1, T, T, 0.8, 0, &seed);
        make_infinite(d, at);
        drawn_run(d, 0, 0);
        float *whole = copy_of_y(d);
        int seen = 0;
        run_parts(d, cut);
        const float *parts = drawn_packed(d, &d->call.y, T, c.E);
        for (int i = 0; i < c.H * T * c.E; i++) {
            const float x = whole[i], y = parts[i];
            seen += !isfinite(x);
            if (isfinite(x) ? !(fabsf(x - y) < 1e-4f) : isfinite(y))
                fail_msg("case %d: row %d, infinity at %d, cut at %d: %g, in parts %g: %s", n, i / c.E % T, at, cut,
                         (double)x, (double)y, drawn_name(d));
        }
        if (!seen) fail_msg("case %d: no row sees the infinity at %d: %s", n, at, drawn_name(d));
        free(whole);
        drawn_free(d);
    }
}

/* With logits of thousands the weights become 0 and 1, and gradients stay finite. */
static void test_large_logits(void **state) {
    (void)state;
    uint64_t seed = 25;
    for (int causal = 0; causal < 2; causal++) {
        ll_attention_config c = config(causal, 1, 8, 8);
        c.input_scale = 300;
        drawn *d = drawn_create(c, 1, 280, 280, 1, 0, &seed);
        drawn_solve(d, 0);
        drawn_run(d, 0, 1);
        drawn_check(d, "large logits", 0, 1e-3, 0);
        size_t size = 0;
        float *all = drawn_results(d, &size);
        for (size_t i = 0; i < size / sizeof *all; i++)
            if (!isfinite(all[i])) fail_msg("result %zu is %g", i, (double)all[i]);
        free(all);
        drawn_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_later_tokens),
        cmocka_unit_test(test_nonfinite_is_seen),
        cmocka_unit_test(test_nonfinite_is_carried),
        cmocka_unit_test(test_large_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
