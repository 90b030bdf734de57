/* Ragged batches and packed rows, for every kernel and position, forward and backward: each sequence has the same bits
 * as alone, and zeros are between sequences. */
#include "ragged.h"

static void same_rows(const char *what, const ll_view *a, int row, int first, const ll_view *b, int n, int width) {
    for (int h = 0; h < H; h++)
        for (int t = 0; t < n; t++) {
            const float *x = a->data + (size_t)row * a->batch + (size_t)h * a->head + (size_t)(first + t) * a->token;
            const float *y = b->data + (size_t)h * b->head + (size_t)t * b->token;
            if (memcmp(x, y, (size_t)width * sizeof *x))
                fail_msg("%s: head %d token %d of the sequence at %d, %d is %.9g, alone %.9g", what, h, t, row, first,
                         (double)x[0], (double)y[0]);
        }
}

/* Checks that all tokens outside the sequences are zeros, by counting. */
static void zeros_between(const char *what, const ll_view *a, const ll_segment *s, int count, int keys, int n,
                          int heads, int width) {
    for (int b = 0; b < ROWS; b++)
        for (int t = 0; t < n; t++) {
            int inside = 0;
            for (int i = 0; i < count; i++) {
                const int first = keys ? s[i].key : s[i].query, length = keys ? s[i].keys : s[i].queries;
                inside |= s[i].row == b && t >= first && t < first + length;
            }
            for (int h = 0; h < heads && !inside; h++)
                for (int e = 0; e < width; e++)
                    if (a->data[(size_t)b * a->batch + (size_t)h * a->head + (size_t)t * a->token + (size_t)e] != 0)
                        fail_msg("%s: token %d of row %d is in no sequence and not 0", what, t, b);
        }
}

static void run(const ll_attention *op, ll_attention_call *c) {
    CHECK_OK(ll_attention_forward(op, c));
    CHECK_OK(ll_attention_backward(op, c));
}

/* Compares the sequences of one call with each of them alone. */
static void check_call(const char *what, const ll_attention *op, arrays *all, const ll_segment *s, int count) {
    ll_attention_call *c = &all->call;
    const int keyed = op->c.position == LL_POSITION_RELATIVE_S2 ? H - 1 : H;
    for (int i = 0; i < count; i++) fill_sequence(c, &s[i], (uint64_t)i + 1);
    run(op, c);
    for (int i = 0; i < count; i++) {
        arrays one = arrays_of(op, 1, s[i].queries, s[i].keys, 1);
        const ll_segment alone = {0, 0, s[i].queries, 0, s[i].keys};
        fill_sequence(&one.call, &alone, (uint64_t)i + 1);
        run(op, &one.call);
        same_rows(what, &c->y, s[i].row, s[i].query, &one.call.y, s[i].queries, E);
        same_rows(what, &c->dq, s[i].row, s[i].query, &one.call.dq, s[i].queries, D);
        same_rows(what, &c->dk, s[i].row, s[i].key, &one.call.dk, s[i].keys, D);
        same_rows(what, &c->dv, s[i].row, s[i].key, &one.call.dv, s[i].keys, E);
        arrays_free(&one);
    }
    zeros_between(what, &c->y, s, count, 0, c->T, H, E);
    zeros_between(what, &c->dq, s, count, 0, c->T, H, D);
    zeros_between(what, &c->dk, s, count, 1, c->S, keyed, D);
    zeros_between(what, &c->dv, s, count, 1, c->S, H, E);
}

/* Sequences in rows of ROOM tokens: of one token, of none, longer than a chunk of tiles, with gaps, up to the end of
 * the row. */
static const ll_segment packed[] = {{0, 0, 17, 0, 17},   {0, 17, 1, 17, 1}, {0, 20, 0, 20, 0},
                                    {0, 21, 37, 21, 37}, {1, 3, 5, 3, 5},   {1, 8, 62, 8, 62}};
/* The same with keys of their own: cross attention. */
static const ll_segment crossed[] = {{0, 0, 9, 2, 20},  {0, 9, 1, 22, 3},  {0, 12, 30, 25, 1},
                                     {1, 0, 33, 0, 25}, {1, 33, 4, 25, 0}, {1, 40, 2, 30, 10}};
enum { PACKED = sizeof packed / sizeof *packed, CROSSED = sizeof crossed / sizeof *crossed };

static void check_packed(const char *what, const ll_attention *op, int cross) {
    const ll_segment *s = cross ? crossed : packed;
    const int count = cross ? CROSSED : PACKED;
    arrays all = arrays_of(op, ROWS, ROOM, cross ? 40 : ROOM, count);
    all.call.segment = s, all.call.segments = count;
    check_call(what, op, &all, s, count);
    arrays_free(&all);
}

