/* Many streams of one model that are fed together, as a server does. Each step reads the weights once for all of them:
 * generation of one stream waits for memory, that of sixteen takes hardly longer. What a stream gives does not depend
 * on the streams beside it, to the last bit, nor on the number of threads.
 *
 * Streams join and leave between calls (continuous batching, Yu et al. 2022). One call may read a block of a prompt in
 * one stream and one generated token in each of the others.
 *
 *     ll_batcher *batcher;  ll_stream *a, *b;
 *     if (ll_batcher_create(&batcher, model, 256) || ll_batcher_stream(&a, batcher) || ll_batcher_stream(&b, batcher))
 *         return 1;
 *     ll_batch_item items[] = {{.stream = a, .tokens = prompt, .n = 40, .logits = after_a},
 *                              {.stream = b, .tokens = &last, .n = 1, .logits = after_b}};
 *     if (ll_batcher_feed(batcher, items, 2)) return 1; */
#ifndef LL_BATCH_API_H
#define LL_BATCH_API_H

#include "longline/model.h"

LL_C_BEGIN

typedef struct ll_batcher ll_batcher;

/* Keeps the model, which must outlive the batcher, must not change, and must pass ll_model_can_stream. rows: 1 to 1024
 * tokens of one pass through the network; a call with more takes several passes. Memory: rows of activations, and rows
 * of logits. LL_EINVAL, LL_ENOMEM. */
LL_API LL_MUST_USE ll_status ll_batcher_create(ll_batcher **batcher, ll_model *model, int rows);
/* Free its streams first. */
LL_API void ll_batcher_free(ll_batcher *batcher);

/* A stream of the batcher's model. It has only its state of its own and uses the memory of the batcher, which must
 * outlive it. It is an ll_stream like any other: every function of streams takes it, and gives the same bits. But a
 * batcher and all its streams may be used by one thread at a time only. A clone belongs to the same batcher. */
LL_API LL_MUST_USE ll_status ll_batcher_stream(ll_stream **stream, ll_batcher *batcher);
/* The same from a file, as ll_stream_load. The first ll_stream_save or load of a batcher reads all parameters to
 * recognise the model; every later one takes O(state). */
LL_API LL_MUST_USE ll_status ll_batcher_load(ll_stream **stream, ll_batcher *batcher, const char *path);

/* How many more tokens of its text a stream, of a batcher or not, can read before learned positions end. A token
 * model.separator can always be read; positions begin again with it. INT64_MAX: any number. */
LL_API int64_t ll_stream_left(const ll_stream *stream);

typedef struct {
    ll_stream *stream; /* of this batcher, at most once in a call */
    const int *tokens; /* (n), n >= 1, each in [0, V) */
    int n;
    int every;         /* logits after every token, not only after the last one */
    float *logits;     /* (V), or (n, V) with `every`; NULL: no logits */
    ll_status status;  /* set by the call */
} ll_batch_item;

/* Feeds count <= rows items, each as ll_stream_feed does. LL_EINVAL if an item is refused: then nothing is fed, all
 * items have this status, and ll_error() names the item where there are several. LL_EDIVERGED: the logits of the items
 * that have this status are not finite; the others are fed. LL_ENOMEM: likewise. Streams of items that failed must be
 * reset. */
LL_API LL_MUST_USE ll_status ll_batcher_feed(ll_batcher *batcher, ll_batch_item *items, int count);

LL_C_END

#endif
