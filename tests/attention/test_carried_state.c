/* A sequence cut into calls that pass their state on gives what one call gives: outputs and all gradients, for every
 * kernel and position whose state has a constant size. Where calls end at the end of a chunk, the bits are the same. */
#include "carried.h"

static void run_whole(const ll_attention *op, tensors *t) {
    ll_attention_call c = call_of(op, t, 0, t->T, t->T);
    c.saved = saved_for(op, &c);
    CHECK_OK(ll_attention_forward(op, &c));
    CHECK_OK(ll_attention_backward(op, &c));
    free(c.saved);
}

/* The cuts are 0 = cut[0] < .. < cut[n] = T. State i is that before chunk i. */
static void run_causal(const ll_attention *op, tensors *t, const int *cut, int n) {
    size_t floats;
    float *saved[80];
    ll_attention_call call[80];
    CHECK_OK(ll_attention_state_floats(op, &floats));
    float *states = calloc((size_t)(n + 1) * floats + 1, sizeof(float)), *d = calloc(2 * floats + 1, sizeof(float));
    ll_attention_state_clear(op, states);
    for (int i = 0; i < n; i++) {
        ll_attention_call *c = &call[i];
        *c = call_of(op, t, cut[i], cut[i + 1] - cut[i], cut[i + 1] - cut[i]);
        c->state_in = states + (size_t)i * floats, c->state_out = states + (size_t)(i + 1) * floats;
        c->saved = saved[i] = saved_for(op, c);
        CHECK_OK(ll_attention_forward(op, c));
    }
    for (int i = n - 1; i >= 0; i--) {
        call[i].dstate_out = i < n - 1 ? d + (size_t)((i + 1) % 2) * floats : NULL;
        call[i].dstate_in = d + (size_t)(i % 2) * floats;
        CHECK_OK(ll_attention_backward(op, &call[i]));
        free(saved[i]);
    }
    for (size_t e = 0; e < floats && !op->kind->keyless; e++) /* some of those are halves of doubles */
        assert_true(isfinite(d[e]));
    free(states), free(d);
}

/* Not causal: first all keys, then all queries, each in chunks. The gradient goes the same way back. */
static void run_both(const ll_attention *op, tensors *t, const int *cut, int n) {
    size_t floats;
    ll_attention_call keys[80], queries[80];
    CHECK_OK(ll_attention_state_floats(op, &floats));
    float *states = calloc((size_t)(n + 1) * floats + 1, sizeof(float)), *d = calloc(3 * floats + 1, sizeof(float));
    float *unused = calloc(floats + 1, sizeof(float)), *total = d + 2 * floats;
    for (int i = 0; i < n; i++) {
        ll_attention_call *c = &keys[i];
        *c = call_of(op, t, cut[i], 0, cut[i + 1] - cut[i]);
        c->state_in = i ? states + (size_t)i * floats : NULL, c->state_out = states + (size_t)(i + 1) * floats;
        c->saved = saved_for(op, c);
        CHECK_OK(ll_attention_forward(op, c));
    }
    for (int i = 0; i < n; i++) {
        ll_attention_call *c = &queries[i];
        *c = call_of(op, t, cut[i], cut[i + 1] - cut[i], 0);
        c->state_in = states + (size_t)n * floats, c->state_out = unused;
        c->saved = saved_for(op, c);
        CHECK_OK(ll_attention_forward(op, c));
        c->dstate_in = d;
        CHECK_OK(ll_attention_backward(op, c));
        for (size_t e = 0; e < floats; e++) total[e] += d[e];
        free(c->saved);
    }
    for (int i = n - 1; i >= 0; i--) {
        keys[i].dstate_out = i < n - 1 ? d + (size_t)((i + 1) % 2) * floats : total;
        keys[i].dstate_in = d + (size_t)(i % 2) * floats;
        CHECK_OK(ll_attention_backward(op, &keys[i]));
        free(keys[i].saved);
    }
    free(states), free(d), free(unused);
}

