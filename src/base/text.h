/* Text to numbers and back, the same in every locale, and checks of text. A host program may use a locale that writes
 * 0.5 as 0,5. So numbers with a point go through these functions, never through printf and strtod. */
#ifndef LL_TEXT_H
#define LL_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { LL_NUMBER_TEXT = 32 }; /* bytes that are enough for any number */

/* Parses a finite decimal number; 1, or 0 if the text is anything else. */
int ll_parse_integer(int64_t *value, const char *text);
int ll_parse_number(double *value, const char *text);
/* Is it a number too large for a double: inf, 1e400? */
int ll_is_infinite_text(const char *text);
/* Prints a number so that ll_parse_number reads it back exactly: whole numbers below 1e15 as digits, others as short as
 * possible. */
void ll_print_number(char out[LL_NUMBER_TEXT], double value);
/* As snprintf and vsnprintf, in the C locale. */
int ll_format_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ll_format_text_list(char *out, size_t size, const char *format, va_list list) __attribute__((format(printf, 3, 0)));
/* As strtod, in the C locale: the number at the beginning of text; *end is where it ends (end may be NULL). */
double ll_scan_number(const char *text, char **end);

/* The size of UTF-8's byte order mark at the beginning of a file: 3, or 0 if there is none. */
size_t ll_byte_order_mark(const uint8_t *file, size_t n);
/* The character at the beginning of n >= 1 bytes, and how many bytes it has. What is no UTF-8 is -1, one byte long. */
int32_t ll_char_at(const uint8_t *text, size_t n, size_t *bytes);
/* The size of the UTF-8 character at the beginning of n bytes; 0 if there is none or if it is a control character
 * (C0, DEL or C1). */
int ll_utf8_length(const unsigned char *s, size_t n);
/* Does a text end so, and is it longer? */
int ll_text_ends(const char *text, const char *end);
/* Columns of a text on a terminal: bytes that continue a character of UTF-8 take none. */
int ll_text_columns(const char *text);
/* Is it UTF-8 without control characters? Such text may stand in JSON, in a line of INI, and on a terminal. */
int ll_is_plain_text(const char *text);

/* Are the brackets of this JSON, outside of strings, nested more than `most` deep? */
int ll_json_is_deep(const uint8_t *json, size_t size, int most);

#endif
