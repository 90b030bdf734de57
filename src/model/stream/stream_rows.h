/* Runs whose rows are tokens of streams, of one or of many. */
#ifndef LL_STREAM_ROWS_H
#define LL_STREAM_ROWS_H

#include "model/network.h"

/* Rows first .. first + n - 1 of a run of streams: tokens of one stream, after `position` others. */
typedef struct {
    int first, n;
    int64_t position;
    ll_attention_stream **attention; /* (layers): the states of attention */
    ll_cross_cache **cache;          /* (layers) of cross attention; NULL: there is none */
} ll_stream_rows;
/* The streams of a run in the order of their rows, and scratch for those that have none: so many floats for each
 * worker. */
typedef struct ll_stream_set {
    ll_stream_rows *span;
    int count;
    float *scratch;
    size_t floats;
    int workers;
} ll_stream_set;

/* The attention of a layer. */
LL_MUST_USE ll_status ll_attend_streams(const ll_batch_run *run, int layer, int cross, const ll_attention_call *call);
/* The position of row `row` in its stream, less the number of the row. */
int64_t ll_stream_offset(const ll_stream_set *streams, size_t row);
/* output_head.c: as ll_head_logits; each row has the bits that a token of a single stream has. */
void ll_head_stream_logits(const ll_batch_run *run, int n, const float *x, float *logits);

#endif
