/* WordPiece (Schuster and Nakajima 2012, as BERT has it): the longest token that a word begins with, then the longest
 * "##.." that the rest begins with. A word that cannot be cut so is unknown as a whole. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

struct ll_wordpiece {
    uint32_t inside; /* the trie's node after "##" */
    size_t most;     /* characters of a word */
    int lone;        /* WordLevel: a word is one token or none */
};

ll_status ll_wordpiece_create(ll_wordpiece **out, const json_t *model, const ll_vocab *v) {
    const char *prefix = ll_part_text(model, "continuing_subword_prefix", "##");
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    ll_wordpiece *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    w->lone = !strcmp(ll_part_type(model), "WordLevel");
    w->most = json_is_integer(most) && json_integer_value(most) > 0 ? (size_t)json_integer_value(most) : 100;
    for (const char *c = prefix; *c && (c == prefix || w->inside); c++)
        w->inside = ll_trie_step(&v->trie, w->inside, (uint8_t)*c);
    w->lone |= *prefix && !w->inside;
    *out = w;
    return LL_OK;
}

void ll_wordpiece_free(ll_wordpiece *w) { ll_free(w); }

static int is_long(const uint8_t *word, size_t n, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < n && count <= most; i++) count += (word[i] & 0xc0) != 0x80;
    return count > most;
}

ll_status ll_wordpiece_encode(const ll_wordpiece *w, const ll_vocab *v, ll_tokens *out, const uint8_t *word, size_t n) {
    const size_t before = out->n;
    const int whole = w->lone ? ll_trie_find(&v->trie, word, n) : -1;
    ll_status status = LL_OK;
    if (whole >= 0) return ll_tokens_add(out, whole);
    if (!w->lone && !is_long(word, n, w->most)) {
        size_t i = 0, size = 0;
        for (int token; i < n && !status; i += size) {
            token = ll_trie_longest(&v->trie, i ? w->inside : 0, word + i, n - i, &size);
            if (token < 0) break;
            status = ll_tokens_add(out, token);
        }
        if (status || i >= n) return status;
    }
    out->n = before;
    return ll_add_unknown(v, out, word, n);
}
