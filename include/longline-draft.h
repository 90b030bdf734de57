/* Speculative decoding (Leviathan et al. 2023, Chen et al. 2023): a small draft model drafts some tokens, and the large
 * target model reads them as one block, which takes hardly longer than one token, as the weights are read once. Each
 * drafted token x is accepted with probability min(1, p(x) / q(x)), p and q being what the target and the draft model
 * give. The first one that is rejected is replaced by a draw from max(0, p - q); after all of them the target adds one
 * of its own. The text has the distribution of the target alone. With temperature 0 it is the same text: how tokens are
 * cut into blocks changes no bit of a stream. With other temperatures it is another draw.
 *
 * What a stream has read cannot be taken back. So a copy of the stream reads a block, in O(state). Where a draft is
 * rejected the copy is dropped, and the stream reads what was accepted along with the next block.
 *
 *     ll_draft *draft;  int tokens[5], n;
 *     if (ll_draft_create(&draft, target, draft_model, 4, 256) || ll_draft_feed(draft, prompt, 40)) return 1;
 *     while (!ll_draft_next(draft, &sampling, tokens, &n)) print(tokens, n); */
#ifndef LL_DRAFT_API_H
#define LL_DRAFT_API_H

#include "longline/model.h"

LL_C_BEGIN

typedef struct ll_draft ll_draft;

enum { LL_DRAFT_MOST = 32 };
/* Keeps both models, which must outlive it and must not change: language models that pass ll_model_can_stream and have
 * the same vocabulary. draft_tokens: 1 to LL_DRAFT_MOST tokens that are drafted at a time. vocab: the first so many
 * tokens are those that may be made; at most the models' vocabulary. LL_EINVAL, LL_ENOMEM. */
LL_API LL_MUST_USE ll_status ll_draft_create(ll_draft **draft, ll_model *target, ll_model *draft_model,
                                             int draft_tokens, int vocab);
LL_API void ll_draft_free(ll_draft *draft);
/* Back to before the first token; what was counted stays. */
LL_API void ll_draft_reset(ll_draft *draft);
/* Reads n >= 1 tokens, of a prompt, in both models; in the target alone where the draft model's learned positions end.
 * Errors as ll_stream_feed; then it is to be reset. */
LL_API LL_MUST_USE ll_status ll_draft_feed(ll_draft *draft, const int *tokens, int n);
/* The next *n tokens: 1 to draft_tokens + 1. A function of (models, tokens so far, draft_tokens, sampling). LL_EINVAL
 * before the first token is fed. Where the draft model's learned positions end, the target goes on alone. */
LL_API LL_MUST_USE ll_status ll_draft_next(ll_draft *draft, const ll_sampling *how, int *tokens, int *n);

typedef struct {
    int64_t position; /* tokens read or made */
    int64_t blocks, drafted, taken; /* blocks that the target read; tokens that were drafted, and accepted */
    size_t bytes; /* of both states */
    int64_t left; /* tokens that the target can still read, as of ll_stream_left; -1: not even the last one made */
} ll_draft_counts;
LL_API ll_draft_counts ll_draft_count(const ll_draft *draft);

LL_C_END

#endif
