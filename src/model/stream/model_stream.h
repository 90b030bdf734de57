/* Inside a model's stream. */
#ifndef LL_MODEL_STREAM_H
#define LL_MODEL_STREAM_H

#include "longline-batch.h"
#include "model/stream/stream_rows.h"

struct ll_stream {
    ll_model *model;
    ll_batcher *batcher; /* whose workspace and scratch it uses; NULL: its own */
    ll_workspace *ws;
    ll_attention_stream **attention; /* (layers) of the top stack */
    ll_cross_cache **cache;          /* (layers) seq2seq: of cross attention; else NULL */
    int64_t position, document;      /* tokens so far; those before the current document */
    float *logits;                   /* (V) for the token after the last one */
    int sourced;                     /* do the caches contain a source */
    int taken;  /* by how many items of a call */
    int broken; /* a feed failed half-way: layers are at different tokens, or numbers are not finite */
};

/* Several streams of one model that use one workspace in turn (batcher.c). */
struct ll_batcher {
    ll_model *model;
    ll_workspace *ws; /* of `rows` rows */
    int rows;
    ll_stream_set set;        /* its spans (rows) and scratch */
    int *tokens;              /* (rows) */
    int *item, *done;         /* (rows) the item of a span; number of tokens of an item that are done */
    float *top;               /* (rows, C) input of the output layer */
    float *logits;            /* (rows, V) */
    char digest[LL_DIGEST_TEXT]; /* digest of the model; "": not computed yet */
};

/* A stream that uses a batcher's workspace; batcher NULL: its own. */
LL_MUST_USE ll_status ll_stream_create_in(ll_stream **s, ll_model *model, ll_batcher *batcher);
LL_MUST_USE ll_status ll_stream_load_in(ll_stream **s, ll_model *model, ll_batcher *batcher, const char *path);
/* Is called first, so that a refused feed leaves the stream as it was. */
LL_MUST_USE ll_status ll_stream_check(const ll_stream *s, const int *tokens, int n);
/* How many of n tokens, at most `most`, go through the network in one pass: they stay within one document. */
int ll_stream_piece(const ll_stream *s, const int *tokens, int n, int most);
/* Makes the next rows of a run the stream's. A token that begins a document clears the stream. */
ll_stream_rows ll_stream_begin(ll_stream *s, int token, int first, int n);
/* LL_EDIVERGED if the logits (n, V) of its last n tokens are not finite; the stream is then broken. */
LL_MUST_USE ll_status ll_stream_check_logits(ll_stream *s, const float *logits, int n);
/* LL_EINVAL for a stream that is broken. */
LL_MUST_USE ll_status ll_stream_whole(const ll_stream *s);
/* Number of source tokens that cross attention has; 0: there is no source. */
int ll_stream_keys(const ll_stream *s);

#endif
