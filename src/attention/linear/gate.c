/* Gated linear attention, with one gate for each token and head (Yang et al. 2024; the scalar gate is that of gated
 * retention, Sun et al. 2024):
 *
 *   S_t = r_t S_(t-1) + k_t v_t'        y_t = S_t' q_t        0 < r_t <= 1
 *
 * Features are q and k themselves. The gate comes with the call. A model computes it from the layer's input
 * (model/layer/token_gate.c). This file computes its gradient. With b_i the sum of log r over tokens 0..i, weights
 * carry e^(b_i - b_j), and so
 *
 *   dL/db_i = <phi(q_i), dphi(q_i)> - <phi(k_i), dphi(k_i)>        dL/dlog r_t = sum_(i >= t) dL/db_i
 *
 * (Yang et al. 2024, section 4 and its appendix). The state that the call leaves has the factor e^(b_T), so <S, dS> is
 * added to the gradient of the last token. */
#include <string.h>

#include "attention/linear/causal.h"

void ll_gate_rows(const ll_head *j, int side, int t0, int n, const float *phi, const float *dphi, const float *every) {
    const size_t m = (size_t)j->map->features, ld = (size_t)j->map->ld, divisor = (size_t)j->map->divisor;
    if (!j->at.dgate.data) return;
    for (int i = 0; i < n; i++, phi += ld, dphi += ld) {
        float *d = ll_at(&j->at.dgate, (size_t)(t0 + i));
        const float x = j->k->dot(m, phi, dphi) + (divisor ? j->k->dot(m, phi + divisor, dphi + divisor) : 0);
        if (side == LL_KEY) {
            *d -= x;
        } else {
            *d = x - (every[i] != 0 ? every[i] * j->k->sum(m, phi) : 0);
        }
    }
}

void ll_gate_gradient(const ll_head *j) {
    const size_t sums = (size_t)j->map->features * ((size_t)j->op->c.E + 1);
    double all = 0;
    for (size_t e = 0; e < sums && j->dstate_out; e++) all += (double)j->state_out[e] * (double)j->dstate_out[e];
    for (int t = j->n - 1; t >= 0; t--) {
        float *d = ll_at(&j->at.dgate, (size_t)t);
        all += (double)*d;
        *d = (float)all;
    }
}
