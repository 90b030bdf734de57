/* Masked language modelling (Devlin et al. 2019). 15 % of the used tokens are targets. Of these, 80 % are replaced by
 * the mask token, 10 % by a random token, and 10 % stay. What happens to token t of row `number` is a function of
 * (seed, number, t). */
#include "base/random.h"
#include "data/format.h"

static const double CHOSEN = 0.15, HIDDEN = 0.8, REPLACED = 0.9;

static int below(uint32_t word, double share) {
    return (double)word < share * 0x1p32;
}

void ll_mask_row(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number) {
    const size_t at = (size_t)row * (size_t)batch->T;
    const uint64_t stream = ll_stream_id(LL_RANDOM_MASK, (uint32_t)(number >> 32), (uint32_t)number);
    const int last = r->mask + 1 == r->vocab ? r->mask : r->vocab; /* random tokens are below */
    const uint64_t range = (uint64_t)(last - r->maskable);
    for (int t = 0; t < batch->T; t++) {
        int *token = batch->tokens + at + (size_t)t, *target = batch->targets + at + (size_t)t;
        uint32_t word[4];
        ll_random4(word, seed, stream, (uint64_t)t);
        *target = -1;
        if (t >= batch->lengths[row] || *token < r->maskable || *token == r->mask || !below(word[0], CHOSEN)) continue;
        *target = *token;
        if (below(word[1], HIDDEN))
            *token = r->mask;
        else if (below(word[1], REPLACED))
            *token = r->maskable + (int)(word[2] * range >> 32);
    }
}
