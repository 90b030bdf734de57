/* Tokens that are looked for as they stand, before a text is cut into words: [MASK], <|endoftext|> and the like. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

enum { RAW, NORMALISED };

typedef struct {
    int id, alone, left, right; /* alone: not within a word; left, right: it takes the blanks there */
} added;

struct ll_added_tokens {
    ll_trie trie[2];              /* texts to numbers of tokens: those found in raw text, and in normalised */
    unsigned char begins[2][256]; /* does one begin with this byte? */
    added *token;
    int mask; /* the token [MASK] or <mask>; -1: none */
};

static ll_status add(ll_added_tokens *a, const json_t *entry, int number, const ll_normalizer *n, const char *name) {
    const json_t *id = json_object_get(entry, "id");
    const char *text = ll_part_text(entry, "content", "");
    const int which = ll_part_flag(entry, "normalized", 0) ? NORMALISED : RAW;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX || !*text)
        return ll_fail(LL_EFORMAT, "%s: added token %d of its tokenizer has no id or no content", name, number);
    a->token[number] = (added){(int)json_integer_value(id), ll_part_flag(entry, "single_word", 0),
                               ll_part_flag(entry, "lstrip", 0), ll_part_flag(entry, "rstrip", 0)};
    if (!strcmp(text, "[MASK]") || !strcmp(text, "<mask>")) a->mask = a->token[number].id;
    ll_grown found = {0};
    const size_t size = strlen(text);
    ll_status status = which == NORMALISED ? ll_normalize(n, &found, (const uint8_t *)text, size, 16 * size + 256)
                                           : ll_grown_add(&found, text, size);
    if (status == LL_EINVAL)
        status = ll_fail(LL_EFORMAT, "%s: added token %d of its tokenizer: %s", name, number, ll_error());
    if (!status && found.n) {
        a->begins[which][*found.at] = 1;
        status = ll_trie_add(&a->trie[which], found.at, found.n, number);
    }
    ll_grown_free(&found);
    return status;
}

ll_status ll_added_tokens_create(ll_added_tokens **out, const json_t *list, const ll_normalizer *n, const char *name) {
    const size_t count = json_array_size(list);
    ll_added_tokens *a = ll_alloc(1, sizeof *a);
    if (!a) return LL_ENOMEM;
    a->mask = -1;
    a->token = ll_alloc(count + 1, sizeof *a->token);
    ll_status status = a->token ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < 2 && !status; i++) status = ll_trie_create(&a->trie[i]);
    for (size_t i = 0; i < count && !status; i++) status = add(a, json_array_get(list, i), (int)i, n, name);
    if (status)
        ll_added_tokens_free(a);
    else
        *out = a;
    return status;
}

void ll_added_tokens_free(ll_added_tokens *a) {
    if (!a) return;
    for (int i = 0; i < 2; i++) ll_trie_free(&a->trie[i]);
    ll_free(a->token);
    ll_free(a);
}

int ll_added_token_mask(const ll_added_tokens *a) { return a->mask; }

/* The character before text[at]; -1: there is none. */
static int32_t char_before(const uint8_t *text, size_t at) {
    size_t begin = at, size;
    while (begin && at - begin < 4 && (text[--begin] & 0xc0) == 0x80) continue;
    return at ? ll_char_at(text + begin, at - begin, &size) : -1;
}

int ll_added_token_next(const ll_added_tokens *a, int normalised, const uint8_t *text, size_t n, size_t from,
                        size_t *begin, size_t *end) {
    size_t size, length;
    for (size_t i = from; i < n; i++) {
        if (!a->begins[normalised][text[i]]) continue;
        const int number = ll_trie_longest(&a->trie[normalised], 0, text + i, n - i, &length);
        if (number < 0) continue;
        const added *t = &a->token[number];
        *begin = i, *end = i + length;
        const int32_t after = *end < n ? ll_char_at(text + *end, n - *end, &size) : -1;
        if (t->alone && (ll_is_word(char_before(text, i)) || ll_is_word(after))) continue;
        while (t->left && *begin > from && ll_is_white(char_before(text, *begin)))
            for ((*begin)--; *begin > from && (text[*begin] & 0xc0) == 0x80;) (*begin)--;
        while (t->right && *end < n && ll_is_white(ll_char_at(text + *end, n - *end, &size))) *end += size;
        return t->id;
    }
    return -1;
}
