/* The sequences of a call: one at the beginning of each row, or several in packed rows. */
#include "attention/sequence/sequence.h"

#include <string.h>

int ll_sequence_count(const ll_attention_call *c) {
    return c->segment ? c->segments : c->B;
}

ll_span ll_sequence_at(const ll_attention_call *c, int i) {
    if (c->segment) {
        const ll_segment *s = &c->segment[i];
        return (ll_span){s->row, s->query, s->key, s->queries, s->keys, s->queries, s->keys};
    }
    const int keys = c->lengths ? c->lengths[i] : c->S;
    const int queries = c->query_lengths ? c->query_lengths[i] : c->S == c->T ? keys : c->T;
    return (ll_span){.row = i, .queries = queries, .keys = keys, .query_capacity = c->T, .key_capacity = c->S};
}

int64_t ll_sequence_offset(const ll_attention_call *c, int side, int i) {
    if (c->offsets) return c->offsets[i];
    return side == LL_QUERY ? c->query_offset : c->key_offset;
}

void ll_sequence_longest(const ll_attention_call *c, int *queries, int *keys) {
    *queries = c->T, *keys = c->S;
    if (!c->segment) return;
    *queries = *keys = 0;
    for (int i = 0; i < c->segments; i++) {
        if (c->segment[i].queries > *queries) *queries = c->segment[i].queries;
        if (c->segment[i].keys > *keys) *keys = c->segment[i].keys;
    }
}

/* ---- Packed rows ---- */

/* Are n tokens from `at` on in the row, and after `end`, the end of the sequence before? */
static int fits(int at, int n, int end, int capacity) {
    return n >= 0 && at >= end && at <= capacity && n <= capacity - at;
}

ll_status ll_segments_check(const ll_attention_call *c, int itself) {
    ll_segment end = {0};
    if (c->segments < 0) return ll_fail(LL_EINVAL, "attention: %d segments, must not be negative", c->segments);
    if (c->lengths || c->query_lengths)
        return ll_fail(LL_EINVAL, "attention: segments say how long they are; give no lengths besides");
    for (int i = 0; i < c->segments; i++) {
        const ll_segment *s = &c->segment[i];
        if (s->row > end.row) end = (ll_segment){.row = s->row};
        if (s->row < end.row || s->row >= c->B || !fits(s->query, s->queries, end.query, c->T) ||
            !fits(s->key, s->keys, end.key, c->S))
            return ll_fail(LL_EINVAL,
                           "attention: segment %d (row %d, queries %d + %d, keys %d + %d) is not behind the one before "
                           "it and within rows of %d and %d tokens",
                           i, s->row, s->query, s->queries, s->key, s->keys, c->T, c->S);
        if (itself && (s->query != s->key || s->queries != s->keys))
            return ll_fail(
                LL_EINVAL,
                "attention: segment %d is of causal attention, or of a kernel of one sequence alone, so that its keys "
                "must be its queries",
                i);
        end.query = s->query + s->queries;
        end.key = s->key + s->keys;
    }
    return LL_OK;
}

static void clear_tokens(const ll_view *view, int row, int H, int from, int to, int width) {
    for (int h = 0; h < H; h++)
        for (int t = from; t < to; t++) memset(ll_element(view, row, h, t), 0, (size_t)width * sizeof(float));
}

void ll_segments_clear(const ll_attention_call *c, int keys, const ll_view *view, int H, int width) {
    const int capacity = keys ? c->S : c->T;
    int row = 0, at = 0;
    for (int i = 0; i <= c->segments; i++) {
        const ll_segment *s = &c->segment[i];
        const int last = i == c->segments, next = last ? c->B : s->row;
        for (; row < next; row++, at = 0) clear_tokens(view, row, H, at, capacity, width);
        if (last) return;
        clear_tokens(view, row, H, at, keys ? s->key : s->query, width);
        at = keys ? s->key + s->keys : s->query + s->queries;
    }
}

