/* Keys of a recipe that have no effect, because of the value of another key. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Is what is set one of the n bytes "VALUE|VALUE.." at list? */
static int is_among(const char *set, const char *list, size_t n) {
    const size_t length = strlen(set);
    for (const char *end = list + n; list < end; list += strcspn(list, "| ") + 1)
        if (!strncmp(list, set, length) && (list + length == end || list[length] == '|')) return 1;
    return 0;
}

/* Has the recipe one of the values of "KEY=VALUE|VALUE..", which ends at a space? */
static int is_met(const ll_recipe *recipe, const char *needs) {
    char key[64];
    const size_t n = strcspn(needs, "=");
    snprintf(key, sizeof key, "%.*s", (int)n, needs);
    const char *set = ll_recipe_get(recipe, key);
    return set && is_among(set, needs + n + 1, strcspn(needs + n + 1, " "));
}

const char *ll_unmet(const ll_recipe *recipe, const char *key) {
    const ll_recipe_key *k;
    for (int i = 0; (k = ll_recipe_key_at(i)); i++)
        if (!strcmp(k->name, key)) break;
    if (!k || !k->needs) return NULL;
    for (const char *one = k->needs; one; one = strstr(one, " or ") ? strstr(one, " or ") + 4 : NULL)
        if (is_met(recipe, one)) return NULL;
    return k->needs;
}
