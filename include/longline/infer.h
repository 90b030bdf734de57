/* Using a trained model: how likely sequences are, and their embeddings. */
#ifndef LL_INFER_API_H
#define LL_INFER_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Batches ---- */

/* In all of these calls tokens are (B, T), of which the first lengths[b] of row b are in use (NULL: all of them). The
 * result of a sequence does not depend on padding or on the rest of the batch, to the last bit. Models with
 * attention.compat = relative-performer are the exception: their stabiliser is one number for the whole batch.
 * O(B T) time and memory for linear attention. No token keeps memory of the size of the vocabulary. LL_EINVAL names a
 * token that is not in [0, V), or the kind of model that the call needs. LL_EDIVERGED: a result is not finite, as
 * happens with weights near the largest float. LL_ENOMEM. */

/* Language models: logp (B, T) becomes the log-probability (nats) of every token given those before it in its row. The
 * first of a row, which nothing precedes, and what is past a length become 0. */
LL_API LL_MUST_USE ll_status ll_model_score(ll_model *model, float *logp, const int *tokens, const int *lengths, int B,
                                            int T);

/* How the vectors of a sequence's tokens become an embedding: their mean; the first, which is the CLS token where the
 * model has one (pool = first); the last; or all of them. The mean, the last and all leave the CLS token out. The
 * vectors of an image that is cut into patches (model.patch) are those of its n patches, row by row. */
typedef enum { LL_EMBED_MEAN, LL_EMBED_FIRST, LL_EMBED_LAST, LL_EMBED_ALL } ll_embed_kind;
/* Embeddings: out (B, C), or for LL_EMBED_ALL (B, T, C), of patches (B, n, C); of a sequence without tokens 0. layer: 0
 * is what enters the first block, k what leaves block k; the last (also written -1) is what leaves the last block,
 * after the final norm where there is one, and before the layer of model.head-transform. */
LL_API LL_MUST_USE ll_status ll_model_encode(ll_model *model, int layer, ll_embed_kind kind, float *out,
                                             const int *tokens, const int *lengths, int B, int T);

/* Classifiers: ll_model_logp gives log-probabilities (B, classes). */

/* ---- Streams ---- */

/* Feeds n >= 1 tokens as ll_stream_feed does. logp (n) becomes the log-probability of each, given all tokens since the
 * stream began; 0 for the very first. How tokens are cut into calls changes no bit of the state, and at most the last
 * digits of the logp of a call's first token. The numbers are those of ll_model_score up to rounding, for sequences of
 * any length and in constant memory (linear attention). After LL_EDIVERGED the stream must be reset. */
LL_API LL_MUST_USE ll_status ll_stream_score(ll_stream *stream, float *logp, const int *tokens, int n);

LL_C_END

#endif
