/* Steps that change a text before it is cut into words. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

enum { STEPS_MOST = 32 };

typedef enum { NORMAL, LOWER, ACCENTS, STRIP, REPLACE, PREPEND, BERT, CHARSMAP } step_kind;

typedef struct {
    step_kind kind;
    ll_normal_form form;
    int left, right; /* STRIP */
    ll_bert_rules bert;
    ll_regex *regex;   /* REPLACE: or else `from` */
    ll_grown from, to; /* REPLACE; PREPEND: to */
    ll_grown map;      /* CHARSMAP */
} step;

struct ll_normalizer {
    step *step;
    int steps;
};

static ll_status read_replace(step *s, const json_t *part, const char *name) {
    int regex = 0;
    const char *text = "", *to = ll_part_text(part, "content", "");
    ll_status status = ll_part_pattern(part, name, &regex, &text);
    if (!status) status = regex ? ll_regex_create(&s->regex, text, name) : ll_grown_add(&s->from, text, strlen(text));
    return status ? status : ll_grown_add(&s->to, to, strlen(to));
}

static ll_status read_step(step *s, const json_t *part, const char *name) {
    static const struct {
        const char *type;
        step_kind kind;
        ll_normal_form form;
    } types[] = {{"NFC", NORMAL, LL_NFC},     {"NFD", NORMAL, LL_NFD},     {"NFKC", NORMAL, LL_NFKC},
                 {"NFKD", NORMAL, LL_NFKD},   {"Lowercase", LOWER, 0},     {"StripAccents", ACCENTS, 0},
                 {"Strip", STRIP, 0},         {"Replace", REPLACE, 0},     {"Prepend", PREPEND, 0},
                 {"BertNormalizer", BERT, 0}, {"Precompiled", CHARSMAP, 0}};
    size_t i = 0;
    while (i < sizeof types / sizeof *types && strcmp(types[i].type, ll_part_type(part))) i++;
    if (i == sizeof types / sizeof *types) return ll_part_unknown(name, "normalizer", part);
    s->kind = types[i].kind;
    s->form = types[i].form;
    s->left = ll_part_flag(part, "strip_left", 1);
    s->right = ll_part_flag(part, "strip_right", 1);
    const int lower = ll_part_flag(part, "lowercase", 1);
    s->bert = (ll_bert_rules){ll_part_flag(part, "clean_text", 1), ll_part_flag(part, "handle_chinese_chars", 1),
                              ll_part_flag(part, "strip_accents", lower), lower};
    if (s->kind == REPLACE) return read_replace(s, part, name);
    if (s->kind == PREPEND) {
        const char *text = ll_part_text(part, "prepend", "");
        return ll_grown_add(&s->to, text, strlen(text));
    }
    if (s->kind != CHARSMAP) return LL_OK;
    const ll_status status = ll_part_base64(&s->map, ll_part_text(part, "precompiled_charsmap", ""), name);
    return status ? status : ll_charsmap_check(&s->map, name);
}

/* Reads a part, and those within it. */
static ll_status read_all(ll_normalizer *n, const json_t *part, const char *name, int depth) {
    const json_t *one;
    ll_status status = LL_OK;
    for (size_t i = 0; !status && (one = ll_part_at(part, "normalizers", i)); i++) {
        if (!strcmp(ll_part_type(one), "Sequence") && one != part && depth < 4) {
            status = read_all(n, one, name, depth + 1);
        } else if (n->steps == STEPS_MOST) {
            status = ll_fail(LL_EFORMAT, "%s: its tokenizer has more than %d normalizers", name, STEPS_MOST);
        } else {
            status = read_step(&n->step[n->steps++], one, name);
        }
    }
    return status;
}

ll_status ll_normalizer_create(ll_normalizer **out, const json_t *part, const char *name) {
    ll_normalizer *n = ll_alloc(1, sizeof *n);
    if (!n) return LL_ENOMEM;
    n->step = ll_alloc(STEPS_MOST, sizeof *n->step);
    const ll_status status = n->step ? read_all(n, part, name, 0) : LL_ENOMEM;
    if (status)
        ll_normalizer_free(n);
    else
        *out = n;
    return status;
}

