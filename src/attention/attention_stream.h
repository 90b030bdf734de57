/* Inside streams. stream.c makes them and hands their state out; a stream is of a kind, which the method says: a state
 * (stream_linear.c), all keys (stream_exact.c), those of a window (stream_window.c), those of the last tokens in each
 * bucket (stream_buckets.c), nothing (stream_value.c); or a position around one of these (stream_shell.c). */
#ifndef LL_ATTENTION_STREAM_H
#define LL_ATTENTION_STREAM_H

#include "attention/operator.h"
#include "attention/exact/logit_bias.h"
#include "base/parallel.h"
#include "base/safetensors.h"

/* One tensor of what a stream remembers. The data are the stream's own. */
typedef struct {
    const char *name;
    enum ll_dtype dtype; /* LL_F32 or LL_F64 */
    int rank;
    size_t shape[4];
    void *data;
} ll_state_tensor;
enum { LL_STATE_TENSORS = 4 };

/* All that a stream remembers at a position, besides that; returns how many tensors it is. Where the stream is there,
 * these are its own: written to those of another stream of the same operator, they make it go on as this one would. */
int ll_attention_stream_state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]);
/* A reset stream goes to a position: room for the state that belongs there, which the caller then fills in. */
LL_MUST_USE ll_status ll_attention_stream_seek(ll_attention_stream *s, int64_t position);
size_t ll_state_bytes(const ll_state_tensor *tensor);
/* LL_EFORMAT where a number of the tensors is not finite. */
LL_MUST_USE ll_status ll_state_check(const ll_state_tensor *tensor, int count);
/* LL_EFORMAT where what was filled in is no state that a stream could have come to. */
LL_MUST_USE ll_status ll_attention_stream_check(const ll_attention_stream *s);
/* Cross attention as a stream: keys and values are there at once, queries come one after the other. Linear kernels
 * keep a state of constant size, softmax its keys and values. The operator is not causal, and must outlive it. */
typedef struct ll_cross_cache ll_cross_cache;
LL_MUST_USE ll_status ll_cross_cache_create(ll_cross_cache **memory, const ll_attention *op);
void ll_cross_cache_free(ll_cross_cache *memory);
size_t ll_cross_cache_bytes(const ll_cross_cache *memory);
/* Takes S keys and values of one sequence (batch = 0 in the views) in place of what was there. */
LL_MUST_USE ll_status ll_cross_cache_fill(ll_cross_cache *memory, int S, ll_view k, ll_view v);
/* Answers n queries at positions first, first + 1, ..: O(n M (D + E)), softmax O(n S (D + E)). */
LL_MUST_USE ll_status ll_cross_cache_read(const ll_cross_cache *memory, int64_t first, int n,
                                           ll_view q, ll_view y);
/* The same for its memory of S keys: its tensors, room for them, whether they can be, a copy,
 * and how many keys. */
int ll_cross_cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]);
LL_MUST_USE ll_status ll_cross_cache_seek(ll_cross_cache *m, int S);
LL_MUST_USE ll_status ll_cross_cache_check(const ll_cross_cache *m);
LL_MUST_USE ll_status ll_cross_cache_clone(ll_cross_cache **copy, const ll_cross_cache *m);
int ll_cross_cache_keys(const ll_cross_cache *m);
/* Room for n more tokens, so that feeding them cannot fail for it. */
LL_MUST_USE ll_status ll_attention_stream_reserve(ll_attention_stream *s, int n);

/* The state of one (sequence, head) of a linear kernel is a row of doubles: S (features, E), z (features), V (E), N,
 * c, the exponent that the largest contribution still has, C. */
enum { LL_STATE_COUNT, LL_STATE_TOP, LL_STATE_LEVEL, LL_STATE_EXPONENT, LL_STATE_SCALARS };

typedef struct ll_shell_stream ll_shell_stream;

struct ll_attention_stream {
    const ll_attention *op;
    const struct ll_recurrence *recurrence; /* NULL for a shell */
    int B;
    int64_t position; /* tokens so far */
    double *state;    /* (B, H, state_size); linear kernels; reformer: tokens of each round and bucket */
    size_t state_size;
    /* all: (blocks, B, H, D, 256), (blocks, B, H, 256, E); a window: (B, H, window, D or E); reformer: (B, H, rounds
     * buckets 2 chunk, D or E) */
    float *keys, *values;
    size_t blocks;          /* there is room for */
    ll_distances distances; /* t5, shaw */
    float *pool;            /* (workers, scratch) */
    size_t scratch;
    int workers;
    ll_shell_stream *shell; /* everything, where the operator is a shell */
};

/* One call of feed. */
typedef struct {
    ll_attention_stream *s;
    const ll_kernels *k;
    int n;
    ll_view q, key, v, y;
} ll_feed;

static inline size_t ll_stream_heads(const ll_attention_stream *s) {
    return (size_t)s->B * (size_t)s->op->c.H;
}
static inline float *ll_feed_at(const ll_view *view, size_t b, size_t h, int token) {
    return ll_element(view, b, h, (size_t)token);
}

/* Tasks 0..n-1 on all threads, or one after the other as worker 0 where so many multiply-adds are not worth waking
 * threads. */
void ll_stream_share(double work, int workers, size_t n, ll_task *task, void *arg);

/* What a kind of stream does. Feed's tasks are numbered b H + h. */
typedef struct ll_recurrence {
    ll_status (*create)(ll_attention_stream *s);     /* its state; NULL: none */
    size_t (*scratch)(const ll_attention_stream *s); /* floats of a worker; NULL: none */
    ll_status (*grow)(ll_attention_stream *s,
                      int64_t n);          /* room for n more tokens, or s as it was; NULL: never needed */
    void (*reset)(ll_attention_stream *s); /* NULL: nothing to do */
    void (*feed)(void *feed, size_t index, int worker);
    double (*work)(const ll_attention_stream *s, int n); /* rows that each of n tokens meets */
    int (*state)(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]);
    size_t (*bytes)(const ll_attention_stream *s);    /* of that state */
    ll_status (*check)(const ll_attention_stream *s); /* NULL: numbers are finite, and that is all */
} ll_recurrence;

/* stream_linear.c, stream_exact.c, stream_window.c, stream_buckets.c, stream_value.c */
extern const ll_recurrence ll_recurrence_linear, ll_recurrence_exact, ll_recurrence_window, ll_recurrence_buckets,
    ll_recurrence_value;

/* stream_shell.c: tokens are encoded at the running position and fed to a stream of the engine. */
LL_MUST_USE ll_status ll_shell_stream_create(ll_shell_stream **s, const ll_attention *op, int B);
void ll_shell_stream_free(ll_shell_stream *s);
void ll_shell_stream_reset(ll_shell_stream *s);
size_t ll_shell_stream_bytes(const ll_shell_stream *s);
LL_MUST_USE ll_status ll_shell_stream_feed(ll_shell_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y);
int ll_shell_stream_state(const ll_shell_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]);
LL_MUST_USE ll_status ll_shell_stream_seek(ll_shell_stream *s, int64_t position);
LL_MUST_USE ll_status ll_shell_stream_check(const ll_shell_stream *s);

#endif
