/* Steps that cut a text into words, which models then cut into tokens one by one. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

enum { STEPS_MOST = 16 };

/* What a step looks for. */
typedef enum { BY_REGEX, BY_TEXT, BY_WHITE, BY_PUNCTUATION, BY_BERT_PUNCTUATION, BY_DIGIT, BY_NOTHING } match_kind;
/* What becomes of it: a word of its own, nothing, part of the word before or after; or runs of the same sort are one.
 */
typedef enum { ISOLATED, REMOVED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS } behaviour;

typedef struct {
    match_kind kind;
    behaviour does;
    int invert;
    ll_regex *regex;
    ll_grown pattern;  /* BY_TEXT; of a Metaspace: what a blank becomes */
    int blank;         /* a blank goes before a text that has none: 1: always, 2: before the first alone */
    int spells_blanks; /* Metaspace: blanks become the pattern */
} step;

struct ll_pretokenizer {
    step *step;
    int steps, bytes;
};

/* ---- Reading ---- */

static ll_status read_behaviour(step *s, const json_t *part, const char *name) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *does = ll_part_text(part, "behavior", "Isolated");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], does)) {
            s->does = (behaviour)i;
            return LL_OK;
        }
    return ll_fail(LL_EFORMAT, "%s: its tokenizer has the behavior \"%.60s\", which is not supported", name, does);
}

static ll_status read_split(step *s, const json_t *part, const char *name) {
    int regex = 0;
    const char *text = "";
    ll_status status = ll_part_pattern(part, name, &regex, &text);
    if (!status) status = read_behaviour(s, part, name);
    s->kind = regex ? BY_REGEX : BY_TEXT;
    s->invert = ll_part_flag(part, "invert", 0);
    if (status) return status;
    return regex ? ll_regex_create(&s->regex, text, name) : ll_grown_add(&s->pattern, text, strlen(text));
}

static ll_status read_metaspace(step *s, const json_t *part, const char *name) {
    const char *spelled;
    const ll_status status = ll_part_metaspace(part, name, &spelled);
    const char *scheme =
        ll_part_text(part, "prepend_scheme", ll_part_flag(part, "add_prefix_space", 1) ? "always" : "never");
    s->kind = ll_part_flag(part, "split", 1) ? BY_TEXT : BY_NOTHING;
    s->does = WITH_NEXT;
    s->spells_blanks = 1;
    s->blank = !strcmp(scheme, "always") ? 1 : !strcmp(scheme, "first") ? 2 : 0;
    return status ? status : ll_grown_add(&s->pattern, spelled, strlen(spelled));
}

static ll_status read_byte_level(ll_pretokenizer *p, step *s, const json_t *part, const char *name) {
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    p->bytes = 1;
    s->blank = ll_part_flag(part, "add_prefix_space", 1);
    s->kind = ll_part_flag(part, "use_regex", 1) ? BY_REGEX : BY_NOTHING;
    return s->kind == BY_REGEX ? ll_regex_create(&s->regex, gpt2, name) : LL_OK;
}

static step *next_step(ll_pretokenizer *p) { return p->steps < STEPS_MOST ? &p->step[p->steps++] : NULL; }

static ll_status read_step(ll_pretokenizer *p, const json_t *part, const char *name) {
    const char *type = ll_part_type(part);
    if (p->bytes) return ll_fail(LL_EFORMAT, "%s: its tokenizer has a pre_tokenizer after ByteLevel", name);
    step *s = next_step(p);
    if (!s) return ll_fail(LL_EFORMAT, "%s: its tokenizer has more than %d pre_tokenizers", name, STEPS_MOST);
    if (!strcmp(type, "ByteLevel")) return read_byte_level(p, s, part, name);
    if (!strcmp(type, "Split")) return read_split(s, part, name);
    if (!strcmp(type, "Metaspace")) return read_metaspace(s, part, name);
    if (!strcmp(type, "Whitespace")) {
        s->invert = 1, s->does = REMOVED;
        return ll_regex_create(&s->regex, "\\w+|[^\\w\\s]+", name);
    }
    s->kind = BY_WHITE, s->does = REMOVED;
    if (!strcmp(type, "WhitespaceSplit")) return LL_OK;
    if (!strcmp(type, "BertPreTokenizer")) {
        if (!(s = next_step(p))) return ll_part_unknown(name, "pre_tokenizer", part);
        s->kind = BY_BERT_PUNCTUATION, s->does = ISOLATED;
        return LL_OK;
    }
    s->kind = BY_BERT_PUNCTUATION;
    if (!strcmp(type, "Punctuation")) return read_behaviour(s, part, name);
    s->kind = BY_DIGIT, s->does = ll_part_flag(part, "individual_digits", 0) ? ISOLATED : CONTIGUOUS;
    return strcmp(type, "Digits") ? ll_part_unknown(name, "pre_tokenizer", part) : LL_OK;
}

static ll_status read_all(ll_pretokenizer *p, const json_t *part, const char *name, int depth) {
    const json_t *one;
    ll_status status = LL_OK;
    for (size_t i = 0; !status && (one = ll_part_at(part, "pretokenizers", i)); i++)
        status = !strcmp(ll_part_type(one), "Sequence") && one != part && depth < 4 ? read_all(p, one, name, depth + 1)
                                                                                    : read_step(p, one, name);
    return status;
}

ll_status ll_pretokenizer_create(ll_pretokenizer **out, const json_t *part, const char *name) {
    ll_pretokenizer *p = ll_alloc(1, sizeof *p);
    if (!p) return LL_ENOMEM;
    p->step = ll_alloc(STEPS_MOST, sizeof *p->step);
    const ll_status status = p->step ? read_all(p, part, name, 0) : LL_ENOMEM;
    if (status)
        ll_pretokenizer_free(p);
    else
        *out = p;
    return status;
}

