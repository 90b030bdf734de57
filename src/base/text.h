/* Text to numbers and back, the same in every locale, and the small checks that text needs. A host program may have a
 * locale that writes 0.5 as 0,5: numbers with a point go through these functions, never through printf and strtod. */
#ifndef LL_TEXT_H
#define LL_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { LL_NUMBER_TEXT = 32 }; /* bytes that hold any number */

/* A whole decimal number and nothing else, finite: 1 and the value, or 0. */
int ll_parse_integer(int64_t *value, const char *text);
int ll_parse_number(double *value, const char *text);
/* Is it a number beyond all others: inf, 1e400? */
int ll_is_infinite_text(const char *text);
/* Text that ll_parse_number reads back as the same number: digits alone of whole ones below 1e15, else the shortest. */
void ll_print_number(char out[LL_NUMBER_TEXT], double value);
/* As snprintf and vsnprintf, in the C locale. */
int ll_format_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ll_format_text_list(char *out, size_t size, const char *format, va_list list) __attribute__((format(printf, 3, 0)));
/* As strtod, in the C locale: the number that text begins with, and where it ends (NULL: nobody asks). */
double ll_scan_number(const char *text, char **end);

/* Bytes of the UTF-8 character at the beginning of n bytes; 0: none is there, or a control character. */
int ll_utf8_length(const unsigned char *s, size_t n);
/* Is it UTF-8 without control characters? Then it can stand in JSON, in a line of INI, on a terminal. */
int ll_is_plain_text(const char *text);

/* Are brackets of this JSON, outside of strings, nested more than `most` deep? */
int ll_json_is_deep(const uint8_t *json, size_t size, int most);

#endif
