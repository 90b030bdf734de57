/* Attention at its edges: padding behind noise that ends, numbers that are none in masked keys, gates that shut,
 * weights that are far apart. */
#include "drawn.h"

/* A call of one sequence on operands of its own, drawn from a seed. */
typedef struct {
    ll_attention *op;
    ll_attention_call call;
    float *kept[32], *ddecay;
    int n;
} sequence;

static float *keep(sequence *s, int n, uint64_t *seed) {
    float *x = drawn_normals(n, seed ? 0.5 : 0, seed ? seed : &(uint64_t){1});
    assert_true(s->n < 32);
    return s->kept[s->n++] = x;
}

static ll_view view(sequence *s, int H, int T, int width, uint64_t *seed) {
    return ll_view_packed(keep(s, H * T * width, seed), H, T, width);
}

/* Results are written over numbers that are none. */
static ll_view result(sequence *s, int H, int T, int width) {
    const ll_view v = view(s, H, T, width, NULL);
    for (int i = 0; i < H * T * width; i++) v.data[i] = NAN;
    return v;
}

static void make(sequence *s, const ll_attention_config *c, int T, uint64_t seed) {
    const int H = c->H, D = c->D, E = c->E;
    CHECK_OK(ll_attention_create(&s->op, c));
    s->call = (ll_attention_call){.B = 1, .T = T, .S = T, .threads = 1};
    s->call.q = view(s, H, T, D, &seed), s->call.k = view(s, H, T, D, &seed), s->call.v = view(s, H, T, E, &seed);
    s->call.g = view(s, H, T, E, &seed), s->call.y = result(s, H, T, E);
    s->call.dq = result(s, H, T, D), s->call.dk = result(s, H, T, D), s->call.dv = result(s, H, T, E);
    s->call.saved = keep(s, (int)ll_attention_saved(s->op, &s->call), NULL);
    s->call.ddecay = s->ddecay = c->decay ? keep(s, H, NULL) : NULL;
}

static void forward(const sequence *s) { CHECK_OK(ll_attention_forward(s->op, &s->call)); }
static void backward(const sequence *s) { CHECK_OK(ll_attention_backward(s->op, &s->call)); }

static void done(sequence *s) {
    ll_attention_free(s->op);
    for (int i = 0; i < s->n; i++) free(s->kept[i]);
}

static ll_attention_config config(ll_kernel kernel, int H, int D, int E) {
    return (ll_attention_config){.kernel = kernel, .causal = 1, .H = H, .D = D, .E = E, .input_scale = 1};
}

static ll_attention_config conv_spe(sequence *s, int taps, int rows, uint64_t *seed) {
    ll_attention_config c = config(LL_KERNEL_ELU1, 1, 4, 4);
    c.position = LL_POSITION_CONV_SPE, c.causal = 0;
    c.encoding.realizations = 16, c.encoding.taps = taps;
    c.encoding.filter_q = keep(s, 4 * taps, seed), c.encoding.filter_k = keep(s, 4 * taps, seed);
    c.encoding.noise_rows = rows;
    if (rows) c.encoding.noise = keep(s, 4 * rows * 16, seed);
    return c;
}

/* Noise that was given ends with the tokens in use: padding reads none, however long it is. */
static void test_padding_behind_noise(void **state) {
    (void)state;
    enum { N = 20, T = 200000, TAPS = 40 };
    uint64_t seed = 1;
    const int n = N;
    sequence s = {0};
    const ll_attention_config c = conv_spe(&s, TAPS, N + TAPS - 1, &seed);
    make(&s, &c, T, 2);
    s.call.lengths = &n;
    s.call.dposition.filter_q = keep(&s, 4 * TAPS, NULL);
    forward(&s), backward(&s);
    for (int i = 0; i < 4 * TAPS; i++) assert_true(isfinite(s.call.dposition.filter_q[i]));
    for (int i = 4 * N; i < 4 * T; i++) assert_true(s.call.dq.data[i] == 0 && s.call.dk.data[i] == 0);
    done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padding_behind_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
