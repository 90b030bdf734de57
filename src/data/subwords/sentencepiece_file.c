/* A tokenizer.model of SentencePiece (Kudo and Richardson 2018) as the tokenizer.json that means the same. The file is
 * a protocol buffer, of which these fields count:
 *
 *   1   a piece: 1 its text, 2 its score (float), 3 its kind (1 usual, 2 unknown, 3 control, 4 defined by the user, 5
 *       unused: no text is it, 6 a byte)
 *   2   how it was trained: 3 the model (1 unigram, 2 BPE), 24 treat_whitespace_as_suffix, 35 byte_fallback
 *   3   how text is normalised: 2 the map of characters, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5
 *       escape_whitespaces
 *
 * BPE merges the pair whose piece has the highest score. So the merges of tokenizer.json are all ways to cut a piece in
 * two pieces, in the order of the scores. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "data/subwords/parts.h"
#include "data/subwords/tokenizer_files.h"

enum { UNIGRAM = 1, BPE = 2 };
enum { LONGEST_PIECE = 1024 }; /* bytes; the time of its merges is the square of it */
enum { USUAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
static const char BLANK[] = "\xe2\x96\x81";

/* ---- Protocol buffers ---- */

typedef struct {
    const uint8_t *at, *end;
    int damaged;
} message;

typedef struct {
    int number;
    uint64_t value; /* a whole number, or the bits of a float */
    message bytes;  /* a text or a message */
} field;

static uint64_t varint(message *m) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return x;
    }
    m->damaged = 1;
    return 0;
}

static int next_field(message *m, field *f) {
    if (m->at >= m->end || m->damaged) return 0;
    const uint64_t tag = varint(m), kind = tag & 7;
    *f = (field){.number = tag >> 3 < 1000 ? (int)(tag >> 3) : 0};
    const size_t left = (size_t)(m->end - m->at);
    uint64_t n = kind == 1 ? 8 : kind == 5 ? 4 : 0;
    if (kind == 0) f->value = varint(m);
    if (kind == 2) n = varint(m);
    if (m->damaged || (kind != 0 && kind != 1 && kind != 2 && kind != 5) || (kind && n > (size_t)(m->end - m->at)) ||
        n > left) {
        m->damaged = 1;
        return 0;
    }
    if (kind == 5) f->value = (uint64_t)m->at[0] | (uint64_t)m->at[1] << 8 | (uint64_t)m->at[2] << 16 |
                              (uint64_t)m->at[3] << 24;
    if (kind == 2) f->bytes = (message){m->at, m->at + n, 0};
    m->at += n;
    return 1;
}

/* ---- What it says ---- */

typedef struct {
    json_t *text;
    double score;
    int kind, id;
} piece;

typedef struct {
    piece *piece;
    int count, capacity;
    int model, fallback, suffix;
    int prefix, trims, escapes;
    message map;
} sentencepiece;

static ll_status damaged(const char *folder) {
    return ll_fail(LL_EFORMAT, "%s/tokenizer.model is damaged, or not a model of SentencePiece", folder);
}

static ll_status add_piece(sentencepiece *s, message m, const char *folder) {
    field f;
    piece p = {.kind = USUAL, .id = s->count};
    if (s->count == s->capacity) {
        const int capacity = s->capacity ? 2 * s->capacity : 1024;
        piece *more = ll_alloc((size_t)capacity, sizeof *more);
        if (!more) return LL_ENOMEM;
        if (s->count) memcpy(more, s->piece, (size_t)s->count * sizeof *more);
        ll_free(s->piece);
        s->piece = more;
        s->capacity = capacity;
    }
    while (next_field(&m, &f)) {
        const uint32_t bits = (uint32_t)f.value;
        float score;
        memcpy(&score, &bits, sizeof score);
        if (f.number == 2) p.score = (double)score;
        if (f.number == 3) p.kind = (int)(f.value & 15);
        if (f.number != 1 || p.text) continue;
        if (f.bytes.end - f.bytes.at > LONGEST_PIECE)
            return ll_fail(LL_EINVAL, "%s/tokenizer.model: piece %d has %lld bytes; %d are the most", folder, s->count,
                           (long long)(f.bytes.end - f.bytes.at), (int)LONGEST_PIECE);
        int refused;
        p.text = ll_json_string((const char *)f.bytes.at, (size_t)(f.bytes.end - f.bytes.at), &refused);
        if (refused) return ll_fail(LL_ENOMEM, "no memory for the pieces of %s", folder);
        if (!p.text) return damaged(folder);
    }
    if (m.damaged || !p.text || !isfinite(p.score)) {
        json_decref(p.text);
        return damaged(folder);
    }
    s->piece[s->count++] = p;
    return LL_OK;
}

