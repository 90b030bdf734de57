/* Inside a model's stream. */
#ifndef LL_MODEL_STREAM_H
#define LL_MODEL_STREAM_H

#include "model/network.h"

struct ll_stream {
    ll_model *model;
    ll_workspace *ws;
    ll_attention_stream **attention; /* (layers) of the top stack */
    ll_cross_cache **memory;    /* (layers) seq2seq: what cross attention reads; else NULL */
    int64_t position, document;      /* tokens so far; of them, before the document that goes on */
    float *logits;                   /* (V) of the token after the last that was fed */
    int sourced;                     /* memory holds a source */
    int broken; /* a feed failed half-way: layers are not at the same token, or their numbers not finite */
};

/* LL_EINVAL for a stream that is broken. */
LL_MUST_USE ll_status ll_stream_whole(const ll_stream *s);
/* Keys that cross attention remembers; 0: it has no source. */
int ll_stream_keys(const ll_stream *s);

#endif
