/* The state that a call of linear attention takes from earlier calls and leaves to later ones, and its gradient.
 *
 * The state of a head is what forward saves at a chunk: S (features, E) and z (features) in units of 2^exponent. If
 * attention is causal, V (E), exponent, c, count and the bound of the state follow. In both directions only the
 * exponent follows. Then comes the number of keys. Where the divisor takes it, a second number has what the first, a
 * float, has no digits for. The gradient has the same layout, and is the gradient at these numbers. */
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"

void ll_carried_clear(const ll_attention *op, float *state) {
    const size_t sums = (size_t)ll_linear_map(op)->features * ((size_t)op->c.E + 1);
    memset(state, 0, ll_carried_floats(op) * sizeof *state);
    if (op->c.causal) {
        ll_causal_state_save_empty(op, state);
    } else {
        state[sums] = (float)LL_NO_EXPONENT;
    }
}

/* Is x a whole number that is an int? */
static int is_int(float x) { return fabsf(x) < 0x1p31f && x == floorf(x); }

/* Does a call or a stream come to this exponent? Numbers of the state are at most 2^bound, if it is causal. */
static int is_exponent(const ll_attention *op, float e, float bound) {
    const float none = (float)LL_NO_EXPONENT;
    if (e == none) return !op->c.causal || bound <= none;
    if (ll_linear_map(op)->phi[LL_KEY] != LL_PHI_RUNNING) return e == 0;
    return fabsf(e) < -none && is_int(e) && (!op->c.causal || (bound <= e && bound >= e - LL_EXPONENT_SLACK));
}

static ll_status check_head(const ll_attention *op, const float *state) {
    const size_t E = (size_t)op->c.E, sums = (size_t)ll_linear_map(op)->features * (E + 1);
    const float *last = state + sums + (op->c.causal ? E : 0), *keys = state + ll_state_floats(op);
    const float exponent = last[LL_SAVED_EXPONENT], bound = op->c.causal ? last[LL_SAVED_BOUND] : 0;
    if (!is_exponent(op, exponent, bound))
        return ll_fail(LL_EFORMAT, "tensor state has the exponent %g, at most %g, which no call comes to",
                       (double)exponent, (double)bound);
    if (ll_carried_floats(op) - ll_state_floats(op) > 1 && !is_int(keys[1]))
        return ll_fail(LL_EFORMAT, "tensor state holds %g keys besides %g", (double)keys[1], (double)keys[0]);
    return ll_state_whole("state", (double)keys[0], (double)LL_POSITION_MOST);
}

ll_status ll_carried_check(const ll_attention *op, const float *state) {
    ll_status status = LL_OK;
    for (int h = 0; h < op->c.H && !status; h++) status = check_head(op, state + (size_t)h * ll_carried_floats(op));
    return status;
}

void ll_carried_gradient_passes(const ll_head *j) {
    const size_t size = ll_carried_floats(j->op) * sizeof *j->dstate_in;
    if (j->dstate_in && j->dstate_out) memcpy(j->dstate_in, j->dstate_out, size);
    if (j->dstate_in && !j->dstate_out) memset(j->dstate_in, 0, size);
}

/* ---- Causal ---- */

void ll_causal_gradient_take(const ll_head *j, float *U, float *W) {
    const int m = j->map->features, E = j->op->c.E;
    const size_t ld = (size_t)j->map->ld, sums = (size_t)m * (size_t)E;
    const float *d = j->dstate_out;
    if (!d) return;
    j->k->transpose(m, E, d, (size_t)E, U, ld);
    memcpy(U + (size_t)E * ld, d + sums, (size_t)m * sizeof *U);
    for (int e = 0; e < E; e++) W[e] = d[sums + (size_t)m + (size_t)e];
    W[2 * E] = d[sums + (size_t)(m + E) + LL_SAVED_COUNT];
}

void ll_causal_gradient_give(const ll_head *j, const float *U, const float *W) {
    const int m = j->map->features, E = j->op->c.E;
    const size_t ld = (size_t)j->map->ld, sums = (size_t)m * (size_t)E;
    float *d = j->dstate_in;
    if (!d) return;
    memset(d, 0, ll_carried_floats(j->op) * sizeof *d);
    j->k->transpose(E, m, U, ld, d, (size_t)E);
    memcpy(d + sums, U + (size_t)E * ld, (size_t)m * sizeof *d);
    if (!ll_causal_has_eps(j->op)) return;
    for (int e = 0; e < E; e++) d[sums + (size_t)(m + e)] = W[e];
    d[sums + (size_t)(m + E) + LL_SAVED_COUNT] = W[2 * E];
}

/* ---- In both directions ---- */

void ll_bidirectional_gradient_give(const ll_head *j, const float *U) {
    const int m = j->map->features, E = j->op->c.E, running = j->map->phi[LL_KEY] == LL_PHI_RUNNING;
    const size_t ld = (size_t)j->map->ld, sums = (size_t)m * (size_t)E;
    float *d = j->dstate_in;
    if (!d) return;
    const int own = j->state_in ? (int)j->state_in[sums + (size_t)m] : LL_NO_EXPONENT;
    const int all = (int)j->states[sums + (size_t)m];
    memset(d, 0, ll_carried_floats(j->op) * sizeof *d);
    j->k->transpose(E, m, U, ld, d, (size_t)E);
    memcpy(d + sums, U + (size_t)E * ld, (size_t)m * sizeof *d);
    j->k->scale(sums + (size_t)m, running ? ll_power2(own - all) : 1, d);
}
