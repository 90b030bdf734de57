/* The text inside the library (demo.txt): this project's documentation as it was in November 2026. It is a file of its
 * own that never changes, so that changes of comments or documentation do not change the demo's loss.
 *
 * Its pages differ, so the last tenth alone would be a test of something else. The text is cut into pieces of 4 KiB. Of
 * every ten pieces in a row, one is held out; it is drawn once and for all. So train and valid contain the same kinds
 * of text, and no byte is in both. The pieces of each split keep their order. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/text/text_reader.h"

extern const uint8_t ll_demo_begin[], ll_demo_end[]; /* demo_text.S */

enum { PIECE = 4096 /* bytes */, GROUP = 10 /* pieces */ };

static int is_held_out(size_t piece) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_BATCH, 0xde, 0);
    return piece % GROUP == ll_below(GROUP, 0, stream, piece / GROUP);
}

static ll_status open_demo(ll_reader *r, const ll_reader_options *c, int split) {
    const size_t size = (size_t)(ll_demo_end - ll_demo_begin);
    if (split == LL_SPLIT_TEST)
        return ll_fail(LL_EINVAL, "data.format=demo has no test split; evaluate on valid, or on a text of your own");
    uint8_t *text = ll_alloc(size + 1, 1);
    if (!text) return LL_ENOMEM;
    size_t n = 0;
    for (size_t at = 0; at < size; at += PIECE) {
        if (is_held_out(at / PIECE) != (split == LL_SPLIT_VALID)) continue;
        const size_t length = ll_min_size(size - at, PIECE);
        memcpy(text + n, ll_demo_begin + at, length);
        n += length;
    }
    if (split == LL_SPLIT_TRAIN && c->data.limit > 0 && (uint64_t)c->data.limit < n) n = (size_t)c->data.limit;
    text[n] = 0;
    r->file[0] = (ll_bytes){text, n};
    ll_text_windows *own = r->own;
    own->words = -1; /* counted on the first request */
    own->bytes = (int64_t)n;
    return ll_text_use(r, c, split, "the demo's text", text, (int64_t)n);
}

const ll_format ll_format_demo = {
    "demo", 1u << LL_TASK_LM | 1u << LL_TASK_MLM, open_demo, ll_text_fill, sizeof(ll_text_windows), ll_text_close,
    .made = 1, .unit = "byte", .cut = LL_CUT_BYTE};
