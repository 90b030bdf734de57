/* Sequences that ranks share: how states travel between ranks (model/shared_sequence.h). */
#include "base/memory.h"
#include "train/train_internal.h"

static ll_status move(const ll_group *g, float *x, size_t n, int member, int sends) {
    ll_message m;
    const int rank = g->first + g->stride * member;
    if (sends)
        ll_dist_send(&m, x, n * sizeof *x, rank, LL_TAG_STATE);
    else
        ll_dist_receive(&m, x, n * sizeof *x, rank, LL_TAG_STATE);
    return ll_dist_wait(&m, 1);
}

static ll_status send_state(void *arg, const float *x, size_t n, int to) {
    return move(arg, (float *)(size_t)x, n, to, 1);
}

static ll_status receive_state(void *arg, float *x, size_t n, int from) { return move(arg, x, n, from, 0); }

static ll_status broadcast_state(void *arg, float *x, size_t n, int from) {
    return ll_group_broadcast(arg, x, n * sizeof *x, from);
}

/* In double, so that rounding is negligible. */
static ll_status sum_states(void *arg, float *x, size_t n) {
    double *sum = ll_alloc(n, sizeof *sum);
    if (!sum) return LL_ENOMEM;
    for (size_t i = 0; i < n; i++) sum[i] = (double)x[i];
    const ll_status status = ll_group_sum(arg, sum, n);
    for (size_t i = 0; i < n; i++) x[i] = (float)sum[i];
    ll_free(sum);
    return status;
}

ll_status ll_shards_share(const ll_shards *s, ll_workspace *ws) {
    if (s->row.count == 1) return LL_OK;
    const ll_sharing how = {s->row.me,       s->row.count, send_state, receive_state,
                            broadcast_state, sum_states,   (void *)(size_t)&s->row};
    return ll_workspace_share(ws, &how);
}

const ll_batch *ll_shards_part(const ll_shards *s, const ll_batch *whole, ll_batch *part) {
    if (s->row.count == 1) return whole;
    const size_t T = (size_t)part->T, offset = (size_t)s->row.me * T;
    part->B = whole->B;
    part->first = whole->first;
    for (size_t b = 0; b < (size_t)whole->B; b++) {
        const int left = whole->lengths[b] - (int)offset;
        part->lengths[b] = left < 0 ? 0 : left < part->T ? left : part->T;
        for (size_t t = 0; t < T; t++) {
            part->tokens[b * T + t] = whole->tokens[b * (size_t)whole->T + offset + t];
            part->targets[b * T + t] = whole->targets[b * (size_t)whole->T + offset + t];
        }
    }
    return part;
}
