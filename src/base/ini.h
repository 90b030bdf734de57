/* INI text, as recipes and tables of systems are written: sections in brackets, "key = value" lines, comments from # or
 * ; at the start of a line or after a space, values in quotes where they contain such things. */
#ifndef LL_INI_H
#define LL_INI_H

#include "base/status.h"

/* Called for every key, and with key and value NULL where a section begins; section is "" before the first. What it
 * says of a failure gets the file and the line in front. */
typedef ll_status ll_ini_fn(void *arg, const char *section, const char *key, const char *value, int line);

/* name: what errors call the text. LL_EFORMAT for what is no such text. */
LL_MUST_USE ll_status ll_ini_parse(const char *text, const char *name, ll_ini_fn *each, void *arg);
LL_MUST_USE ll_status ll_ini_load(const char *path, ll_ini_fn *each, void *arg);

/* The value that begins here, in place: without spaces around it, and out of its quotes ("" in them is one
 * quote). comments: ends before " #" or " ;" where it is not quoted. NULL if a quote is left open. */
char *ll_ini_trim(char *text, int comments);
/* Must this value be written in quotes? */
int ll_ini_quoted(const char *value);

#endif
