/* A shuffle without a table. Example number i of an epoch is found without drawing the others, so a run that resumes
 * within an epoch has nothing to restore.
 *
 * A Feistel network permutes the numbers of 2k bits. With halves (a, b), one round is (a, b) -> (b, a xor F(b)), which
 * can be undone for any F. Four rounds with random F look like a random permutation of many numbers (Luby and Rackoff
 * 1988). With 5 numbers, four rounds would send some pairs to some pairs of positions 1.6 times too often. Ten rounds
 * leave no bias that 200,000 epochs show. 2^2k is the first such power with at least n numbers. A result outside of [0,
 * n) is permuted again until it is inside (cycle walking: Black and Rogaway 2002). This is again a permutation of [0,
 * n), and takes at most four tries on average, because n is at least a quarter of 2^2k. */
#include "base/random.h"
#include "data/format.h"

enum { ROUNDS = 10 };

static uint64_t permute(uint64_t x, int k, uint64_t seed, uint32_t epoch) {
    const uint64_t mask = ((uint64_t)1 << k) - 1;
    uint64_t a = x >> k, b = x & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t draw[4];
        /* Coordinate 0 of this purpose draws windows of text. */
        ll_random4(draw, seed, ll_stream_id(LL_RANDOM_BATCH, 1 + round, epoch), b);
        const uint64_t next = a ^ (draw[0] & mask);
        a = b;
        b = next;
    }
    return a << k | b;
}

int64_t ll_shuffle(int64_t i, int64_t n, uint64_t seed, uint32_t epoch) {
    int k = 1;
    while ((uint64_t)n > (uint64_t)1 << 2 * k) k++;
    uint64_t x = (uint64_t)i;
    do x = permute(x, k, seed, epoch);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