static int draw_cuts(int T, int *cut, uint64_t *seed) {
    int n = 0;
    cut[0] = 0;
    while (cut[n] < T) {
        const int left = T - cut[n], most = left < 40 ? left : 40;
        cut[n + 1] = cut[n] + draw_int(seed, n % 3 == 2 ? 0 : 1, n % 4 < 2 && most > 3 ? 3 : most);
        n++;
    }
    return n;
}

static void compare(const char *name, const tensors *a, const tensors *b, double tolerance) {
    static const char *const names[TENSORS] = {"q", "k", "v", "g", "y", "dq", "dk", "dv", "gate", "dgate"};
    for (int i = 4; i < TENSORS; i++) {
        double worst = 0, largest = 1e-3;
        for (int n = 0; n < H * a->T * width(i); n++) {
            const double error = abs_error((double)a->x[i][n], (double)b->x[i][n]);
            worst = fmax(worst, error);
            largest = fmax(largest, fabs((double)a->x[i][n]));
        }
        if (!(worst <= tolerance * largest)) fail_msg("%s: %s is off by %.3g of %.3g", name, names[i], worst, largest);
    }
    for (int p = 0; p < PARTS; p++) {
        double worst = 0, largest = 1e-3;
        for (int n = 0; n < PART; n++) {
            const double x = (double)a->d->part[p][n];
            worst = fmax(worst, abs_error(x, (double)b->d->part[p][n]));
            largest = fmax(largest, fabs(x));
        }
        if (!(worst <= tolerance * largest))
            fail_msg("%s: gradient of parameter %d is off by %.3g of %.3g", name, p, worst, largest);
    }
    for (int h = 0; h < H; h++) {
        const double x = (double)a->d->ddecay[h], y = (double)b->d->ddecay[h];
        if (!(fabs(x - y) <= tolerance * fmax(1, fabs(x)))) fail_msg("%s: ddecay is %g, whole %g", name, y, x);
    }
}

/* Which pairs pass a state on: all kernels except softmax, with any position; without causality, those that sum over
 * keys. */
static int has_state(const ll_attention_config *c) {
    if (c->kernel == LL_KERNEL_SOFTMAX || c->kernel == LL_KERNEL_LINFORMER || c->kernel == LL_KERNEL_NYSTROM) return 0;
    const int sums = c->kernel != LL_KERNEL_LOCAL && c->kernel != LL_KERNEL_REFORMER;
    if (!c->causal && c->position == LL_POSITION_RELATIVE_S2) return 0;
    /* Without causality, a scale of favor's features that does not cancel belongs to the whole sequence. */
    return c->causal || (sums && (c->kernel != LL_KERNEL_FAVOR || ll_scale_cancels(c)));
}

static void check_pair(const ll_attention_config *c, const char *name, uint64_t *seed) {
    ll_attention *op;
    size_t floats;
    int cut[80];
    CHECK_OK(ll_attention_create(&op, c));
    /* Without causality, a token that is its own only key leaves no state. */
    const int status = ll_attention_state_floats(op, &floats), keeps = has_state(c);
    if ((status == LL_OK) != keeps) fail_msg("%s: %s", name, keeps ? ll_error() : "a state that it cannot have");
    const int can = keeps && (c->causal || floats);
    const int masks = ll_operator_of_kernel(c->kernel)->linear;
    for (int pass = 0; pass < 3 + masks && can; pass++) {
        tensors whole = tensors_create(200, 7), parts = tensors_create(200, 7);
        ll_attention_set_tile(op, pass ? 16 : 0);
        ll_set_threads(pass == 2 ? 2 : 1);
        if (pass == 3) tensors_mask(&whole), tensors_mask(&parts);
        run_whole(op, &whole);
        const int n = draw_cuts(200, cut, seed);
        c->causal ? run_causal(op, &parts, cut, n) : run_both(op, &parts, cut, n);
        compare(name, &whole, &parts, c->kernel == LL_KERNEL_GLA ? 5e-4 : 2e-4); /* features of both signs */
        tensors_free(&whole), tensors_free(&parts);
    }
    ll_set_threads(0);
    ll_attention_free(op);
}

