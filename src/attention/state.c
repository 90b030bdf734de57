/* The state that a call takes and leaves: its tensors, its size, and whether it is one that a call could have left. */
#include <math.h>
#include <string.h>

#include "attention/operator.h"

static size_t size_of(const ll_state_tensor *t) { return t->dtype == LL_F64 ? sizeof(double) : sizeof(float); }

size_t ll_state_bytes(const ll_state_tensor *t) {
    size_t bytes = size_of(t);
    for (int i = 0; i < t->rank; i++) bytes *= t->shape[i];
    return bytes;
}

ll_status ll_attention_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    if (!op->kind->state)
        return ll_fail(LL_EINVAL,
                       "attention state: %s keeps all tokens, or mixes them, so that it has no state of constant size; "
                       "use a linear kernel, local or value",
                       op->kind->name);
    return op->kind->state(op, tensor, count);
}

ll_status ll_attention_state_floats(const ll_attention *op, size_t *floats) {
    ll_state_tensor tensor[LL_STATE_TENSORS];
    int count;
    const ll_status status = ll_attention_state(op, tensor, &count);
    if (status) return status;
    *floats = 0;
    for (int i = 0; i < count; i++) *floats += ll_state_bytes(&tensor[i]) / sizeof(float);
    return LL_OK;
}

void ll_attention_state_clear(const ll_attention *op, float *state) {
    size_t floats = 0;
    if (op->kind->state_clear) {
        op->kind->state_clear(op, state);
    } else if (ll_attention_state_floats(op, &floats) == LL_OK) {
        memset(state, 0, floats * sizeof *state);
    }
}

/* ---- From outside ---- */

ll_status ll_state_whole(const char *name, double x, double most) {
    if (x >= 0 && x <= most && x == floor(x)) return LL_OK;
    return ll_fail(LL_EFORMAT, "tensor %s holds %g, must be a whole number from 0 to %.0f", name, x, most);
}

/* Doubles in the state of a call may lie at the address of any float. */
static double number(const ll_state_tensor *t, size_t i) {
    double wide = 0;
    float x = 0;
    memcpy(t->dtype == LL_F64 ? (void *)&wide : &x, (const char *)t->data + i * size_of(t), size_of(t));
    return t->dtype == LL_F64 ? wide : (double)x;
}

static ll_status check_finite(const ll_state_tensor *t, const ll_state_tensor *empty) {
    for (size_t i = 0; i < ll_state_bytes(t) / size_of(t); i++)
        if (!isfinite(number(t, i)) && !(empty && number(t, i) == number(empty, i)))
            return ll_fail(LL_EFORMAT, "tensor %s is not finite at element %zu", t->name, i);
    return LL_OK;
}

ll_status ll_state_check(const ll_state_tensor *t, int count) {
    ll_status status = LL_OK;
    for (int i = 0; i < count && !status; i++) status = check_finite(&t[i], NULL);
    return status;
}

ll_status ll_attention_state_check(const ll_attention *op, float *state) {
    ll_state_tensor t[LL_STATE_TENSORS];
    int count;
    size_t floats, at = 0;
    ll_status status = ll_attention_state(op, t, &count);
    if (!status) status = ll_attention_state_floats(op, &floats);
    if (!status && op->kind->check_counts) status = op->kind->check_counts(op, state);
    if (status) return status;
    float *empty = ll_alloc(floats, sizeof *empty);
    if (!empty) return LL_ENOMEM;
    ll_attention_state_clear(op, empty);
    for (int i = 0; i < count && !status; at += ll_state_bytes(&t[i++]) / sizeof *state) {
        ll_state_tensor cleared = t[i];
        t[i].data = state + at, cleared.data = empty + at;
        status = check_finite(&t[i], &cleared);
    }
    ll_free(empty);
    return status;
}
