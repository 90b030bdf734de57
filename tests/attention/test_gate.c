/* A gate for each token and head. Outputs are compared with the definition in double, all gradients with central
 * differences of it. Streams, calls that pass the state on, and a constant decay as a gate that is the same for all
 * tokens. */
#include <math.h>

#include "attention/attention_stream.h"
#include "test.h"
#include "oracle/oracle.h"

enum { H = 2, D = 4, E = 3, T = 90, TENSORS = 5 };

/* q, k, v, g and gate as the definition sees them, (H, T, width). */
typedef struct {
    double x[TENSORS][H * T * D];
    ll_kernel kernel;
    double decay[H], den_eps; /* den_eps: times the sum of the query's features */
} definition;

static int width_of(int i) { return i < 2 ? D : i < 4 ? E : 1; }

static double map_of(ll_kernel kernel, double u) {
    switch (kernel) {
    case LL_KERNEL_RELU: return (u > 0 ? u : 0) + 0.1;
    case LL_KERNEL_ELU1: return u > 0 ? u + 1 : exp(u);
    case LL_KERNEL_EXP: return exp(u);
    default: return u;
    }
}

/* sum(y g); y (H, T, E) unless NULL. */
static double loss_of(const definition *d, double *y) {
    double loss = 0;
    for (int h = 0; h < H; h++)
        for (int i = 0; i < T; i++) {
            const double *q = d->x[0] + (h * T + i) * D, *g = d->x[3] + (h * T + i) * E;
            double num[E] = {0}, den = 0, sum = 0;
            for (int e = 0; e < D; e++) den += d->den_eps * map_of(d->kernel, q[e]);
            for (int j = i; j >= 0; j--) {
                const double *k = d->x[1] + (h * T + j) * D, *v = d->x[2] + (h * T + j) * E;
                double weight = 0;
                for (int e = 0; e < D; e++) weight += map_of(d->kernel, q[e]) * map_of(d->kernel, k[e]);
                weight *= exp(sum);
                for (int e = 0; e < E; e++) num[e] += weight * v[e];
                den += weight;
                sum += d->x[4][h * T + j] + log(d->decay[h]);
            }
            for (int e = 0; e < E; e++) {
                const double out = d->kernel == LL_KERNEL_IDENTITY ? num[e] : num[e] / den;
                if (y) y[(h * T + i) * E + e] = out;
                loss += out * g[e];
            }
        }
    return loss;
}

static double difference(definition *d, double *x) {
    const double before = *x, step = 1e-5;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        *x = before + (side ? step : -step);
        loss[side] = loss_of(d, NULL);
    }
    *x = before;
    return (loss[1] - loss[0]) / (2 * step);
}

static definition *definition_create(ll_kernel kernel, int decayed, uint64_t seed) {
    definition *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->kernel = kernel;
    for (int h = 0; h < H; h++) d->decay[h] = decayed ? (double)(float)(0.9 + 0.05 * h) : 1;
    for (int i = 0; i < TENSORS; i++)
        for (int n = 0; n < H * T * width_of(i); n++) {
            const double x = 0.7 * draw_normal(&seed);
            /* most gates nearly open, some nearly closed */
            d->x[i][n] = (double)(float)(i < 4 ? x : n % 17 == 5 ? -9 : -0.2 * x * x);
        }
    return d;
}

typedef struct {
    float *x[TENSORS], *y, *d[TENSORS];
} tensors;

static tensors tensors_create(const definition *d) {
    tensors t = {.y = calloc(H * T * E, sizeof(float))};
    for (int i = 0; i < TENSORS; i++) {
        t.x[i] = calloc((size_t)(H * T * width_of(i)), sizeof(float));
        t.d[i] = calloc((size_t)(H * T * width_of(i)), sizeof(float));
        for (int n = 0; n < H * T * width_of(i); n++) t.x[i][n] = (float)d->x[i][n];
    }
    return t;
}