void ll_pretokenizer_free(ll_pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < p->steps; i++) {
        ll_regex_free(p->step[i].regex);
        ll_grown_free(&p->step[i].pattern);
    }
    ll_free(p->step);
    ll_free(p);
}

int ll_pretokenizer_is_bytes(const ll_pretokenizer *p) { return p->bytes; }

/* ---- One step on one word ---- */

/* A walk over a word, match by match. */
typedef struct {
    const step *s;
    ll_regex_walk *walk;
    const uint8_t *text;
    size_t n, at;
} search;

static int is_bert_punctuation(int32_t c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~') ||
           (c >= 0x80 && ll_is_punctuation(c));
}

static int is_match(match_kind kind, int32_t c) {
    switch (kind) {
    case BY_WHITE: return ll_is_white(c);
    case BY_DIGIT: return (c >= '0' && c <= '9') || (c >= 0x80 && ll_is_number(c));
    default: return is_bert_punctuation(c);
    }
}

static ll_status next_match(search *x, size_t *begin, size_t *end) {
    size_t size = 0;
    *begin = *end = x->n;
    if (x->s->kind == BY_REGEX) return ll_regex_next(x->walk, begin, end);
    if (x->s->kind == BY_NOTHING) return LL_OK;
    if (x->s->kind == BY_TEXT) {
        const uint8_t *found = memmem(x->text + x->at, x->n - x->at, x->s->pattern.at, x->s->pattern.n);
        if (found) *begin = (size_t)(found - x->text), *end = *begin + x->s->pattern.n;
    } else {
        for (size_t i = x->at; i < x->n; i += size)
            if (is_match(x->s->kind, ll_char_at(x->text + i, x->n - i, &size))) {
                *begin = i, *end = i + size;
                break;
            }
    }
    x->at = *end;
    return LL_OK;
}

/* The word that is being put together: text[begin, end). */
typedef struct {
    const step *s;
    ll_word_list *out;
    const uint8_t *text;
    size_t begin, end;
    int matched; /* was its last part a match? */
} building;

static ll_status finish(building *b) {
    const ll_status status = ll_word_add(b->out, b->text + b->begin, b->end - b->begin);
    b->begin = b->end;
    return status;
}

/* The next part of the word, which matches or does not. */
static ll_status take(building *b, size_t end, int matched) {
    const int had = b->matched, begins = b->begin == b->end;
    if (end == b->end) return LL_OK;
    if (b->s->invert) matched = !matched;
    b->matched = matched;
    const int joins =
        !begins && ((b->s->does == WITH_PREVIOUS && matched && !had) || (b->s->does == WITH_NEXT && had && !matched) ||
                    (b->s->does == CONTIGUOUS && matched == had));
    ll_status status = joins ? LL_OK : finish(b);
    b->end = end;
    if (b->s->does == REMOVED && matched) b->begin = end;
    return status;
}

static ll_status cut(const step *s, ll_word_list *out, const uint8_t *text, size_t n) {
    search x = {.s = s, .text = text, .n = n};
    building b = {.s = s, .out = out, .text = text};
    size_t begin = 0, end = 0;
    ll_status status = s->kind == BY_REGEX ? ll_regex_begin(&x.walk, s->regex, text, n) : LL_OK;
    while (!status && end < n) {
        status = next_match(&x, &begin, &end);
        if (!status) status = take(&b, begin, 0);
        if (!status) status = take(&b, end, 1);
    }
    ll_regex_end(x.walk);
    return status ? status : finish(&b);
}

/* The word with blanks as the step has them. */
static ll_status spell(const step *s, ll_grown *out, const uint8_t *word, size_t n, int first) {
    const ll_grown plain = {(uint8_t[]){' '}, 1, 1}, *blank = s->spells_blanks ? &s->pattern : &plain;
    const int has = *word == ' ' || (n >= blank->n && !memcmp(word, blank->at, blank->n));
    const ll_status status =
        s->blank && !has && (s->blank == 1 || first) ? ll_grown_add(out, blank->at, blank->n) : LL_OK;
    return status ? status : ll_add_replaced(out, word, n, &plain, blank);
}

static ll_status apply(const step *s, ll_word_list *out, const ll_word_list *in, int first) {
    ll_grown spelled = {0};
    ll_status status = LL_OK;
    for (size_t i = 0, begin = 0; i < in->n && !status; begin = in->end[i++]) {
        const uint8_t *word = in->text.at + begin;
        const size_t n = in->end[i] - begin;
        if (!s->blank && !s->spells_blanks) {
            status = cut(s, out, word, n);
            continue;
        }
        spelled.n = 0;
        status = spell(s, &spelled, word, n, first && i == 0);
        if (!status) status = cut(s, out, spelled.at, spelled.n);
    }
    ll_grown_free(&spelled);
    return status;
}

ll_status ll_pretokenize(const ll_pretokenizer *p, ll_word_list *words, const uint8_t *text, size_t n, int first) {
    ll_word_list now = {0}, next = {0};
    ll_status status = ll_word_add(p->steps ? &now : words, text, n);
    for (int i = 0; i < p->steps && !status; i++) {
        status = apply(&p->step[i], i == p->steps - 1 ? words : &next, &now, first);
        const ll_word_list used = now;
        now = next;
        next = used;
        next.n = next.text.n = 0;
    }
    ll_word_list_free(&now);
    ll_word_list_free(&next);
    return status;
}
