/* Samples a token from logits. Nothing is sorted and nothing allocated. The k largest values, and the fewest values
 * that make up a share p, are those above a threshold. The threshold is found by bisection over the floats, whose bits
 * are in order. Of equal values at the threshold the first ones are taken. */
#include <math.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/random.h"
#include "longline.h"

/* An integer with the same order as the (non-negative) floats. */
static uint32_t order_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The sum of the values from `least` on, or their number. */
static double above(const float *p, int V, uint32_t least, int counting) {
    double sum = 0;
    for (int i = 0; i < V; i++)
        if (order_of(p[i]) >= least) sum += counting ? 1 : p[i];
    return sum;
}

/* Sets to zero all but the largest values, as many as are needed for their number (counting) or sum to reach
 * `wanted`. */
static void keep_largest(float *p, int V, double wanted, int counting) {
    uint32_t low = 0, high = order_of(INFINITY);    /* `low` keeps enough values, `high` does not */
    if (above(p, V, 1, counting) <= wanted) return; /* zeros are never counted */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (above(p, V, middle, counting) >= wanted) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double left = wanted - above(p, V, high, counting);
    for (int i = 0; i < V; i++) {
        const uint32_t order = order_of(p[i]);
        if (order >= high) continue;
        if (order == low && left > 0) {
            left -= counting ? 1 : p[i];
        } else {
            p[i] = 0;
        }
    }
}

static int largest(const float *x, int V) {
    int best = 0;
    for (int i = 1; i < V; i++)
        if (x[i] > x[best] || isnan(x[best])) best = i;
    return best;
}

int ll_sample(float *logits, int V, const ll_sampling *given, int64_t position) {
    LL_FLOAT_MODE;
    /* Sampling cannot fail: what a larger struct of a later version adds is not known here, and left out. */
    ll_sampling own = {0};
    const ll_sampling *const how = &own;
    memcpy(&own, given, !given->struct_size || given->struct_size > sizeof own ? sizeof own : given->struct_size);
    const int best = largest(logits, V);
    const float top = logits[best];
    if (!(how->temperature > 0) || !isfinite(top)) return best;
    for (int i = 0; i < V; i++) {
        const double x = ((double)logits[i] - top) / how->temperature;
        logits[i] = x > -100 ? (float)exp(x) : 0; /* also NaN */
    }
    if (how->top_k > 0 && how->top_k < V) keep_largest(logits, V, how->top_k, 1);
    double total = above(logits, V, 0, 0);
    if (how->top_p < 1) keep_largest(logits, V, (how->top_p > 0 ? how->top_p : 0) * total, 0);
    total = above(logits, V, 0, 0);
    uint32_t word[4];
    ll_random4(word, how->seed, ll_stream_id(LL_RANDOM_SAMPLE, 0, 0), (uint64_t)position);
    const double u = ((double)word[0] + (double)word[1] * 0x1p-32) * 0x1p-32;
    double point = u * total;
    int last = best;
    for (int i = 0; i < V; i++) {
        if (!(logits[i] > 0)) continue;
        point -= logits[i];
        last = i;
        if (point < 0) break;
    }
    return last;
}
