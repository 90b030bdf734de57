/* A unigram model (Kudo 2018): of all ways to cut a word into tokens, the one whose scores sum to the most. A character
 * without a token is unknown, 10 below the least score; unknown ones in a row are one token. "unused" is a key of ours:
 * the numbers of tokens that SentencePiece marks so. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/read_progress.h"
#include "data/subwords/parts.h"

struct ll_unigram_model {
    double *score; /* of each token; -INFINITY: no text is it, as of "<0x41>", which stands for a byte, or of one that
                      is unused */
    double unknown;
};

/* The best way to cut what ends at a byte. */
typedef struct {
    double score;
    size_t begin; /* of its last token */
    int token;    /* -1: unknown; -2: nothing ends here */
    int next;     /* of the best way for the whole word: the token that begins here */
    size_t end;   /* and where it ends */
} best;

static ll_status leave_unused(ll_unigram_model *u, const json_t *list, size_t count, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        const json_int_t token = json_is_integer(id) ? json_integer_value(id) : -1;
        if (token < 0 || (size_t)token >= count)
            return ll_fail(LL_EFORMAT, "%s: number %zu of its tokenizer's unused ones is no token", name, i);
        u->score[token] = -INFINITY;
    }
    return LL_OK;
}

static ll_status read_scores(ll_unigram_model *u, const json_t *list, const char *name) {
    double least = DBL_MAX;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(json_array_get(list, i), 1);
        const double score = json_number_value(number);
        if (!json_is_number(number) || !isfinite(score))
            return ll_fail(LL_EFORMAT, "%s: token %zu of its tokenizer has no score", name, i);
        if (!isfinite(u->score[i])) continue;
        u->score[i] = score;
        if (score < least) least = score;
    }
    u->unknown = least - 10;
    return LL_OK;
}

ll_status ll_unigram_create(ll_unigram_model **out, const json_t *model, const ll_vocab *v) {
    const json_t *list = json_object_get(model, "vocab");
    const size_t n = json_array_size(list);
    ll_unigram_model *u = ll_alloc(1, sizeof *u);
    if (!u) return LL_ENOMEM;
    if (list && !json_is_array(list)) {
        ll_unigram_free(u);
        return ll_fail(LL_EFORMAT, "%s: the vocabulary of its tokenizer is no list of tokens and scores", v->name);
    }
    u->score = ll_alloc(n + 1, sizeof *u->score);
    ll_status status = u->score ? leave_unused(u, json_object_get(model, "unused"), n, v->name) : LL_ENOMEM;
    if (!status) status = read_scores(u, list, v->name);
    for (int i = 0; i < 256 && !status && v->byte_token[0] >= 0; i++) u->score[v->byte_token[i]] = -INFINITY;
    if (status)
        ll_unigram_free(u);
    else
        *out = u;
    return status;
}

void ll_unigram_free(ll_unigram_model *u) {
    if (!u) return;
    ll_free(u->score);
    ll_free(u);
}

static void improve(best *b, double score, size_t begin, int token) {
    if (b->token == -2 || score > b->score) b->score = score, b->begin = begin, b->token = token;
}

/* Forward: b[i] for every i where a character ends. A word may be the whole text. */
static void find_best(const ll_unigram_model *u, const ll_vocab *v, best *b, const uint8_t *word, size_t n) {
    enum { EVERY = 1 << 16 };
    size_t shown = EVERY;
    for (size_t i = 0; i <= n; i++) b[i].token = -2;
    b[0].token = -1;
    for (size_t i = 0, size = 1; i < n; i += size) {
        uint32_t node = 0;
        int single = 0;
        if (i >= shown) {
            ll_read_progress(NULL, (int64_t)i, (int64_t)n);
            shown += EVERY;
        }
        if (!v->bytes) (void)ll_char_at(word + i, n - i, &size);
        for (size_t end = i; end < n && (node = ll_trie_step(&v->trie, node, word[end]));) {
            const int token = v->trie.value[node];
            end++;
            if (token < 0 || u->score[token] < -DBL_MAX) continue;
            improve(&b[end], b[i].score + u->score[token], i, token);
            if (end == i + size) single = 1;
        }
        if (!single) improve(&b[i + size], b[i].score + u->unknown, i, -1);
    }
}

ll_status ll_unigram_encode(const ll_unigram_model *u, const ll_vocab *v, ll_tokens *out, const uint8_t *word,
                            size_t n) {
    best *b = ll_alloc(n + 1, sizeof *b);
    if (!b) return LL_ENOMEM;
    find_best(u, v, b, word, n);
    for (size_t i = n; i; i = b[i].begin) {
        b[b[i].begin].end = i;
        b[b[i].begin].next = b[i].token;
    }
    ll_status status = LL_OK;
    for (size_t begin = 0, end; begin < n && !status; begin = end) {
        const int token = b[begin].next;
        end = b[begin].end;
        while (token < 0 && end < n && b[end].next < 0) end = b[end].end;
        status = token >= 0 ? ll_tokens_add(out, token) : ll_add_unknown(v, out, word + begin, end - begin);
    }
    ll_free(b);
    return status;
}