static void tensors_free(tensors *t) {
    for (int i = 0; i < TENSORS; i++) free(t->x[i]), free(t->d[i]);
    free(t->y);
}

static ll_view view(float *data, int width, int from) {
    return (ll_view){data + from * width, (size_t)(H * T * width), (size_t)(T * width), (size_t)width};
}

static ll_attention_call call_of(tensors *t, int from, int n, float *ddecay) {
    ll_attention_call c = {.B = 1, .T = n, .S = n, .query_offset = from, .key_offset = from, .ddecay = ddecay};
    c.q = view(t->x[0], D, from), c.k = view(t->x[1], D, from), c.v = view(t->x[2], E, from);
    c.g = view(t->x[3], E, from), c.gate = view(t->x[4], 1, from), c.y = view(t->y, E, from);
    c.dq = view(t->d[0], D, from), c.dk = view(t->d[1], D, from), c.dv = view(t->d[2], E, from);
    c.dgate = view(t->d[4], 1, from);
    return c;
}

static ll_attention_config config_of(ll_kernel kernel, const float *decay) {
    ll_attention_config c = {.kernel = kernel, .causal = 1, .H = H, .D = D, .E = E, .input_scale = 1, .decay = decay};
    if (kernel == LL_KERNEL_RELU) c.feature_eps = 0.1f;
    if (kernel == LL_KERNEL_IDENTITY) c.den = LL_DEN_NONE;
    return c;
}

/* In one call, or in two that pass the state on. */
static void run(const ll_attention *op, tensors *t, int cut, float *ddecay) {
    size_t floats;
    const int from[3] = {0, cut, T};
    ll_attention_call c[2];
    CHECK_OK(ll_attention_state_floats(op, &floats));
    float *state = calloc(3 * floats, sizeof *state), *d = calloc(3 * floats, sizeof *d);
    ll_attention_state_clear(op, state);
    for (int i = 0; i < 2; i++) {
        c[i] = call_of(t, from[i], from[i + 1] - from[i], ddecay);
        c[i].state_in = state + (size_t)i * floats, c[i].state_out = state + (size_t)(i + 1) * floats;
        c[i].saved = calloc(ll_attention_saved(op, &c[i]) + 1, sizeof(float));
        CHECK_OK(ll_attention_forward(op, &c[i]));
    }
    for (int i = 1; i >= 0; i--) {
        c[i].dstate_in = d + (size_t)i * floats, c[i].dstate_out = i ? NULL : d + floats;
        CHECK_OK(ll_attention_backward(op, &c[i]));
        free(c[i].saved);
    }
    free(state), free(d);
}

static void close_to(const char *what, int n, double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%s[%d] is %.9g, expected %.9g", what, n, got, expected);
}

static void check_gradients(definition *d, const tensors *t, const float *ddecay, int decayed, uint64_t *seed) {
    static const char *const names[TENSORS] = {"dq", "dk", "dv", "", "dgate"};
    for (int i = 0; i < TENSORS; i++)
        for (int n = 0; n < 40 && i != 3; n++) {
            const int at = draw_int(seed, 0, H * T * width_of(i) - 1);
            close_to(names[i], at, (double)t->d[i][at], difference(d, &d->x[i][at]), 2e-4);
        }
    for (int h = 0; h < H && decayed; h++) close_to("ddecay", h, (double)ddecay[h], difference(d, &d->decay[h]), 2e-4);
}

static void check_stream(const ll_attention *op, tensors *t, const double *y) {
    ll_attention_stream *s;
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    for (int at = 0, n; at < T; at += n) {
        n = at % 3 == 0 && at + 7 <= T ? 7 : 1;
        ll_attention_call c = call_of(t, at, n, NULL);
        CHECK_OK(ll_attention_stream_feed(s, n, c.q, c.k, c.v, c.gate, c.y));
    }
    for (int n = 0; n < H * T * E; n++) close_to("y of a stream", n, (double)t->y[n], y[n], 2e-5);
    ll_attention_stream_free(s);
}

