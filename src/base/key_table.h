/* Macros for the rows of a table of keys. A file with a table defines PART, the struct that has the fields, and then
 * includes this. */
#ifndef LL_KEY_TABLE_H
#define LL_KEY_TABLE_H

#include "base/key.h"

#define RANGE(help, lo, hi) help " (" #lo " to " #hi ")"
#define KEY(name, word, type, field, fallback, choices, lo, hi, help)                                                  \
    { {name, word, fallback, choices, help}, type, offsetof(PART, field), (double)(lo), (double)(hi) }
#define INT(name, field, fallback, lo, hi, help)                                                                       \
    KEY(name, "integer", LL_KEY_INT, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define INT64(name, field, fallback, lo, hi, help)                                                                     \
    KEY(name, "integer", LL_KEY_INT64, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define NUMBER(name, field, fallback, lo, hi, help)                                                                    \
    KEY(name, "number", LL_KEY_NUMBER, field, fallback, NULL, lo, hi, RANGE(help, lo, hi))
#define FLAG(name, field, fallback, help) KEY(name, "flag", LL_KEY_FLAG, field, fallback, "on|off", 0, 1, help)
#define TEXT(name, field, help) KEY(name, "text", LL_KEY_TEXT, field, "", NULL, 0, 0, help)
#define CHOICE(name, field, fallback, choices, help)                                                                   \
    KEY(name, "choice", LL_KEY_CHOICE, field, fallback, choices, 0, 0, help)

#endif
