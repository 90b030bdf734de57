/* Sums gradients over ranks. */
#include "dist/exchange.h"

#include <string.h>

#include "base/bf16.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "dist/tree.h"

enum {
    BUCKET = 1 << 18,    /* fewest floats of a bucket */
    SEGMENT = 1 << 14,   /* fewest floats of a segment, where a bucket is cut equally */
    MOST_BUCKETS = 4096, /* tags end at 32767 */
    TASK = 1 << 14       /* floats of one task of a sum */
};

typedef struct {
    size_t from, to, ready; /* floats; how many of them are complete */
    int begun, first_message, messages;
} bucket;

struct ll_exchange {
    int rank, ranks, leaves, fast, at_once;
    int *first, *count, *order; /* leaves of each rank; ranks in the order of their leaves */
    int nodes;                  /* that all ranks send: nodes_of */
    size_t pieces, size, *bound;
    int buckets;
    bucket *bucket;
    size_t *segment; /* (buckets, ranks + 1) floats at which segments begin */
    int *piece;      /* (buckets + 1) first piece of each bucket */

    float *block[LL_TREE_NODES]; /* sums of nodes of the tree; after them the leaves that are being computed */
    ll_tree tree;
    int leaf; /* number of whole leaves */

    float *received;    /* messages of all buckets */
    uint16_t *rounded;  /* fast: sent numbers, then received numbers */
    size_t *offset;     /* (buckets) beginning of a bucket's numbers in `received` */
    ll_message *message;
};

static size_t *segment_of(const ll_exchange *x, int b) { return x->segment + (size_t)b * (size_t)(x->ranks + 1); }

/* The nodes of the tree that a rank's leaves form: the number of pieces that it sends of each segment. */
static int nodes_of(const ll_exchange *x, int rank) {
    if (!x->count[rank]) return 0;
    return x->fast ? 1 : ll_tree_of(x->leaves, x->first[rank], x->count[rank]).n;
}

/* ---- Create and free ---- */

/* Cuts the block into buckets of whole pieces, and these into segments. All buckets but the last one are as small as
 * they may be. With many ranks they are larger, so that each rank gets a segment of each, and messages do not become
 * small. */
static void cut(ll_exchange *x) {
    size_t least = ll_ceil_div_size(x->size, MOST_BUCKETS / 2);
    if (least < BUCKET) least = BUCKET;
    if (least < (size_t)x->ranks * SEGMENT) least = (size_t)x->ranks * SEGMENT;
    x->buckets = 0;
    for (size_t p = 0; p < x->pieces; x->buckets++) {
        bucket *b = &x->bucket[x->buckets];
        const size_t first = p;
        size_t *segment = segment_of(x, x->buckets);
        x->piece[x->buckets] = (int)first;
        b->from = x->bound[first];
        while (p < x->pieces && x->bound[p] - b->from < least) p++;
        b->to = x->bound[p];
        for (int r = 0; r <= x->ranks; r++)
            segment[r] = x->bound[first + (p - first) * (size_t)r / (size_t)x->ranks];
    }
    x->piece[x->buckets] = (int)x->pieces;
}

static void sort_ranks(ll_exchange *x) {
    for (int r = 0; r < x->ranks; r++) {
        int at = r;
        for (; at > 0 && x->first[x->order[at - 1]] > x->first[r]; at--) x->order[at] = x->order[at - 1];
        x->order[at] = r;
    }
}

/* Computes where the numbers and messages of each bucket begin, and the totals of all buckets. */
static void count_buffers(ll_exchange *x, size_t *all_floats, size_t *all_messages) {
    size_t floats = 0, messages = 0;
    const int own = nodes_of(x, x->rank), others = x->nodes - own;
    for (int b = 0; b < x->buckets; b++) {
        const size_t *s = segment_of(x, b);
        x->offset[b] = floats;
        floats += (size_t)others * (s[x->rank + 1] - s[x->rank]);
        x->bucket[b].first_message = (int)messages;
        messages += (size_t)(own * (x->ranks - 1) + others);
    }
    *all_floats = floats;
    *all_messages = ll_max_size(messages, (size_t)x->buckets * 2 * (size_t)(x->ranks - 1));
}

