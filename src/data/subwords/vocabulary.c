/* The tokens of a tokenizer: their texts as models look them up, and as they are decoded. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

enum { TOKENS_MOST = 1 << 22, TEXT_MOST = 1 << 16, TEXTS_MOST = 1 << 28 }; /* texts: bytes that a decoder may make */

/* ---- The vocabulary ---- */

static ll_status check_number(json_int_t id, const char *name) {
    if (id >= 0 && id < TOKENS_MOST) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: its tokenizer numbers a token %lld; numbers are below %d", name, (long long)id,
                   TOKENS_MOST);
}

static ll_status grow(ll_token_texts *t, int count) {
    if (count <= t->count) return LL_OK;
    if (count > t->capacity) {
        const int capacity = 2 * count;
        ll_token_text *more = ll_alloc((size_t)capacity, sizeof *more);
        if (!more) return LL_ENOMEM;
        if (t->count) memcpy(more, t->text, (size_t)t->count * sizeof *more);
        ll_free(t->text);
        t->text = more;
        t->capacity = capacity;
    }
    t->count = count;
    return LL_OK;
}

/* The text of a token, which models will look up (lookup) or which is only decoded. */
static ll_status add(ll_vocab *v, ll_token_texts *t, const char *text, json_int_t id, int lookup) {
    ll_grown bytes = {0};
    int all = 0;
    ll_status status = check_number(id, v->name);
    if (!status) status = grow(t, (int)id + 1);
    if (!status && v->bytes && lookup) status = ll_from_byte_level(&bytes, text, &all);
    if (!status && !all) status = ll_grown_add(&bytes, text, strlen(text));
    if (!status && lookup) status = ll_trie_add(&v->trie, bytes.at, bytes.n, (int)id);
    if (status) {
        ll_grown_free(&bytes);
        return status;
    }
    ll_token_text *own = &t->text[id];
    ll_free(own->at);
    *own = (ll_token_text){bytes.at, bytes.n, !lookup};
    return LL_OK;
}

static ll_status read_table(ll_vocab *v, ll_token_texts *t, const json_t *vocab) {
    const char *text;
    json_t *id;
    ll_status status = LL_OK;
    json_object_foreach((json_t *)vocab, text, id) {
        if (!json_is_integer(id))
            return ll_fail(LL_EFORMAT, "%s: token \"%.40s\" of its tokenizer has no number", v->name, text);
        if ((status = add(v, t, text, json_integer_value(id), 1))) break;
    }
    return status;
}

/* [["text", score], ..]: a token's number is its place. */
static ll_status read_list(ll_vocab *v, ll_token_texts *t, const json_t *vocab) {
    ll_status status = LL_OK;
    for (size_t i = 0; i < json_array_size(vocab) && !status; i++) {
        const char *text = json_string_value(json_array_get(json_array_get(vocab, i), 0));
        if (!text) return ll_fail(LL_EFORMAT, "%s: token %zu of its tokenizer has no text", v->name, i);
        status = add(v, t, text, (json_int_t)i, 1);
    }
    return status;
}

static void find_bytes(ll_vocab *v, const json_t *model) {
    int all = ll_part_flag(model, "byte_fallback", 0);
    for (int i = 0; i < 256; i++) {
        char text[8];
        const int n = snprintf(text, sizeof text, "<0x%02X>", i);
        v->byte_token[i] = all ? ll_trie_find(&v->trie, (const uint8_t *)text, (size_t)n) : -1;
        if (v->byte_token[i] < 0) all = 0;
    }
    if (!all) v->byte_token[0] = -1;
}

