/* The memory that operators and models take, against tests/sizes.txt: a change that is not meant is noticed,
 * and one that is meant is seen in the file. `LL_WRITE=1 build/tests/library/test_sizes` writes it anew. */
#include <stdlib.h>

#include "model/model_internal.h"
#include "models.h"
#include "ragged.h"

static const char *const file = "tests/sizes.txt";

/* ---- Operators ---- */

static void write_calls(FILE *out, const ll_attention *op, int T, int packed) {
    ll_attention_call call = {.B = 3, .T = T, .S = T, .segments = packed ? 7 : 0};
    float saved;
    fprintf(out, "\t%zu", ll_attention_saved(op, &call));
    for (call.threads = 1; call.threads <= 5; call.threads += 4)
        for (int backward = 0; backward < 2; backward++) {
            call.saved = backward ? &saved : NULL;
            fprintf(out, "\t%zu", ll_attention_scratch(op, &call, backward));
        }
}

/* Bytes of a stream beyond those of the first one, so that they are not those of C's structures. */
static long long beyond(size_t *first, size_t bytes) {
    if (!*first) *first = bytes;
    return (long long)bytes - (long long)*first;
}

static void write_stream(FILE *out, const ll_attention *op) {
    enum { T = 40 };
    static float x[4][2 * T * H * M];
    static size_t first;
    size_t state = 0;
    ll_attention_stream *s = NULL;
    if (ll_attention_state_floats(op, &state) == LL_OK) fprintf(out, "\tstate %zu", state);
    if (ll_attention_stream_create(&s, op, 2) != LL_OK) return;
    fprintf(out, "\tstream %lld", beyond(&first, ll_attention_stream_bytes(s)));
    ll_view view[4];
    for (int i = 0; i < 4; i++) view[i] = (ll_view){x[i], T * H * M, M, H * M};
    if (!op->gated) CHECK_OK(ll_attention_stream_feed(s, T, view[0], view[1], view[2], (ll_view){0}, view[3]));
    fprintf(out, "\tafter %d tokens %lld", T, beyond(&first, ll_attention_stream_bytes(s)));
    ll_attention_stream_free(s);
}

static void write_operator(FILE *out, const ll_attention_config *c, const char *more) {
    ll_attention *op;
    if (ll_attention_create(&op, c) != LL_OK) return;
    fprintf(out, "%s, %s%s%s", kernel_names[c->kernel], position_names[c->position], c->causal ? ", causal" : "", more);
    write_calls(out, op, 70, 0), write_calls(out, op, 1500, 0), write_calls(out, op, 70, 1);
    if (c->causal) write_stream(out, op);
    fprintf(out, "\n");
    ll_attention_free(op);
}

static void write_operators(FILE *out) {
    fprintf(out, "# Three sequences of 70 tokens, then of 1500, then packed ones: floats that are saved, and floats of "
                 "scratch on one\n"
                 "# thread, forward and with backward, and on five. Then floats of a state, and bytes of a stream of "
                 "two\n"
                 "# sequences beyond the first one.\n");
    make_numbers();
    for (int causal = 0; causal < 2; causal++)
        for (int kernel = 0; kernel < KERNELS; kernel++)
            for (int position = 0; position < POSITIONS; position++) {
                ll_attention_config c;
                if (!describe(&c, kernel, position, causal, 0)) continue;
                write_operator(out, &c, "");
                if (position == LL_POSITION_RELATIVE_S2) {
                    c.encoding.keyless = H;
                    write_operator(out, &c, ", all heads without keys");
                } else if (kernel == LL_KERNEL_FAVOR && position != LL_POSITION_PERMUTE2D) {
                    c.features = LL_FEATURES_TRIGONOMETRIC, c.M = 6;
                    if (position == LL_POSITION_PERMUTE) make_permutation(ll_feature_count(&c));
                    write_operator(out, &c, ", trigonometric");
                }
            }
}

/* ---- Models ---- */

