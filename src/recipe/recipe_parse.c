/* Recipes from INI text: every key is in the table, and set at most once. */
#include <stdio.h>
#include <string.h>

#include "base/ini.h"
#include "base/memory.h"
#include "recipe/recipe_key.h"

enum { NAME = 400 };

typedef struct {
    ll_recipe *recipe;
    int *seen; /* for every key, the line that set it */
} parser;

static ll_status assign(void *arg, const char *section, const char *word, const char *value, int line) {
    parser *p = arg;
    char name[NAME];
    if (!word) return LL_OK;
    snprintf(name, sizeof name, "%s%s%.*s", section, *section ? "." : "", NAME / 2, word);
    const int key = ll_key_find(name);
    if (key < 0 && !strcmp(section, "table"))
        return ll_fail(LL_EINVAL, "[table] makes this a table of systems, which longline table runs");
    if (key < 0) return ll_fail(LL_EINVAL, "there is no key \"%.200s\"; the nearest is %s", name, ll_key_nearest(name));
    int *seen = &p->seen[key];
    if (*seen) return ll_fail(LL_EFORMAT, "%s is set for the second time; line %d was the first", name, *seen);
    *seen = line;
    return ll_config_assign(&p->recipe->c, key, value);
}

/* Parses text, or the file at `name` if text is NULL. */
static ll_status read_recipe(ll_recipe **recipe, const char *text, const char *name) {
    parser p = {0};
    ll_status status = ll_recipe_create(&p.recipe);
    if (status) return status;
    p.seen = ll_alloc((size_t)ll_key_count(), sizeof *p.seen);
    if (!p.seen)
        status = LL_ENOMEM;
    else
        status = text ? ll_ini_parse(text, name, assign, &p) : ll_ini_load(name, assign, &p);
    ll_free(p.seen);
    if (status)
        ll_recipe_free(p.recipe);
    else
        *recipe = p.recipe;
    return status;
}

ll_status ll_recipe_parse(ll_recipe **recipe, const char *text, const char *name) {
    if (!text) return ll_fail(LL_EINVAL, "there is no text of a recipe (it is NULL)");
    return read_recipe(recipe, text, name ? name : "recipe");
}

ll_status ll_recipe_load(ll_recipe **recipe, const char *path) {
    if (!path) return ll_fail(LL_EINVAL, "there is no path of a recipe (it is NULL)");
    return read_recipe(recipe, NULL, path);
}
