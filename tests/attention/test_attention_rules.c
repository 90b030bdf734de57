/* What must hold for every attention operator. Padding and later tokens change nothing. Extreme inputs give finite and
 * right results. Rows without keys give 0. Impossible settings are refused. */
#include "base/memory.h"
#include "drawn.h"

/* All that a run wrote, one after the other: y, dq, dk, dv. */
typedef struct {
    float *y, *dq, *dk, *dv;
} results;

static float *kept(drawn *d, const ll_view *v, int n, int width) {
    const size_t floats = (size_t)(d->call.B * d->config.H * n * width);
    float *to = calloc(floats + 1, sizeof *to);
    assert_non_null(to);
    memcpy(to, drawn_packed(d, v, n, width), floats * sizeof *to);
    return to;
}

static results run(drawn *d, int tile) {
    const int T = d->call.T, S = d->call.S, D = d->config.D, E = d->config.E;
    drawn_run(d, tile, 1);
    return (results){kept(d, &d->call.y, T, E), kept(d, &d->call.dq, T, D), kept(d, &d->call.dk, S, D),
                     kept(d, &d->call.dv, S, E)};
}

static void results_free(results *r) {
    free(r->y);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

/* Compares rows 0..rows-1 of each head: those of sequence b in `all` (n rows a head) with those of the only sequence in
 * `one`. */
static void check_rows(const drawn *d, const char *what, const float *all, int b, int n, const float *one, int rows,
                       int one_rows, int width) {
    for (int h = 0; h < d->config.H; h++) {
        const float *x = all + ((size_t)b * (size_t)d->config.H + (size_t)h) * (size_t)n * (size_t)width;
        const float *y = one + (size_t)h * (size_t)one_rows * (size_t)width;
        for (int i = 0; i < rows * width; i++)
            if (x[i] != y[i]) /* the same bits, except for the sign of 0 */
                fail_msg("%s of sequence %d, head %d, row %d: %.9g is %.9g: %s", what, b, h, i / width, (double)y[i],
                         (double)x[i], drawn_name(d));
    }
}

/* A sequence in a padded batch gives the same bits as it gives alone. */
static void test_padding_changes_nothing(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (int n = 0; n < rounds(120); n++) {
        ll_attention_config c = draw_config(&seed);
        if (c.key_max == LL_MAX_BATCH) c.key_max = LL_MAX_SEQUENCE; /* a maximum over the batch mixes sequences */
        const int T = draw_int(&seed, 1, 70), tile = draw_int(&seed, 1, 33);
        drawn *d = drawn_create(c, 3, T, T, 0.8, DRAW_LENGTHS | draw_int(&seed, 0, 7), &seed);
        results all = run(d, tile);
        for (int b = 0; b < 3; b++) {
            drawn one = *d;
            ll_view *views[] = {&one.call.q, &one.call.k,  &one.call.v,  &one.call.y,
                                &one.call.g, &one.call.dq, &one.call.dk, &one.call.dv};
            for (int i = 0; i < 8; i++) views[i]->data += (size_t)b * views[i]->batch;
            one.call.B = 1;
            one.call.T = one.call.S = d->call.lengths[b];
            one.call.lengths = NULL;
            if (one.call.key_mask) one.call.key_mask += (size_t)b * (size_t)T;
            results alone = run(&one, tile);
            const int rows = one.call.T;
            check_rows(d, "y", all.y, b, T, alone.y, rows, rows, c.E);
            check_rows(d, "dq", all.dq, b, T, alone.dq, rows, rows, c.D);
            check_rows(d, "dk", all.dk, b, T, alone.dk, rows, rows, c.D);
            check_rows(d, "dv", all.dv, b, T, alone.dv, rows, rows, c.E);
            results_free(&alone);
        }
        results_free(&all);
        drawn_free(d);
    }
}

static float *element(const ll_view *v, int b, int h, int t) {
    return v->data + (size_t)b * v->batch + (size_t)h * v->head + (size_t)t * v->token;
}

/* Replaces the rows of a view for which `mask` is 0 by NaN, or with mask = NULL the rows from `from` on. */
static void replace(drawn *d, const ll_view *v, int n, int width, const float *mask, int from, uint64_t *seed) {
    for (int b = 0; b < d->call.B; b++)
        for (int h = 0; h < d->config.H; h++)
            for (int t = 0; t < n; t++) {
                if (mask ? mask[(size_t)b * (size_t)n + (size_t)t] != 0 : t < from) continue;
                for (int e = 0; e < width; e++) element(v, b, h, t)[e] = mask ? NAN : (float)(6 * draw_normal(seed));
            }
}

static void test_masked_keys_change_nothing(void **state) {
    (void)state;
    uint64_t seed = 12;
    for (int n = 0; n < rounds(120); n++) {
        ll_attention_config c = draw_config(&seed);
        const int T = draw_int(&seed, 2, 60), S = c.causal ? T : draw_int(&seed, 2, 60), tile = draw_int(&seed, 1, 33);
        drawn *d = drawn_create(c, 2, T, S, 0.8, DRAW_MASK, &seed);
        if (d->call.key_mask) {
            results before = run(d, tile);
            replace(d, &d->call.k, S, c.D, d->call.key_mask, 0, &seed);
            replace(d, &d->call.v, S, c.E, d->call.key_mask, 0, &seed);
            results after = run(d, tile);
            for (int b = 0; b < 2; b++) {
                const size_t rows = (size_t)(b * c.H) * (size_t)T, keys = (size_t)(b * c.H) * (size_t)S;
                const size_t D = (size_t)c.D, E = (size_t)c.E;
                check_rows(d, "y", before.y, b, T, after.y + rows * E, T, T, c.E);
                check_rows(d, "dq", before.dq, b, T, after.dq + rows * D, T, T, c.D);
                check_rows(d, "dk", before.dk, b, S, after.dk + keys * D, S, S, c.D);
                check_rows(d, "dv", before.dv, b, S, after.dv + keys * E, S, S, c.E);
            }
            results_free(&before);
            results_free(&after);
        }
        drawn_free(d);
    }
}

/* A causal operator depends on later tokens only under the released rules that do so on purpose. */
static int looks_ahead(const ll_attention_config *c) {
    const int whole = c->key_max == LL_MAX_SEQUENCE || c->key_max == LL_MAX_BATCH || c->query_max == LL_MAX_SEQUENCE;
    return !c->causal || (whole && c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_GAUSSIAN &&
                          (c->feature_eps > 0 || c->den != LL_DEN_SUM));
}

static void test_later_tokens_change_nothing(void **state) {
    (void)state;
    uint64_t seed = 13;
    int ran = 0;
    for (int n = 0; n < rounds(400); n++) {
        ll_attention_config c = draw_config(&seed);
        if (looks_ahead(&c)) {
            draw_config_free(&c);
            continue;
        }
        const int T = draw_int(&seed, 2, 90), from = draw_int(&seed, 1, T - 1), tile = draw_int(&seed, 1, 40);
        drawn *d = drawn_create(c, 1, T, T, 0.8, draw_int(&seed, 0, 1) ? DRAW_MASK : 0, &seed);
        drawn_run(d, tile, 0);
        float *before = kept(d, &d->call.y, T, c.E);
        replace(d, &d->call.q, T, c.D, NULL, from, &seed);
        replace(d, &d->call.k, T, c.D, NULL, from, &seed);
        replace(d, &d->call.v, T, c.E, NULL, from, &seed);
        drawn_run(d, tile, 0);
        check_rows(d, "y", before, 0, T, drawn_packed(d, &d->call.y, T, c.E), from, T, c.E);
        free(before);
        drawn_free(d);
        ran++;
    }
    assert_in_range(ran, rounds(100), rounds(400));
}

/* Vectors so long that e^u alone is beyond the range of float. Only the stabilisers keep the result finite. */
static void test_long_vectors(void **state) {
    (void)state;
    uint64_t seed = 14;
    for (int kind = 0; kind < 10; kind++) {
        ll_attention_config c = {.H = 2, .E = 9, .causal = kind % 2, .input_scale = kind < 4 ? 0.5f : 0.25f};
        c.kernel = kind < 4 || kind > 7 ? LL_KERNEL_FAVOR : kind < 6 ? LL_KERNEL_SOFTMAX : LL_KERNEL_EXP;
        c.D = 16;
        c.M = c.kernel == LL_KERNEL_FAVOR ? 48 : 0;
        if (kind >= 6) c.input_scale = kind == 6 ? 8 : kind == 7 ? 3.5f : 0.5f; /* these give weights beyond e^88 */
        if (kind == 7) c.feature_eps = 1e-2f;
        if (kind >= 8) c.features = LL_FEATURES_HYPERBOLIC;
        draw_parts(&c, kind == 3, &seed);
        drawn *d = drawn_create(c, 1, 150, 150, kind < 4 || kind > 7 ? 3 : 6, 0, &seed);
        drawn_solve(d, 1);
        drawn_run(d, 32, 1);
        drawn_check(d, "long vectors", 1, 3e-5, 2e-4);
        drawn_free(d);
    }
}

/* Late in a sequence the sums of some tokens are apart from those of all before them. Both are scaled when a key comes
 * that is larger than all before it. */
static void test_late_tokens(void **state) {
    (void)state;
    uint64_t seed = 21;
    for (int kind = 0; kind < 4; kind++) {
        ll_attention_config c = {.H = kind < 2 ? 1 : 2, .D = 16, .E = 9, .causal = 1, .input_scale = 0.5f};
        c.kernel = kind % 2 ? LL_KERNEL_RELU : LL_KERNEL_FAVOR;
        c.M = kind % 2 ? 0 : 48;
        c.feature_eps = kind % 2 ? 1e-3f : 0;
        draw_parts(&c, 0, &seed);
        drawn *d = drawn_create(c, 1, 150, 150, 3, 0, &seed);
        drawn_solve(d, 1);
        d->call.query_offset = d->call.key_offset = 1 << 20;
        drawn_run(d, 32, 1);
        drawn_check(d, "late tokens", 1, 3e-5, 2e-4);
        drawn_free(d);
    }
}

/* The first key has e^140 times the weight of later ones. Once it has decayed it must not hide them. */
static void test_faded_key(void **state) {
    (void)state;
    uint64_t seed = 19;
    ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .H = 1, .D = 64, .E = 5, .M = 64, .causal = 1};
    c.input_scale = 0.35f;
    draw_parts(&c, 1, &seed);
    ((float *)c.decay)[0] = 0.5f;
    drawn *d = drawn_create(c, 1, 500, 500, 6, 0, &seed);
    for (int e = 0; e < c.D; e++) d->o.k[e] = (double)(d->call.k.data[e] *= 0.125f);
    drawn_solve(d, 1);
    drawn_run(d, 64, 1);
    drawn_check(d, "faded key", 1, 3e-5, 2e-4);
    drawn_free(d);
}

