/* Unicode by utf8proc, and regular expressions by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "data/subwords/unicode.h"

ll_status ll_unicode_check(void) { return LL_OK; }

static utf8proc_category_t category(int32_t c) { return c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c); }

int ll_is_letter(int32_t c) {
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

int ll_is_number(int32_t c) {
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

int ll_is_punctuation(int32_t c) {
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

int ll_is_mark(int32_t c) {
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

int ll_is_nonspacing(int32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

/* Letters, marks, digits, numbers that are letters, connectors, joiners; and circled letters, which are symbols. */
int ll_is_word(int32_t c) {
    const utf8proc_category_t k = category(c);
    return ll_is_letter(c) || ll_is_mark(c) || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
           k == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
           (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

int ll_is_control(int32_t c) {
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

ll_status ll_add_lower(ll_grown *out, int32_t c) {
    if (c == 0x130) return ll_grown_add(out, "i\xcc\x87", 3); /* SpecialCasing.txt's only one without a condition */
    return ll_grown_add_char(out, utf8proc_tolower(c));
}

/* ---- Normal forms ---- */

static ll_status add_normal_run(ll_grown *out, const uint8_t *text, size_t n, utf8proc_option_t options) {
    const utf8proc_ssize_t size = (utf8proc_ssize_t)n;
    const utf8proc_ssize_t count = utf8proc_decompose(text, size, NULL, 0, options);
    if (count < 0) return ll_fail(LL_EINVAL, "this text cannot be normalised: %s", utf8proc_errmsg(count));
    utf8proc_int32_t *c = ll_alloc((size_t)count + 1, sizeof *c);
    if (!c) return LL_ENOMEM;
    utf8proc_decompose(text, size, c, count, options);
    const utf8proc_ssize_t left = utf8proc_normalize_utf32(c, count, options);
    ll_status status = LL_OK;
    for (utf8proc_ssize_t i = 0; i < left && !status; i++) status = ll_grown_add_char(out, c[i]);
    ll_free(c);
    return status;
}

/* Characters before this one stay what they are in this form, and so do not have to be looked at. */
static int32_t unchanged(ll_normal_form form) { return form == LL_NFC ? 0x300 : form == LL_NFD ? 0xc0 : 0xa0; }

ll_status ll_add_normal(ll_grown *out, const uint8_t *text, size_t n, ll_normal_form form) {
    const int compose = form == LL_NFC || form == LL_NFKC, compatible = form == LL_NFKC || form == LL_NFKD;
    const utf8proc_option_t options = (utf8proc_option_t)((compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                                          UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
    ll_status status = LL_OK;
    for (size_t i = 0, size; i < n && !status;) {
        size_t end = i;
        int plain = 1;
        int32_t c = 0;
        while (end < n && (c = ll_char_at(text + end, n - end, &size)) >= 0) {
            if (c >= unchanged(form)) plain = 0;
            end += size;
        }
        status = plain ? ll_grown_add(out, text + i, end - i) : add_normal_run(out, text + i, end - i, options);
        for (i = end; i < n && !status && ll_char_at(text + i, n - i, &size) < 0; i++)
            status = ll_grown_add(out, text + i, 1);
    }
    return status;
}

/* ---- Regular expressions ---- */

struct ll_regex {
    pcre2_code *code;
};

struct ll_regex_walk {
    const ll_regex *regex;
    const uint8_t *text;
    size_t n, at, run, valid; /* text[run, valid) is UTF-8, of which text[run, at) is done */
    pcre2_match_data *data;
};

static void *allocate(size_t n, void *unused) {
    (void)unused;
    return ll_alloc(n, 1);
}

static void release(void *p, void *unused) {
    (void)unused;
    ll_free(p);
}

/* PCRE2's \s has U+180E, which is no White_Space; its \w lacks marks and has numbers that are no digits; its \h is a
 * blank, and not a hexadecimal digit. Within brackets \S and \W stay as they are. */
static const char *class_of(char letter) {
    if (letter == 's' || letter == 'S') return "\\t-\\r\\x{85}\\p{Z}";
    if (letter == 'h' || letter == 'H') return "0-9A-Fa-f";
    if (letter != 'w' && letter != 'W') return NULL;
    return "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
           "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
}

/* The size of what opens brackets, "[", "[^", "[]" or "[^]", where a "]" is itself; or of "[:alpha:]" within them. 0:
 * it is a set within a set, which PCRE2 has not. */
static size_t opening(const char *p, int bracket) {
    const char *end = bracket && p[1] == ':' ? strstr(p, ":]") : NULL;
    const size_t n = p[1] == '^' ? 2 : 1;
    if (bracket) return end ? (size_t)(end + 2 - p) : 0;
    return n + (p[n] == ']');
}

static ll_status unlike(const char *name, const char *pattern, const char *what) {
    return ll_fail(LL_EFORMAT, "%s: the regular expression \"%.80s\" of its tokenizer has %s, which is not supported",
                   name, pattern, what);
}

/* The size of an escape, as \p{L}, whose braces are no quantifier. */
static size_t escape(const char *p) {
    const char *end = p[1] && strchr("pPxX", p[1]) && p[2] == '{' ? strchr(p, '}') : NULL;
    return end ? (size_t)(end + 1 - p) : p[1] ? 2 : 1;
}

/* The size of a quantifier in braces; 0: it is none. */
static size_t quantifier(const char *p) {
    const size_t n = *p == '{' ? strspn(p + 1, "0123456789,") : 0;
    return n && p[n + 1] == '}' && strcspn(p + 1, "0123456789") < n ? n + 2 : 0;
}

/* "{2}+" repeats what is repeated, and "{2}?" is there or not; in PCRE2 these are possessive and reluctant. */
static int is_unlike(const char *p, size_t n) { return p[n] == '+' || (p[n] == '?' && !memchr(p, ',', n)); }

/* The size of "(?im-x" in front of ")" or ":"; 0: it is none. */
static size_t options(const char *p) {
    const size_t n = p[0] == '(' && p[1] == '?' ? strspn(p + 2, "imx-") : 0;
    return n && (p[n + 2] == ')' || p[n + 2] == ':') ? n + 2 : 0;
}

/* Adds a part outside of brackets. "{,3}" is "{0,3}", and what m is for is s in PCRE2. */
static ll_status add_part(ll_grown *out, const char *p, size_t *size) {
    const size_t braces = quantifier(p), letters = options(p);
    ll_status status = LL_OK;
    if (braces && p[1] == ',') {
        *size = 1;
        return ll_grown_add(out, "{0", 2);
    }
    if (letters) *size = letters;
    for (size_t i = 0; i < *size && !status; i++) status = ll_grown_add(out, letters && p[i] == 'm' ? "s" : p + i, 1);
    return status;
}

static ll_status translate(ll_grown *out, const char *pattern, const char *name) {
    int bracket = 0;
    ll_status status = LL_OK;
    for (const char *p = pattern; *p && !status; p++) {
        const char *class = *p == '\\' ? class_of(p[1]) : NULL;
        const int not = class && p[1] < 'a';
        const size_t braces = bracket ? 0 : quantifier(p);
        if (braces && is_unlike(p, braces)) return unlike(name, pattern, "\"+\" or \"?\" after \"{n}\"");
        if (bracket && class && p[1] == 'H') return unlike(name, pattern, "\\H within brackets");
        if (bracket && p[0] == '&' && p[1] == '&') return unlike(name, pattern, "&& within brackets");
        if (class && !(not && bracket)) {
            if (!bracket) status = ll_grown_add(out, not ? "[^" : "[", not ? 2 : 1);
            if (!status) status = ll_grown_add(out, class, strlen(class));
            if (!status && !bracket) status = ll_grown_add(out, "]", 1);
            p++;
            continue;
        }
        size_t size = *p == '\\' ? escape(p) : 1;
        if (*p == '[' && !(size = opening(p, bracket))) return unlike(name, pattern, "another set within brackets");
        status = bracket || *p == '[' ? ll_grown_add(out, p, size) : add_part(out, p, &size);
        if (*p == '[') bracket = 1;
        if (*p == ']') bracket = 0;
        p += size - 1;
    }
    return status;
}

ll_status ll_regex_create(ll_regex **out, const char *pattern, const char *name) {
    int error = 0;
    PCRE2_SIZE at = 0;
    ll_grown translated = {0};
    ll_regex *r = ll_alloc(1, sizeof *r);
    pcre2_general_context *memory = pcre2_general_context_create(allocate, release, NULL);
    pcre2_compile_context *how = memory ? pcre2_compile_context_create(memory) : NULL;
    ll_status status = r && how ? translate(&translated, pattern, name) : LL_ENOMEM;
    if (!status) {
        r->code = pcre2_compile(translated.at ? translated.at : (const uint8_t *)"", translated.n,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, how);
        if (r->code) {
            pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* where it fails, the interpreter matches */
        } else {
            PCRE2_UCHAR why[120] = "";
            pcre2_get_error_message(error, why, sizeof why);
            status = error == PCRE2_ERROR_NOMEMORY || error == 121
                         ? LL_ENOMEM
                         : ll_fail(LL_EFORMAT, "%s: the regular expression \"%.80s\" is none: %s", name, pattern,
                                   (const char *)why);
        }
    }
    pcre2_compile_context_free(how);
    pcre2_general_context_free(memory);
    ll_grown_free(&translated);
    if (status)
        ll_regex_free(r);
    else
        *out = r;
    return status;
}

void ll_regex_free(ll_regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    ll_free(r);
}

ll_status ll_regex_begin(ll_regex_walk **out, const ll_regex *regex, const uint8_t *text, size_t n) {
    pcre2_general_context *memory = pcre2_general_context_create(allocate, release, NULL);
    ll_regex_walk *w = ll_alloc(1, sizeof *w);
    if (w) *w = (ll_regex_walk){.regex = regex, .text = text, .n = n};
    if (w && memory) w->data = pcre2_match_data_create(1, memory);
    pcre2_general_context_free(memory);
    if (!w || !w->data) {
        ll_free(w);
        return LL_ENOMEM;
    }
    *out = w;
    return LL_OK;
}

/* The next run of UTF-8; 0: there is none. */
static int next_run(ll_regex_walk *w) {
    size_t size;
    for (w->at = w->valid; w->at < w->n && ll_char_at(w->text + w->at, w->n - w->at, &size) < 0;) w->at++;
    for (w->valid = w->at; w->valid < w->n && ll_char_at(w->text + w->valid, w->n - w->valid, &size) >= 0;)
        w->valid += size;
    w->run = w->at;
    return w->at < w->valid;
}

/* Only the run is given to PCRE2, which also looks back from w->at and takes all that it sees for UTF-8. */
static int match(const ll_regex_walk *w, uint32_t more) {
    return pcre2_match(w->regex->code, w->text + w->run, w->valid - w->run, w->at - w->run,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | more, w->data, NULL);
}

ll_status ll_regex_next(ll_regex_walk *w, size_t *begin, size_t *end) {
    *begin = *end = w->n;
    while (w->at < w->valid || next_run(w)) {
        int found = match(w, 0);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(w, PCRE2_NO_JIT);
        if (found >= 0) {
            const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->data);
            *begin = w->run + at[0], *end = w->run + at[1];
            if (*begin < w->at || *end <= *begin || *end > w->valid)
                return ll_fail(LL_EFORMAT, "a regular expression of the tokenizer matches backwards");
            w->at = *end;
            return LL_OK;
        }
        if (found == PCRE2_ERROR_NOMEMORY) return LL_ENOMEM;
        if (found != PCRE2_ERROR_NOMATCH)
            return ll_fail(LL_EINVAL, "a regular expression of the tokenizer gives up on this text (PCRE2: %d)", found);
        w->at = w->valid;
    }
    return LL_OK;
}

void ll_regex_end(ll_regex_walk *w) {
    if (!w) return;
    pcre2_match_data_free(w->data);
    ll_free(w);
}