ll_status ll_vocab_read(ll_vocab *v, ll_token_texts *t, const json_t *json, const char *name) {
    const json_t *model = json_object_get(json, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *added = json_object_get(json, "added_tokens"), *id = json_object_get(model, "unk_id");
    const char *unknown = ll_part_text(model, "unk_token", "");
    v->name = name;
    ll_status status = ll_trie_create(&v->trie);
    if (!status) status = json_is_array(vocab) ? read_list(v, t, vocab) : read_table(v, t, vocab);
    if (status) return status;
    v->unknown = json_is_integer(id) ? (int)json_integer_value(id)
                                     : ll_trie_find(&v->trie, (const uint8_t *)unknown, strlen(unknown));
    v->fuse_unknown = ll_part_flag(model, "fuse_unk", 0);
    find_bytes(v, model);
    for (size_t i = 0; i < json_array_size(added) && !status; i++) {
        const json_t *entry = json_array_get(added, i);
        status = add(v, t, ll_part_text(entry, "content", ""), json_integer_value(json_object_get(entry, "id")), 0);
    }
    if (!status && !t->count) status = ll_fail(LL_EFORMAT, "%s: its tokenizer has no vocabulary", name);
    if (!status && v->unknown >= t->count)
        status = ll_fail(LL_EFORMAT, "%s: the unk_id of its tokenizer is no token", name);
    return status;
}

ll_status ll_add_unknown(const ll_vocab *v, ll_tokens *out, const uint8_t *c, size_t n) {
    ll_status status = LL_OK;
    if (v->byte_token[0] < 0 && v->unknown >= 0) return ll_tokens_add(out, v->unknown);
    for (size_t i = 0; i < n && !status; i++)
        status =
            v->byte_token[c[i]] >= 0
                ? ll_tokens_add(out, v->byte_token[c[i]])
                : ll_fail(LL_EINVAL, "the tokenizer has no token for byte 0x%02x, and none for what is unknown", c[i]);
    return status;
}

void ll_token_texts_free(ll_token_texts *t) {
    for (int i = 0; i < t->count; i++) ll_free(t->text[i].at);
    ll_free(t->text);
    *t = (ll_token_texts){0};
}

/* ---- Decoding ---- */

/* Punctuation that stands without a blank before it (the decoder's cleanup). */
static int joins(const ll_token_text *t) {
    static const char *const marks[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (t->n == strlen(marks[i]) && !memcmp(t->at, marks[i], t->n)) return 1;
    return 0;
}

static ll_status put_before(ll_token_text *t, const char *front) {
    ll_grown b = {0};
    ll_status status = ll_grown_add(&b, front, strlen(front));
    if (!status) status = ll_grown_add(&b, t->at, t->n);
    if (status) {
        ll_grown_free(&b);
        return status;
    }
    ll_free(t->at);
    t->at = b.at;
    t->n = b.n;
    return LL_OK;
}

/* Without a decoder all tokens stand apart. */
static ll_status decode_apart(ll_token_texts *t) {
    ll_status status = LL_OK;
    for (int i = 0; i < t->count && !status; i++)
        if (t->text[i].at) status = put_before(&t->text[i], " ");
    return status;
}

/* Words stand apart, "##.." continues one. */
static ll_status decode_wordpiece(ll_token_texts *t, const char *prefix, int cleanup) {
    ll_status status = LL_OK;
    const size_t n = strlen(prefix);
    for (int i = 0; i < t->count && !status; i++) {
        ll_token_text *own = &t->text[i];
        if (!own->at) continue;
        if (!own->added && n && own->n >= n && !memcmp(own->at, prefix, n)) {
            memmove(own->at, own->at + n, own->n -= n);
        } else if (!cleanup || !joins(own)) {
            status = put_before(own, " ");
        }
    }
    return status;
}

static ll_status replace(ll_token_texts *t, const char *from, const char *to) {
    const ll_grown old = {(uint8_t *)from, strlen(from), 0}, new = {(uint8_t *)to, strlen(to), 0};
    ll_status status = LL_OK;
    size_t all = 0;
    for (int i = 0; i < t->count && !status; i++) {
        ll_token_text *own = &t->text[i];
        ll_grown b = {.most = TEXT_MOST};
        if (own->added || !own->at || !memmem(own->at, own->n, from, old.n)) continue;
        status = ll_add_replaced(&b, own->at, own->n, &old, &new);
        ll_free(own->at);
        own->at = b.at;
        own->n = b.n;
        all += b.n;
        if (all > TEXTS_MOST) status = ll_fail(LL_EINVAL, "all texts become more than %d bytes", TEXTS_MOST);
    }
    return status;
}

static ll_status decode_metaspace(ll_token_texts *t, const json_t *part, const char *name) {
    const char *from;
    const ll_status status = ll_part_metaspace(part, name, &from);
    return status ? status : replace(t, from, " ");
}

static ll_status decode_replace(ll_token_texts *t, const json_t *part, const char *name) {
    const char *from;
    int regex;
    const ll_status status = ll_part_pattern(part, name, &regex, &from);
    if (status) return status;
    if (!regex) return replace(t, from, ll_part_text(part, "content", ""));
    return ll_fail(LL_EFORMAT, "%s: the decoder of its tokenizer has a regular expression, which is not supported",
                   name);
}

/* <0x0A> becomes its byte. */
static void decode_bytes(ll_token_texts *t, const ll_vocab *v) {
    for (int i = 0; i < 256 && v->byte_token[0] >= 0; i++) {
        ll_token_text *own = &t->text[v->byte_token[i]];
        if (!own->n) continue; /* the vocabulary gives its number to an empty text, too */
        own->at[0] = (uint8_t)i;
        own->n = 1;
    }
}

ll_status ll_token_texts_decode(ll_token_texts *t, const json_t *json, const ll_vocab *v, const char *name) {
    const json_t *part = json_object_get(json, "decoder"), *one;
    ll_status status = LL_OK;
    if (v->bytes) return LL_OK; /* a token's bytes are what it stands for */
    if (!part || json_is_null(part)) status = decode_apart(t);
    for (size_t i = 0; !status && (one = ll_part_at(part, "decoders", i)); i++) {
        const char *type = ll_part_type(one);
        if (!strcmp(type, "WordPiece")) {
            status = decode_wordpiece(t, ll_part_text(one, "prefix", "##"), ll_part_flag(one, "cleanup", 1));
        } else if (!strcmp(type, "Metaspace")) {
            status = decode_metaspace(t, one, name);
        } else if (!strcmp(type, "Replace")) {
            status = decode_replace(t, one, name);
        } else if (strcmp(type, "ByteFallback") && strcmp(type, "Fuse") && strcmp(type, "ByteLevel") &&
                   strcmp(type, "Strip")) { /* Strip takes away a blank that was put before the text, not a token's */
            status = ll_part_unknown(name, "decoder", one);
        }
        if (status == LL_EINVAL)
            status = ll_fail(LL_EFORMAT, "%s: the decoder %s of its tokenizer: %s", name, type, ll_error());
    }
    if (!status) decode_bytes(t, v);
    return status;
}
