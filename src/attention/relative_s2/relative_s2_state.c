/* The state of heads without keys between calls, which their stream has too. A sequence has sums (keyless, E) in
 * double; the number of values in them, and of tokens that are kept, (keyless, 2) in double; the last values (keyless,
 * keep, E), with token t in row t mod keep; and whether each counts (keyless, keep). */
#include <string.h>

#include "attention/relative_s2/relative_s2.h"
#include "base/integer.h"

int64_t ll_s2_keep(const ll_attention *op) {
    return (int64_t)(op->c.encoding.clip - 1) * (op->c.encoding.axes == 2 ? op->c.width : 1) + 1;
}

ll_status ll_s2_tensors(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    const size_t H = (size_t)op->c.encoding.keyless, E = (size_t)op->c.E, keep = (size_t)ll_s2_keep(op);
    if (!op->c.causal)
        return ll_fail(LL_EINVAL, "attention state: in both directions heads without keys also weigh near tokens that "
                                  "come later, which no earlier call can leave; use causal attention");
    tensor[0] = (ll_state_tensor){"keyless.sum", LL_F64, 2, {H, E}, NULL};
    tensor[1] = (ll_state_tensor){"keyless.count", LL_F64, 2, {H, 2}, NULL};
    tensor[2] = (ll_state_tensor){"keyless.values", LL_F32, 3, {H, keep, E}, NULL};
    tensor[3] = (ll_state_tensor){"keyless.kept", LL_F32, 2, {H, keep}, NULL};
    *count = 4;
    return LL_OK;
}

ll_s2_layout ll_s2_layout_of(const ll_attention *op, int head) {
    const size_t H = (size_t)op->c.encoding.keyless, E = (size_t)op->c.E, keep = (size_t)ll_s2_keep(op);
    const size_t h = (size_t)head, values = 2 * H * (E + 2);
    return (ll_s2_layout){2 * h * E, 2 * H * E + 4 * h, values + h * keep * E, values + H * keep * E + h * keep};
}

ll_status ll_s2_check(const ll_attention *op, const float *state) {
    ll_status status = LL_OK;
    for (int h = 0; h < op->c.encoding.keyless && !status; h++) {
        double count[2];
        memcpy(count, state + ll_s2_layout_of(op, h).count, sizeof count);
        status = ll_state_whole("keyless.count", count[1], (double)ll_s2_keep(op));
        if (!status) status = ll_state_whole("keyless.count", count[0], (double)LL_POSITION_MOST);
    }
    return status;
}

ll_s2_state ll_s2_state_at(const ll_attention *op, const ll_attention_call *c, size_t floats, size_t first,
                           int sequence, int head) {
    const ll_carried at = ll_carried_at(c, floats, sequence, first);
    const ll_s2_layout p = ll_s2_layout_of(op, head);
    ll_s2_state s = {0};
    if (at.in) {
        double count[2];
        memcpy(count, at.in + p.count, sizeof count);
        s.count = count[0], s.tokens = (int64_t)count[1];
        s.sum = at.in + p.sum, s.values = at.in + p.values, s.kept = at.in + p.kept;
    }
    if (at.dout) s.dsum_out = at.dout + p.sum, s.dvalues_out = at.dout + p.values;
    if (at.din) s.dsum = at.din + p.sum, s.dcount = at.din + p.count;
    if (at.din) s.dvalues = at.din + p.values, s.dkept = at.din + p.kept;
    return s;
}

void ll_s2_leave(const ll_attention *op, const ll_attention_call *c, size_t floats, size_t first, int sequence,
                 int head, const ll_value_rows *v, int64_t at, int n, const double *V, double count) {
    const ll_carried carried = ll_carried_at(c, floats, sequence, first);
    if (!carried.out) return;
    const ll_s2_layout p = ll_s2_layout_of(op, head);
    const size_t E = (size_t)op->c.E, keep = (size_t)ll_s2_keep(op);
    float *values = carried.out + p.values, *kept = carried.out + p.kept;
    const int64_t tokens = at - v->begin + n, most = (int64_t)keep;
    const double counts[2] = {count, (double)ll_min_int64(tokens, most)};
    if (carried.in != carried.out && carried.in) {
        memcpy(values, carried.in + p.values, keep * E * sizeof *values);
        memcpy(kept, carried.in + p.kept, keep * sizeof *kept);
    } else if (!carried.in) {
        memset(values, 0, keep * E * sizeof *values);
        memset(kept, 0, keep * sizeof *kept);
    }
    for (int64_t t = n > most ? at + n - most : at; t < at + n; t++) {
        memcpy(values + (size_t)(t % most) * E, ll_value_row(v, t), E * sizeof *values);
        kept[t % most] = (float)ll_value_counts(v, t);
    }
    memcpy(carried.out + p.sum, V, E * sizeof *V);
    memcpy(carried.out + p.count, counts, sizeof counts);
}

void ll_s2_gradients(const ll_attention *op, const ll_s2_state *s, int64_t at, int n, const ll_view *dv) {
    const size_t E = (size_t)op->c.E, keep = (size_t)ll_s2_keep(op);
    const int64_t first = n > (int64_t)keep ? at + n - (int64_t)keep : at; /* of those that are left */
    if (s->dsum) {
        memset(s->dcount, 0, 4 * sizeof(float));
        memset(s->dvalues, 0, keep * E * sizeof(float));
        memset(s->dkept, 0, keep * sizeof(float));
    }
    for (size_t slot = 0; slot < keep && s->dvalues_out; slot++) {
        int64_t t =
            first - first % (int64_t)keep + (int64_t)slot; /* the token of the slot, if it is of the call */
        if (t < first) t += (int64_t)keep;
        if (t < at + n) {
            for (size_t e = 0; e < E; e++) ll_at(dv, (size_t)(t - at))[e] += s->dvalues_out[slot * E + e];
        } else if (s->dvalues) {
            memcpy(s->dvalues + slot * E, s->dvalues_out + slot * E, E * sizeof(float));
        }
    }
}
