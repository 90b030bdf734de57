/* Where the sequences of a call lie. */
#include "attention/attention.h"

int ll_sequence_count(const ll_attention_call *c) {
    return c->B;
}

ll_sequence ll_sequence_at(const ll_attention_call *c, int i) {
    const int keys = c->lengths ? c->lengths[i] : c->S;
    const int queries = c->query_lengths ? c->query_lengths[i] : c->S == c->T ? keys : c->T;
    return (ll_sequence){.row = i, .queries = queries, .keys = keys, .query_room = c->T, .key_room = c->S};
}

float *ll_element(const ll_view *view, int row, int head, int token) {
    return view->data + (size_t)row * view->batch + (size_t)head * view->head + (size_t)token * view->token;
}

static ll_view from(const ll_view *view, int row, int head, int token) {
    if (!view->data) return *view;
    return (ll_view){ll_element(view, row, head, token), 0, 0, view->token};
}

ll_views ll_views_at(const ll_attention_call *c, const ll_sequence *s, int head) {
    const int row = s->row, query = s->query, key = s->key;
    return (ll_views){from(&c->q, row, head, query), from(&c->k, row, head, key),   from(&c->v, row, head, key),
                      from(&c->y, row, head, query), from(&c->g, row, head, query), from(&c->dq, row, head, query),
                      from(&c->dk, row, head, key),  from(&c->dv, row, head, key)};
}
