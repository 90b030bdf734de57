/* All keys of a recipe, for this room. They are numbered from 0, in the order of their sections.
 *
 *   base/key.h      a table of keys; each room has one         recipe_key.c     all tables in a row
 *   recipe.c        create, copy, set, read, print             recipe_parse.c   from INI text (base/ini.h)
 *   recipe_model.c  the model room's part of a recipe          recipe_reader.c  the data room's part */
#ifndef LL_RECIPE_KEY_H
#define LL_RECIPE_KEY_H

#include "recipe/recipe.h"

int ll_key_count(void);
/* Key number i; NULL after the last. */
const ll_key *ll_key_at(int i);
/* The number of the key of this name, or -1. */
int ll_key_find(const char *name);
/* The name that is nearest to this one. */
const char *ll_key_nearest(const char *name);

/* The part of a recipe that key number i is a field of. */
void *ll_config_part(const ll_config *c, int i);
/* Sets the field of key number i, as ll_key_assign. */
LL_MUST_USE ll_status ll_config_assign(ll_config *c, int i, const char *value);
/* The field of key number i as text: in `buffer`, or where it is stored. */
const char *ll_config_text(const ll_config *c, int i, char buffer[LL_NUMBER_TEXT]);

#endif
