/* Macros for the rows of a table of keys. A file with a table defines PART, the struct that has the fields, and then
 * includes this. */
#ifndef LL_KEY_TABLE_H
#define LL_KEY_TABLE_H

#include "base/key.h"

/* INT_IF and others have as their last arguments what the key needs, or NULL, and RESUMABLE if a resumed run may change
 * it (ll_recipe_key). */
#define RESUMABLE 1
#define RANGE(help, lo, hi) help " (" #lo " to " #hi ")"
#define KEY(name, word, type, field, fallback, choices, lo, hi, help, ...)                                             \
    { {name, word, fallback, choices, help, __VA_ARGS__}, type, offsetof(PART, field), (double)(lo), (double)(hi) }
#define INT_IF(name, field, fallback, lo, hi, help, ...)                                                               \
    KEY(name, "integer", LL_KEY_INT, field, fallback, NULL, lo, hi, RANGE(help, lo, hi), __VA_ARGS__)
#define INT64_IF(name, field, fallback, lo, hi, help, ...)                                                             \
    KEY(name, "integer", LL_KEY_INT64, field, fallback, NULL, lo, hi, RANGE(help, lo, hi), __VA_ARGS__)
#define NUMBER_IF(name, field, fallback, lo, hi, help, ...)                                                            \
    KEY(name, "number", LL_KEY_NUMBER, field, fallback, NULL, lo, hi, RANGE(help, lo, hi), __VA_ARGS__)
#define FLAG_IF(name, field, fallback, help, ...)                                                                      \
    KEY(name, "flag", LL_KEY_FLAG, field, fallback, "on|off", 0, 1, help, __VA_ARGS__)
#define TEXT_IF(name, field, help, ...) KEY(name, "text", LL_KEY_TEXT, field, "", NULL, 0, 0, help, __VA_ARGS__)
#define CHOICE_IF(name, field, fallback, choices, help, ...)                                                           \
    KEY(name, "choice", LL_KEY_CHOICE, field, fallback, choices, 0, 0, help, __VA_ARGS__)

#define INT(...) INT_IF(__VA_ARGS__, NULL)
#define INT64(...) INT64_IF(__VA_ARGS__, NULL)
#define NUMBER(...) NUMBER_IF(__VA_ARGS__, NULL)
#define FLAG(...) FLAG_IF(__VA_ARGS__, NULL)
#define TEXT(...) TEXT_IF(__VA_ARGS__, NULL)
#define CHOICE(...) CHOICE_IF(__VA_ARGS__, NULL)

#endif