static void check_ragged(const char *what, const ll_attention *op, int cross) {
    const int lengths[ROWS] = {23, 40}, query_lengths[ROWS] = {ROOM, 11};
    const int S = cross ? 40 : ROOM;
    ll_segment s[ROWS];
    for (int b = 0; b < ROWS; b++) s[b] = (ll_segment){b, 0, cross ? query_lengths[b] : lengths[b], 0, lengths[b]};
    arrays all = arrays_of(op, ROWS, ROOM, S, ROWS);
    all.call.lengths = lengths;
    if (cross) all.call.query_lengths = query_lengths;
    check_call(what, op, &all, s, ROWS);
    arrays_free(&all);
}

/* Every kernel with every position, causal, bidirectional and cross. Tiles are so small that states lie between
 * them. */
static void test_every_pair(void **state) {
    (void)state;
    int pairs = 0;
    make_numbers();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int position = 0; position < POSITIONS; position++)
            for (int form = 0; form < 3; form++) {
                char what[100];
                ll_attention_config c;
                ll_attention *op = NULL;
                if (!describe(&c, kernel, position, form == 0, form == 2)) continue;
                snprintf(what, sizeof what, "%s %s %s", kernel_names[kernel], position_names[position],
                         form == 0   ? "causal"
                         : form == 1 ? "bidirectional"
                                     : "cross");
                if (ll_attention_create(&op, &c)) fail_msg("%s: %s", what, ll_error());
                ll_attention_set_tile(op, 2); /* chunks of 32 */
                check_ragged(what, op, form == 2);
                check_packed(what, op, form == 2);
                ll_attention_free(op);
                pairs++;
            }
    /* All positions with softmax and linear kernels, except permutations, rope-linear and orthogonal with softmax,
     * permute2d causal, and t5 and shaw with linear kernels. The approximate kernels have two forms each. */
    const int gla = POSITIONS - 6; /* causal, with a state in all heads */
    assert_int_equal(pairs, (LINEAR - 1) * ((POSITIONS - 2) * 3 - 1 - 6) + gla + (POSITIONS - 6) * 3 +
                                2 * (1 + 5 + 5 + 5 + 2));
}

/* Masks of keys apply to the tokens of their sequence. */
static void test_masks(void **state) {
    (void)state;
    ll_attention_config c;
    ll_attention *op = NULL;
    make_numbers();
    for (int causal = 0; causal < 2; causal++) {
        assert_true(describe(&c, LL_KERNEL_FAVOR, LL_POSITION_ROPE, causal, 0));
        CHECK_OK(ll_attention_create(&op, &c));
        arrays all = arrays_of(op, ROWS, ROOM, ROOM, PACKED);
        float mask[ROWS * ROOM];
        for (int i = 0; i < ROWS * ROOM; i++) mask[i] = i % 5 != 2;
        all.call.segment = packed, all.call.segments = PACKED, all.call.key_mask = mask;
        for (int i = 0; i < PACKED; i++) fill_sequence(&all.call, &packed[i], (uint64_t)i + 1);
        run(op, &all.call);
        for (int i = 0; i < PACKED; i++) {
            const ll_segment *s = &packed[i], alone = {0, 0, s->queries, 0, s->keys};
            arrays one = arrays_of(op, 1, s->queries, s->keys, 1);
            one.call.key_mask = mask + s->row * ROOM + s->key;
            fill_sequence(&one.call, &alone, (uint64_t)i + 1);
            run(op, &one.call);
            same_rows("mask", &all.call.y, s->row, s->query, &one.call.y, s->queries, E);
            same_rows("mask", &all.call.dk, s->row, s->key, &one.call.dk, s->keys, D);
            arrays_free(&one);
        }
        arrays_free(&all);
        ll_attention_free(op);
    }
}

