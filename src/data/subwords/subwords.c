/* A tokenizer put together from its parts, and a text on its way through them. */
#include "data/subwords/subwords.h"

#include <string.h>

#include "base/memory.h"
#include "base/read_progress.h"
#include "data/subwords/parts.h"

struct ll_subwords {
    ll_normalizer *normalizer;
    ll_pretokenizer *pretokenizer;
    ll_added_tokens *added;
    ll_vocab vocab;
    ll_bpe *bpe; /* one of these */
    ll_wordpiece *wordpiece;
    ll_unigram_model *unigram;
    ll_post_processor post;
    ll_token_texts texts;
};

/* ---- Reading ---- */

static ll_status create_model(ll_subwords *s, const json_t *model) {
    const char *type = ll_part_type(model);
    if (!strcmp(type, "BPE")) return ll_bpe_create(&s->bpe, model, &s->vocab);
    if (!strcmp(type, "Unigram")) return ll_unigram_create(&s->unigram, model, &s->vocab);
    if (strcmp(type, "WordPiece") && strcmp(type, "WordLevel")) return ll_part_unknown(s->vocab.name, "model", model);
    return ll_wordpiece_create(&s->wordpiece, model, &s->vocab);
}

static ll_status read_parts(ll_subwords *s, const json_t *json, const char *name) {
    const json_t *added = json_object_get(json, "added_tokens");
    ll_status status = ll_normalizer_create(&s->normalizer, json_object_get(json, "normalizer"), name);
    if (!status) status = ll_pretokenizer_create(&s->pretokenizer, json_object_get(json, "pre_tokenizer"), name);
    if (!status) status = ll_added_tokens_create(&s->added, added, s->normalizer, name);
    if (!status) status = ll_post_processor_read(&s->post, json_object_get(json, "post_processor"), name);
    if (!status) {
        s->vocab.bytes = ll_pretokenizer_is_bytes(s->pretokenizer);
        status = ll_vocab_read(&s->vocab, &s->texts, json, name);
    }
    if (!status) status = create_model(s, json_object_get(json, "model"));
    if (!status) status = ll_token_texts_decode(&s->texts, json, &s->vocab, name);
    for (int end = 0; end < 2 && !status; end++) {
        const ll_tokens *t = end ? &s->post.after : &s->post.before;
        for (size_t i = 0; i < t->n; i++)
            if (t->at[i] >= s->texts.count)
                return ll_fail(LL_EFORMAT, "%s: the post_processor of its tokenizer has token %d, of %d", name,
                               t->at[i], s->texts.count);
    }
    s->vocab.name = NULL;
    return status;
}

ll_status ll_subwords_create(ll_subwords **out, const ll_bytes *bytes, const char *name) {
    json_t *json;
    ll_status status = ll_unicode_check();
    if (status) return status;
    ll_subwords *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    status = ll_part_load(&json, bytes, name);
    if (!status) status = read_parts(s, json, name);
    json_decref(json);
    if (status)
        ll_subwords_free(s);
    else
        *out = s;
    return status;
}

void ll_subwords_free(ll_subwords *s) {
    if (!s) return;
    ll_normalizer_free(s->normalizer);
    ll_pretokenizer_free(s->pretokenizer);
    ll_added_tokens_free(s->added);
    ll_bpe_free(s->bpe);
    ll_wordpiece_free(s->wordpiece);
    ll_unigram_free(s->unigram);
    ll_trie_free(&s->vocab.trie);
    ll_free(s->post.before.at);
    ll_free(s->post.after.at);
    ll_token_texts_free(&s->texts);
    ll_free(s);
}

int ll_subwords_count(const ll_subwords *s) { return s->texts.count; }

int ll_subwords_mask(const ll_subwords *s) { return ll_added_token_mask(s->added); }

const char *ll_subwords_text(const ll_subwords *s, int token, size_t *size) {
    *size = 0;
    if (token < 0 || token >= s->texts.count || !s->texts.text[token].at) return "";
    *size = s->texts.text[token].n;
    return (const char *)s->texts.text[token].at;
}

const int32_t *ll_subwords_special(const ll_subwords *s, int end, size_t *count) {
    const ll_tokens *t = end ? &s->post.after : &s->post.before;
    *count = t->n;
    return t->at;
}

/* ---- Encoding ---- */

/* What one text needs on its way. */
typedef struct {
    const ll_subwords *s;
    ll_grown normal;
    ll_word_list words;
    ll_tokens out;
    int first; /* has nothing been cut yet? */
} encoding;

static ll_status cut_words(encoding *e, const uint8_t *text, size_t n) {
    const ll_subwords *s = e->s;
    e->words.n = e->words.text.n = 0;
    ll_status status = ll_pretokenize(s->pretokenizer, &e->words, text, n, e->first);
    e->first = 0;
    for (size_t i = 0, begin = 0; i < e->words.n && !status; begin = e->words.end[i++]) {
        const uint8_t *word = e->words.text.at + begin;
        const size_t size = e->words.end[i] - begin;
        ll_read_progress_pass(begin, e->words.text.n);
        status = s->bpe       ? ll_bpe_encode(s->bpe, &s->vocab, &e->out, word, size)
                 : s->unigram ? ll_unigram_encode(s->unigram, &s->vocab, &e->out, word, size)
                              : ll_wordpiece_encode(s->wordpiece, &s->vocab, &e->out, word, size);
    }
    return status;
}

static ll_status take_text(encoding *e, int normalised, const uint8_t *text, size_t n);

/* What stands between two added tokens. */
static ll_status take_between(encoding *e, int normalised, const uint8_t *text, size_t n) {
    if (!n) return LL_OK;
    if (normalised) return cut_words(e, text, n);
    e->normal.n = 0;
    const ll_status status = ll_normalize(e->s->normalizer, &e->normal, text, n, 64 * n + (1 << 20));
    return status ? status : take_text(e, 1, e->normal.at, e->normal.n);
}

static ll_status take_text(encoding *e, int normalised, const uint8_t *text, size_t n) {
    ll_status status = LL_OK;
    for (size_t at = 0, begin = 0, end = 0; at < n && !status; at = end) {
        const int token = ll_added_token_next(e->s->added, normalised, text, n, at, &begin, &end);
        if (token < 0) begin = end = n;
        status = take_between(e, normalised, text + at, begin - at);
        if (!status && token >= 0) status = ll_tokens_add(&e->out, token);
        if (token >= 0) e->first = 0;
    }
    return status;
}

ll_status ll_subwords_encode(const ll_subwords *s, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    encoding e = {.s = s, .first = 1};
    ll_status status = take_text(&e, 0, text, size);
    if (!status && !e.out.at && !(e.out.at = ll_alloc(1, sizeof *e.out.at))) status = LL_ENOMEM;
    ll_grown_free(&e.normal);
    ll_word_list_free(&e.words);
    if (status) {
        ll_free(e.out.at);
        return status;
    }
    *tokens = e.out.at;
    *count = (int64_t)e.out.n;
    return LL_OK;
}
