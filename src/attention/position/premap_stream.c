/* The stage before the feature map, for tokens that come one after the other. */
#include <string.h>

#include "attention/position/premap.h"
#include "base/integer.h"
#include "base/memory.h"

/* For how many heads a token is prepared, each with its scratch. */
static size_t heads(const ll_premap *b) { return b->kind->same ? 1 : (size_t)b->c.H; }

ll_status ll_premap_stream_create(ll_premap_stream *s, const ll_premap *b) {
    *s = (ll_premap_stream){.b = b};
    if (!b) return LL_OK;
    s->scratch = ll_round_up(b->kind->scratch(b), LL_LINE);
    s->work = ll_alloc(heads(b) * s->scratch, sizeof *s->work);
    return s->work ? LL_OK : LL_ENOMEM;
}

void ll_premap_stream_free(ll_premap_stream *s) { ll_free(s->work); }

size_t ll_premap_stream_floats(const ll_premap_stream *s) { return s->work ? heads(s->b) * s->scratch : 0; }

void ll_premap_stream_reset(const ll_premap_stream *s) {
    if (s->work) memset(s->work, 0, ll_premap_stream_floats(s) * sizeof *s->work);
}

void ll_premap_stream_encode(const ll_premap_stream *s, int B, int64_t first, int n, const ll_view in[2],
                             const ll_view out[2]) {
    ll_premap_tile t = {.b = s->b, .k = ll_kernel_table(), .C = n, .t0 = first};
    for (t.head = 0; t.head < s->b->c.H; t.head++) {
        if ((size_t)t.head < heads(s->b)) {
            t.work = s->work + (size_t)t.head * s->scratch;
            t.b->kind->prepare(&t);
        }
        for (int b = 0; b < B; b++)
            for (int side = LL_QUERY; side <= LL_KEY; side++)
                if (in[side].data)
                    t.b->kind->forward(&t, side, n, ll_element(&in[side], b, t.head, 0), in[side].token,
                                       ll_element(&out[side], b, t.head, 0), out[side].token);
    }
}
