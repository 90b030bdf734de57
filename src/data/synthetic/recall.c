/* Associative recall of many pairs (MQAR; Arora et al. 2024, "Zoology", section 4). A sequence begins with pairs of a
 * key and its value, data.shortest to data.longest of them. Later each key comes once more, and the token after it is
 * to be its value. No other token counts.
 *
 *     AxBy  B A   ->  y after B, x after A
 *
 * Keys are the bytes from 0x40 on, values those from 0xc0 on, and all other places have a space. The keys that ask
 * stand at even places after the pairs. Place number x of these is drawn with a weight of 1 / x, so that short and long
 * distances are equally likely on a logarithmic scale.
 *
 * Sequence number i of a split is a function of (train.seed, split, i). */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "data/synthetic/made.h"

enum { KEYS = 0x40, VALUES = 0xc0, BLANK = ' ' };

typedef struct {
    int split, shortest, longest, symbols, half; /* shortest, longest: number of pairs; half: of a sequence */
    uint64_t seed;
    int *key, *value; /* (symbols) in a random order; (longest) */
    double *turn;     /* (half) of each place: the smallest have keys */
} recall;

static void close_recall(const ll_reader *r) {
    const recall *own = r->own;
    ll_free(own->key), ll_free(own->value), ll_free(own->turn);
}

static ll_status check(const ll_reader_options *c) {
    const ll_data_options *d = &c->data;
    if (d->longest > d->symbols)
        return ll_fail(LL_EINVAL, "data.longest = %d pairs need as many keys, and data.symbols = %d; change one",
                       d->longest, d->symbols);
    if (c->length < 4 * d->longest)
        return ll_fail(LL_EINVAL,
                       "data.longest = %d pairs make sequences of at least %d tokens, and train.length is %d; set "
                       "train.length=%d",
                       d->longest, 4 * d->longest, c->length, 4 * d->longest);
    return LL_OK;
}

static ll_status open_recall(ll_reader *r, const ll_reader_options *c, int split) {
    recall *own = r->own;
    ll_status status = ll_made_open(r, c, split);
    if (!status) status = check(c);
    if (status) return status;
    *own = (recall){.split = split,
                    .shortest = c->data.shortest,
                    .longest = c->data.longest,
                    .symbols = c->data.symbols,
                    .half = c->length / 2,
                    .seed = (uint64_t)c->seed};
    own->key = ll_alloc((size_t)own->symbols, sizeof *own->key);
    own->value = ll_alloc((size_t)own->longest, sizeof *own->value);
    own->turn = ll_alloc((size_t)own->half, sizeof *own->turn);
    if (!own->key || !own->value || !own->turn) return LL_ENOMEM;
    r->vocab = 256;
    return LL_OK;
}

/* Number `first + i` of the draws of a split. */
typedef struct {
    uint64_t seed, stream, first;
} draws;

static int draw_below(const draws *d, int i, int n) {
    return (int)ll_below((uint32_t)n, d->seed, d->stream, d->first + (uint64_t)i);
}

/* The number of pairs; the first keys of a random order, their values, and the turns of the places after the pairs
 * (Efraimidis and Spirakis 2006). */
static int draw_example(const recall *own, const draws *d) {
    int at = 0;
    const int pairs = own->shortest + draw_below(d, at++, own->longest - own->shortest + 1);
    for (int i = 0; i < own->symbols; i++) own->key[i] = i;
    for (int i = 0; i < pairs; i++) {
        const int j = i + draw_below(d, at++, own->symbols - i), key = own->key[j];
        own->key[j] = own->key[i], own->key[i] = key;
        own->value[i] = draw_below(d, at++, own->symbols);
    }
    for (int x = 0; x < own->half - pairs; x++)
        own->turn[x] = -log((1.0 + draw_below(d, at++, 1 << 30)) / (1 << 30)) * (x + 1);
    return pairs;
}

static int first_in_turn(const double *turn, int places) {
    int first = 0;
    for (int x = 1; x < places; x++)
        if (turn[x] < turn[first]) first = x;
    return first;
}

/* A batch may have less than the whole sequence (ll_rows_checksum). */
static void fill_recall(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const recall *own = r->own;
    const uint64_t most = 1 + 2 * (uint64_t)own->longest + (uint64_t)own->half;
    const uint64_t stream = ll_stream_id(LL_RANDOM_TOY, (uint32_t)own->split, 1);
    const draws d = {own->seed, stream, (uint64_t)(index % r->size) * most};
    const size_t begin = (size_t)row * (size_t)batch->T;
    int *tokens = batch->tokens + begin, *targets = batch->targets + begin;
    const int pairs = draw_example(own, &d);
    for (int t = 0; t < batch->T; t++) tokens[t] = BLANK, targets[t] = -1;
    for (int i = 0; i < pairs; i++) {
        const int x = first_in_turn(own->turn, own->half - pairs), t = 2 * (pairs + x);
        own->turn[x] = INFINITY;
        const int key = KEYS + own->key[i], value = VALUES + own->value[i];
        if (2 * i + 1 < batch->T) tokens[2 * i] = key, tokens[2 * i + 1] = value;
        if (t < batch->T) tokens[t] = key, targets[t] = value;
    }
    if (batch->lengths) batch->lengths[row] = batch->T;
}

const ll_format ll_format_recall = {
    "recall", 1u << LL_TASK_LM, open_recall, fill_recall, sizeof(recall), close_recall, .made = 1, .unit = "token",
    .cut = LL_CUT_BYTE};
