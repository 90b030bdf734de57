/* INI text, the notation of recipes and tables of systems: sections in brackets; lines "key = value"; comments from #
 * or ; at the start of a line or after a space; quotes around values that contain such characters. */
#ifndef LL_INI_H
#define LL_INI_H

#include "base/status.h"

/* Is called for every key, and with key and value NULL at the start of a section. section is "" before the first. If it
 * fails, the name of the text and the line are put before its error. */
typedef ll_status ll_ini_fn(void *arg, const char *section, const char *key, const char *value, int line);

/* name: how errors call the text. LL_EFORMAT if it is not INI text. */
LL_MUST_USE ll_status ll_ini_parse(const char *text, const char *name, ll_ini_fn *each, void *arg);
LL_MUST_USE ll_status ll_ini_load(const char *path, ll_ini_fn *each, void *arg);

/* The value that begins here, taken out in place: without the spaces around it and without quotes ("" inside quotes is
 * one quote). If `comments`, an unquoted value ends before " #" or " ;". NULL if a quote is not closed. */
char *ll_ini_trim(char *text, int comments);
/* Does this value need quotes? */
int ll_ini_quoted(const char *value);

#endif
