/* Text and numbers. A host program may use a locale that writes 0.5 as 0,5. Files must not depend on it, so each
 * conversion sets the C locale for its thread and restores the old one. It also rounds to nearest, as the C library
 * follows the rounding of the host. */
#include "base/text.h"

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/status.h"

int ll_parse_integer(int64_t *value, const char *text) {
    if (!*text || text[strspn(text, "+-0123456789")]) return 0;
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || *end) return 0;
    *value = v;
    return 1;
}

/* strtod alone would also accept "inf", "nan", hexadecimal numbers, and text after a space. */
static int parse(double *value, const char *text) {
    if (!*text || text[strspn(text, "+-.eE0123456789")]) return 0;
    char *end;
    const double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v)) return 0;
    *value = v;
    return 1;
}

static void print(char out[LL_NUMBER_TEXT], double value) {
    double back = 0;
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(out, LL_NUMBER_TEXT, "%.0f", value); /* not 1e+04 */
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, LL_NUMBER_TEXT, "%.*g", digits, value);
        if (parse(&back, out) && back == value) return;
    }
}

/* Switches this thread to the C locale and to rounding to nearest, and returns what it had; end_plain restores it. */
typedef struct {
    locale_t plain, old;
    int rounding;
} plain_locale;

static plain_locale begin_plain(void) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const plain_locale l = {plain, uselocale(plain), fegetround()};
    if (l.rounding != FE_TONEAREST) fesetround(FE_TONEAREST);
    return l;
}

static void end_plain(plain_locale l) {
    if (l.rounding != FE_TONEAREST) fesetround(l.rounding);
    uselocale(l.old);
    if (l.plain) freelocale(l.plain);
}

int ll_is_infinite_text(const char *text) {
    char *end;
    const plain_locale l = begin_plain();
    const double v = strtod(text, &end);
    end_plain(l);
    return *text && !*end && isinf(v);
}

int ll_parse_number(double *value, const char *text) {
    const plain_locale l = begin_plain();
    const int ok = parse(value, text);
    end_plain(l);
    return ok;
}

void ll_print_number(char out[LL_NUMBER_TEXT], double value) {
    const plain_locale l = begin_plain();
    print(out, value);
    end_plain(l);
}

int ll_format_text_list(char *out, size_t size, const char *format, va_list list) {
    const plain_locale l = begin_plain();
    const int n = vsnprintf(out, size, format, list);
    end_plain(l);
    return n;
}

int ll_format_text(char *out, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = ll_format_text_list(out, size, format, list);
    va_end(list);
    return n;
}

double ll_scan_number(const char *text, char **end) {
    const plain_locale l = begin_plain();
    const double value = strtod(text, end);
    end_plain(l);
    return value;
}

size_t ll_byte_order_mark(const uint8_t *file, size_t n) { return n >= 3 && !memcmp(file, "\xef\xbb\xbf", 3) ? 3 : 0; }

/* -1 also for an overlong form, a surrogate, and numbers above U+10FFFF. */
int32_t ll_char_at(const uint8_t *text, size_t n, size_t *bytes) {
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = *text;
    const size_t size = first < 0x80   ? 1
                        : first < 0xc0 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf8 ? 4
                                       : 0;
    int32_t c = size == 1 ? first : first & (0x7f >> size);
    *bytes = 1;
    if (!size || size > n) return -1;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) return -1;
        c = c << 6 | (text[i] & 0x3f);
    }
    if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return -1;
    *bytes = size;
    return c;
}

int ll_text_ends(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

int ll_text_columns(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

int ll_utf8_length(const unsigned char *s, size_t n) {
    size_t size = 0;
    const int32_t c = n ? ll_char_at(s, n, &size) : -1;
    return c < 32 || (c >= 0x7f && c < 0xa0) ? 0 : (int)size;
}

int ll_is_plain_text(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    for (size_t left = strlen(text); left;) {
        const int n = ll_utf8_length(s, left);
        if (!n) return 0;
        s += n;
        left -= (size_t)n;
    }
    return 1;
}

/* Damerau's distance, with three rows of the table at a time. */
int ll_edit_distance(const char *a, const char *b) {
    enum { MOST = 63 };
    int rows[3][MOST + 1];
    const int n = (int)strnlen(a, MOST), m = (int)strnlen(b, MOST);
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] = ll_min_int(ll_min_int(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = ll_min_int(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

int ll_json_is_deep(const uint8_t *json, size_t size, int most) {
    int depth = 0, string = 0;
    for (size_t i = 0; i < size; i++) {
        const uint8_t c = json[i];
        if (string) {
            if (c == '\\') i++;
            string = c != '"';
        } else if (c == '"')
            string = 1;
        else if ((c == '{' || c == '[') && ++depth > most)
            return 1;
        else if (c == '}' || c == ']')
            depth--;
    }
    return 0;
}