static void test_against_definition(void **state) {
    (void)state;
    static const ll_kernel kernels[] = {LL_KERNEL_RELU, LL_KERNEL_ELU1, LL_KERNEL_EXP, LL_KERNEL_IDENTITY,
                                        LL_KERNEL_ELU1};
    uint64_t seed = 4;
    for (int i = 0; i < 10; i++) {
        const int decayed = i % 2;
        definition *d = definition_create(kernels[i / 2], decayed, (uint64_t)i + 1);
        const float decay[H] = {(float)d->decay[0], (float)d->decay[1]};
        ll_attention_config c = config_of(kernels[i / 2], decayed ? decay : NULL);
        if (i / 2 == 4) c.den = LL_DEN_EPS_PHI, c.den_eps = 0.3f, d->den_eps = (double)c.den_eps;
        ll_attention *op;
        double y[H * T * E];
        CHECK_OK(ll_attention_create(&op, &c));
        loss_of(d, y);
        for (int pass = 0; pass < 4; pass++) {
            float ddecay[H] = {0};
            tensors t = tensors_create(d);
            ll_attention_set_tile(op, pass == 1 ? 8 : 0);
            ll_set_threads(pass == 3 ? 3 : 1);
            run(op, &t, pass == 2 ? 37 : T, ddecay);
            for (int n = 0; n < H * T * E; n++) close_to("y", n, (double)t.y[n], y[n], 2e-5);
            check_gradients(d, &t, ddecay, decayed, &seed);
            check_stream(op, &t, y);
            tensors_free(&t);
        }
        ll_attention_free(op);
        free(d);
    }
    ll_set_threads(0);
}

/* A gate that shuts removes large keys, and the small ones after it are not lost below them. */
static void test_small_keys_after_a_shut_gate(void **state) {
    (void)state;
    static const double gates[] = {-60, -150, -1e30};
    uint64_t seed = 6;
    for (int i = 0; i < 6; i++) {
        definition *d = definition_create(LL_KERNEL_EXP, 0, 5);
        const int shut = i < 3 ? T / 2 : 3;
        for (int h = 0; h < H; h++) {
            d->x[4][h * T + shut] = gates[i % 3];
            for (int n = shut * D; n < T * D; n++) d->x[1][h * T * D + n] -= 110;
        }
        const ll_attention_config c = config_of(LL_KERNEL_EXP, NULL);
        ll_attention *op;
        double y[H * T * E];
        tensors t = tensors_create(d);
        CHECK_OK(ll_attention_create(&op, &c));
        loss_of(d, y);
        run(op, &t, T, NULL);
        for (int n = 0; n < H * T * E; n++) close_to("y", n, (double)t.y[n], y[n], 2e-5);
        check_gradients(d, &t, NULL, 0, &seed);
        check_stream(op, &t, y);
        tensors_free(&t);
        ll_attention_free(op);
        free(d);
    }
}

/* A gate of log r for every token is a decay of r. rope-linear has gates in numerator and denominator. */
static void test_constant_gates(void **state) {
    (void)state;
    static const ll_position positions[] = {LL_POSITION_NONE, LL_POSITION_ROPE, LL_POSITION_ROPE_LINEAR};
    const float decay[H] = {0.9f, 0.8f};
    for (int p = 0; p < 3; p++) {
        definition *d = definition_create(LL_KERNEL_ELU1, 0, 77);
        for (int n = 0; n < H * T; n++) d->x[4][n] = log((double)decay[n / T]);
        tensors gated = tensors_create(d), decayed = tensors_create(d);
        for (int which = 0; which < 2; which++) {
            float ddecay[H] = {0};
            tensors *t = which ? &decayed : &gated;
            ll_attention_config c = config_of(LL_KERNEL_ELU1, which ? decay : NULL);
            c.position = positions[p];
            ll_attention *op;
            CHECK_OK(ll_attention_create(&op, &c));
            for (int n = 0; n < H * T && which; n++) t->x[4][n] = 0;
            run(op, t, T, ddecay);
            for (int h = 0; h < H && which; h++) { /* dr = sum of dlog r / r */
                double sum = 0;
                for (int n = 0; n < T; n++) sum += (double)gated.d[4][h * T + n];
                close_to("ddecay", h, sum / (double)decay[h], (double)ddecay[h], 1e-4);
            }
            ll_attention_free(op);
        }
        for (int n = 0; n < H * T * E; n++) close_to("y", n, (double)gated.y[n], (double)decayed.y[n], 1e-5);
        for (int i = 0; i < 3; i++)
            for (int n = 0; n < H * T * width_of(i); n++)
                close_to("gradient", n, (double)gated.d[i][n], (double)decayed.d[i][n], 1e-4);
        tensors_free(&gated), tensors_free(&decayed);
        free(d);
    }
}