/* Vectors so long that most weights are beyond the range of float even relative to the largest. The result is no longer
 * right, but finite. */
static void test_absurd_vectors(void **state) {
    (void)state;
    uint64_t seed = 18;
    for (int kind = 0; kind < 4; kind++) {
        ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .H = 1, .D = 64, .E = 5, .M = 64, .input_scale = 0.35f};
        c.causal = kind > 0;
        draw_parts(&c, kind > 1, &seed);
        if (kind == 3) ((float *)c.decay)[0] = 0.5f;
        drawn *d = drawn_create(c, 1, 300, 300, 12, 0, &seed);
        results r = run(d, 64);
        for (int i = 0; i < 300 * c.E; i++) assert_true(isfinite(r.y[i]) && isfinite(r.dv[i]));
        for (int i = 0; i < 300 * c.D; i++) assert_true(isfinite(r.dq[i]) && isfinite(r.dk[i]));
        results_free(&r);
        drawn_free(d);
    }
}

/* Neither 0.5^3000 nor its inverse is a float, so no such power may be computed by itself. */
static void test_long_decay(void **state) {
    (void)state;
    const int tokens = getenv("LL_FAST") ? 600 : 3000;
    uint64_t seed = 15;
    for (int kind = 0; kind < 2; kind++) {
        ll_attention_config c = {
            .kernel = kind ? LL_KERNEL_FAVOR : LL_KERNEL_RELU, .H = 1, .D = 6, .E = 4, .causal = 1};
        c.input_scale = 0.6f;
        c.M = kind ? 12 : 0;
        c.feature_eps = kind ? 0 : 1e-3f;
        c.position = LL_POSITION_PERMUTE;
        draw_parts(&c, 1, &seed);
        ((float *)c.decay)[0] = 0.5f;
        drawn *d = drawn_create(c, 1, tokens, tokens, 0.8, 0, &seed);
        drawn_solve(d, 1);
        drawn_run(d, 64, 1);
        drawn_check(d, "long decay", 1, 1e-5, 1e-4);
        drawn_free(d);
    }
}

