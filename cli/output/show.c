/* Results as text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sequence/sequences.h"

static int csv;

void ll_put_csv(void) { csv = 1; }

char ll_field_end(void) { return csv ? ',' : '\t'; }

void ll_put_field(const char *text) {
    const int quotes = csv && strpbrk(text, ",\"");
    if (quotes) putchar('"');
    for (; *text; text++) {
        if (quotes && *text == '"') putchar('"');
        putchar((unsigned char)*text < 32 || *text == 127 ? ' ' : *text);
    }
    if (quotes) putchar('"');
}

/* Bytes of the UTF-8 character that begins here, or 0: too long a form, a surrogate, beyond U+10FFFF. */
static int character(const unsigned char *s) {
    const unsigned c = s[0];
    const int n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f)) return 0;
    return (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f) ? 0 : n;
}

void ll_put_string(const char *text) {
    putchar('"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = character(s);
        if (n == 0)
            fputs("\\ufffd", stdout);
        else if (*s < 32)
            printf("\\u%04x", *s);
        else if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else
            fwrite(s, 1, (size_t)n, stdout);
        s += n ? n : 1;
    }
    putchar('"');
}

void ll_put_number(const char *format, double x) {
    if (!isfinite(x)) {
        fputs("null", stdout);
        return;
    }
    char text[400];
    snprintf(text, sizeof text, format, x);
    fputs(text, stdout);
}
