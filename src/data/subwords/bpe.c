/* Byte-pair encoding (Sennrich et al. 2016): of all neighbouring tokens of a word those that were merged first in
 * training are merged, the leftmost first, until none can be. A heap of candidates makes that O(n log n). */
#include <string.h>

#include "base/memory.h"
#include "base/read_progress.h"
#include "data/subwords/parts.h"

enum { FEW = 48 /* tokens that need no memory of their own */ };

typedef struct {
    uint64_t pair; /* (left << 32 | right) + 1; 0: free */
    uint32_t rank;
    int32_t token;
} merge;

struct ll_bpe {
    merge *merge;
    size_t mask; /* slots - 1 */
    int whole;   /* a word that is a token is not cut */
};

/* ---- The table of merges ---- */

static size_t slot_of(const ll_bpe *b, uint64_t pair) {
    size_t i = (size_t)(pair * 0x9e3779b97f4a7c15u >> 24) & b->mask;
    while (b->merge[i].pair && b->merge[i].pair != pair) i = (i + 1) & b->mask;
    return i;
}

static const merge *merge_of(const ll_bpe *b, int32_t left, int32_t right) {
    const merge *m = &b->merge[slot_of(b, ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1)];
    return m->pair ? m : NULL;
}

/* The two parts of a merge: ["a", "b"], or "a b". */
static int pair_of(const json_t *entry, ll_grown part[2], ll_status *status) {
    const char *text = json_string_value(entry), *blank = text ? strchr(text, ' ') : NULL;
    for (int i = 0; i < 2; i++) {
        const char *from = text ? (i && blank ? blank + 1 : text) : json_string_value(json_array_get(entry, (size_t)i));
        if (!from || (text && !blank)) return 0;
        part[i].n = 0;
        *status = ll_grown_add(&part[i], from, text && !i ? (size_t)(blank - text) : strlen(from));
        if (!*status) *status = ll_grown_add(&part[i], "", 1);
        if (*status) return 0;
        part[i].n--;
    }
    return 1;
}

/* A part as the bytes that the vocabulary has. */
static ll_status as_bytes(ll_grown *part, ll_grown *scratch) {
    int all = 0;
    scratch->n = 0;
    ll_status status = ll_from_byte_level(scratch, (const char *)part->at, &all);
    if (status || !all) return status;
    part->n = 0;
    return ll_grown_add(part, scratch->at, scratch->n);
}

static ll_status read_merge(ll_bpe *b, const json_t *entry, const ll_vocab *v, uint32_t rank, ll_grown buffer[4]) {
    ll_status status = LL_OK;
    ll_grown *part = buffer, *joined = buffer + 2;
    if (!pair_of(entry, part, &status))
        return status ? status
                      : ll_fail(LL_EFORMAT, "%s: merge %u of its tokenizer is no pair of texts", v->name, rank);
    for (int i = 0; i < 2 && v->bytes && !status; i++) status = as_bytes(&part[i], buffer + 3);
    joined->n = 0;
    for (int i = 0; i < 2 && !status; i++) status = ll_grown_add(joined, part[i].at, part[i].n);
    if (status) return status;
    const int left = ll_trie_find(&v->trie, part[0].at, part[0].n),
              right = ll_trie_find(&v->trie, part[1].at, part[1].n),
              token = ll_trie_find(&v->trie, joined->at, joined->n);
    if (left < 0 || right < 0 || token < 0)
        return ll_fail(LL_EFORMAT, "%s: merge %u of its tokenizer has a side, or a result, that is no token", v->name,
                       rank);
    const uint64_t pair = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
    b->merge[slot_of(b, pair)] = (merge){pair, rank, token}; /* of a pair that stands twice the last one counts */
    return LL_OK;
}

static ll_status read_merges(ll_bpe *b, const json_t *list, const ll_vocab *v) {
    ll_grown buffer[4] = {{0}};
    size_t slots = 64;
    ll_status status = LL_OK;
    while (slots < 2 * json_array_size(list)) slots *= 2;
    b->mask = slots - 1;
    b->merge = ll_alloc(slots, sizeof *b->merge);
    if (!b->merge) return LL_ENOMEM;
    for (size_t i = 0; i < json_array_size(list) && !status; i++)
        status = read_merge(b, json_array_get(list, i), v, (uint32_t)i, buffer);
    for (int i = 0; i < 4; i++) ll_grown_free(&buffer[i]);
    return status;
}

ll_status ll_bpe_create(ll_bpe **out, const json_t *model, const ll_vocab *v) {
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (*ll_part_text(model, empty[i], ""))
            return ll_fail(LL_EFORMAT, "%s: its tokenizer has a %s, which is not supported for BPE", v->name, empty[i]);
    ll_bpe *b = ll_alloc(1, sizeof *b);
    if (!b) return LL_ENOMEM;
    b->whole = ll_part_flag(model, "ignore_merges", 0);
    const ll_status status = read_merges(b, json_object_get(model, "merges"), v);
    if (status)
        ll_bpe_free(b);
    else
        *out = b;
    return status;
}