/* The gradient of a decay is as exact beside a gate as without one, and needs no gradient of the gate. */
static void test_decay_beside_a_gate(void **state) {
    (void)state;
    const float decay[H] = {0.05f, 0.5f};
    definition *d = definition_create(LL_KERNEL_RELU, 0, 78);
    const ll_attention_config c = config_of(LL_KERNEL_RELU, decay);
    ll_attention *op;
    float without[H] = {0}, beside[H] = {0};
    tensors t = tensors_create(d);
    CHECK_OK(ll_attention_create(&op, &c));
    for (int n = 0; n < H * T; n++) t.x[4][n] = 0;
    for (int gated = 0; gated < 2; gated++) {
        ll_attention_call call = call_of(&t, 0, T, gated ? beside : without);
        call.dgate.data = NULL;
        if (!gated) call.gate.data = NULL;
        call.saved = calloc(ll_attention_saved(op, &call), sizeof(float));
        CHECK_OK(ll_attention_forward(op, &call));
        CHECK_OK(ll_attention_backward(op, &call));
        free(call.saved);
    }
    for (int h = 0; h < H; h++) close_to("ddecay", h, (double)beside[h], (double)without[h], 1e-7);
    tensors_free(&t);
    ll_attention_free(op);
    free(d);
}

/* A gate with favor needs a maximum that cancels, or none over tokens: what the error names helps. A stream that
 * refuses a gate stays where it was. */
static void test_gates_of_favor(void **state) {
    (void)state;
    float projection[4 * D];
    uint64_t seed = 9;
    definition *d = definition_create(LL_KERNEL_FAVOR, 0, 9);
    ll_attention_config c = config_of(LL_KERNEL_FAVOR, NULL);
    for (int i = 0; i < 4 * D; i++) projection[i] = (float)(0.5 * draw_normal(&seed));
    c.M = 4, c.projection = projection, c.den = LL_DEN_NONE;
    for (int change = 0; change < 3; change++) {
        if (change == 1) c.den = LL_DEN_SUM;
        if (change == 2) c.den = LL_DEN_NONE, c.key_max = LL_MAX_NONE;
        tensors t = tensors_create(d);
        const ll_attention_call a = call_of(&t, 0, T, NULL);
        ll_attention *op;
        ll_attention_stream *stream;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_stream_create(&stream, op, 1));
        const ll_status status = ll_attention_stream_feed(stream, T, a.q, a.k, a.v, a.gate, a.y);
        if (change) {
            CHECK_OK(ll_attention_forward(op, &a));
        } else {
            CHECK_FAILS(ll_attention_forward(op, &a), LL_EINVAL,
                        "(LL_DEN_SUM) with feature_eps = 0, or use key_max none");
        }
        assert_int_equal(status, change ? LL_OK : LL_EINVAL);
        assert_int_equal(stream->position, change ? T : 0);
        ll_attention_stream_free(stream);
        ll_attention_free(op);
        tensors_free(&t);
    }
    free(d);
}