static const char *const models[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed",
    "attention.kernel=relu position.type=learned position.max-length=2000 model.norm=post model.dropout=0.1",
    "attention.kernel=favor position.type=sinusoidal",
    "attention.kernel=favor position.type=sinusoidal train.recompute=on",
    "attention.kernel=favor position.type=rope-linear model.separator=2",
    "attention.kernel=favor position.type=sine-spe position.shared=on",
    "attention.kernel=favor position.type=conv-spe position.gated=on",
    "attention.kernel=favor position.type=relative-s1",
    "attention.kernel=favor position.type=relative-s2 position.clip=5",
    "attention.kernel=elu1 position.type=orthogonal attention.output-norm=on attention.normalise=off",
    "attention.kernel=gla",
    "attention.kernel=gla model.norm-kind=rms model.activation=swiglu model.kv-heads=1",
    "attention.kernel=softmax position.type=t5",
    "attention.kernel=softmax position.type=shaw position.clip=4 model.bias=all",
    "attention.kernel=softmax position.type=rope model.norm=parallel model.kv-heads=1 model.tied-embedding=off",
    "attention.kernel=local attention.window=3 position.type=rope",
    "attention.kernel=value position.type=sinusoidal",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=2 attention.rounds=2 position.type=rope",
    "model.task=classify attention.kernel=linformer attention.max-length=2000 attention.projected-length=8",
    "model.task=classify attention.kernel=nystrom attention.landmarks=4 position.type=rope model.pool=first",
    "model.task=classify attention.kernel=relu position.type=permute",
    "model.task=classify attention.kernel=relu model.pool=first model.token-types=3 model.type-separator=2",
    "model.task=mlm attention.kernel=favor model.tied-embedding=off position.type=rope model.dropout=0.2",
    "model.task=mlm attention.kernel=softmax model.embedding-norm=on model.head-transform=on model.head-bias=on",
    "model.task=match attention.kernel=relu attention.query-multiple=2 position.type=permute model.pool=first",
    "model.task=match attention.kernel=softmax model.activation=relu model.norm=post model.dropout=0.1",
    "model.task=seq2seq attention.kernel=favor position.type=sinusoidal",
    "model.task=seq2seq attention.kernel=softmax position.type=rope model.norm=post",
};

static void write_model(FILE *out, const char *keys) {
    ll_model *model = tiny_model(keys);
    ll_workspace *ws = NULL;
    ll_stream *stream = NULL;
    const ll_model_sizes sizes = ll_model_size(model);
    fprintf(out, "%s\tparameters %zu\tblock %zu", keys, sizes.parameters, sizes.block);
    for (int T = 30; T <= 1500; T *= 50) {
        size_t bytes = 0, shared = 0;
        CHECK_OK(ll_workspace_measure(&bytes, model, 4, T, 1, 1));
        const int divided = T % 3 == 0 && ll_workspace_measure(&shared, model, 4, T / 3, 1, 3) == LL_OK;
        CHECK_OK(ll_workspace_create(&ws, model, 4, T, 0));
        fprintf(out, "\tT = %d: training %zu", T, bytes);
        if (divided) fprintf(out, ", in three parts %zu", shared);
        fprintf(out, ", evaluation %zu, cost %.0f, %zu", ll_workspace_bytes(ws), ll_model_cost(model, T).multiply_adds,
                ll_model_cost(model, T).stream_bytes);
        ll_workspace_free(ws), ws = NULL;
    }
    if (ll_stream_create(&stream, model) == LL_OK) {
        static size_t first;
        fprintf(out, "\tstream %lld", beyond(&first, ll_stream_bytes(stream)));
    }
    fprintf(out, "\n");
    ll_stream_free(stream);
    ll_model_free(model);
}

/* ---- The file ---- */

static char *sizes_now(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    ll_set_threads(2);
    write_operators(out);
    fprintf(out, "# Models: four sequences of T tokens, in bytes; multiply-adds of a token, and bytes that a stream of "
                 "T tokens keeps.\n");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) write_model(out, models[i]);
    ll_set_threads(0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_as_written(void **state) {
    (void)state;
    char *now = sizes_now(), *rest = now, line[2000];
    FILE *f = fopen(file, getenv("LL_WRITE") ? "w" : "r");
    assert_non_null(f);
    if (getenv("LL_WRITE")) {
        fputs(now, f);
    } else {
        while (fgets(line, sizeof line, f)) {
            const char *is = strsep(&rest, "\n");
            line[strcspn(line, "\n")] = 0;
            if (!is || strcmp(is, line)) fail_msg("%s has\n%s\nand now it is\n%s", file, line, is ? is : "nothing");
        }
        assert_true(rest && !*rest);
    }
    fclose(f);
    free(now);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_written)};
    setenv("LL_CPU", "scalar", 1); /* blocks are those of the kernels */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
