/* ListOps: reads, evaluates and draws expressions. MIN, MAX, MED (for an even number of values the mean of the middle
 * two, rounded down) and SM (the sum modulo 10), as in the published generators. */
#include "data/synthetic/listops.h"

#include <string.h>

#include "base/random.h"

enum { DRAWN = 10 };

static const char *const words[LL_LISTOPS_VOCAB] = {"0", "1", "2",    "3",    "4",    "5",   "6", "7",
                                                    "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};

static int token_of(const uint8_t *word, size_t n) {
    for (int i = 0; i < LL_LISTOPS_VOCAB; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], word, n)) return i;
    return -1;
}

size_t ll_listops_tokens(uint8_t *text, size_t size) {
    size_t n = 0;
    for (size_t at = 0, end; at < size; at = end) {
        end = at + 1;
        if (text[at] == ' ' || text[at] == '(' || text[at] == ')') continue;
        while (end < size && text[end] != ' ' && text[end] != '(' && text[end] != ')') end++;
        const int token = token_of(text + at, end - at);
        if (token < 0) return 0;
        text[n++] = (uint8_t)token;
    }
    return n;
}

const char *ll_listops_word(int token) {
    return token >= 0 && token < LL_LISTOPS_VOCAB ? words[token] : "";
}

/* ---- Values ---- */

/* For an open operation: how often each digit occurred. */
typedef struct {
    int op;
    int64_t count[10], all;
} level;

/* The k-th smallest value, counted from 0. */
static int ranked(const level *v, int64_t k) {
    int i = 0;
    while (i < 9 && k >= v->count[i]) k -= v->count[i++];
    return i;
}

static int apply(const level *v) {
    int64_t sum = 0;
    switch (v->op) {
    case LL_LISTOPS_MIN: return ranked(v, 0);
    case LL_LISTOPS_MAX: return ranked(v, v->all - 1);
    case LL_LISTOPS_MED: return (ranked(v, (v->all - 1) / 2) + ranked(v, v->all / 2)) / 2;
    default:
        for (int i = 0; i < 10; i++) sum += i * v->count[i];
        return (int)(sum % 10);
    }
}

int ll_listops_value(const uint8_t *tokens, size_t n) {
    level open[LL_LISTOPS_DEEPEST];
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        int value = tokens[i];
        if (value >= LL_LISTOPS_MIN && value <= LL_LISTOPS_SM) {
            if (depth == LL_LISTOPS_DEEPEST) return -1;
            open[depth++] = (level){.op = value};
            continue;
        }
        if (value == LL_LISTOPS_END) {
            if (!depth || !open[depth - 1].all) return -1;
            value = apply(&open[--depth]);
        }
        if (!depth) return i + 1 == n ? value : -1;
        open[depth - 1].count[value]++;
        open[depth - 1].all++;
    }
    return -1;
}

/* ---- Drawing: the probabilities of long-range-arena's listops.py, with our random numbers ---- */

typedef struct {
    uint8_t *out;
    int n, most;
    uint64_t seed, stream, index;
    const ll_listops *how;
} draft;

static uint32_t draw(draft *d, uint32_t below) {
    return ll_below(below, d->seed, d->stream, d->index++);
}

static void put(draft *d, int token) {
    if (d->n < d->most) d->out[d->n] = (uint8_t)token;
    d->n++;
}

/* Draws a digit with probability 3/4, and always when the depth is used up; else an operation of 2 to `arguments`
 * values. An expression that is already too long is not finished. */
static void draw_tree(draft *d, int depth) {
    const uint32_t quarter = depth < d->how->depth ? draw(d, 4) : 1;
    if (quarter || d->n >= d->most) {
        put(d, (int)draw(d, DRAWN));
        return;
    }
    const int values = 2 + (int)draw(d, (uint32_t)d->how->arguments - 1);
    put(d, LL_LISTOPS_MIN + (int)draw(d, 4));
    for (int i = 0; i < values && d->n < d->most; i++) draw_tree(d, depth + 1);
    put(d, LL_LISTOPS_END);
}

int ll_listops_draw(uint8_t *out, const ll_listops *how, uint64_t seed, int64_t i) {
    for (uint32_t attempt = 0;; attempt++) {
        draft d = {.out = out, .most = how->most, .seed = seed, .how = how};
        d.stream = ll_stream_id(LL_RANDOM_DATA, attempt & 0xffffff, (uint32_t)i);
        draw_tree(&d, 1);
        if (d.n > how->least && d.n < how->most) return d.n;
    }
}

/* An operation of n values is n + 1 nested pairs: (((op v1) v2) ]). */
static size_t values_of(const uint8_t *tokens, size_t n) {
    size_t values = 0, depth = 0;
    for (size_t i = 1; i < n; i++) {
        if (!depth && tokens[i] == LL_LISTOPS_END) break;
        if (!depth) values++;
        depth += tokens[i] >= LL_LISTOPS_MIN && tokens[i] <= LL_LISTOPS_SM;
        depth -= tokens[i] == LL_LISTOPS_END;
    }
    return values;
}

size_t ll_listops_text(char *out, const uint8_t *tokens, size_t n) {
    size_t size = 0, depth = 0;
    for (size_t i = 0; i < n; i++) {
        const int token = tokens[i], opens = token >= LL_LISTOPS_MIN && token <= LL_LISTOPS_SM;
        const size_t brackets = opens ? values_of(tokens + i, n - i) + 1 : 0;
        for (size_t b = 0; b < brackets; b++, size += 2)
            if (out) memcpy(out + size, "( ", 2);
        const size_t length = strlen(words[token]);
        if (out) memcpy(out + size, words[token], length);
        size += length;
        if (token == LL_LISTOPS_END) {
            if (out) memcpy(out + size, " )", 2);
            size += 2;
            depth--;
        }
        depth += (size_t)opens;
        if (!opens && depth) { /* a value of the enclosing operation */
            if (out) memcpy(out + size, " )", 2);
            size += 2;
        }
        if (i + 1 < n) {
            if (out) out[size] = ' ';
            size++;
        }
    }
    return size;
}
