/* Attention maps: the matrices of operators and of models; the numerical error of long streams; cases in files. */
#ifndef LL_LAB_ATTENTION_API_H
#define LL_LAB_ATTENTION_API_H

#include "longline/attention.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Weights ---- */

/* A (H, T, S), row-major: the weight of query i for the value of key j. It is computed from one-hot values (Choromanski
 * et al. 2021, appendix C.4), for every kernel, position and divisor. One sequence: q (H, T, D), k (H, S, D), gate (H,
 * T, 1) for gla, else without data. streaming: by a stream, with as many queries as keys. ceil(S / E) passes. */
LL_API LL_MUST_USE ll_status ll_attention_matrix(const ll_attention *op, ll_view q, ll_view k, ll_view gate, int T,
                                                 int S, int streaming, float *A);
/* Rows of the same: A (H, count, S), for queries (count) in [0, T), by ceil(count / E) backward passes. */
LL_API LL_MUST_USE ll_status ll_attention_rows(const ll_attention *op, ll_view q, ll_view k, ll_view gate, int T,
                                               int S, const int *query, int count, float *A);

/* Attention of one layer on tokens (T): A (heads, n, n) with n = T + ll_model_cls_tokens(model), or with model.patch
 * the number of patches instead of T; row i has the weights of query i. streaming: as a stream computes them. By
 * one-hot values (ll_attention_matrix): n / E passes over n tokens. LL_EDIVERGED, here and below, names a weight that
 * is not finite. */
LL_API LL_MUST_USE ll_status ll_model_attention(const ll_model *model, const int *tokens, int T, int layer,
                                                int streaming, float *A);
/* Some rows of the same: A (heads, count, n), for queries (count) in [0, n). Rows are derivatives and cost count / E
 * backward passes over n tokens instead of n / E forward passes. Use it for few queries of long sequences. The same up
 * to rounding. */
LL_API LL_MUST_USE ll_status ll_model_attention_rows(const ll_model *model, const int *tokens, int T, int layer,
                                                     const int *query, int count, float *A);
/* Number of tokens that the model puts before a sequence: 1 with model.pool = first, else 0. */
LL_API int ll_model_cls_tokens(const ll_model *model);

/* ---- Streams, against double precision ---- */

enum { LL_STREAM_ERROR_MOST = 16, LL_STREAM_ERROR_LONGEST = 100000000 };
typedef struct {
    int count;
    int64_t tokens[LL_STREAM_ERROR_MOST];   /* 100, 1000, 10000, ... and the total number */
    double deviation[LL_STREAM_ERROR_MOST]; /* over the 100 outputs up to there: max |y - y'| / max |y'| */
    double tiles[LL_STREAM_ERROR_MOST];     /* over all outputs since the entry before: max |y - y"| / max |y| */
} ll_stream_error;
/* The numerical error of a long stream. `tokens` random tokens are fed in blocks of random sizes, which gives y. It is
 * compared with y', the same recurrence in double including feature maps and positions, and with y", the whole sequence
 * in tiles. q and k are standard normal, v is uniform in [0, 1); all are functions of the seed. Takes every operator
 * that streams, with DEN_SUM or DEN_NONE; favor with DEN_SUM and without an eps; no images; noise that is drawn. Else
 * LL_EINVAL. O(tokens) memory. The double precision takes several times as long as stream and tiles. */
LL_API LL_MUST_USE ll_status ll_attention_stream_error(ll_stream_error *error, const ll_attention_config *config,
                                                       int64_t tokens, uint64_t seed);

/* ---- Cases in files ---- */

/* Reads a case (inputs, draws and settings in one safetensors file, docs/format.md), computes y and, if the case has g,
 * every grad.NAME, and writes them to `out`. tile: tokens a tile, 0 = default. streaming: y comes from a stream, token
 * by token; LL_EINVAL with the reason if it needs later tokens. LL_EDIVERGED if y or a gradient is not finite; `out` is
 * then not written. */
LL_API LL_MUST_USE ll_status ll_attend_file(const char *in, const char *out, int streaming, int tile);

/* What a token costs in all heads of an operator, if it sees so many keys, itself among them: multiply-adds that the
 * definition asks for, forward; and the bytes that a stream of one sequence keeps (bytes may be NULL). */
LL_API double ll_attention_cost(const ll_attention *op, double keys, double *bytes);

LL_C_END

#endif