/* Memory for what other ranks send, and for messages. */
static ll_status allocate_buffers(ll_exchange *x) {
    size_t floats, messages;
    count_buffers(x, &floats, &messages);
    x->message = ll_alloc(messages, sizeof *x->message);
    x->received = ll_alloc(floats, sizeof *x->received);
    x->rounded = ll_alloc(x->fast ? x->size + floats : 0, sizeof *x->rounded);
    return x->message && x->received && x->rounded ? LL_OK : LL_ENOMEM;
}

static ll_status take_lists(ll_exchange *x, const ll_exchange_plan *plan) {
    const size_t ranks = (size_t)x->ranks, most = ll_min_size(x->pieces, MOST_BUCKETS);
    x->first = ll_alloc(ranks, sizeof *x->first);
    x->count = ll_alloc(ranks, sizeof *x->count);
    x->order = ll_alloc(ranks, sizeof *x->order);
    x->bound = ll_alloc(x->pieces + 1, sizeof *x->bound);
    x->bucket = ll_alloc(most, sizeof *x->bucket);
    x->piece = ll_alloc(most + 1, sizeof *x->piece);
    x->offset = ll_alloc(most, sizeof *x->offset);
    x->segment = ll_alloc(most * (ranks + 1), sizeof *x->segment);
    if (!x->first || !x->count || !x->order || !x->bound || !x->bucket || !x->piece || !x->offset || !x->segment)
        return LL_ENOMEM;
    memcpy(x->first, plan->first, ranks * sizeof *x->first);
    memcpy(x->count, plan->count, ranks * sizeof *x->count);
    memcpy(x->bound, plan->bound, (x->pieces + 1) * sizeof *x->bound);
    return LL_OK;
}

/* Creates all of an exchange except its memory for numbers and messages. */
static ll_status begin(ll_exchange **exchange, const ll_exchange_plan *plan, int rank, int ranks) {
    ll_exchange *x = ll_alloc(1, sizeof *x);
    if (!x) return LL_ENOMEM;
    x->rank = rank, x->ranks = ranks, x->leaves = plan->leaves;
    x->fast = plan->fast && ranks > 1, x->at_once = plan->at_once;
    x->pieces = plan->pieces, x->size = plan->bound[plan->pieces];
    const ll_status status = take_lists(x, plan);
    if (status) {
        ll_exchange_free(x);
        return status;
    }
    cut(x);
    sort_ranks(x);
    for (int r = 0; r < ranks; r++) x->nodes += nodes_of(x, r);
    *exchange = x;
    return LL_OK;
}

static int blocks_of(const ll_exchange *x) {
    const int blocks = ll_tree_capacity(x->leaves, x->first[x->rank], x->count[x->rank]);
    return ll_max_int(blocks, 1) + x->at_once - 1;
}

/* Of x->rank. */
static ll_exchange_floats measure(ll_exchange *x) {
    size_t received, messages;
    count_buffers(x, &received, &messages);
    ll_exchange_floats f = {.gradients = (size_t)blocks_of(x) * x->size, .received = received};
    if (x->fast) f.received += (x->size + received) / 2;
    for (int b = 0; b < x->buckets; b++) f.own += segment_of(x, b)[x->rank + 1] - segment_of(x, b)[x->rank];
    return f;
}

ll_status ll_exchange_measure(const ll_exchange_plan *plan, int ranks, ll_exchange_floats *each) {
    ll_exchange *x = NULL;
    const ll_status status = begin(&x, plan, 0, ranks);
    if (status) return status;
    for (x->rank = 0; x->rank < ranks; x->rank++) each[x->rank] = measure(x);
    ll_exchange_free(x);
    return LL_OK;
}

ll_status ll_exchange_create(ll_exchange **exchange, const ll_exchange_plan *plan) {
    const ll_group all = ll_group_all();
    ll_exchange *x = NULL;
    ll_status status = begin(&x, plan, all.me, all.count);
    if (!status) status = allocate_buffers(x);
    for (int i = 0; !status && i < blocks_of(x); i++)
        if (!(x->block[i] = ll_alloc(x->size, sizeof **x->block))) status = LL_ENOMEM;
    if (status) {
        ll_exchange_free(x);
        return status;
    }
    *exchange = x;
    return LL_OK;
}

float *ll_exchange_block(const ll_exchange *x) { return x->block[0]; }

void ll_exchange_free(ll_exchange *x) {
    if (!x) return;
    for (int i = 0; i < LL_TREE_NODES; i++) ll_free(x->block[i]);
    ll_free(x->first);
    ll_free(x->count);
    ll_free(x->order);
    ll_free(x->bound);
    ll_free(x->bucket);
    ll_free(x->piece);
    ll_free(x->offset);
    ll_free(x->segment);
    ll_free(x->message);
    ll_free(x->received);
    ll_free(x->rounded);
    ll_free(x);
}

