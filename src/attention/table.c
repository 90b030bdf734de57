/* The table of methods, what they cannot take, and calls that go through it. */
#include "attention/table.h"

#include <string.h>

#include "attention/feature/maps.h"
#include "attention/approximate/reformer.h"

enum {
    WINDOW_MOST = 1 << 20,
    LENGTH_MOST = 1 << 24,
    RANK_MOST = 1 << 16,
    LANDMARKS_MOST = 1 << 10,
    ITERATIONS_MOST = 64,
    BUCKETS_MOST = 1 << 16,
    CHUNK_MOST = 1 << 12,
    ROUNDS_MOST = 64
};

static const ll_method *const methods[] = {
    [LL_KERNEL_SOFTMAX] = &ll_method_softmax, [LL_KERNEL_VALUE] = &ll_method_value,
    [LL_KERNEL_LOCAL] = &ll_method_local,     [LL_KERNEL_LINFORMER] = &ll_method_linformer,
    [LL_KERNEL_NYSTROM] = &ll_method_nystrom, [LL_KERNEL_REFORMER] = &ll_method_reformer,
};

const ll_method *ll_method_of(ll_kernel kernel) {
    if (kernel == LL_KERNEL_FAVOR || ll_map_of(kernel)) return &ll_method_linear;
    return (size_t)kernel < sizeof methods / sizeof *methods ? methods[kernel] : NULL;
}

/* ---- What cannot be ---- */

static ll_status check_sizes(const ll_attention_config *c) {
    const ll_approximate_config *b = &c->baseline;
    if (c->kernel == LL_KERNEL_LOCAL && (b->window < 1 || b->window > WINDOW_MOST))
        return ll_fail(LL_EINVAL, "attention: a window of %d tokens, must be 1 to %d", b->window, WINDOW_MOST);
    if (c->kernel == LL_KERNEL_NYSTROM && (b->landmarks < 1 || b->landmarks > LANDMARKS_MOST))
        return ll_fail(LL_EINVAL, "attention: %d landmarks, must be 1 to %d", b->landmarks, LANDMARKS_MOST);
    if (c->kernel == LL_KERNEL_NYSTROM && (b->iterations < 1 || b->iterations > ITERATIONS_MOST))
        return ll_fail(LL_EINVAL, "attention: %d iterations of the inverse, must be 1 to %d", b->iterations,
                       ITERATIONS_MOST);
    if (c->kernel == LL_KERNEL_REFORMER && (b->buckets < 2 || b->buckets > BUCKETS_MOST || b->buckets % 2))
        return ll_fail(LL_EINVAL, "attention: %d buckets, must be an even number from 2 to %d", b->buckets,
                       BUCKETS_MOST);
    if (c->kernel == LL_KERNEL_REFORMER &&
        (b->chunk < 1 || b->chunk > CHUNK_MOST || b->rounds < 1 || b->rounds > ROUNDS_MOST))
        return ll_fail(LL_EINVAL, "attention: %d rounds in chunks of %d tokens, must be 1 to %d and 1 to %d", b->rounds,
                       b->chunk, ROUNDS_MOST, CHUNK_MOST);
    if (c->kernel != LL_KERNEL_LINFORMER) return LL_OK;
    if (b->length < 1 || b->length > LENGTH_MOST || b->rank < 1 || b->rank > RANK_MOST)
        return ll_fail(LL_EINVAL, "attention: linformer from %d tokens to %d, must be 1 to %d and 1 to %d", b->length,
                       b->rank, LENGTH_MOST, RANK_MOST);
    if (!b->linformer_k || !b->linformer_v)
        return ll_fail(LL_EINVAL, "attention: linformer needs its projections linformer_k and linformer_v");
    return LL_OK;
}

ll_status ll_method_check(const ll_attention_config *c) {
    const ll_method *method = ll_method_of(c->kernel);
    if (method->whole && c->causal)
        return ll_fail(LL_EINVAL,
                       "attention: %s mixes all tokens of a sequence before any is looked at, so it cannot be causal",
                       method->name);
    return check_sizes(c);
}

ll_status ll_method_prepare(ll_attention *op, const ll_attention_config *config) {
    ll_attention_config c = ll_attention_default();
    if (config->kernel == LL_KERNEL_REFORMER) return ll_reformer_create(op, config->baseline.rotations);
    if (!op->method->part) return LL_OK;
    c.causal = 0, c.H = op->c.H, c.D = op->c.D, c.E = op->c.E, c.input_scale = op->c.input_scale;
    return ll_attention_create(&op->part, &c);
}

/* ---- Calls, sequence by sequence ---- */

/* A segment's part of saved comes behind that of the one before. */
ll_status ll_method_run(const ll_attention *op, const ll_attention_call *c, int backward) {
    const ll_method *method = op->method;
    ll_status (*const run)(const ll_attention *, const ll_attention_call *) =
        backward ? method->backward : method->forward;
    ll_status status = LL_OK;
    float *saved = c->saved;
    if (!c->segment || method->packs) return run(op, c);
    for (int i = 0; i < c->segments && !status; i++) {
        ll_attention_call one = ll_sequence_call(c, i);
        one.saved = saved;
        status = run(op, &one);
        if (saved) saved += method->saved(op, 1, one.T, one.S, 1);
    }
    return status;
}

/* What a method saves of one sequence is a constant, numbers of its tokens, and less than 16 floats for each array that
 * is rounded up: of all sequences no more than what those of one token save, and what the tokens do in rows. */
size_t ll_method_saved(const ll_attention *op, int B, int T, int S, int segments) {
    if (op->method->packs) return op->method->saved(op, B, T, S, segments);
    return op->method->saved(op, B, T, S, B) + (size_t)segments * op->method->saved(op, 1, 1, 1, 1);
}

int ll_method_keys(const ll_attention_call *c, int b) {
    return ll_sequence_at(c, b).keys;
}

static int queries(const ll_attention_call *c, int b) {
    return ll_sequence_at(c, b).queries;
}

static void clear(const ll_attention *op, const ll_attention_call *c, const ll_view *view, int of_keys, int width) {
    for (int b = 0; b < c->B && view->data; b++)
        for (int h = 0; h < op->c.H; h++)
            for (int t = of_keys ? ll_method_keys(c, b) : queries(c, b); t < (of_keys ? c->S : c->T); t++)
                memset(ll_element(view, b, h, t), 0, (size_t)width * sizeof(float));
}

void ll_method_clear_output(const ll_attention *op, const ll_attention_call *c) {
    clear(op, c, &c->y, 0, op->c.E);
}

void ll_method_clear_gradients(const ll_attention *op, const ll_attention_call *c) {
    clear(op, c, &c->dq, 0, op->c.D);
    clear(op, c, &c->dk, 1, op->c.D);
    clear(op, c, &c->dv, 1, op->c.E);
}
