/* Inside streams. attention_stream.c creates and feeds them, and gives out their state. The recurrence of the operator
 * defines the state, and how a token changes it. A position before the feature map is a stage before the recurrence. */
#ifndef LL_ATTENTION_STREAM_H
#define LL_ATTENTION_STREAM_H

#include "attention/operator.h"
#include "attention/position/premap.h"
#include "base/parallel.h"

/* Lists the tensors of the state at a position, and returns how many. Their data are those of the stream. Another
 * stream of the same operator with the same position and data goes on as this one. */
int ll_attention_stream_state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]);
/* Resets the stream and moves it to a position. The caller then fills in the state of that position. Where it fails,
 * the stream is as it was. */
LL_MUST_USE ll_status ll_attention_stream_seek(ll_attention_stream *s, int64_t position);
/* LL_EFORMAT if the state that was filled in is not one that a stream can have. */
LL_MUST_USE ll_status ll_attention_stream_check(const ll_attention_stream *s);
/* Reserves memory for n more tokens, so that feeding them cannot fail. */
LL_MUST_USE ll_status ll_attention_stream_reserve(ll_attention_stream *s, int64_t n);
/* A stream without scratch of its own, so that many streams of one operator can use the same. Before each feed it is
 * given scratch of so many floats a worker. Besides that and its state it has little, and nothing for each worker. */
LL_MUST_USE ll_status ll_attention_stream_create_lean(ll_attention_stream **s, const ll_attention *op, int B);
size_t ll_attention_stream_lent_floats(const ll_attention_stream *s);
void ll_attention_stream_lend(ll_attention_stream *s, float *scratch, int workers);

struct ll_attention_stream {
    const ll_attention *op;
    int B;
    int64_t position; /* tokens so far */
    void *own;        /* of the recurrence */
    float *pool;      /* (workers, scratch) */
    size_t scratch;
    int workers;
    int lean;         /* pool and encoded are lent */
    ll_premap_stream stage; /* of a position before the feature map */
    float *encoded;         /* q and k after it (2, B, H, tile, D) */
};

/* One call of feed. */
typedef struct {
    ll_attention_stream *s;
    const ll_kernels *k;
    int n;
    ll_view q, key, v, y, gate; /* gate without data: none */
} ll_feed;

static inline size_t ll_stream_heads(const ll_attention_stream *s) {
    return (size_t)s->B * (size_t)s->op->c.H;
}
static inline float *ll_feed_at(const ll_view *view, size_t b, size_t h, int token) {
    return ll_element(view, b, h, (size_t)token);
}

/* Runs tasks 0..n-1 on all threads. If there are too few multiply-adds for that, runs them one after the other as
 * worker 0. */
void ll_stream_share(double work, int workers, size_t n, ll_task *task, void *arg);
/* Runs task number b H + h for every head of every sequence. rows: how many rows each token reads. */
void ll_stream_share_heads(ll_feed *f, double rows, ll_task *task);

/* Back to before the first token. */
void ll_attention_stream_reset(ll_attention_stream *s);

/* An operator token by token. A function that is NULL has nothing to do. */
typedef struct ll_recurrence {
    ll_status (*create)(ll_attention_stream *s);                /* makes s->own; where it fails, free is called */
    void (*free)(ll_attention_stream *s);                       /* s->own may be NULL */
    size_t (*scratch)(const ll_attention_stream *s);            /* floats of a worker */
    ll_status (*reserve)(ll_attention_stream *s, int64_t n);    /* for n more tokens; if it fails, s is unchanged */
    void (*reset)(ll_attention_stream *s);
    void (*seek)(ll_attention_stream *s, int64_t position); /* of a reset stream that has reserved memory for it */
    /* n tokens. After reserve it fails only for a gate that the operator refuses, and then s is unchanged. */
    ll_status (*step)(ll_feed *f);
    /* load_state: the state that a call left of one sequence becomes that of sequence b, whose position is set.
     * store_state: the other way. NULL: the stream has no state of constant size, and reads a prompt by steps. */
    void (*load_state)(ll_attention_stream *s, int b, const float *state);
    void (*store_state)(const ll_attention_stream *s, int b, float *state);
    int (*state)(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]);
    size_t (*bytes)(const ll_attention_stream *s);              /* of s->own */
    ll_status (*check)(const ll_attention_stream *s);           /* NULL: it is enough that numbers are finite */
} ll_recurrence;

extern const ll_recurrence ll_recurrence_linear, ll_recurrence_relative_s2, ll_recurrence_exact, ll_recurrence_reformer;

#endif