/* ---- Sums ---- */

typedef struct {
    float *to;
    const float *from;
    size_t n;
} addition;

static void add_task(void *arg, size_t i) {
    const addition *a = arg;
    const size_t end = (i + 1) * TASK < a->n ? (i + 1) * TASK : a->n;
    for (size_t j = i * TASK; j < end; j++) a->to[j] += a->from[j];
}

static void add(float *to, const float *from, size_t n) {
    ll_parallel_for(ll_ceil_div_size(n, TASK), add_task, &(addition){to, from, n});
}

/* Adds the last two sums `times` times, among floats from .. to - 1. */
static void merge(ll_exchange *x, int top, int merges, size_t from, size_t to) {
    for (int i = 0; i < merges; i++) add(x->block[top - 1 - i] + from, x->block[top - i] + from, to - from);
}

/* ---- Leaves ---- */

void ll_exchange_begin(ll_exchange *x) {
    x->leaf = 0;
    x->tree = (ll_tree){.leaves = x->leaves};
    for (int b = 0; b < x->buckets; b++) {
        x->bucket[b].ready = 0;
        x->bucket[b].begun = x->bucket[b].messages = 0;
    }
}

static int is_last(const ll_exchange *x) { return x->leaf + 1 == x->count[x->rank]; }

float *ll_exchange_leaf(ll_exchange *x, int offset) {
    float *block = x->block[x->tree.n + offset];
    memset(block, 0, x->size * sizeof *block);
    return block;
}

static void send_bucket(ll_exchange *x, int b);

/* During the last leaf: sums and sends a bucket, which is complete. */
static void begin_bucket(ll_exchange *x, int b) {
    bucket *k = &x->bucket[b];
    ll_tree after = x->tree;
    const int last = x->first[x->rank] + x->count[x->rank] - 1;
    if (k->begun) return;
    k->begun = 1;
    int top = x->tree.n, nodes = 0;
    if (x->count[x->rank]) {
        const int merges = ll_tree_push(&after, (ll_node){0, last});
        merge(x, top, merges, k->from, k->to);
        nodes = after.n;
    }
    if (x->fast && nodes > 1) merge(x, nodes - 1, nodes - 1, k->from, k->to);
    send_bucket(x, b);
}

void ll_exchange_ready(ll_exchange *x, size_t from, size_t to) {
    if (!is_last(x)) return;
    for (int b = 0; b < x->buckets; b++) {
        bucket *k = &x->bucket[b];
        const size_t low = ll_max_size(from, k->from), high = ll_min_size(to, k->to);
        if (low < high) k->ready += high - low;
        if (k->ready == k->to - k->from) begin_bucket(x, b);
    }
}

/* Leaves that are computed already move down to where blocks became free. */
static void close_gap(ll_exchange *x, int top) {
    const int gap = top + 1 - x->tree.n;
    for (int i = x->tree.n; gap && i < x->tree.n + x->at_once - 1; i++) {
        float *const block = x->block[i];
        x->block[i] = x->block[i + gap];
        x->block[i + gap] = block;
    }
}

void ll_exchange_added(ll_exchange *x) {
    const int leaf = x->first[x->rank] + x->leaf, top = x->tree.n;
    if (!is_last(x)) {
        merge(x, top, ll_tree_push(&x->tree, (ll_node){0, leaf}), 0, x->size);
        close_gap(x, top);
    }
    x->leaf++;
}

/* ---- Messages ---- */

static void send_floats(ll_exchange *x, bucket *k, const float *from, size_t offset, size_t n, int to, int tag) {
    const void *data = from + offset;
    size_t bytes = n * sizeof *from;
    if (x->fast) {
        ll_bf16_round(x->rounded + offset, from + offset, n);
        data = x->rounded + offset, bytes = n * sizeof *x->rounded;
    }
    ll_dist_send(&x->message[k->first_message + k->messages++], data, bytes, to, tag);
}