/* Four calls give what one call gives. Forward has the same bits. */
static void check_bits(const ll_attention_config *c, const int cut[5]) {
    ll_attention *op;
    const int T = cut[4];
    CHECK_OK(ll_attention_create(&op, c));
    tensors whole = tensors_create(T, 9), parts = tensors_create(T, 9);
    run_whole(op, &whole);
    run_causal(op, &parts, cut, 4);
    assert_memory_equal(whole.x[4], parts.x[4], (size_t)(H * T * E) * sizeof(float));
    compare("bits", &whole, &parts, 1e-4);
    tensors_free(&whole), tensors_free(&parts);
    ll_attention_free(op);
}

/* Forward has the same bits wherever calls end at multiples of 1024 tokens, also after token 8192. */
static void test_chunks_keep_bits(void **state) {
    (void)state;
    static const int kernels[] = {LL_KERNEL_FAVOR, LL_KERNEL_RELU, LL_KERNEL_ELU1};
    static const int positions[] = {LL_POSITION_NONE, LL_POSITION_PERMUTE, LL_POSITION_ROPE, LL_POSITION_SINE_SPE};
    make_numbers();
    for (int k = 0; k < 3; k++)
        for (int p = 0; p < 4; p++)
            for (int decayed = 0; decayed < 2; decayed++) {
                ll_attention_config c;
                const int cut[] = {0, 1024, 4096, 9216, 11000};
                if (!describe(&c, kernels[k], positions[p], 1, 0)) continue;
                if (!decayed) c.decay = NULL;
                check_bits(&c, cut);
            }
}

/* Number i of the state. `type` says whether it is a double. It has a gradient unless it counts tokens, is an exponent,
 * or says whether a value counts. */
typedef struct {
    size_t at;
    int wide;
} place;

static int place_of(const ll_attention *op, size_t i, place *p) {
    ll_state_tensor t[LL_STATE_TENSORS];
    int count;
    size_t at = 0;
    CHECK_OK(ll_attention_state(op, t, &count));
    for (int n = 0; n < count; n++) {
        const int wide = t[n].dtype == LL_F64;
        const size_t floats = ll_state_bytes(&t[n]) / sizeof(float), size = floats / (size_t)(1 + wide);
        if (i >= size) {
            i -= size, at += floats;
            continue;
        }
        *p = (place){at + i * (size_t)(1 + wide), wide};
        if (!strcmp(t[n].name, "tokens") || !strcmp(t[n].name, "keyless.count") || !strcmp(t[n].name, "keyless.kept"))
            return 0;
        const size_t row = t[n].shape[t[n].rank - 1];
        if (strcmp(t[n].name, "state") && strcmp(t[n].name, "sums")) return 1;
        const size_t E1 = strcmp(t[n].name, "sums") ? E + 1 : 2;
        return i % row < (row / E1 < 2 ? 0 : (size_t)ll_feature_count(&op->c) * E1); /* S and z */
    }
    return -1;
}

static double get(const float *state, place p) {
    double x;
    if (!p.wide) return (double)state[p.at];
    memcpy(&x, state + p.at, sizeof x);
    return x;
}
static void set(float *state, place p, double x) {
    if (p.wide) memcpy(state + p.at, &x, sizeof x);
    if (!p.wide) state[p.at] = (float)x;
}

