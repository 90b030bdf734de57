/* Results as text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output/show.h"

static int csv;

void ll_put_csv(void) { csv = 1; }

char ll_field_end(void) { return csv ? ',' : '\t'; }

size_t ll_utf8_character(const char *text, size_t n) {
    const unsigned char *t = (const unsigned char *)text;
    const size_t size = *t < 0x80 ? 1 : *t < 0xc2 ? 0 : *t < 0xe0 ? 2 : *t < 0xf0 ? 3 : *t < 0xf5 ? 4 : 0;
    if (!size || size > n) return 0;
    for (size_t i = 1; i < size; i++)
        if ((t[i] & 0xc0) != 0x80) return 0;
    /* A longer form than is needed, a surrogate, or beyond U+10FFFF. */
    if (size == 3 && ((*t == 0xe0 && t[1] < 0xa0) || (*t == 0xed && t[1] >= 0xa0))) return 0;
    if (size == 4 && ((*t == 0xf0 && t[1] < 0x90) || (*t == 0xf4 && t[1] >= 0x90))) return 0;
    return size;
}

/* The number of bytes of the first character, 1 where they are not UTF-8. control: could it steer a terminal? */
static size_t first_character(const char *text, size_t n, int *control) {
    const unsigned char c = (unsigned char)*text;
    const size_t size = ll_utf8_character(text, n);
    const int one = c < 32 || c == 127 || (!size && c >= 0x80 && c < 0xa0);
    *control = one || (size == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0); /* U+0080 to U+009F */
    return size ? size : 1;
}

void ll_replace_controls(char *text, size_t n, char with) {
    for (size_t i = 0, bytes; i < n; i += bytes) {
        int control;
        bytes = first_character(text + i, n - i, &control);
        if (control) memset(text + i, with, bytes);
    }
}

void ll_put_field(const char *text) {
    const int quotes = csv && strpbrk(text, ",\"");
    if (quotes) putchar('"');
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        int control;
        if (quotes && *text == '"') putchar('"');
        n = first_character(text, left, &control);
        if (control)
            putchar(' ');
        else
            fwrite(text, 1, n, stdout);
    }
    if (quotes) putchar('"');
}

void ll_put_string(const char *text) {
    putchar('"');
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        const unsigned char c = (unsigned char)*text;
        n = ll_utf8_character(text, left);
        if (!n)
            fputs("\\ufffd", stdout), n = 1;
        else if (c < 32)
            printf("\\u%04x", c);
        else if (c == '"' || c == '\\')
            printf("\\%c", c);
        else
            fwrite(text, 1, n, stdout);
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