/* Rows that see no key are 0 in y and in every gradient, whatever divides them. */
static void test_nothing_to_see(void **state) {
    (void)state;
    uint64_t seed = 16;
    for (int n = 0; n < rounds(60); n++) {
        ll_attention_config c = draw_config(&seed);
        const int T = draw_int(&seed, 1, 40), S = c.causal ? T : n % 3 ? draw_int(&seed, 1, 40) : 0;
        drawn *d = drawn_create(c, 2, T, S, 0.8, DRAW_MASK, &seed);
        int lengths[2] = {0, 0};
        if (d->call.key_mask) memset((void *)d->call.key_mask, 0, (size_t)(2 * S) * sizeof(float));
        if (!d->call.key_mask) d->call.lengths = d->o.lengths = lengths;
        drawn_solve(d, 1);
        drawn_run(d, 16, 1);
        for (int i = 0; i < 2 * c.H * T * c.E; i++) assert_true(d->y[i] == 0);
        drawn_check(d, "no keys", 1, 0, 0);
        d->call.lengths = NULL;
        drawn_free(d);
    }
}

static void test_no_sequences(void **state) {
    (void)state;
    ll_attention_config c = ll_attention_default();
    ll_attention_call none = {0};
    ll_attention *op;
    for (int kernel = LL_KERNEL_SOFTMAX; kernel <= LL_KERNEL_ELU1; kernel += LL_KERNEL_ELU1) {
        c.kernel = (ll_kernel)kernel;
        float saved[1] = {0};
        none.saved = saved;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_forward(op, &none));
        CHECK_OK(ll_attention_backward(op, &none));
        ll_attention_free(op);
    }
}