/* sum(y g) + sum(G state_out) */
static double loss_of(const ll_attention *op, const ll_attention_call *c, const float *G, size_t size) {
    double loss = 0;
    place p;
    CHECK_OK(ll_attention_forward(op, c));
    for (int h = 0; h < H; h++)
        for (int n = 0; n < c->T * E; n++)
            loss += (double)ll_element(&c->y, 0, (size_t)h, 0)[n] * (double)ll_element(&c->g, 0, (size_t)h, 0)[n];
    for (size_t i = 0; i < size; i++)
        if (place_of(op, i, &p) > 0) loss += get(G, p) * get(c->state_out, p);
    return loss;
}

/* The gradient of the state that a call takes, against differences of a loss that also reads the state that the call
 * leaves. */
static void check_gradient(const ll_attention_config *config, const char *name) {
    ll_attention *op;
    size_t floats, size = 0;
    uint64_t seed = 11;
    place p;
    CHECK_OK(ll_attention_create(&op, config));
    if (ll_attention_state_floats(op, &floats) || !floats) {
        ll_attention_free(op);
        return;
    }
    tensors t = tensors_create(40, 5);
    float *in = calloc(floats, 4), *out = calloc(floats, 4), *G = calloc(floats, 4), *d = calloc(floats, 4);
    ll_attention_call c1 = call_of(op, &t, 0, 25, 25), c2 = call_of(op, &t, 25, 15, 15);
    c1.state_out = in, c1.saved = saved_for(op, &c1);
    CHECK_OK(ll_attention_forward(op, &c1));
    for (; place_of(op, size, &p) >= 0; size++)
        if (place_of(op, size, &p)) set(G, p, 0.1 * draw_normal(&seed));
    c2.state_in = in, c2.state_out = out, c2.dstate_out = G, c2.dstate_in = d, c2.saved = saved_for(op, &c2);
    for (size_t i = 0; i < floats; i++) d[i] = NAN; /* is overwritten */
    CHECK_OK(ll_attention_forward(op, &c2));
    CHECK_OK(ll_attention_backward(op, &c2));
    for (size_t i = 0; i < floats; i++)
        if (isnan(d[i])) fail_msg("%s: dstate number %zu is none", name, i);
    int changed = 0;
    for (int n = 0; n < 60; n++) {
        const size_t i = (size_t)draw_int(&seed, 0, (int)size - 1);
        if (!place_of(op, i, &p)) continue;
        const double before = get(in, p);
        double slope[2]; /* two step sizes, extrapolated to step 0 */
        for (int half = 0; half < 2; half++) {
            const double step = (half ? 0.005 : 0.01) * (1 + fabs(before));
            set(in, p, before + step);
            const double up = loss_of(op, &c2, G, size);
            set(in, p, before - step);
            slope[half] = (up - loss_of(op, &c2, G, size)) / (2 * step);
        }
        set(in, p, before);
        const double difference = (4 * slope[1] - slope[0]) / 3;
        changed += difference != 0;
        if (!(fabs(difference - get(d, p)) <= 4e-3 * (1 + fabs(difference))))
            fail_msg("%s: dstate number %zu is %g, differences say %g", name, i, get(d, p), difference);
    }
    assert_true(changed > 0);
    free(c1.saved), free(c2.saved), free(in), free(out), free(G), free(d);
    tensors_free(&t);
    ll_attention_free(op);
}

static void check_cut(const ll_attention_config *config, const char *name) {
    static uint64_t seed = 3;
    check_pair(config, name, &seed);
}

static void check_cut_and_gradient(const ll_attention_config *config, const char *name) {
    check_cut(config, name);
    check_gradient(config, name);
}

static void test_cut_is_whole(void **state) {
    (void)state;
    assert_true(check_pairs(0, check_cut_and_gradient, NULL) + check_pairs(1, check_cut_and_gradient, check_cut) > 150);
}

/* Local windows have the same tiles where a call ends at a multiple of 256 tokens. Heads without keys add up token by
 * token. */
