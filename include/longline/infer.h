/* Using a trained model: how likely sequences are, and their embeddings. */
#ifndef LL_INFER_API_H
#define LL_INFER_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Batches ---- */

/* In all of these tokens are (B, T), of which the first lengths[b] of a row are in use (NULL: all of them). What a
 * sequence gets does not depend on what else is in the batch, nor on padding, to the last bit (but for models of
 * attention.compat = relative-performer, whose stabiliser is one number for the whole batch). O(B T) time and memory
 * for linear attention; nothing of the size of the vocabulary is kept for every token. LL_EINVAL names a token that is
 * not in [0, V), or says which models a call is for; LL_EDIVERGED that a number it gave is not finite, as those of a
 * model with weights near the largest float are; LL_ENOMEM. */

/* Language models: logp (B, T) becomes the log-probability (nats) of every token given those before it in its row. The
 * first of a row, which nothing precedes, and what is past a length become 0. */
LL_API LL_MUST_USE ll_status ll_model_score(ll_model *model, float *logp, const int *tokens, const int *lengths, int B,
                                            int T);

/* What becomes of the vectors of a sequence's tokens: their mean; the first, or the class token where the model has one
 * (pool = first); the last; or all of them. Means and lasts leave a class token out. */
typedef enum { LL_EMBED_MEAN, LL_EMBED_FIRST, LL_EMBED_LAST, LL_EMBED_ALL } ll_embed_kind;
/* Embeddings: out (B, C), or (B, T, C) for LL_EMBED_ALL, of a sequence without tokens 0. layer: 0 is what enters the
 * first block, k what leaves block k; the last (also written -1) is what the output layer reads, after the final norm
 * where there is one. */
LL_API LL_MUST_USE ll_status ll_model_encode(ll_model *model, int layer, ll_embed_kind kind, float *out,
                                             const int *tokens, const int *lengths, int B, int T);

/* Classifiers: ll_model_logp gives log-probabilities (B, classes). */

/* ---- Streams ---- */

/* Feeds n >= 1 tokens as ll_stream_feed does and tells how likely each was: logp (n), given all tokens before it since
 * the stream began; 0 for the first of all. But for rounding these are the numbers of ll_model_score, for sequences of
 * any length and in memory that does not grow (linear attention). LL_EDIVERGED as there, after which the stream must
 * be reset. */
LL_API LL_MUST_USE ll_status ll_stream_score(ll_stream *stream, float *logp, const int *tokens, int n);

LL_C_END

#endif
