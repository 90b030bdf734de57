/* The keys of [dist]. */
#include "dist/dist_options.h"

#define PART ll_dist_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    INT_IF("dist.shards", shards, "0", 0, 65536,
           "parts of a batch whose gradients are summed in one fixed tree, so that any number of ranks gives the same "
           "bits; 0 = one for each example with several ranks, else one for every 2,048 tokens if model.width is at "
           "most 256, and one for the whole batch if it is more", NULL, RESUMABLE),
    INT_IF("dist.sequence", sequence, "1", 1, 65536, "ranks that share each sequence", NULL, RESUMABLE),
    CHOICE_IF("dist.reduce", reduce, "exact", "exact|fast",
              "sums of gradients: exact (the same bits for any number of ranks), or fast (sent in bf16, half the "
              "bytes)",
              NULL, RESUMABLE),
    NUMBER_IF("dist.timeout", timeout, "60", 1, 1e6, "seconds without a sign of life after which a rank is lost",
              NULL, RESUMABLE),
};
// clang-format on

const ll_key_table ll_dist_keys = {keys, sizeof keys / sizeof *keys};
