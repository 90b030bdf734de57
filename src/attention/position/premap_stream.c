/* Streams of operators whose position acts on queries and keys before the feature map, and of rope-linear. Every head
 * keeps its encoder's scratch, where conv-spe has the noise that the next token shares with the last: constant memory,
 * and no number of noise is drawn twice. */
#include <string.h>

#include "attention/keyless/relative_s2_stream.h"
#include "attention/linear/linear.h"
#include "attention/position/premap.h"
#include "attention/attention_stream.h"
#include "base/memory.h"

struct ll_shell_stream {
    const ll_attention *op;
    int B;
    int64_t position;
    ll_attention_stream *inner, *sums; /* inner: NULL where no head has keys */
    ll_clipped_stream *clipped;
    float *work; /* (H, scratch) of the encoder */
    size_t scratch;
    float *buffer; /* encoded q and k (2, B, H, tile, R), or sums (B, H, tile) */
    size_t floats;
};

/* Heads with keys, if any, and heads without. */
static ll_status build_clipped(ll_shell_stream *s) {
    const int keyed = ll_keyed_heads(&s->op->c);
    const ll_status status = keyed ? ll_attention_stream_create(&s->inner, s->op->inner, s->B) : LL_OK;
    return status ? status : ll_clipped_stream_create(&s->clipped, s->op, s->B);
}

static ll_status build(ll_shell_stream *s) {
    const ll_attention *op = s->op;
    if (op->c.position == LL_POSITION_RELATIVE_S2) return build_clipped(s);
    const size_t rows = (size_t)s->B * (size_t)op->c.H * LL_PREMAP_TILE;
    s->scratch = op->before ? (op->before->kind->scratch(op->before) + 15) / 16 * 16 : 0;
    s->floats = op->before ? 2 * rows * (size_t)op->before->R : rows;
    s->work = ll_alloc((size_t)op->c.H * s->scratch, sizeof *s->work);
    s->buffer = ll_alloc(s->floats, sizeof *s->buffer);
    if (!s->work || !s->buffer) return LL_ENOMEM;
    ll_status status = ll_attention_stream_create(&s->inner, op->inner, s->B);
    if (!status && op->sums) status = ll_attention_stream_create(&s->sums, op->sums, s->B);
    return status;
}

ll_status ll_shell_stream_create(ll_shell_stream **stream, const ll_attention *op, int B) {
    ll_shell_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->op = op;
    s->B = B;
    const ll_status status = build(s);
    if (status) {
        ll_shell_stream_free(s);
        return status;
    }
    *stream = s;
    return LL_OK;
}

void ll_shell_stream_free(ll_shell_stream *s) {
    if (!s) return;
    ll_attention_stream_free(s->inner);
    ll_attention_stream_free(s->sums);
    ll_clipped_stream_free(s->clipped);
    ll_free(s->work);
    ll_free(s->buffer);
    ll_free(s);
}

void ll_shell_stream_reset(ll_shell_stream *s) {
    s->position = 0;
    if (s->work) memset(s->work, 0, (size_t)s->op->c.H * s->scratch * sizeof *s->work);
    if (s->inner) ll_attention_stream_reset(s->inner);
    if (s->clipped) ll_clipped_stream_reset(s->clipped);
    if (s->sums) ll_attention_stream_reset(s->sums);
}

size_t ll_shell_stream_bytes(const ll_shell_stream *s) {
    const size_t own = ((size_t)s->op->c.H * s->scratch + s->floats) * sizeof(float);
    return sizeof *s + own + (s->inner ? ll_attention_stream_bytes(s->inner) : 0) +
           (s->sums ? ll_attention_stream_bytes(s->sums) : 0) + (s->clipped ? ll_clipped_stream_bytes(s->clipped) : 0);
}

/* What encoders keep is made again at any position. */
int ll_shell_stream_state(const ll_shell_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const int n = s->inner ? ll_attention_stream_state(s->inner, position, tensor) : 0;
    if (s->clipped) return n + ll_clipped_stream_state(s->clipped, tensor + n);
    if (!s->sums) return n;
    (void)ll_attention_stream_state(s->sums, position, tensor + n); /* rope-linear is linear: one tensor each */
    tensor[n].name = "sums";
    return n + 1;
}

