/* Keys: fields of a struct that are set from text and printed as text by name. One table has everything about each key:
 * type, default, range and help. */
#ifndef LL_KEY_H
#define LL_KEY_H

#include <stddef.h>

#include "base/status.h"
#include "base/text.h"

enum ll_key_type { LL_KEY_INT, LL_KEY_INT64, LL_KEY_NUMBER, LL_KEY_FLAG, LL_KEY_TEXT, LL_KEY_CHOICE };

typedef struct {
    ll_recipe_key about;
    enum ll_key_type type;
    size_t offset; /* offset of the field in its struct */
    double lo, hi; /* for integers and numbers */
} ll_key;

typedef struct {
    const ll_key *keys;
    int count;
} ll_key_table;

/* The key of this name; NULL if there is none. */
const ll_key *ll_key_of(const ll_key_table *table, const char *name);

/* Sets the field from text. On LL_EINVAL the field is unchanged, and the error names key, value and what is allowed. */
LL_MUST_USE ll_status ll_key_assign(void *part, const ll_key *key, const char *value);
/* The field as text, either in `buffer` or where it is stored. */
const char *ll_key_text(const void *part, const ll_key *key, char buffer[LL_NUMBER_TEXT]);
/* The value of a text key. */
char **ll_key_string(const void *part, const ll_key *key);

#endif