/* Sends this rank's sums for the segments of others, and begins to receive theirs for its own segment. */
static void send_bucket(ll_exchange *x, int b) {
    bucket *k = &x->bucket[b];
    const size_t *s = segment_of(x, b), own = s[x->rank + 1] - s[x->rank];
    const int nodes = nodes_of(x, x->rank), tag = LL_TAG_BUCKET + b;
    size_t at = x->offset[b];
    for (int i = 0; i < x->ranks && own; i++) {
        const int r = x->order[i];
        for (int j = 0; r != x->rank && j < nodes_of(x, r); j++, at += own)
            ll_dist_receive(&x->message[k->first_message + k->messages++],
                            x->fast ? (void *)(x->rounded + x->size + at) : (void *)(x->received + at),
                            own * (x->fast ? sizeof *x->rounded : sizeof *x->received), r, tag);
    }
    for (int i = 1; i < x->ranks; i++) { /* each rank begins with the next one */
        const int r = (x->rank + i) % x->ranks;
        for (int j = 0; j < nodes && s[r + 1] > s[r]; j++)
            send_floats(x, k, x->block[j], s[r], s[r + 1] - s[r], r, tag);
    }
}

/* ---- The sum of all ranks ---- */

/* Adds the nodes of all ranks, in order, for this rank's segment of a bucket. */
static void sum_segment(ll_exchange *x, int b) {
    const size_t *s = segment_of(x, b), from = s[x->rank], own = s[x->rank + 1] - from;
    float *sum[LL_TREE_NODES], *at = x->received + x->offset[b];
    ll_tree t = {.leaves = x->leaves};
    if (!own) return;
    for (int i = 0; i < x->ranks; i++) {
        const int r = x->order[i];
        if (!x->count[r]) continue;
        const ll_tree nodes = ll_tree_of(x->leaves, x->first[r], x->count[r]);
        for (int j = 0; j < (x->fast ? 1 : nodes.n); j++) {
            float *data = r == x->rank ? x->block[j] + from : at;
            if (r != x->rank) {
                if (x->fast) ll_bf16_floats(at, x->rounded + x->size + (size_t)(at - x->received), own);
                at += own;
            }
            int top = t.n;
            sum[top] = data;
            if (!x->fast)
                for (int merges = ll_tree_push(&t, nodes.node[j]); merges > 0; merges--, top--)
                    add(sum[top - 1], sum[top], own);
            else if (top)
                add(sum[0], data, own);
            else
                t.n = 1;
        }
    }
    if (sum[0] != x->block[0] + from) memcpy(x->block[0] + from, sum[0], own * sizeof **sum);
}

ll_status ll_exchange_reduce_scatter(ll_exchange *x) {
    ll_status status = LL_OK;
    for (int b = x->buckets; b-- > 0;) begin_bucket(x, b);
    for (int b = x->buckets; b-- > 0;) {
        bucket *k = &x->bucket[b];
        const ll_status waited = ll_dist_wait(x->message + k->first_message, k->messages);
        if (waited) status = waited;
        if (!status) sum_segment(x, b);
    }
    return status;
}

/* Copies segments of all buckets: this rank's to the others, and theirs to this rank. only: the one rank that receives,
 * or -1 if all do. */
static ll_status copy_segments(ll_exchange *x, float *block, int only) {
    int n = 0;
    for (int b = 0; b < x->buckets; b++) {
        const size_t *s = segment_of(x, b), own = s[x->rank + 1] - s[x->rank];
        for (int i = 1; i < x->ranks; i++) {
            const int to = (x->rank + i) % x->ranks, from = (x->rank - i + x->ranks) % x->ranks;
            const int tag = LL_TAG_BUCKET + MOST_BUCKETS + b;
            if (s[from + 1] > s[from] && (only < 0 || only == x->rank))
                ll_dist_receive(&x->message[n++], block + s[from], (s[from + 1] - s[from]) * sizeof *block, from, tag);
            if (own && (only < 0 || only == to))
                ll_dist_send(&x->message[n++], block + s[x->rank], own * sizeof *block, to, tag);
        }
    }
    return ll_dist_wait(x->message, n);
}

ll_status ll_exchange_all_gather(ll_exchange *x, float *block) { return copy_segments(x, block, -1); }

ll_status ll_exchange_gather(ll_exchange *x, float *block) { return copy_segments(x, block, 0); }

int ll_exchange_owns(const ll_exchange *x, size_t piece) {
    int b = 0;
    while ((size_t)x->piece[b + 1] <= piece) b++;
    const size_t *s = segment_of(x, b);
    return x->bound[piece] >= s[x->rank] && x->bound[piece] < s[x->rank + 1];
}