static void test_memory_refused(void **state) {
    (void)state;
    uint64_t seed = 17;
    for (int n = 0; n < rounds(40); n++) {
        ll_attention_config c = draw_config(&seed);
        drawn *d = drawn_create(c, 1, 20, 20, 0.8, 0, &seed);
        ll_status status = LL_ENOMEM;
        for (long at = 1; status != LL_OK; at++) {
            ll_attention *op = NULL;
            ll_memory_fail_at(at);
            status = ll_attention_create(&op, &c);
            if (!status) {
                d->call.saved =
                    calloc(ll_attention_saved(op, &(ll_attention_call){.B = 1, .T = 20, .S = 20}), sizeof(float));
                status = ll_attention_forward(op, &d->call);
                if (!status) status = ll_attention_backward(op, &d->call);
                free(d->call.saved);
                d->call.saved = NULL;
            }
            ll_memory_fail_at(0);
            ll_attention_free(op);
            if (status != LL_OK && status != LL_ENOMEM) fail_msg("allocation %ld: status %d", at, status);
            if (at > 100) fail_msg("more than 100 allocations, or one is not checked");
        }
        drawn_free(d);
    }
}

/* Positions of pixels need an image that has some width and some height. */
static void test_images_without_a_side(void **state) {
    (void)state;
    static const ll_position positions[] = {LL_POSITION_PERMUTE2D, LL_POSITION_CONV_SPE, LL_POSITION_RELATIVE_S1,
                                            LL_POSITION_RELATIVE_S2};
    static const int sizes[][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 0}, {0, 2, 0}, {2, 2, -1}}; /* and tokens before */
    static const float w[8];
    static const int32_t order[2];
    for (int p = 0; p < 4; p++) {
        ll_attention_config c = {.kernel = LL_KERNEL_RELU, .H = 2, .D = 2, .E = 2, .input_scale = 1};
        ll_attention *op;
        ll_position_config *x = &c.encoding;
        x->realizations = x->taps = x->taps2 = x->scales = x->clip = x->keyless = 1, x->axes = 2;
        x->filter_q = x->filter_k = x->inv_freq = x->alpha = x->beta = x->rpe = w;
        c.position = positions[p], c.permutation = p ? NULL : order;
        for (int i = 0; i < 5; i++) {
            c.width = sizes[i][0], c.height = sizes[i][1], c.before = sizes[i][2];
            if (i >= 2) {
                CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL,
                            i < 4 || p < 2 ? "image size" : "-1 tokens without position");
                continue;
            }
            CHECK_OK(ll_attention_create(&op, &c));
            ll_attention_free(op);
        }
    }
}

