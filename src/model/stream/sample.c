/* Samples a token from logits. Nothing is sorted and nothing allocated. The k largest values, and the fewest values
 * that make up a share p, are those above a threshold. The threshold is found by bisection over the floats, whose bits
 * are in order. Of equal values at the threshold the first ones are taken. */
#include <math.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/random.h"
#include "model/stream/sample.h"

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

double ll_sample_weights(float *x, int V, const ll_sampling *how) {
    const int best = largest(x, V);
    const float top = x[best];
    if (!(how->temperature > 0) || !isfinite(top)) {
        for (int i = 0; i < V; i++) x[i] = i == best;
        return 1;
    }
    for (int i = 0; i < V; i++) {
        const double z = ((double)x[i] - top) / how->temperature;
        x[i] = z > -100 ? (float)exp(z) : 0; /* also NaN */
    }
    if (how->top_k > 0 && how->top_k < V) keep_largest(x, V, how->top_k, 1);
    const double total = above(x, V, 0, 0);
    if (!(how->top_p < 1)) return total;
    keep_largest(x, V, (how->top_p > 0 ? how->top_p : 0) * total, 0);
    if (!(how->top_p > 0)) x[best] = 1; /* nothing was kept */
    return above(x, V, 0, 0);
}

int ll_sample_at(const float *weights, int V, double total, double u) {
    double point = u * total;
    int last = 0;
    for (int i = 0; i < V; i++) {
        if (!(weights[i] > 0)) continue;
        point -= weights[i];
        last = i;
        if (point < 0) break;
    }
    return last;
}

double ll_sample_uniform(uint64_t seed, uint32_t use, int64_t position) {
    uint32_t word[4];
    ll_random4(word, seed, ll_stream_id(LL_RANDOM_SAMPLE, use, 0), (uint64_t)position);
    return ((double)word[0] + (double)word[1] * 0x1p-32) * 0x1p-32;
}

/* The settings of a caller that may know another version. A draw cannot fail: what a larger struct adds is left out. */
static ll_sampling known_sampling(const ll_sampling *how) {
    ll_sampling own = {0};
    const size_t size = how->struct_size;
    memcpy(&own, how, !size || size > sizeof own ? sizeof own : size);
    return own;
}

int ll_sample(float *logits, int V, const ll_sampling *given, int64_t position) {
    LL_FLOAT_MODE;
    const ll_sampling how = known_sampling(given);
    const double total = ll_sample_weights(logits, V, &how);
    return ll_sample_at(logits, V, total, ll_sample_uniform(how.seed, 0, position));
}