static void test_others_keep_bits(void **state) {
    (void)state;
    const int cut[] = {0, 256, 768, 1024, 1500};
    make_numbers();
    for (int form = 0; form < 4; form++) {
        ll_attention_config c;
        const int s2 = form == 3;
        assert_true(describe(&c, s2 ? LL_KERNEL_RELU : LL_KERNEL_LOCAL,
                             s2 ? LL_POSITION_RELATIVE_S2 : form ? LL_POSITION_ROPE : LL_POSITION_NONE, 1, 0));
        if (s2) c.encoding.keyless = H;
        c.approximate.window = form == 2 ? 700 : 50;
        check_bits(&c, cut);
    }
}

/* A divisor that counts keys counts those of earlier calls, too, also where a state is written over the one before. */
static void check_counted(const ll_attention_config *config, const char *name) {
    ll_attention_config c = *config;
    ll_attention *op;
    size_t floats;
    if (c.den == LL_DEN_NONE) return; /* weights of both signs */
    c.den = LL_DEN_EPS_L, c.den_eps = 0.3f;
    check_cut(&c, name);
    CHECK_OK(ll_attention_create(&op, &c));
    if (c.causal && !ll_attention_state_floats(op, &floats) && floats) {
        tensors whole = tensors_create(60, 7), parts = tensors_create(60, 7);
        float *one = calloc(floats, sizeof *one);
        run_whole(op, &whole);
        for (int t = 0; t < 60; t += 20) {
            ll_attention_call call = call_of(op, &parts, t, 20, 20);
            call.state_in = t ? one : NULL, call.state_out = one;
            CHECK_OK(ll_attention_forward(op, &call));
        }
        for (int i = 0; i < H * 60 * E; i++)
            if (!(fabsf(whole.x[4][i] - parts.x[4][i]) <= 1e-5f))
                fail_msg("%s: output %d is %g, whole %g", name, i, (double)parts.x[4][i], (double)whole.x[4][i]);
        free(one);
        tensors_free(&whole), tensors_free(&parts);
    }
    ll_attention_free(op);
}

static void test_keys_are_counted(void **state) {
    (void)state;
    assert_true(check_pairs(0, check_counted, NULL) + check_pairs(1, check_counted, NULL) > 150);
}

static void test_what_cannot_be(void **state) {
    (void)state;
    ll_attention_config c;
    ll_attention *op;
    size_t floats;
    float x = 0;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_SOFTMAX, LL_POSITION_NONE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_state_floats(op, &floats), LL_EINVAL, "constant size");
    ll_attention_call call = {.B = 1, .state_out = &x};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "constant size");
    ll_attention_free(op);
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_NONE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    call = (ll_attention_call){.B = 1, .query_offset = 3};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "same offset");
    call = (ll_attention_call){.B = 1, .query_offset = -3, .key_offset = -3};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "begin at 0");
    call = (ll_attention_call){.B = 1, .query_offset = INT64_MAX, .key_offset = INT64_MAX};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "positions begin at 0 to 2^52");
    call = (ll_attention_call){.B = 1, .offsets = (int64_t[]){(INT64_C(1) << 52) + 1}};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "those of sequence 0 at 4503599627370497");
    call = (ll_attention_call){.B = 1, .offsets = (int64_t[]){INT64_C(1) << 52}}; /* the last, of no token */
    CHECK_OK(ll_attention_forward(op, &call));
    call = (ll_attention_call){.B = 2, .offsets = (int64_t[]){0, -1}};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "those of sequence 1 at -1");
    call = (ll_attention_call){.B = 2, .state_out = &x, .state_row = 1};
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "states 1 floats apart");
    ll_attention_free(op);
    c.den = (ll_den)17;
    CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, "no divisor 17");
    c.den = LL_DEN_SUM, c.key_max = (ll_max)9;
    CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, "no maximum 0, 9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_is_whole),
        cmocka_unit_test(test_chunks_keep_bits),
        cmocka_unit_test(test_others_keep_bits),
        cmocka_unit_test(test_keys_are_counted),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
