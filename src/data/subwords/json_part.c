/* What the parts of a tokenizer.json have in common. */
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/subwords/parts.h"

enum { DEPTH = 24 };

ll_status ll_part_load(json_t **json, const ll_bytes *bytes, const char *name) {
    json_error_t error;
    int refused;
    *json = NULL;
    if (ll_json_is_deep(bytes->data, bytes->size, DEPTH))
        return ll_fail(LL_EFORMAT, "%s: its tokenizer is nested more than %d deep", name, DEPTH);
    *json = ll_json_load(bytes->data, bytes->size, 0, &error, &refused);
    return refused                 ? ll_fail(LL_ENOMEM, "no memory for the tokenizer of %s", name)
           : json_is_object(*json) ? LL_OK
                                   : ll_fail(LL_EFORMAT, "%s: its tokenizer is no JSON object: %s", name,
                                             *json ? "it is something else" : error.text);
}

const char *ll_part_type(const json_t *part) { return ll_part_text(part, "type", ""); }

const char *ll_part_text(const json_t *part, const char *key, const char *fallback) {
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : fallback;
}

int ll_part_flag(const json_t *part, const char *key, int fallback) {
    const json_t *flag = json_object_get(part, key);
    return json_is_boolean(flag) ? json_is_true(flag) : fallback;
}

const json_t *ll_part_at(const json_t *part, const char *key, size_t i) {
    if (!part || json_is_null(part)) return NULL;
    if (strcmp(ll_part_type(part), "Sequence")) return i ? NULL : part;
    return json_array_get(json_object_get(part, key), i);
}

ll_status ll_part_unknown(const char *name, const char *what, const json_t *part) {
    return ll_fail(LL_EFORMAT, "%s: its tokenizer has the %s \"%.60s\", which is not supported", name, what,
                   ll_part_type(part));
}

ll_status ll_part_pattern(const json_t *part, const char *name, int *regex, const char **text) {
    const json_t *pattern = json_object_get(part, "pattern");
    *text = json_string_value(json_object_get(pattern, "Regex"));
    *regex = *text != NULL;
    if (!*text) *text = json_string_value(json_object_get(pattern, "String"));
    if (!*text) *text = json_string_value(pattern);
    if (*text && **text) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: its tokenizer has a %s without a pattern", name, ll_part_type(part));
}

ll_status ll_part_metaspace(const json_t *part, const char *name, const char **text) {
    *text = ll_part_text(part, "replacement", "\xe2\x96\x81");
    return **text ? LL_OK : ll_fail(LL_EFORMAT, "%s: its tokenizer has a Metaspace whose replacement is empty", name);
}

static int digit64(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ll_status ll_part_base64(ll_grown *out, const char *text, const char *name) {
    uint32_t bits = 0;
    int n = 0;
    ll_status status = LL_OK;
    for (; *text && *text != '=' && !status; text++) {
        const int digit = digit64(*text);
        if (digit < 0) return ll_fail(LL_EFORMAT, "%s: its tokenizer has bytes that are no base 64", name);
        bits = bits << 6 | (uint32_t)digit;
        n += 6;
        if (n < 8) continue;
        n -= 8;
        const uint8_t byte = (uint8_t)(bits >> n);
        status = ll_grown_add(out, &byte, 1);
    }
    return status;
}

/* ---- Lists that grow ---- */

ll_status ll_tokens_add(ll_tokens *t, int32_t token) {
    if (t->n == t->capacity) {
        const size_t capacity = 2 * t->capacity + 64;
        int32_t *more = ll_alloc(capacity, sizeof *more);
        if (!more) return LL_ENOMEM;
        if (t->n) memcpy(more, t->at, t->n * sizeof *more);
        ll_free(t->at);
        t->at = more;
        t->capacity = capacity;
    }
    t->at[t->n++] = token;
    return LL_OK;
}

ll_status ll_word_add(ll_word_list *w, const uint8_t *word, size_t n) {
    if (!n) return LL_OK;
    if (w->n == w->capacity) {
        const size_t capacity = 2 * w->capacity + 64;
        size_t *more = ll_alloc(capacity, sizeof *more);
        if (!more) return LL_ENOMEM;
        if (w->n) memcpy(more, w->end, w->n * sizeof *more);
        ll_free(w->end);
        w->end = more;
        w->capacity = capacity;
    }
    const ll_status status = ll_grown_add(&w->text, word, n);
    if (!status) w->end[w->n++] = w->text.n;
    return status;
}

void ll_word_list_free(ll_word_list *w) {
    ll_grown_free(&w->text);
    ll_free(w->end);
    *w = (ll_word_list){0};
}
