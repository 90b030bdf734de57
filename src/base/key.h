/* Keys: fields of a struct that have names, and are set and printed as text. A table of them says all there is to know
 * of each: its type, default, range and help. */
#ifndef LL_KEY_H
#define LL_KEY_H

#include <stddef.h>

#include "base/status.h"
#include "base/text.h"

enum ll_key_type { LL_KEY_INT, LL_KEY_INT64, LL_KEY_NUMBER, LL_KEY_FLAG, LL_KEY_TEXT, LL_KEY_CHOICE };

typedef struct {
    ll_recipe_key about;
    enum ll_key_type type;
    size_t offset; /* of the field in its struct, the part */
    double lo, hi; /* of integers and numbers */
} ll_key;

typedef struct {
    const ll_key *keys;
    int count;
} ll_key_table;

/* The key of this name; NULL: there is none. */
const ll_key *ll_key_of(const ll_key_table *table, const char *name);

/* Sets the field from text; LL_EINVAL names key, value and what it could be, and changes nothing. */
LL_MUST_USE ll_status ll_key_assign(void *part, const ll_key *key, const char *value);
/* The field as text: into `buffer`, or where it is. */
const char *ll_key_text(const void *part, const ll_key *key, char buffer[LL_NUMBER_TEXT]);
/* The text of a text key. */
char **ll_key_string(const void *part, const ll_key *key);

#endif
