/* The sequences of a call: one at the beginning of each row, or several in packed rows. Operators read spans, which are
 * the same for both. */
#ifndef LL_SEQUENCE_H
#define LL_SEQUENCE_H

#include "base/status.h"
#include "longline.h"

enum { LL_QUERY, LL_KEY }; /* the sides of a call */

/* The last position at which a sequence, or a part of one, may begin. */
#define LL_POSITION_MOST (INT64_C(1) << 52)

/* The pixel of a token, in the order of rows. Tokens around the image stand at its first and last pixel. */
static inline int64_t ll_image_pixel(const ll_attention_config *c, int64_t token) {
    const int64_t p = token - c->before, last = (int64_t)c->width * c->height - 1;
    return p < 0 ? 0 : p > last ? last : p;
}

/* A sequence: its row of the tensors, its first query and key there, and how many are in use. Outputs and gradients of
 * the rest of its capacity are set to zeros. */
typedef struct {
    int row, query, key, queries, keys, query_capacity, key_capacity;
} ll_span;
int ll_sequence_count(const ll_attention_call *c);
ll_span ll_sequence_at(const ll_attention_call *c, int i);
/* The position of its first query (LL_QUERY) or key. */
int64_t ll_sequence_offset(const ll_attention_call *c, int side, int i);
/* This sequence as a call of its own, with only the tokens in use. */
ll_attention_call ll_sequence_call(const ll_attention_call *c, int i);
/* The most queries and keys that a sequence can have. */
void ll_sequence_longest(const ll_attention_call *c, int *queries, int *keys);
/* check: LL_EINVAL if segments are not valid (itself: keys are the queries' own tokens). clear: zeros for the queries
 * or keys that are in no segment. */
LL_MUST_USE ll_status ll_segments_check(const ll_attention_call *c, int itself);
void ll_segments_clear(const ll_attention_call *c, int keys, const ll_view *view, int H, int width);

/* Element (row, head, token, 0) of a view; (token, 0) of a head's view. */
static inline float *ll_element(const ll_view *view, size_t row, size_t head, size_t token) {
    return view->data + row * view->batch + head * view->head + token * view->token;
}
static inline float *ll_at(const ll_view *view, size_t token) {
    return view->data + token * view->token;
}
/* The view from a token on. A view without data stays as it is. */
ll_view ll_view_from(ll_view view, int64_t token);
/* Rows (rows, heads, tokens, width) without gaps. */
ll_view ll_view_packed(float *data, int heads, int tokens, int width);
/* Zeros for tokens from..to-1 of a head's view. */
void ll_zero_rows(const ll_view *view, int from, int to, int width);
/* The call's tensors at one head of one sequence: token 0 is its first. Batch and head are 0. */
typedef struct {
    ll_view q, k, v, y, g, dq, dk, dv, gate, dgate;
} ll_views;
ll_views ll_views_at(const ll_attention_call *c, const ll_span *s, int head);

/* The states of one sequence before and after a call, and their gradients, from a number on. Each is NULL if the call
 * does not have it. floats: of the state of one sequence. */
typedef struct {
    const float *in, *dout;
    float *out, *din;
} ll_carried;
ll_carried ll_carried_at(const ll_attention_call *c, size_t floats, int sequence, size_t first);

/* For operators that call others: the keys of sequence b in use; zeros for rows that are in no sequence. */
int ll_sequence_keys(const ll_attention_call *c, int b);
void ll_clear_output(const ll_attention_call *c, int H, int E);
void ll_clear_gradients(const ll_attention_call *c, int H, int D, int E);

#endif