static void test_what_cannot_be(void **state) {
    (void)state;
    const float w[8] = {1, 1, 1, 1, 1, 1, 1, 1}, one[2] = {1, 1}, big[2] = {1, 1.5f};
    const int32_t twice[4] = {0, 0, 1, 1}, pair[4] = {1, 0, 0, 1}, outside[4] = {0, 2, 0, 1};
    const ll_attention_config relu = {.kernel = LL_KERNEL_RELU, .H = 2, .D = 2, .E = 2, .input_scale = 1};
    ll_attention_config c;
    ll_attention *op;
    REFUSED(relu, c.H = 0, "heads");
    REFUSED(relu, c.D = -1, "query size");
    REFUSED(relu, c.E = 1 << 30, "value size");
    REFUSED(relu, c.M = 4, "projection");
    REFUSED(relu, c.input_scale = NAN, "scale");
    REFUSED(relu, c.feature_eps = -1, "eps");
    REFUSED(relu, c.decay = one, "causal");
    REFUSED(relu, (c.causal = 1, c.decay = big), "head 1");
    REFUSED(relu, c.position = LL_POSITION_PERMUTE, "permutation");
    REFUSED(relu, c.permutation = pair, "permutation");
    REFUSED(relu, (c.position = LL_POSITION_PERMUTE, c.permutation = twice), "head 0");
    REFUSED(relu, (c.position = LL_POSITION_PERMUTE, c.permutation = outside), "head 0");
    REFUSED(relu, (c.position = LL_POSITION_PERMUTE2D, c.permutation = pair), "image");
    REFUSED(relu, c.kernel = LL_KERNEL_FAVOR, "projection");
    REFUSED(relu, c.kernel = (ll_kernel)99, "kernel 99");
    REFUSED(relu, c.position = (ll_position)99, "position 99");
    REFUSED(relu, c.position = (ll_position)-1, "position -1");
    REFUSED(relu, c.kernel = LL_KERNEL_GLA, "the gate of gla weighs earlier tokens");
    REFUSED(relu, (c.kernel = LL_KERNEL_GLA, c.position = LL_POSITION_RELATIVE_S2, c.causal = 1), "relative-s2 has");
    REFUSED(relu, c.features = LL_FEATURES_HYPERBOLIC, "favor");
    REFUSED(relu, (c.kernel = LL_KERNEL_FAVOR, c.M = 4, c.projection = w, c.features = (ll_feature_kind)9), "kind 9");
    REFUSED(
        relu,
        (c.kernel = LL_KERNEL_FAVOR, c.M = 4, c.projection = w, c.features = LL_FEATURES_GAUSSIAN, c.feature_eps = 1),
        "both signs");
    REFUSED(relu, (c.kernel = LL_KERNEL_FAVOR, c.M = 4, c.projection = w, c.query_max = LL_MAX_SEQUENCE), "queries");
    REFUSED(relu, (c.kernel = LL_KERNEL_SOFTMAX, c.decay = one, c.causal = 1), "softmax");
    REFUSED(relu, (c.kernel = LL_KERNEL_FAVOR, c.M = 4, c.projection = w, c.key_max = LL_MAX_TOKEN), "maximum");
    REFUSED(
        relu,
        (c.kernel = LL_KERNEL_FAVOR, c.M = 4, c.projection = w, c.causal = 1, c.max_gradient = 1, c.den = LL_DEN_NONE),
        "gradient");
    CHECK_OK(ll_attention_create(&op, &relu));
    const int lengths[1] = {3};
    ll_attention_call call = {.B = 1, .T = 2, .S = 2, .lengths = lengths};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "length 3");
    ll_attention_free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding_changes_nothing),     cmocka_unit_test(test_masked_keys_change_nothing),
        cmocka_unit_test(test_later_tokens_change_nothing), cmocka_unit_test(test_long_vectors),
        cmocka_unit_test(test_long_decay),                  cmocka_unit_test(test_late_tokens),
        cmocka_unit_test(test_faded_key),                   cmocka_unit_test(test_absurd_vectors),
        cmocka_unit_test(test_nothing_to_see),              cmocka_unit_test(test_no_sequences),
        cmocka_unit_test(test_memory_refused),              cmocka_unit_test(test_images_without_a_side),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
