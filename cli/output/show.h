/* Results as text: TSV, CSV and JSON. */
#ifndef LL_SHOW_H
#define LL_SHOW_H

#include <stddef.h>

/* Fields are those of CSV (RFC 4180) from now on, not of TSV. */
void ll_put_csv(void);
/* A field; control characters become blanks, and CSV has quotes where it needs them. */
void ll_put_field(const char *text);
/* What stands between fields. */
char ll_field_end(void);
/* A string of JSON with its quotes; bytes that are not UTF-8 become U+FFFD. */
void ll_put_string(const char *text);
/* A number of JSON, or null. */
void ll_put_number(const char *format, double x);
/* The number of bytes of the UTF-8 character at the beginning of n >= 1 bytes; 0: there is none. */
size_t ll_utf8_character(const char *text, size_t n);
/* Names of files and keys may contain any bytes. Replaces those that could steer a terminal or break a line. */
void ll_replace_controls(char *text, size_t n, char with);

#endif
