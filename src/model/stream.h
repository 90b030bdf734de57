/* Inside a model's stream. */
#ifndef LL_MODEL_STREAM_H
#define LL_MODEL_STREAM_H

#include "model/network.h"

struct ll_stream {
    ll_model *model;
    ll_workspace *ws;
    ll_attention_stream **attention; /* (layers) */
    int64_t position;
    float *logits; /* (V) of the token after the last that was fed */
    int broken;    /* a feed failed half-way: layers are not at the same token */
};

/* LL_EINVAL for a stream whose layers are not at the same token. */
LL_MUST_USE ll_status ll_stream_whole(const ll_stream *s);

#endif