static void test_what_cannot_be(void **state) {
    (void)state;
    ll_attention_config c = config_of(LL_KERNEL_SOFTMAX, NULL);
    ll_attention *op;
    float x = 0;
    const ll_attention_call call = {.B = 1, .gate = {.data = &x}};
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "no state that could decay");
    ll_attention_free(op);
    c.kernel = LL_KERNEL_ELU1, c.causal = 0;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "both directions");
    const ll_attention_call offsets = {.B = 1, .offsets = (int64_t[]){3}};
    CHECK_FAILS(ll_attention_forward(op, &offsets), LL_EINVAL, "give query_offset and key_offset");
    ll_attention_free(op);
    c.causal = 1;
    CHECK_OK(ll_attention_create(&op, &c));
    const ll_attention_call uneven = {.B = 1, .T = 2, .S = 3}, without = {.B = 1, .dstate_out = &x};
    CHECK_FAILS(ll_attention_forward(op, &uneven), LL_EINVAL, "as many keys as queries, got 3 and 2");
    CHECK_FAILS(ll_attention_forward(op, &without), LL_EINVAL, "needs that state, too");
    const ll_attention_call no_gate = {.B = 1, .dgate = {.data = &x}};
    CHECK_FAILS(ll_attention_forward(op, &no_gate), LL_EINVAL,
                "dgate is the gradient of a gate, and the call has none");
    CHECK_FAILS(ll_attention_backward(op, &no_gate), LL_EINVAL, "the call has none");
    ll_attention_free(op);
    /* It is the kernel that needs the gate, whatever the position. */
    c = config_of(LL_KERNEL_GLA, NULL);
    c.position = LL_POSITION_ROPE_LINEAR;
    const ll_attention_call none = {.B = 1};
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_forward(op, &none), LL_EINVAL, "attention: gla needs a gate for every token");
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    CHECK_FAILS(ll_attention_stream_feed(s, 1, none.q, none.k, none.v, (ll_view){0}, none.y), LL_EINVAL,
                "stream: gla needs a gate");
    ll_attention_stream_free(s);
    ll_attention_free(op);
}

/* The gate shuts (log r = -2000) at a key so long that its features are near 2^-1300. The decay is 0, and the change of
 * the stream's unit is infinite as a double; their product must be 0. */
static void test_a_long_key_at_a_shut_gate(void **state) {
    (void)state;
    ll_attention *op;
    ll_attention_stream *s;
    float projection[4 * D], from_stream[H * T * E];
    uint64_t seed = 9;
    definition *d = definition_create(LL_KERNEL_FAVOR, 0, 9);
    ll_attention_config c = config_of(LL_KERNEL_FAVOR, NULL);
    for (int i = 0; i < 4 * D; i++) projection[i] = (float)(0.5 * draw_normal(&seed));
    c.M = 4, c.projection = projection;
    CHECK_OK(ll_attention_create(&op, &c));
    for (int h = 0; h < H; h++) {
        d->x[4][h * T + 9] = -2000;
        for (int a = 0; a < D; a++) d->x[1][(h * T + 9) * D + a] = 22;
    }
    tensors t = tensors_create(d);
    const ll_attention_call call = call_of(&t, 0, T, NULL);
    CHECK_OK(ll_attention_forward(op, &call));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    CHECK_OK(ll_attention_stream_feed(s, T, call.q, call.k, call.v, call.gate, view(from_stream, E, 0)));
    for (int i = 0; i < H * T * E; i++) close_to("y", i, (double)from_stream[i], (double)t.y[i], 1e-4);
    ll_attention_stream_free(s);
    ll_attention_free(op);
    tensors_free(&t);
    free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition),  cmocka_unit_test(test_constant_gates),
        cmocka_unit_test(test_decay_beside_a_gate), cmocka_unit_test(test_small_keys_after_a_shut_gate),
        cmocka_unit_test(test_gates_of_favor),      cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_a_long_key_at_a_shut_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
