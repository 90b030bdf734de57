/* Divides a batch among ranks. Rank r is number r % N of the N = dist.sequence ranks that share sequences, in group r /
 * N. Leaves are numbered part by part of the sequence, so that the leaves of a rank are neighbours. */
#include "train/shards.h"

#include "base/integer.h"
#include "base/parallel.h"

enum { NARROW = 256, SHARD_TOKENS = 2048, SMALL_TOKENS = 8192 };

/* Tokens of an example; pixels of an image, even if its patches are the tokens. */
static int64_t tokens_of(const ll_config *c) { return (int64_t)ll_task_sequences(c->model.task) * c->train.length; }

/* The number of shards where the recipe leaves it open. In one process, what a narrow model computes of a shard of some
 * SHARD_TOKENS tokens stays in the cache until backward reads it. A wide model waits for its products, and the sums of
 * its gradients are large. The number is the same on every machine, because the bits of a sum depend on it. */
static int default_shards(const ll_config *c, int launched) {
    const int64_t shards = c->train.batch * tokens_of(c) / SHARD_TOKENS;
    if (launched) return c->train.batch;
    if (c->model.width > NARROW || c->train.carry_state || shards < 1) return 1;
    return shards < c->train.batch ? (int)shards : c->train.batch;
}

int ll_shard_begin(const ll_shards *s, int shard) {
    return (int)((int64_t)s->batch * shard / s->shards);
}

/* On a small shard threads would wait for each other after each operation. A large one is better divided, as memory is
 * needed once then. Ranks send the gradients of their last shard while it is computed. Noise of positions is kept in
 * the model's operators and drawn again for each batch, so that shards which use it come one after the other. */
static int together(const ll_shards *s, const ll_config *c, int ranks) {
    const ll_model_config model = ll_config_model(c);
    return ranks == 1 && c->model.width <= NARROW && s->most * tokens_of(c) <= SMALL_TOKENS && !c->train.carry_state &&
           !c->train.distil && !ll_config_draws_noise(&model);
}

int ll_shards_at_once(const ll_shards *s, const ll_config *c, int ranks, int left) {
    const int threads = ll_threads(), n = ll_min_int(ll_min_int(threads, left), LL_MOST_AT_ONCE);
    return 2 * n > threads && together(s, c, ranks) ? n : 1;
}

int ll_shards_reading(const ll_config *c) {
    const int batch = c->train.batch, shards = c->dist.shards ? c->dist.shards : default_shards(c, 0);
    ll_shards s = {.batch = batch, .shards = ll_min_int(shards, batch)};
    s.most = (int)ll_ceil_div_size((size_t)batch, (size_t)s.shards);
    const int64_t step = (int64_t)s.most * ll_shards_at_once(&s, c, 1, s.shards),
                  few = (int64_t)SHARD_TOKENS * ll_threads() / ll_max_int64(tokens_of(c), 1);
    return (int)ll_min_int64(batch, ll_max_int64(step, few));
}

static int first_of(const ll_shards *s, int group) { return (int)((int64_t)s->shards * group / s->data); }

void ll_shards_leaves(const ll_shards *s, int rank, int *first, int *count) {
    const int group = rank / s->row.count, part = rank % s->row.count;
    *first = part * s->shards + first_of(s, group);
    *count = first_of(s, group + 1) - first_of(s, group);
}

ll_status ll_shards_plan(ll_shards *out, const ll_config *c) {
    const ll_group all = ll_group_all();
    return ll_shards_plan_for(out, c, all.me, all.count, ll_dist_is_launched());
}

ll_status ll_shards_plan_for(ll_shards *out, const ll_config *c, int rank, int ranks, int launched) {
    const int width = c->dist.sequence;
    ll_shards s = {.batch = c->train.batch, .shards = c->dist.shards};
    if (!s.shards) s.shards = default_shards(c, launched);
    if (s.shards > s.batch)
        return ll_fail(LL_EINVAL, "dist.shards is %d, but a batch has %d examples (train.batch)", s.shards, s.batch);
    if (ranks % width)
        return ll_fail(LL_EINVAL, "dist.sequence = %d does not divide the %d ranks; start a multiple of %d", width,
                       ranks, width);
    if (c->train.length % width)
        return ll_fail(LL_EINVAL, "dist.sequence = %d does not divide the %d tokens of a sequence (train.length)",
                       width, c->train.length);
    s.data = ranks / width;
    s.number = rank / width;
    if (s.data > s.shards)
        return ll_fail(LL_EINVAL,
                       "%d ranks cannot share a batch of %d shards; start fewer, or set dist.shards (at most "
                       "train.batch, which is %d) or dist.sequence",
                       ranks, s.shards, s.batch);
    s.row = (ll_group){s.number * width, 1, width, rank % width};
    s.first = first_of(&s, s.number);
    s.count = first_of(&s, s.number + 1) - s.first;
    s.leaves = s.shards * width;
    for (int i = 0; i < s.shards; i++) {
        const int n = ll_shard_begin(&s, i + 1) - ll_shard_begin(&s, i);
        if (n > s.most) s.most = n;
    }
    *out = s;
    return LL_OK;
}
