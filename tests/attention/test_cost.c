/* The costs of operators: they grow as the text in the table says, and they have the values of the definitions. */
#include "attention/attention_stream.h"
#include "attention/table.h"
#include "ragged.h"

/* The value of a word in the table's texts, for T tokens. */
static double word(const char *w, size_t n, const ll_attention_config *c, double T) {
    const ll_approximate_config *a = &c->approximate;
    const struct {
        const char *name;
        double value;
    } words[] = {{"T", T},
                 {"T^2", T * T},
                 {"m", ll_feature_count(c)},
                 {"window", a->window},
                 {"k", a->rank},
                 {"landmarks", a->landmarks},
                 {"rounds", a->rounds},
                 {"chunk", a->chunk},
                 {"(D + E)", c->D + c->E},
                 {"0", 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == n && !strncmp(words[i].name, w, n)) return words[i].value;
    fail_msg("the table has a cost of %.*s, which this test does not know", (int)n, w);
    return 0;
}

/* The value of a product of words, as "T m (D + E)". */
static double text_value(const char *text, const ll_attention_config *c, double T) {
    double product = 1;
    while (*text) {
        const size_t n = *text == '(' ? strcspn(text, ")") + 1 : strcspn(text, " ");
        product *= word(text, n, c, T);
        text += n, text += *text == ' ';
    }
    return product;
}

static void test_kernels_cost_as_the_table_says(void **state) {
    (void)state;
    make_numbers();
    int ran = 0;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int causal = 0; causal < 2; causal++) {
            ll_attention_config c;
            ll_attention *op;
            if (!describe(&c, kernel, LL_POSITION_NONE, causal, 0)) continue;
            const ll_mechanism *about = &ll_kernel_row(kernel)->about;
            CHECK_OK(ll_attention_create(&op, &c));
            const double T = 1e5, a = T * ll_operator_cost(op, T).multiply_adds / c.H,
                         b = 2 * T * ll_operator_cost(op, 2 * T).multiply_adds / c.H;
            const double text = text_value(about->cost, &c, T), later = text_value(about->cost, &c, 2 * T);
            if (fabs(b * text - a * later) > 0.01 * a * later) fail_msg("%s: cost grows as %g", about->name, b / a);
            if (a < text || a > 4 * text) fail_msg("%s: a cost of %g, where the table says %g", about->name, a, text);
            ll_attention_free(op);
            ran++;
        }
    assert_true(ran > 25);
}

/* What positions add, by their definitions, to a query and a key of one head of D channels. */
static void test_positions(void **state) {
    (void)state;
    make_numbers();
    double cost[POSITIONS] = {0};
    ll_attention_config c;
    for (int position = 0; position < POSITIONS; position++) {
        ll_attention *op;
        if (!describe(&c, LL_KERNEL_ELU1, position, 1, 0) || position == LL_POSITION_RELATIVE_S2) continue;
        CHECK_OK(ll_attention_create(&op, &c));
        const double linear = 2.0 * op->D * (E + 1); /* the position turns x into this many features */
        cost[position] = ll_operator_cost(op, 9).multiply_adds / c.H - linear;
        ll_attention_free(op);
        if (position == LL_POSITION_SINE_SPE)
            assert_true(cost[position] == 4.0 * c.encoding.sines * D * c.encoding.realizations);
        if (position == LL_POSITION_CONV_SPE)
            assert_true(cost[position] == 2.0 * c.encoding.taps * D * c.encoding.realizations);
    }
    assert_true(cost[LL_POSITION_NONE] == 0 && cost[LL_POSITION_PERMUTE] == 0); /* these need no products */
    assert_true(cost[LL_POSITION_ROPE] == 4 * D && cost[LL_POSITION_ROPE_LINEAR] == 4 * D);
    assert_true(cost[LL_POSITION_ORTHOGONAL] == 2 * (D * D + 2 * D));
}

/* relative-s2: heads without keys read the vectors, and each value that is closer than the clip. These are counted here
 * for a token that is not near the edge of its text or image. */
static void test_heads_without_keys(void **state) {
    (void)state;
    make_numbers();
    for (int form = 0; form < 4; form++) {
        const int causal = form % 2, image = form / 2;
        ll_attention_config c;
        ll_attention *op;
        int near = 0;
        assert_true(describe(&c, LL_KERNEL_ELU1, LL_POSITION_RELATIVE_S2, causal, 0));
        if (image) c.encoding.axes = 2, c.width = c.height = 9;
        for (int y = image ? -CLIP : 0; y <= (image ? CLIP : 0); y++)
            for (int x = -CLIP; x <= CLIP; x++)
                near += abs(x) + abs(y) < CLIP && (!causal || y < 0 || (!y && x <= 0));
        CHECK_OK(ll_attention_create(&op, &c));
        const double keyed = (H - 1) * 2.0 * D * (E + 1), keyless = D * (CLIP + 1) + E * (near + 1);
        assert_true(ll_operator_cost(op, 50).multiply_adds == keyed + keyless);
        ll_attention_free(op);
    }
}

/* Bytes of a stream at two lengths that fill whole blocks of softmax. */
static void check_bytes(const ll_attention *op, const char *kernel, const char *position) {
    ll_attention_stream *s;
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    for (int tokens = 1024; tokens <= 2048; tokens *= 2) {
        ll_state_tensor tensor[LL_STATE_TENSORS];
        double kept = 0;
        for (int i = 0, n = ll_attention_stream_state(s, tokens, tensor); i < n; i++)
            kept += (double)ll_state_bytes(&tensor[i]);
        const double bytes = ll_operator_cost(op, tokens).bytes;
        if (bytes != kept)
            fail_msg("%s %s: %g bytes, and tensors of %g", kernel, position, bytes, kept);
    }
    ll_attention_stream_free(s);
}

/* A stream's bytes are those of its tensors. */
static void test_bytes(void **state) {
    (void)state;
    make_numbers();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int position = 0; position < POSITIONS; position++) {
            ll_attention_config c;
            ll_attention *op;
            if (!describe(&c, kernel, position, 1, 0)) continue;
            CHECK_OK(ll_attention_create(&op, &c));
            check_bytes(op, kernel_names[kernel], position_names[position]);
            ll_attention_free(op);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_cost_as_the_table_says),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_heads_without_keys),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
