/* Words are what stands between blanks, and the end of a line, as in WikiText and the Penn Treebank. The list of words
 * is text, one word a line: "<unk>" for any unknown word, "<eos>" for the end of a line, then the words of the train
 * split, most frequent first, equal ones in the order of their bytes. Token i is line i. */
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/read_progress.h"
#include "data/text/words.h"

enum { UNKNOWN, LINE_END, FIRST, WORDS_MOST = 1000000 };

typedef struct {
    const uint8_t *at;
    size_t size;
    int64_t count;
} word;

/* The words found so far. Slots of a hash table contain index + 1. */
typedef struct {
    word *word;
    size_t count, capacity;
    uint32_t *slot;
    size_t mask; /* slots - 1, a power of two, at least twice `capacity` */
} table;

struct ll_words {
    table t;
    char *scratch; /* a word and the blank after it */
};

static int is_blank(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int ll_is_between_words(uint8_t c) { return !c || is_blank(c); }

int ll_word_next(const uint8_t **found, size_t *n, const uint8_t *text, size_t size, size_t *at) {
    size_t i = *at;
    while (i < size && ll_is_between_words(text[i]) && text[i] != '\n') i++;
    if (i == size) return 0;
    const size_t first = i;
    while (i < size && !ll_is_between_words(text[i])) i++;
    *found = text + first;
    *n = i - first;
    *at = i == first ? i + 1 : i;
    return 1;
}

int64_t ll_count_words(const ll_bytes *text) {
    const uint8_t *found;
    size_t n, at = 0, left = 0;
    int64_t count = 0;
    for (; ll_word_next(&found, &n, text->data, text->size, &at); count++) ll_bytes_pass(text, at, &left);
    return count;
}

/* ---- The table ---- */

static uint64_t hash_of(const uint8_t *p, size_t n) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

/* The slot of a word, or the free slot where it belongs. */
static size_t slot_of(const table *t, const uint8_t *p, size_t n) {
    size_t i = (size_t)hash_of(p, n) & t->mask;
    for (; t->slot[i]; i = (i + 1) & t->mask) {
        const word *w = &t->word[t->slot[i] - 1];
        if (w->size == n && !memcmp(w->at, p, n)) break;
    }
    return i;
}

static void table_free(table *t) {
    ll_free(t->word);
    ll_free(t->slot);
    *t = (table){0};
}

static ll_status table_create(table *t, size_t capacity) {
    size_t slots = 64;
    while (slots < 2 * capacity) slots *= 2;
    *t = (table){.capacity = capacity, .mask = slots - 1};
    t->word = ll_alloc(capacity, sizeof *t->word);
    t->slot = ll_alloc(slots, sizeof *t->slot);
    if (t->word && t->slot) return LL_OK;
    table_free(t);
    return LL_ENOMEM;
}

static ll_status grow(table *t) {
    table bigger;
    if (t->capacity > UINT32_MAX / 4) return ll_fail(LL_ENOMEM, "more than %u different words", UINT32_MAX / 4);
    const ll_status status = table_create(&bigger, 2 * t->capacity);
    if (status) return status;
    for (size_t i = 0; i < t->count; i++) {
        bigger.word[i] = t->word[i];
        bigger.slot[slot_of(&bigger, t->word[i].at, t->word[i].size)] = (uint32_t)i + 1;
    }
    bigger.count = t->count;
    table_free(t);
    *t = bigger;
    return LL_OK;
}

/* Counts one more occurrence of a word. */
static ll_status see(table *t, const uint8_t *p, size_t n) {
    const size_t slot = slot_of(t, p, n);
    if (t->slot[slot]) {
        t->word[t->slot[slot] - 1].count++;
        return LL_OK;
    }
    t->word[t->count++] = (word){p, n, 1};
    t->slot[slot] = (uint32_t)t->count;
    return t->count == t->capacity ? grow(t) : LL_OK;
}

/* ---- The list ---- */

static int by_count(const void *a, const void *b) {
    const word *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    const int order = memcmp(x->at, y->at, ll_min_size(x->size, y->size));
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static ll_status write_list(ll_bytes *list, const word *w, size_t count) {
    static const char front[] = "<unk>\n<eos>\n";
    size_t size = sizeof front - 1, at = size;
    for (size_t i = 0; i < count; i++) size += w[i].size + 1;
    uint8_t *data = ll_alloc(size + 1, 1);
    if (!data) return LL_ENOMEM;
    memcpy(data, front, at);
    for (size_t i = 0; i < count; i++) {
        memcpy(data + at, w[i].at, w[i].size);
        at += w[i].size;
        data[at++] = '\n';
    }
    *list = (ll_bytes){data, size};
    return LL_OK;
}

static int is_special(const uint8_t *p, size_t n) {
    return n == 0 || (n == 5 && (!memcmp(p, "<unk>", 5) || !memcmp(p, "<eos>", 5)));
}

/* Words whose hash has these last bits are counted in one pass over the text. */
typedef struct {
    uint64_t mask, bits;
} share;

static int has(const share *h, const uint8_t *p, size_t n) { return (hash_of(p, n) & h->mask) == h->bits; }

/* Halves a share whose words became too many: removes the other half's words. */
static ll_status halve(table *t, share *h) {
    table kept;
    const ll_status status = table_create(&kept, t->capacity);
    if (status) return status;
    h->mask = h->mask << 1 | 1;
    for (size_t i = 0; i < t->count; i++) {
        const word *w = &t->word[i];
        if (!has(h, w->at, w->size)) continue;
        kept.word[kept.count] = *w;
        kept.slot[slot_of(&kept, w->at, w->size)] = (uint32_t)++kept.count;
    }
    table_free(t);
    *t = kept;
    return LL_OK;
}

/* One pass. *h becomes the share that was counted, at most `together` words. */
static ll_status count_share(table *t, share *h, const ll_bytes *text, size_t together) {
    const uint8_t *p;
    size_t n, at = 0, left = 0;
    ll_status status = table_create(t, 1024);
    while (!status && ll_word_next(&p, &n, text->data, text->size, &at)) {
        ll_bytes_pass(text, at, &left);
        if (is_special(p, n) || !has(h, p, n)) continue;
        status = see(t, p, n);
        while (!status && t->count > together && h->mask < UINT64_MAX) status = halve(t, h);
    }
    return status;
}

/* The words that are frequent enough: of those found before (`best`) and those of a table. */
static ll_status keep_best(table *best, const table *t, int64_t least, size_t most) {
    table all;
    const ll_status status = table_create(&all, best->count + t->count + 1);
    if (status) return status;
    for (size_t i = 0; i < best->count; i++) all.word[all.count++] = best->word[i];
    for (size_t i = 0; i < t->count; i++)
        if (t->word[i].count >= least) all.word[all.count++] = t->word[i];
    if (all.count) qsort(all.word, all.count, sizeof *all.word, by_count);
    if (all.count > most) all.count = most;
    table_free(best);
    *best = all;
    return LL_OK;
}

/* The share that comes after h, if all are ordered by their bits from the last one on: halves of what was halved. */
static int next_share(share *h) {
    while (h->mask && h->bits & (h->mask ^ h->mask >> 1)) {
        h->bits &= h->mask >> 1;
        h->mask >>= 1;
    }
    h->bits |= h->mask ^ h->mask >> 1;
    return h->mask != 0;
}

ll_status ll_words_list(ll_bytes *list, const ll_bytes *text, int64_t least, int most, size_t together) {
    const size_t capacity = most > 0 ? (size_t)most - FIRST : WORDS_MOST;
    table best = {0};
    share h = {0};
    ll_status status = LL_OK;
    int more = 1;
    if (most > 0 && most < FIRST)
        return ll_fail(LL_EINVAL, "data.vocab-size = %d has no room for the tokens that every vocabulary has, %d", most,
                       FIRST);
    while (!status && more) {
        table t = {0};
        status = count_share(&t, &h, text, together);
        if (!status) status = keep_best(&best, &t, least, capacity);
        table_free(&t);
        more = next_share(&h);
    }
    if (!status && best.count > WORDS_MOST - FIRST)
        status = ll_fail(LL_EINVAL,
                         "there are more than %d different words, the most there can be; raise data.min-count or set "
                         "data.vocab-size",
                         WORDS_MOST - FIRST);
    if (!status) status = write_list(list, best.word, best.count);
    table_free(&best);
    return status;
}

static ll_status damaged(const char *name, size_t line, const char *what) {
    return ll_fail(LL_EFORMAT, "%s: line %zu of the vocabulary %s", name, line + 1, what);
}

static ll_status read_list(table *t, const ll_bytes *list, const char *name) {
    ll_status status = LL_OK;
    for (size_t at = 0; at < list->size && !status;) {
        const uint8_t *p = list->data + at, *end = memchr(p, '\n', list->size - at);
        const size_t n = end ? (size_t)(end - p) : list->size - at, line = t->count;
        if (line >= WORDS_MOST) return damaged(name, line, "is one too many");
        if (!n) return damaged(name, line, "is empty");
        for (size_t i = 0; i < n; i++)
            if (is_blank(p[i])) return damaged(name, line, "holds a blank");
        if (line < FIRST && (n != 5 || memcmp(p, line == UNKNOWN ? "<unk>" : "<eos>", 5)))
            return damaged(name, line, line == UNKNOWN ? "must be <unk>" : "must be <eos>");
        status = see(t, p, n);
        if (!status && t->count == line) return damaged(name, line, "was there before");
        at += n + 1;
    }
    if (!status && t->count < FIRST) return damaged(name, t->count, "is missing");
    return status;
}

ll_status ll_words_create(ll_words **words, const ll_bytes *list, const char *name) {
    ll_words *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    size_t longest = 0;
    ll_status status = table_create(&w->t, 1024);
    if (!status) status = read_list(&w->t, list, name);
    for (size_t i = 0; !status && i < w->t.count; i++)
        if (w->t.word[i].size > longest) longest = w->t.word[i].size;
    if (!status && !(w->scratch = ll_alloc(longest + 2, 1))) status = LL_ENOMEM;
    if (status) {
        ll_words_free(w);
        return status;
    }
    *words = w;
    return LL_OK;
}

void ll_words_free(ll_words *w) {
    if (!w) return;
    table_free(&w->t);
    ll_free(w->scratch);
    ll_free(w);
}

int ll_words_count(const ll_words *w) {
    return (int)w->t.count;
}

int64_t ll_words_read(const ll_words *w, const uint8_t *text, size_t size, size_t *at, int64_t most, int *out) {
    const uint8_t *p;
    size_t n;
    int64_t i = 0;
    for (; i < most && ll_word_next(&p, &n, text, size, at); i++) {
        if (!out) continue;
        const uint32_t number = n ? w->t.slot[slot_of(&w->t, p, n)] : LINE_END + 1;
        out[i] = number ? (int)number - 1 : UNKNOWN;
    }
    return i;
}

enum { SOME = 1 << 14 };

/* Counts first, so that the block gets the right size. */
ll_status ll_words_encode(const ll_words *w, const uint8_t *text, size_t size, int32_t **tokens, int64_t *count) {
    size_t at = 0;
    int32_t *out = ll_alloc((size_t)ll_count_words(&(ll_bytes){(uint8_t *)text, size}), sizeof *out);
    if (!out) return LL_ENOMEM;
    *tokens = out;
    *count = 0;
    for (int64_t n = SOME; n == SOME; *count += n) {
        n = ll_words_read(w, text, size, &at, SOME, out + *count);
        ll_read_progress_pass(at, size);
    }
    return LL_OK;
}

const char *ll_words_text(const ll_words *w, int token, size_t *size) {
    *size = 1;
    if (token == LINE_END || token < 0 || (size_t)token >= w->t.count) return "\n";
    const word *found = &w->t.word[token];
    memcpy(w->scratch, found->at, found->size);
    w->scratch[found->size] = ' ';
    *size = found->size + 1;
    return w->scratch;
}
