/* The table of keys, inside the recipe.
 *
 *   recipe_key.c    the table                      recipe.c        made, copied, set, read, printed
 *   recipe_value.c  text to a field and back       recipe_parse.c  from INI text (ini.h)
 *   recipe_check.c  what no single key can tell     recipe_baseline.c  the same of the papers' baselines
 */
#ifndef LL_RECIPE_KEY_H
#define LL_RECIPE_KEY_H

#include "recipe/recipe.h"
#include "base/text.h"

enum ll_key_type { LL_KEY_INT, LL_KEY_INT64, LL_KEY_NUMBER, LL_KEY_FLAG, LL_KEY_TEXT, LL_KEY_CHOICE };

typedef struct {
    ll_recipe_key about;
    enum ll_key_type type;
    size_t offset; /* of the field in ll_config */
    double lo, hi; /* of integers and numbers */
} ll_key;

extern const ll_key ll_keys[];
extern const int ll_key_count;

/* The key of this name, or NULL. */
const ll_key *ll_key_find(const char *name);
/* The name that is most like this one. */
const char *ll_key_nearest(const char *name);

/* Sets the field from text; LL_EINVAL names key, value and what it could be, and changes nothing. */
LL_MUST_USE ll_status ll_key_assign(ll_config *c, const ll_key *key, const char *value);
/* The field as text: into `room`, or where it is. */
const char *ll_key_text(const ll_config *c, const ll_key *key, char room[LL_NUMBER_TEXT]);
/* The text of a text key. */
char **ll_key_string(const ll_config *c, const ll_key *key);

#endif