static int read_training(sentencepiece *s, message m) {
    field f;
    while (next_field(&m, &f)) {
        if (f.number == 3) s->model = (int)(f.value & 15);
        if (f.number == 24) s->suffix = f.value != 0;
        if (f.number == 35) s->fallback = f.value != 0;
    }
    return !m.damaged;
}

static int read_normalizer(sentencepiece *s, message m) {
    field f;
    while (next_field(&m, &f)) {
        if (f.number == 2) s->map = f.bytes;
        if (f.number == 3) s->prefix = f.value != 0;
        if (f.number == 4) s->trims = f.value != 0;
        if (f.number == 5) s->escapes = f.value != 0;
    }
    return !m.damaged;
}

static ll_status read_model(sentencepiece *s, const ll_bytes *file, const char *folder) {
    message m = {file->data, file->data + file->size, 0};
    field f;
    int fine = 1;
    *s = (sentencepiece){.model = UNIGRAM, .prefix = 1, .trims = 1, .escapes = 1};
    ll_status status = LL_OK;
    while (!status && fine && next_field(&m, &f)) {
        if (f.number == 1) status = add_piece(s, f.bytes, folder);
        if (f.number == 2) fine = read_training(s, f.bytes);
        if (f.number == 3) fine = read_normalizer(s, f.bytes);
    }
    if (!status && (m.damaged || !fine || !s->count)) status = damaged(folder);
    if (!status && ((s->model != UNIGRAM && s->model != BPE) || s->suffix || !s->escapes))
        status = ll_fail(LL_EINVAL,
                         "%s/tokenizer.model is of a kind that is not read: only unigram and BPE with U+2581 before "
                         "words are; save it as tokenizer.json",
                         folder);
    return status;
}

/* ---- As tokenizer.json ---- */

static json_t *base64(message m) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = (size_t)(m.end - m.at);
    char *text = ll_alloc(n / 3 * 4 + 8, 1), *out = text;
    if (!text) return NULL;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned a = m.at[i], b = i + 1 < n ? m.at[i + 1] : 0, c = i + 2 < n ? m.at[i + 2] : 0;
        *out++ = digits[a >> 2];
        *out++ = digits[(a & 3) << 4 | b >> 4];
        *out++ = i + 1 < n ? digits[(b & 15) << 2 | c >> 6] : '=';
        *out++ = i + 2 < n ? digits[c & 63] : '=';
    }
    json_t *json = json_stringn(text, (size_t)(out - text));
    ll_free(text);
    return json;
}

static json_t *replace(const char *kind, const char *pattern, const char *content) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content", content);
}

