/* Generated pairs. The source is random symbols. The target is the same symbols (copy), or in reverse order (reverse).
 * In copy-reverse a mark at the beginning of the source tells which. Sources longer than those of training show whether
 * an encoder-decoder has learned the rule.
 *
 * Pair number i of a split is a function of (train.seed, split, i). */
#include "base/memory.h"
#include "base/random.h"
#include "data/synthetic/made.h"

enum { MARKS = 1 };

static const char SYMBOLS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
static const char COPY = '=', REVERSE = '<';

typedef struct {
    int split, shortest, longest, symbols;
    uint64_t seed;
    uint8_t *pair; /* a source and its target while a row is filled */
} toy;

static void close_toy(const ll_reader *r) {
    const toy *own = r->own;
    ll_free(own->pair);
}

static ll_status open_toy(ll_reader *r, const ll_reader_options *c, int split) {
    toy *own = r->own;
    const int most = c->data.longest + (c->data.format == LL_DATA_COPY_REVERSE) + 2;
    if (c->data.symbols >= (int)sizeof SYMBOLS)
        return ll_fail(LL_EINVAL, "data.format=%s has %d symbols, and data.symbols = %d; set fewer", r->format->name,
                       (int)sizeof SYMBOLS - 1, c->data.symbols);
    const ll_status status = ll_made_open(r, c, split);
    if (status) return status;
    if (most > c->length)
        return ll_fail(LL_EINVAL,
                       "data.longest = %d makes sequences of %d tokens, and train.length is %d; set "
                       "train.length=%d",
                       c->data.longest, most, c->length, most);
    if (!(own->pair = ll_alloc(2 * ((size_t)c->data.longest + MARKS), 1))) return LL_ENOMEM;
    r->vocab = LL_TOKEN_COUNT;
    own->split = split;
    own->shortest = c->data.shortest, own->longest = c->data.longest, own->symbols = c->data.symbols;
    own->seed = (uint64_t)c->seed;
    return LL_OK;
}

static void fill_toy(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const toy *own = r->own;
    const uint64_t stream = ll_stream_id(LL_RANDOM_TOY, (uint32_t)own->split, 0);
    const uint64_t draws = (uint64_t)own->longest + 2, first = (uint64_t)(index % r->size) * draws;
    const int marks = r->format == &ll_format_copy_reverse;
    const size_t n =
        (size_t)own->shortest + ll_below((uint32_t)(own->longest - own->shortest + 1), own->seed, stream, first);
    int reverse = r->format == &ll_format_reverse;
    if (marks) reverse = (int)ll_below(2, own->seed, stream, first + 1);
    uint8_t *source = own->pair, *target = source + own->longest + MARKS;
    if (marks) source[0] = (uint8_t)(reverse ? REVERSE : COPY);
    for (size_t i = 0; i < n; i++) {
        const uint32_t symbol = ll_below((uint32_t)own->symbols, own->seed, stream, first + 2 + i);
        source[(size_t)marks + i] = target[reverse ? n - 1 - i : i] = (uint8_t)SYMBOLS[symbol];
    }
    ll_pair_fill(batch, row, source, n + (size_t)marks, target, n);
}

const ll_format ll_format_copy = {
    "copy", 1u << LL_TASK_SEQ2SEQ, open_toy, fill_toy, sizeof(toy), close_toy, .made = 1, .unit = "token",
    .cut = LL_CUT_BYTE};
const ll_format ll_format_reverse = {
    "reverse", 1u << LL_TASK_SEQ2SEQ, open_toy, fill_toy, sizeof(toy), close_toy, .made = 1, .unit = "token",
    .cut = LL_CUT_BYTE};
const ll_format ll_format_copy_reverse = {
    "copy-reverse", 1u << LL_TASK_SEQ2SEQ, open_toy, fill_toy, sizeof(toy), close_toy, .made = 1, .unit = "token",
    .cut = LL_CUT_BYTE};
