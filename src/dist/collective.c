/* Operations of all members of a group, along one binary tree: the parent of member i is i & (i - 1). */
#include <string.h>

#include "base/memory.h"
#include "dist/rank_state.h"

static int rank_of(const ll_group *g, int member) { return g->first + g->stride * member; }

ll_group ll_group_all(void) { return (ll_group){0, 1, ll_rank.size, ll_rank.rank}; }

static ll_status move(void *data, size_t bytes, int peer, int sends) {
    ll_message m;
    if (sends)
        ll_dist_send(&m, data, bytes, peer, LL_TAG_GROUP);
    else
        ll_dist_receive(&m, data, bytes, peer, LL_TAG_GROUP);
    return ll_dist_wait(&m, 1);
}

/* A reduction to member 0: calls `add` with the numbers of each child, in order, then sends the result to the parent.
 */
typedef void adder(void *to, const void *from, size_t bytes);
static ll_status reduce(const ll_group *g, void *data, void *buffer, size_t bytes, adder *add) {
    for (int bit = 1; bit < g->count; bit <<= 1) {
        if (g->me & bit) return move(data, bytes, rank_of(g, g->me - bit), 1);
        if (g->me + bit >= g->count) continue;
        const ll_status status = move(buffer, bytes, rank_of(g, g->me + bit), 0);
        if (status) return status;
        add(data, buffer, bytes);
    }
    return LL_OK;
}

ll_status ll_group_broadcast(const ll_group *g, void *data, size_t bytes, int from) {
    const int me = (g->me - from + g->count) % g->count;
    int bit = 1;
    for (; bit < g->count; bit <<= 1) {
        if (!(me & bit)) continue;
        const ll_status status = move(data, bytes, rank_of(g, (me - bit + from) % g->count), 0);
        if (status) return status;
        break;
    }
    for (bit >>= 1; bit; bit >>= 1) {
        if (me + bit >= g->count) continue;
        const ll_status status = move(data, bytes, rank_of(g, (me + bit + from) % g->count), 1);
        if (status) return status;
    }
    return LL_OK;
}

static void add_numbers(void *to, const void *from, size_t bytes) {
    double *x = to;
    const double *y = from;
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] += y[i];
}

ll_status ll_group_all_reduce(const ll_group *g, double *x, size_t n) {
    if (g->count == 1) return LL_OK;
    double *buffer = ll_alloc(n, sizeof *buffer);
    if (!buffer) return LL_ENOMEM;
    ll_status status = reduce(g, x, buffer, n * sizeof *x, add_numbers);
    if (!status) status = ll_group_broadcast(g, x, n * sizeof *x, 0);
    ll_free(buffer);
    return status;
}

ll_status ll_group_barrier(const ll_group *g) {
    double nothing = 0;
    return ll_group_all_reduce(g, &nothing, 1);
}

/* ---- Agreement ---- */

typedef struct {
    ll_status status;
    int rank;
    char text[480];
} verdict;

static void keep_first(void *to, const void *from, size_t bytes) {
    verdict *a = to;
    const verdict *b = from;
    (void)bytes;
    if (b->status && (!a->status || b->rank < a->rank)) *a = *b;
}

ll_status ll_group_agree(const ll_group *g, ll_status status) {
    verdict mine = {.status = status, .rank = ll_rank.rank}, buffer;
    if (g->count == 1) return status;
    if (status == LL_EDIST) return status; /* the other ranks learn of the failure in another way */
    const char *text = status ? ll_error() : "";
    strncpy(mine.text, text, sizeof mine.text - 1);
    ll_status failed = reduce(g, &mine, &buffer, sizeof mine, keep_first);
    if (!failed) failed = ll_group_broadcast(g, &mine, sizeof mine, 0);
    if (failed) return failed;
    memcpy(ll_rank.agreed, mine.text, sizeof ll_rank.agreed);
    if (!mine.status) return LL_OK;
    if (mine.rank == ll_rank.rank) return mine.status;
    if (mine.rank == 0) return ll_fail(mine.status, "%s", mine.text);
    return ll_fail(mine.status, "rank %d: %s", mine.rank, mine.text);
}

ll_status ll_dist_same(const char *what, const char *value, const char *remedy) {
    enum { VALUE = 80 };
    const ll_group all = ll_group_all();
    char mine[VALUE] = "", first[VALUE];
    if (all.count == 1) return LL_OK;
    strncpy(mine, value, VALUE - 1);
    memcpy(first, mine, VALUE);
    ll_status status = ll_group_broadcast(&all, first, VALUE, 0);
    if (!status && strcmp(first, mine))
        status = ll_fail(LL_EINVAL, "%s is not that of rank 0: %s, and there %s; %s", what, mine, first, remedy);
    return ll_group_agree(&all, status);
}
