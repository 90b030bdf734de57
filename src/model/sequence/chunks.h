/* Sequences that go through the network in chunks (train.chunk): what is kept between them. */
#ifndef LL_CHUNKS_H
#define LL_CHUNKS_H

#include "model/network.h"

typedef struct ll_chunks {
    int tokens, count; /* of a chunk; chunks of the longest sequence */
    ll_carry carry;    /* of one row: between the chunk before and the one after */
    float *state;      /* (count + 1, carry.count) before each chunk, and after the last one */
    float *gradient;   /* (2, carry.count) at the states after and before a chunk; NULL: evaluation */
    int64_t *before;   /* (count) tokens of its document that came before each chunk */
    float *block;      /* has all of these */
    size_t bytes;      /* of it */
} ll_chunks;

/* Does a sequence of T tokens go through this model in chunks? */
int ll_chunks_wanted(const ll_model *model, int T);
LL_MUST_USE ll_status ll_chunks_create(ll_chunks **chunks, const ll_model *model, int T, int training);
void ll_chunks_free(ll_chunks *chunks);
/* Adds the bytes that ll_chunks_create would take. */
LL_MUST_USE ll_status ll_chunks_measure(size_t *bytes, const ll_model *model, int T, int training);

#endif