static json_t *normalizer(const sentencepiece *s) {
    json_t *list = json_array();
    int failed = 0;
    if (s->map.at < s->map.end)
        failed |= json_array_append_new(
            list, json_pack("{s:s, s:o}", "type", "Precompiled", "precompiled_charsmap", base64(s->map)));
    if (s->trims) {
        failed |= json_array_append_new(list, replace("Regex", " {2,}", " "));
        failed |= json_array_append_new(list, replace("Regex", "\\A | \\z", ""));
    }
    if (s->prefix) failed |= json_array_append_new(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", BLANK));
    failed |= json_array_append_new(list, replace("String", " ", BLANK));
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *decoder(const sentencepiece *s) {
    json_t *list =
        json_pack("[o, {s:s}, {s:s}]", replace("String", BLANK, " "), "type", "ByteFallback", "type", "Fuse");
    if (s->prefix && list &&
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1,
                                              "stop", 0))) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

/* Is it of the user, and has U+2581? Then it is found where blanks have become that. */
static int is_spelled(const piece *p) { return p->kind == USER && strstr(json_string_value(p->text), BLANK); }

static int is_added(const piece *p) {
    return p->kind == UNKNOWN || p->kind == CONTROL || (p->kind == USER && !is_spelled(p));
}

static json_t *added_tokens(const sentencepiece *s) {
    json_t *list = json_array();
    for (int i = 0; i < s->count; i++) {
        const piece *p = &s->piece[i];
        if (is_added(p) &&
            json_array_append_new(list, json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id", i, "content", p->text,
                                                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                  "special", p->kind != USER))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int by_length(const void *a, const void *b) {
    const piece *const *p = a, *const *q = b;
    const size_t n = json_string_length((*p)->text), m = json_string_length((*q)->text);
    return n != m ? (n < m ? 1 : -1) : (*p)->id - (*q)->id;
}

/* An alternative of a regular expression. */
static int add_alternative(ll_grown *out, const char *text) {
    ll_status status = out->n ? ll_grown_add(out, "|", 1) : LL_OK;
    for (; *text && !status; text++) {
        if (strchr("\\^$.|?*+()[]{}", *text)) status = ll_grown_add(out, "\\", 1);
        if (!status) status = ll_grown_add(out, text, 1);
    }
    return !status;
}

/* Makes words of such pieces, the longest first; NULL: no memory. */
static json_t *pre_tokenizer(const sentencepiece *s) {
    const piece **order = ll_alloc((size_t)s->count, sizeof *order);
    ll_grown all = {0};
    json_t *json = NULL;
    int n = 0, fine = order != NULL;
    for (int i = 0; i < s->count && fine; i++)
        if (is_spelled(&s->piece[i])) order[n++] = &s->piece[i];
    if (fine) qsort(order, (size_t)n, sizeof *order, by_length);
    for (int i = 0; i < n && fine; i++) fine = add_alternative(&all, json_string_value(order[i]->text));
    if (fine) fine = !ll_grown_add(&all, "", 1);
    if (fine)
        json = n ? json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", (const char *)all.at,
                             "behavior", "Isolated", "invert", 0)
                 : json_null();
    ll_grown_free(&all);
    ll_free(order);
    return json;
}

static json_t *unigram(const sentencepiece *s) {
    json_t *list = json_array(), *unused = json_array();
    int unknown = -1, failed = 0;
    for (int i = 0; i < s->count && !failed; i++) {
        if (s->piece[i].kind == UNKNOWN) unknown = i;
        if (s->piece[i].kind == UNUSED) failed |= json_array_append_new(unused, json_integer(i));
        failed |= json_array_append_new(list, json_pack("[O, f]", s->piece[i].text, s->piece[i].score));
    }
    if (failed) {
        json_decref(list);
        json_decref(unused);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o, s:b, s:o}", "type", "Unigram", "vocab", list, "unk_id",
                     unknown < 0 ? json_null() : json_integer(unknown), "byte_fallback", s->fallback, "unused", unused);
}

static int by_score(const void *a, const void *b) {
    const piece *const *p = a, *const *q = b;
    if ((*p)->score != (*q)->score) return (*p)->score < (*q)->score ? 1 : -1;
    return (*p)->id - (*q)->id;
}

/* All ways to cut the text of a piece into two of the vocabulary. */
static int add_merges(json_t *merges, const json_t *vocab, const piece *p) {
    const char *text = json_string_value(p->text);
    const size_t n = json_string_length(p->text);
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) == 0x80) continue;
        json_t *first = json_stringn(text, i), *second = json_string(text + i);
        int failed = !first || !second;
        if (!failed && json_object_get(vocab, json_string_value(first)) &&
            json_object_get(vocab, json_string_value(second)))
            failed = json_array_append_new(merges, json_pack("[O, O]", first, second));
        json_decref(first);
        json_decref(second);
        if (failed) return 0;
    }
    return 1;
}

static json_t *bpe(const sentencepiece *s) {
    json_t *vocab = json_object(), *merges = json_array(), *unknown = NULL;
    const piece **order = ll_alloc((size_t)s->count, sizeof *order);
    int fine = vocab && merges && order, n = 0, spelled = 0;
    for (int i = 0; i < s->count && fine; i++) {
        const piece *p = &s->piece[i];
        fine = !json_object_set_new(vocab, json_string_value(p->text), json_integer(i));
        if (p->kind == UNKNOWN) unknown = p->text;
        if (p->kind == USUAL) order[n++] = p;
        spelled |= is_spelled(p);
    }
    if (fine) qsort(order, (size_t)n, sizeof *order, by_score);
    for (int i = 0; i < n && fine; i++) fine = add_merges(merges, vocab, order[i]);
    ll_free(order);
    if (!fine) {
        json_decref(vocab);
        json_decref(merges);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o, s:O?, s:b, s:b, s:b}", "type", "BPE", "vocab", vocab, "merges", merges,
                     "unk_token", unknown, "fuse_unk", 1, "byte_fallback", s->fallback, "ignore_merges", spelled);
}

ll_status ll_sentencepiece_compose(json_t **json, const ll_bytes *file, const char *folder) {
    sentencepiece s;
    ll_status status = read_model(&s, file, folder);
    if (!status) {
        *json = json_pack("{s:o, s:o, s:o, s:n, s:o, s:o}", "added_tokens", added_tokens(&s), "normalizer",
                          normalizer(&s), "pre_tokenizer", pre_tokenizer(&s), "post_processor", "decoder", decoder(&s),
                          "model", s.model == BPE ? bpe(&s) : unigram(&s));
        if (!*json) status = ll_fail(LL_ENOMEM, "no memory for the tokenizer of %s", folder);
    }
    for (int i = 0; i < s.count; i++) json_decref(s.piece[i].text);
    ll_free(s.piece);
    return status;
}
