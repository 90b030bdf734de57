/* Noise of convolutional encodings: where that of a token and a feature lies, in a tile's scratch or in what was drawn
 * ahead. */
#include <string.h>

#include "attention/position/conv_spe.h"
#include "base/integer.h"

int ll_conv_is_image(const ll_attention_config *c) { return c->encoding.taps2 > 0; }
size_t ll_conv_taps(const ll_premap *b) {
    return (size_t)b->c.encoding.taps * (size_t)(ll_conv_is_image(&b->c) ? b->c.encoding.taps2 : 1);
}
int ll_conv_lines(const ll_premap *b) { return ll_conv_is_image(&b->c) ? b->c.encoding.taps : 1; }
size_t ll_conv_run(const ll_premap *b) { return ll_conv_taps(b) / (size_t)ll_conv_lines(b); }

size_t ll_conv_kept_rows(const ll_premap *b) {
    const ll_position_config *w = &b->c.encoding;
    return ll_spe_kept_noise(b) ? (size_t)w->noise_rows * (size_t)(ll_conv_is_image(&b->c) ? w->noise_cols : 1) : 0;
}

/* If noise is drawn when needed, rows from..to-1 of every feature are in a window, of window_rows(b) rows a feature. */
typedef struct {
    int64_t from, to;
} window;

enum { HEADER = 16 }; /* floats of the window */

static size_t window_rows(const ll_premap *b) { return LL_PREMAP_TILE + (size_t)b->c.encoding.taps - 1; }

/* Rounded up to cache lines, so that vectors of noise do not cross them. */
static size_t whole(size_t floats) { return ll_round_up(floats, LL_LINE); }
/* The header and the gates; then the window of rows, if there is one. */
static size_t fixed_of(const ll_premap *b) { return HEADER + whole((size_t)b->c.D * sizeof(ll_gate) / sizeof(float)); }
size_t ll_conv_noise_floats(const ll_premap *b) {
    return fixed_of(b) + (ll_spe_kept_noise(b) ? 0 : whole((size_t)b->c.D * window_rows(b) * (size_t)b->R));
}

static ll_gate *gates_at(const ll_premap_tile *t) { return (ll_gate *)(void *)(t->work + HEADER); }
const ll_gate *ll_conv_gates(const ll_premap_tile *t) { return gates_at(t); }
static float *rows_at(const ll_premap_tile *t) { return t->work + fixed_of(t->b); }
float *ll_conv_work(const ll_premap_tile *t) { return t->work + ll_conv_noise_floats(t->b); }

/* Row n of feature c is drawn from number (n D + c) R on. */
void ll_conv_prepare(const ll_premap_tile *t) {
    const ll_premap *b = t->b;
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, most = window_rows(b);
    for (size_t c = 0; c < D; c++) gates_at(t)[c] = ll_gate_at(b, t->head, (int)c);
    if (ll_spe_kept_noise(b)) return;
    window *w = (window *)(void *)t->work;
    float *rows = rows_at(t);
    const int64_t end = t->t0 + t->C + b->c.encoding.taps - 1;
    const int64_t kept = w->from <= t->t0 && t->t0 < w->to ? w->to - t->t0 : 0;
    for (size_t c = 0; c < D; c++) {
        float *own = rows + c * most * R;
        if (kept) memmove(own, own + (size_t)(t->t0 - w->from) * R, (size_t)kept * R * sizeof *own);
        for (int64_t n = t->t0 + kept; n < end; n++)
            ll_spe_noise(b, t->head, 0, own + (size_t)(n - t->t0) * R, R,
                         ((uint64_t)n * (uint64_t)D + (uint64_t)c) * (uint64_t)R);
    }
    w->from = t->t0;
    w->to = ll_max_int64(t->t0 + kept, end);
}

const float *ll_conv_noise(const ll_premap_tile *t, int i, size_t c, size_t *line) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D;
    *line = 0;
    if (!ll_spe_kept_noise(b)) return rows_at(t) + (c * window_rows(b) + (size_t)i) * R;
    const float *own = ll_spe_kept_noise(b) + ((size_t)t->head * D + c) * ll_conv_kept_rows(b) * R;
    if (!ll_conv_is_image(&b->c)) return own + (size_t)(t->t0 + i) * R;
    const int64_t W = b->c.width, p = ll_image_pixel(&b->c, t->t0 + i);
    *line = (size_t)b->c.encoding.noise_cols * R;
    return own + (size_t)(p / W) * *line + (size_t)(p % W) * R;
}

const float *ll_conv_filter(const ll_premap_tile *t, int side, size_t c) {
    const ll_position_config *w = &t->b->c.encoding;
    const float *filter = side == LL_QUERY ? w->filter_q : w->filter_k;
    return filter + ((size_t)t->head * (size_t)t->b->c.D + c) * ll_conv_taps(t->b);
}

int ll_conv_groups(const ll_premap_tile *t, int n, int most, int first[LL_PREMAP_TILE + 1]) {
    int groups = 0;
    size_t line;
    first[0] = 0;
    for (int i = 1; i < n; i++)
        if (i - first[groups] == most || ll_conv_noise(t, i, 0, &line) != ll_conv_noise(t, i - 1, 0, &line) + t->b->R)
            first[++groups] = i;
    first[++groups] = n;
    return groups;
}
