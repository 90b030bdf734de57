/* Heads without keys as a stream. Each has the sum of all values, and a ring of the last ones. */
#ifndef LL_RELATIVE_S2_STREAM_H
#define LL_RELATIVE_S2_STREAM_H

#include "attention/attention_stream.h"

typedef struct ll_s2_stream ll_s2_stream;

LL_MUST_USE ll_status ll_s2_stream_create(ll_s2_stream **s, const ll_attention *op, int B);
void ll_s2_stream_free(ll_s2_stream *s);
void ll_s2_stream_reset(ll_s2_stream *s);
size_t ll_s2_stream_bytes(const ll_s2_stream *s);
/* The functions of a stream. Its state is two tensors. Seek and reset keep their shapes, so they cannot fail. */
int ll_s2_stream_state(const ll_s2_stream *s, ll_state_tensor tensor[2]);
void ll_s2_stream_seek(ll_s2_stream *s, int64_t position);
/* The next n tokens; views are of all heads, of which those without keys are the last. Cannot fail. Uses the scratch of
 * `lender`, a stream of the operator. */
void ll_s2_stream_feed(ll_s2_stream *s, int n, ll_view q, ll_view v, ll_view y, const ll_attention_stream *lender);

#endif
