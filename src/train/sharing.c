/* Sequences that ranks share: how states travel between ranks (model/sequence/shared_sequence.h). */
#include "train/shards.h"

#include "base/memory.h"

static int rank_of(const ll_shards *s, int member) { return s->row.first + s->row.stride * member; }

static ll_status begin_message(void *arg, float *x, size_t n, int peer, int message) {
    ll_shards *s = arg;
    const int rank = rank_of(s, peer), tag = LL_TAG_SHARED + message / 2;
    if (message % 2)
        ll_dist_receive(&s->message[message], x, n * sizeof *x, rank, tag);
    else
        ll_dist_send(&s->message[message], x, n * sizeof *x, rank, tag);
    return LL_OK;
}

static ll_status wait_message(void *arg, int message) {
    ll_shards *s = arg;
    return ll_dist_wait(&s->message[message], 1);
}

static ll_status move(const ll_shards *s, float *x, size_t n, int member, int sends) {
    ll_message m;
    const int rank = rank_of(s, member);
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
    const ll_shards *s = arg;
    return ll_group_broadcast(&s->row, x, n * sizeof *x, from);
}

/* In double, so that rounding is negligible. */
static ll_status sum_states(void *arg, float *x, size_t n) {
    const ll_shards *s = arg;
    double *sum = ll_alloc(n, sizeof *sum);
    if (!sum) return LL_ENOMEM;
    for (size_t i = 0; i < n; i++) sum[i] = (double)x[i];
    const ll_status status = ll_group_all_reduce(&s->row, sum, n);
    for (size_t i = 0; i < n; i++) x[i] = (float)sum[i];
    ll_free(sum);
    return status;
}

ll_status ll_shards_share(ll_shards *s, ll_workspace *ws) {
    if (s->row.count == 1) return LL_OK;
    const ll_sharing how = {.part = s->row.me,
                            .parts = s->row.count,
                            .send = send_state,
                            .receive = receive_state,
                            .broadcast = broadcast_state,
                            .sum = sum_states,
                            .begin = begin_message,
                            .wait = wait_message,
                            .arg = s};
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