ll_status ll_shell_stream_seek(ll_shell_stream *s, int64_t position) {
    ll_status status = s->op->before ? ll_premap_reaches(s->op->before, position) : LL_OK;
    if (!status && s->inner) status = ll_attention_stream_seek(s->inner, position);
    if (!status && s->clipped) ll_clipped_stream_seek(s->clipped, position);
    if (!status && s->sums) status = ll_attention_stream_seek(s->sums, position);
    if (!status) s->position = position;
    return status;
}

ll_status ll_shell_stream_check(const ll_shell_stream *s) {
    ll_status status = s->inner ? ll_attention_stream_check(s->inner) : LL_OK;
    ll_state_tensor t[LL_STATE_TENSORS];
    if (!status && s->clipped) status = ll_state_check(t, ll_clipped_stream_state(s->clipped, t));
    return status || !s->sums ? status : ll_attention_stream_check(s->sums);
}

static ll_view encoded(const ll_shell_stream *s, int side) {
    const size_t token = (size_t)s->op->before->R, head = token * LL_PREMAP_TILE, batch = head * (size_t)s->op->c.H;
    return (ll_view){s->buffer + (side == LL_KEY ? (size_t)s->B * batch : 0), batch, head, token};
}

static ll_status feed_encoded(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    const ll_view in[2] = {q, k}, out[2] = {encoded(s, LL_QUERY), encoded(s, LL_KEY)};
    ll_premap_tile t = {.b = s->op->before, .k = ll_kernel_table(), .C = n, .t0 = s->position};
    for (t.head = 0; t.head < s->op->c.H; t.head++) {
        t.work = s->work + (size_t)t.head * s->scratch;
        t.b->kind->prepare(&t);
        for (int b = 0; b < s->B; b++)
            for (int side = LL_QUERY; side <= LL_KEY && in[side].data; side++)
                t.b->kind->forward(&t, side, n, ll_element(&in[side], b, t.head, 0), in[side].token,
                                   ll_element(&out[side], b, t.head, 0), out[side].token);
    }
    return ll_attention_stream_feed(s->inner, n, out[LL_QUERY], out[LL_KEY], v, y);
}

static ll_status feed_divided(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    const ll_attention *op = s->op;
    float one = 1;
    const ll_view ones = {.data = &one}, sums = {s->buffer, (size_t)op->c.H * LL_PREMAP_TILE, LL_PREMAP_TILE, 1};
    ll_status status = ll_attention_stream_feed(s->inner, n, q, k, v, y);
    if (!status) status = ll_attention_stream_feed(s->sums, n, q, k, ones, sums);
    if (status) return status;
    for (int b = 0; b < s->B; b++)
        for (int h = 0; h < op->c.H; h++)
            for (int t = 0; t < n; t++) {
                const float factor = ll_inverse(ll_divisor(op, *ll_element(&sums, b, h, t), 0, s->position + t + 1));
                for (int e = 0; e < op->c.E; e++) ll_element(&y, b, h, t)[e] *= factor;
            }
    return LL_OK;
}

static ll_status feed_clipped(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    const ll_status status = s->inner ? ll_attention_stream_feed(s->inner, n, q, k, v, y) : LL_OK;
    if (!status) ll_clipped_stream_feed(s->clipped, n, q, v, y);
    return status;
}

ll_status ll_shell_stream_feed(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    ll_status (*const feed)(ll_shell_stream * s, int n, ll_view q, ll_view k, ll_view v, ll_view y) =
        s->clipped ? feed_clipped
        : s->sums  ? feed_divided
                   : feed_encoded;
    /* What could fail, before anything is fed. */
    ll_status status = s->inner ? ll_attention_stream_reserve(s->inner, n) : LL_OK;
    if (!status && s->sums) status = ll_attention_stream_reserve(s->sums, n);
    if (!status && s->op->before) status = ll_premap_reaches(s->op->before, s->position + n);
    for (int t = 0; t < n && !status; t += LL_PREMAP_TILE) {
        const int C = n - t < LL_PREMAP_TILE ? n - t : LL_PREMAP_TILE;
        status = feed(s, C, ll_view_from(q, t), ll_view_from(k, t), ll_view_from(v, t), ll_view_from(y, t));
        s->position += C;
    }
    return status;
}