void ll_normalizer_free(ll_normalizer *n) {
    if (!n) return;
    for (int i = 0; i < n->steps; i++) {
        ll_regex_free(n->step[i].regex);
        ll_grown_free(&n->step[i].from);
        ll_grown_free(&n->step[i].to);
        ll_grown_free(&n->step[i].map);
    }
    ll_free(n->step);
    ll_free(n);
}

ll_status ll_add_replaced(ll_grown *out, const uint8_t *text, size_t n, const ll_grown *from, const ll_grown *to) {
    ll_status status = LL_OK;
    size_t at = 0;
    while (at < n && !status) {
        const uint8_t *found = memmem(text + at, n - at, from->at, from->n);
        const size_t stop = found ? (size_t)(found - text) : n;
        status = ll_grown_add(out, text + at, stop - at);
        if (!status && found) status = ll_grown_add(out, to->at, to->n);
        at = found ? stop + from->n : n;
    }
    return status;
}

static ll_status replace_regex(const step *s, ll_grown *out, const uint8_t *text, size_t n) {
    ll_regex_walk *walk = NULL;
    size_t at = 0, begin = 0, end = 0;
    ll_status status = ll_regex_begin(&walk, s->regex, text, n);
    while (!status && at < n) {
        status = ll_regex_next(walk, &begin, &end);
        if (!status) status = ll_grown_add(out, text + at, begin - at);
        if (!status && begin < n) status = ll_grown_add(out, s->to.at, s->to.n);
        at = end;
    }
    ll_regex_end(walk);
    return status;
}

static ll_status strip(const step *s, ll_grown *out, const uint8_t *text, size_t n) {
    size_t begin = 0, end = 0, size;
    while (s->left && begin < n && ll_is_white(ll_char_at(text + begin, n - begin, &size))) begin += size;
    for (size_t i = begin; i < n; i += size) {
        const int32_t c = ll_char_at(text + i, n - i, &size);
        if (!s->right || !ll_is_white(c)) end = i + size;
    }
    return end > begin ? ll_grown_add(out, text + begin, end - begin) : LL_OK;
}

static ll_status apply(const step *s, ll_grown *out, const uint8_t *text, size_t n) {
    switch (s->kind) {
    case NORMAL: return ll_add_normal(out, text, n, s->form);
    case LOWER: return ll_lower_all(out, text, n);
    case ACCENTS: return ll_strip_marks(out, text, n, 1);
    case STRIP: return strip(s, out, text, n);
    case REPLACE: return s->regex ? replace_regex(s, out, text, n) : ll_add_replaced(out, text, n, &s->from, &s->to);
    case PREPEND: {
        const ll_status status = n ? ll_grown_add(out, s->to.at, s->to.n) : LL_OK;
        return status ? status : ll_grown_add(out, text, n);
    }
    case BERT: return ll_bert_normalize(&s->bert, out, text, n);
    default: return ll_charsmap_apply(&s->map, out, text, n);
    }
}

ll_status ll_normalize(const ll_normalizer *n, ll_grown *out, const uint8_t *text, size_t size, size_t most) {
    ll_grown now = {.most = most}, next = now;
    ll_status status = n->steps ? LL_OK : ll_grown_add(out, text, size);
    out->most = out->n + most;
    for (int i = 0; i < n->steps && !status; i++) {
        const int last = i == n->steps - 1;
        status = apply(&n->step[i], last ? out : &next, i ? now.at : text, i ? now.n : size);
        if (status == LL_EINVAL)
            status = ll_fail(status, "step %d of the tokenizer's normalizer: %s", i + 1, ll_error());
        const ll_grown used = now;
        now = next;
        next = used;
        next.n = 0;
    }
    out->most = 0;
    ll_grown_free(&now);
    ll_grown_free(&next);
    return status;
}