/* Gradients of parameters, and of the decay, are sums over the sequences. */
static void check_parameters(int kernel, int position, int causal, int n) {
    enum { MOST = 512 };
    ll_attention_config c;
    ll_attention *op = NULL;
    make_numbers();
    assert_true(describe(&c, kernel, position, causal, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    float together[MOST] = {0}, r[H] = {0};
    double sum[MOST] = {0}, dr[H] = {0};
    arrays all = arrays_of(op, ROWS, ROOM, ROOM, PACKED);
    all.call.segment = packed, all.call.segments = PACKED;
    for (int i = 0; i < PACKED; i++) fill_sequence(&all.call, &packed[i], (uint64_t)i + 1);
    for (int i = -1; i < PACKED; i++) { /* all of them, then each alone */
        float own[MOST] = {0}, own_r[H] = {0}, *to = i < 0 ? together : own;
        const ll_segment *s = &packed[i < 0 ? 0 : i], alone = {0, 0, s->queries, 0, s->keys};
        arrays one = arrays_of(op, 1, s->queries, s->keys, 1);
        fill_sequence(&one.call, &alone, (uint64_t)i + 1);
        ll_attention_call *call = i < 0 ? &all.call : &one.call;
        call->dposition.alpha = call->dposition.rpe = call->dposition.bias = call->dapproximate.linformer_v = to;
        call->ddecay = i < 0 ? r : own_r;
        run(op, call);
        for (int e = 0; e < n; e++) sum[e] += (double)own[e];
        for (int h = 0; h < H; h++) dr[h] += (double)own_r[h];
        arrays_free(&one);
    }
    check_close(position_names[position], (size_t)n, together, sum, 1e-5);
    if (c.decay) check_close("decay", H, r, dr, 1e-5);
    assert_true(fabs(sum[0]) > 0);
    arrays_free(&all);
    ll_attention_free(op);
}

static void test_parameters(void **state) {
    (void)state;
    check_parameters(LL_KERNEL_FAVOR, LL_POSITION_RELATIVE_S1, 1, H * SCALES);
    check_parameters(LL_KERNEL_RELU, LL_POSITION_RELATIVE_S2, 1, (CLIP + 1) * D);
    check_parameters(LL_KERNEL_SOFTMAX, LL_POSITION_RELATIVE_S2, 0, (CLIP + 1) * D);
    check_parameters(LL_KERNEL_SOFTMAX, LL_POSITION_T5, 1, H * 32);
    check_parameters(LL_KERNEL_LINFORMER, LL_POSITION_NONE, 0, ROOM * RANK);
}

/* Packed rows have the same bits on any number of threads. */
static void test_threads(void **state) {
    (void)state;
    static const int kernels[] = {LL_KERNEL_SOFTMAX, LL_KERNEL_RELU, LL_KERNEL_REFORMER};
    make_numbers();
    for (int k = 0; k < 3; k++) {
        ll_attention_config c;
        ll_attention *op = NULL;
        float *first = NULL;
        assert_true(describe(&c, kernels[k], LL_POSITION_ROPE, 1, 0));
        CHECK_OK(ll_attention_create(&op, &c));
        for (int threads = 1; threads < 6; threads += 2) {
            arrays all = arrays_of(op, ROWS, ROOM, ROOM, PACKED);
            all.call.segment = packed, all.call.segments = PACKED;
            for (int i = 0; i < PACKED; i++) fill_sequence(&all.call, &packed[i], (uint64_t)i + 1);
            ll_set_threads(threads);
            run(op, &all.call);
            for (size_t i = 0; i < all.size; i++)
                if (isnan(all.data[i])) all.data[i] = 0; /* inputs between the sequences */
            if (first) {
                assert_memory_equal(first, all.data, all.size * sizeof *first);
                arrays_free(&all);
            } else {
                first = all.data;
                free(all.call.saved);
            }
        }
        ll_set_threads(1);
        free(first);
        ll_attention_free(op);
    }
}

/* Segments that overlap, leave their row, or are given together with lengths are refused. */
static void test_refusals(void **state) {
    (void)state;
    static const ll_segment bad[][2] = {
        {{0, 0, 3, 0, 3}, {0, 2, 3, 2, 3}},
        {{0, 0, 9, 0, 9}, {0}},
        {{1, 0, 2, 0, 2}, {0, 3, 2, 3, 2}},
        {{2, 0, 1, 0, 1}, {0}},
        {{0, 0, -1, 0, -1}, {0}},
        {{0, -1, 1, -1, 1}, {0}},
        {{0, 7, 2, 7, 2}, {0}},
        {{0, 0x7fffffff, 1, 0x7fffffff, 1}, {0}},
    };
    ll_attention_config c;
    ll_attention *op = NULL;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_NONE, 0, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    arrays a = arrays_of(op, 2, 8, 8, 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        a.call.segment = bad[i], a.call.segments = bad[i][1].queries ? 2 : 1;
        CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "segment");
    }
    const ll_segment good[1] = {{0, 0, 2, 1, 3}};
    a.call.segment = good, a.call.segments = -1;
    CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "-1 segments");
    a.call.segments = 1, a.call.lengths = (const int[]){1, 1};
    CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "lengths");
    a.call.lengths = NULL, a.call.segment = NULL, a.call.query_lengths = (const int[]){1, 9};
    CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "query length 9");
    arrays_free(&a);
    ll_attention_free(op);
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_NONE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    a = arrays_of(op, 2, 8, 8, 2);
    a.call.segment = good, a.call.segments = 1;
    CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "causal");
    a.call.segment = NULL, a.call.query_lengths = (const int[]){1, 1};
    CHECK_FAILS(ll_attention_forward(op, &a.call), LL_EINVAL, "causal");
    arrays_free(&a);
    ll_attention_free(op);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair), cmocka_unit_test(test_masks),    cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
