/* Inside a model's stream. */
#ifndef LL_MODEL_STREAM_H
#define LL_MODEL_STREAM_H

#include "longline-batch.h"
#include "model/stream_rows.h"

struct ll_stream {
    ll_model *model;
    ll_batcher *batcher; /* whose workspace and scratch it uses; NULL: it has its own */
    ll_workspace *ws;
    ll_attention_stream **attention; /* (layers) of the top stack */
    ll_cross_cache **memory;    /* (layers) seq2seq: what cross attention reads; else NULL */
    int64_t position, document;      /* tokens so far; of them, before the document that goes on */
    float *logits;                   /* (V) of the token after the last that was fed */
    int sourced;                     /* memory holds a source */
    int taken;  /* by how many items of a call */
    int broken; /* a feed failed half-way: layers are not at the same token, or their numbers not finite */
};

/* Several streams of one model, which take turns in one workspace (batcher.c). */
struct ll_batcher {
    ll_model *model;
    ll_workspace *ws; /* of `rows` rows */
    int rows;
    ll_stream_set set;        /* its spans (rows) and scratch */
    int *tokens;              /* (rows) */
    int *item, *done;         /* (rows) the item of a span; how many tokens of an item are fed */
    float *top;               /* (rows, C) what logits are made of */
    float *logits;            /* (rows, V) */
    char digest[LL_DIGEST_TEXT]; /* of the model; "": not made yet */
};

/* A stream that keeps a batcher (not NULL: it works in its workspace). */
LL_MUST_USE ll_status ll_stream_create_in(ll_stream **s, ll_model *model, ll_batcher *batcher);
LL_MUST_USE ll_status ll_stream_load_in(ll_stream **s, ll_model *model, ll_batcher *batcher, const char *path);
/* Before anything moves: a refused feed leaves the stream as it was. */
LL_MUST_USE ll_status ll_stream_check(const ll_stream *s, const int *tokens, int n);
/* How many of n tokens, at most `most`, go through the network together: not beyond the document. */
int ll_stream_piece(const ll_stream *s, const int *tokens, int n, int most);
/* The next rows of a run are the stream's; a token that begins a document clears it. */
ll_stream_rows ll_stream_begin(ll_stream *s, int token, int first, int n);
/* LL_EDIVERGED where the stream's logits, those of its last token, are not finite; it is then broken. */
LL_MUST_USE ll_status ll_stream_check_logits(ll_stream *s);
/* LL_EINVAL for a stream that is broken. */
LL_MUST_USE ll_status ll_stream_whole(const ll_stream *s);
/* Keys that cross attention remembers; 0: it has no source. */
int ll_stream_keys(const ll_stream *s);

#endif