void ll_bpe_free(ll_bpe *b) {
    if (!b) return;
    ll_free(b->merge);
    ll_free(b);
}

/* ---- Cutting ---- */

/* Tokens of a word as a list: each knows its neighbours. */
typedef struct {
    int32_t token; /* -1: merged into the one before */
    int32_t previous, next;
} symbol;

typedef struct {
    uint32_t rank, at; /* of the left symbol */
    int32_t token;
} candidate;

typedef struct {
    candidate *c;
    size_t n;
} heap;

static int is_before(candidate a, candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

static void push(heap *h, candidate c) {
    size_t i = h->n++;
    for (; i && is_before(c, h->c[(i - 1) / 2]); i = (i - 1) / 2) h->c[i] = h->c[(i - 1) / 2];
    h->c[i] = c;
}

static candidate pop(heap *h) {
    const candidate top = h->c[0], last = h->c[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && is_before(h->c[child + 1], h->c[child])) child++;
        if (!is_before(h->c[child], last)) break;
        h->c[i] = h->c[child];
    }
    h->c[i] = last;
    return top;
}

static void propose(const ll_bpe *b, heap *h, const symbol *s, int32_t left) {
    const merge *m = left >= 0 && s[left].next >= 0 ? merge_of(b, s[left].token, s[s[left].next].token) : NULL;
    if (m) push(h, (candidate){m->rank, (uint32_t)left, m->token});
}

static void merge_all(const ll_bpe *b, symbol *s, int32_t n, heap *h) {
    enum { EVERY = 1 << 16 };
    for (int32_t i = 0; i + 1 < n; i++) propose(b, h, s, i);
    for (int64_t done = 1; h->n; done++) {
        if (done % EVERY == 0) ll_read_progress(NULL, done, done + (int64_t)h->n); /* a word may be the whole text */
        const candidate c = pop(h);
        symbol *left = &s[c.at];
        const merge *m = left->token >= 0 && left->next >= 0 ? merge_of(b, left->token, s[left->next].token) : NULL;
        if (!m || m->rank != c.rank) continue; /* one of the two was merged otherwise */
        symbol *right = &s[left->next];
        left->token = m->token;
        left->next = right->next;
        right->token = -1;
        if (right->next >= 0) s[right->next].previous = (int32_t)c.at;
        propose(b, h, s, left->previous);
        propose(b, h, s, (int32_t)c.at);
    }
}

/* The first tokens: bytes, or characters, or of those that have none what stands for it. */
static ll_status first_tokens(const ll_vocab *v, ll_tokens *out, const uint8_t *word, size_t n) {
    ll_status status = LL_OK;
    int unknown = 0; /* was the last one? */
    for (size_t i = 0, size = 1; i < n && !status; i += size) {
        if (!v->bytes) (void)ll_char_at(word + i, n - i, &size);
        const int token = ll_trie_find(&v->trie, word + i, size);
        if (token >= 0) {
            status = ll_tokens_add(out, token);
        } else if (!unknown || !v->fuse_unknown || v->byte_token[0] >= 0) {
            status = ll_add_unknown(v, out, word + i, size);
        }
        unknown = token < 0;
    }
    return status;
}

ll_status ll_bpe_encode(const ll_bpe *b, const ll_vocab *v, ll_tokens *out, const uint8_t *word, size_t n) {
    const int whole = b->whole ? ll_trie_find(&v->trie, word, n) : -1;
    const size_t before = out->n;
    if (whole >= 0) return ll_tokens_add(out, whole);
    if (n > INT32_MAX / 2) return ll_fail(LL_EINVAL, "a word of %zu bytes is too long", n);
    ll_status status = first_tokens(v, out, word, n);
    const size_t count = out->n - before;
    if (status || count < 2) return status;
    symbol few[FEW], *s = count <= FEW ? few : ll_alloc(count, sizeof *s);
    candidate near[3 * FEW]; /* each merge takes one away and proposes two */
    heap h = {count <= FEW ? near : ll_alloc(3 * count, sizeof *h.c), 0};
    if (s && h.c) {
        for (size_t i = 0; i < count; i++)
            s[i] = (symbol){out->at[before + i], (int32_t)i - 1, i + 1 < count ? (int32_t)i + 1 : -1};
        merge_all(b, s, (int32_t)count, &h);
        out->n = before;
        for (int32_t i = 0; i >= 0; i = s[i].next) out->at[out->n++] = s[i].token;
    } else {
        status = LL_ENOMEM;
    }
    if (count > FEW) {
        ll_free(s);
        ll_free(h.c);
    }
    return status;
}