ll_attention_call ll_sequence_call(const ll_attention_call *c, int i) {
    const ll_span s = ll_sequence_at(c, i);
    ll_attention_call one = *c;
    ll_view *const of_queries[] = {&one.q, &one.y, &one.g, &one.dq, &one.gate, &one.dgate};
    ll_view *const of_keys[] = {&one.k, &one.v, &one.dk, &one.dv};
    for (int v = 0; v < 6; v++)
        if (of_queries[v]->data) of_queries[v]->data = ll_element(of_queries[v], s.row, 0, s.query);
    for (int v = 0; v < 4; v++)
        if (of_keys[v]->data) of_keys[v]->data = ll_element(of_keys[v], s.row, 0, s.key);
    if (c->key_mask) one.key_mask += (size_t)s.row * (size_t)c->S + (size_t)s.key;
    one.B = 1, one.T = s.queries, one.S = s.keys;
    one.lengths = one.query_lengths = NULL;
    one.segment = NULL, one.segments = 0;
    one.query_offset = ll_sequence_offset(c, LL_QUERY, i), one.key_offset = ll_sequence_offset(c, LL_KEY, i);
    one.offsets = NULL;
    return one;
}

/* ---- Views ---- */

ll_view ll_view_from(ll_view view, int64_t token) {
    if (view.data) view.data += (size_t)token * view.token;
    return view;
}

ll_view ll_view_packed(float *data, int heads, int tokens, int width) {
    const size_t token = (size_t)width, head = token * (size_t)tokens;
    return (ll_view){data, head * (size_t)heads, head, token};
}

void ll_zero_rows(const ll_view *view, int from, int to, int width) {
    for (int t = from; t < to; t++) memset(ll_at(view, t), 0, (size_t)width * sizeof(float));
}

static ll_view from(const ll_view *view, int row, int head, int token) {
    if (!view->data) return *view;
    return (ll_view){ll_element(view, row, head, token), 0, 0, view->token};
}

ll_views ll_views_at(const ll_attention_call *c, const ll_span *s, int head) {
    const int row = s->row, query = s->query, key = s->key;
    return (ll_views){from(&c->q, row, head, query),    from(&c->k, row, head, key),
                      from(&c->v, row, head, key),      from(&c->y, row, head, query),
                      from(&c->g, row, head, query),    from(&c->dq, row, head, query),
                      from(&c->dk, row, head, key),     from(&c->dv, row, head, key),
                      from(&c->gate, row, head, query), from(&c->dgate, row, head, query)};
}

/* ---- State ---- */

ll_carried ll_carried_at(const ll_attention_call *c, size_t floats, int sequence, size_t first) {
    const ll_segment *s = c->segment && c->states_of_rows ? c->segment + sequence : NULL;
    const int takes = !s || !sequence || s[-1].row != s->row;
    const int leaves = !s || sequence + 1 == c->segments || s[1].row != s->row;
    const size_t at = (size_t)(s ? s->row : sequence) * (c->state_row ? c->state_row : floats) + first;
    return (ll_carried){c->state_in && takes ? c->state_in + at : NULL,
                        c->dstate_out && leaves ? c->dstate_out + at : NULL,
                        c->state_out && leaves ? c->state_out + at : NULL,
                        c->dstate_in && takes ? c->dstate_in + at : NULL};
}

/* ---- Rows in no sequence ---- */

int ll_sequence_keys(const ll_attention_call *c, int b) {
    return ll_sequence_at(c, b).keys;
}

static void clear(const ll_attention_call *c, const ll_view *view, int of_keys, int H, int width) {
    for (int b = 0; b < c->B && view->data; b++) {
        const ll_span s = ll_sequence_at(c, b);
        for (int h = 0; h < H; h++)
            for (int t = of_keys ? s.keys : s.queries; t < (of_keys ? c->S : c->T); t++)
                memset(ll_element(view, (size_t)b, (size_t)h, (size_t)t), 0, (size_t)width * sizeof(float));
    }
}

void ll_clear_output(const ll_attention_call *c, int H, int E) {
    clear(c, &c->y, 0, H, E);
}

void ll_clear_gradients(const ll_attention_call *c, int H, int D, int E) {
    clear(c, &c->dq, 0, H, D);
    clear(c, &c->dk, 1, H, D);
    clear(c, &c->dv, 1, H, E);
}
