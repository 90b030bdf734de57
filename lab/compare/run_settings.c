/* The settings of a run: its recipe under a budget, their digest, and whether a run of before had the same. */
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL /* nothing to link; the function is fixed since xxHash 0.8 */
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"
#include "compare/compare_internal.h"
#include "model/config/model_config.h"
#include "recipe/recipe.h"

int ll_budget_key(const char *assignment) {
    static const char *const keys[LL_BUDGET_KEYS] = {
        [LL_BUDGET_STEPS] = "train.steps",
        [LL_BUDGET_SEED] = "train.seed",
        [LL_BUDGET_WARMUP] = "train.warmup",
        [LL_BUDGET_LOOKS] = "train.eval-every",
        [LL_BUDGET_SAVES] = "train.checkpoint-every",
    };
    const char *key = assignment + strspn(assignment, " \t");
    const size_t n = strcspn(key, " \t=");
    for (int i = 0; i < LL_BUDGET_KEYS; i++)
        if (strlen(keys[i]) == n && !memcmp(keys[i], key, n)) return i;
    return -1;
}

ll_status ll_result_settings(char settings[24], const ll_recipe *recipe, const int said[LL_BUDGET_KEYS]) {
    const ll_recipe_key *key;
    XXH64_hash_t hash = 0;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        const char *value = ll_recipe_get(recipe, key->name);
        const int by_budget = ll_budget_key(key->name);
        if ((by_budget >= 0 && !said[by_budget]) || !strcmp(key->name, "train.report")) continue;
        hash = XXH3_64bits_withSeed(key->name, strlen(key->name) + 1, hash);
        hash = XXH3_64bits_withSeed(value, strlen(value) + 1, hash);
    }
    snprintf(settings, 24, "%016llx", (unsigned long long)hash);
    return LL_OK;
}

static ll_status set_number(ll_recipe *recipe, const char *key, int64_t value) {
    char text[80];
    snprintf(text, sizeof text, "%s=%lld", key, (long long)value);
    return ll_recipe_set(recipe, text);
}

ll_status ll_contender_recipe(ll_recipe **out, const ll_contender *x, const ll_result *r, int seed) {
    ll_recipe *recipe = NULL;
    ll_status status = ll_recipe_copy(&recipe, x->recipe);
    if (status) return status;
    const int64_t steps = r->steps, tenth = (steps + 9) / 10;
    status = set_number(recipe, "train.steps", steps);
    if (!status && !x->said[LL_BUDGET_WARMUP] && recipe->c.train.warmup > tenth)
        status = set_number(recipe, "train.warmup", tenth);
    if (!status && !x->said[LL_BUDGET_LOOKS]) status = set_number(recipe, "train.eval-every", tenth);
    if (!status && !x->said[LL_BUDGET_SAVES]) status = set_number(recipe, "train.checkpoint-every", (steps + 19) / 20);
    if (!status) status = set_number(recipe, "train.seed", seed);
    if (status)
        ll_recipe_free(recipe);
    else
        *out = recipe;
    return status;
}

/* A digest is of all keys of its release, so that after another release it is another one for the same settings. Then
 * recipe.ini of the run decides, which has every key of its release. What the data give, or a run settles when it
 * begins, is in it alone. */
static int is_settled_by_run(const char *key, const char *value) {
    static const char *const keys[] = {"model.vocab",  "model.classes", "position.width",       "position.height",
                                       "train.length", "data.classes",  "train.distil-switch", "dist.shards"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return !*value || !strcmp(value, "0");
    return 0;
}

/* The first key whose value in a run is not the expected one, or NULL. */
static const char *other_key(const ll_recipe *had, const ll_recipe *expected) {
    const ll_recipe_key *key;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        const char *value = ll_recipe_get(expected, key->name);
        if (strcmp(key->name, "train.report") && strcmp(ll_recipe_get(had, key->name), value) &&
            !is_settled_by_run(key->name, value))
            return key->name;
    }
    return NULL;
}

ll_status ll_contender_compare(const ll_contender *x, const ll_result *r, const char *run, int seed) {
    ll_recipe *had = NULL, *expected = NULL;
    char *path = ll_path_join(run, "recipe.ini"), other[200] = "";
    ll_status status = path ? ll_contender_recipe(&expected, x, r, seed) : LL_ENOMEM;
    if (!status) status = ll_recipe_load(&had, path);
    if (status && status != LL_ENOMEM) snprintf(other, sizeof other, "%s", ll_error());
    const char *key = status ? NULL : other_key(had, expected);
    if (key)
        snprintf(other, sizeof other, "%s = %.60s, not %.60s", key, ll_recipe_get(had, key),
                 ll_recipe_get(expected, key));
    if (*other)
        status =
            ll_fail(LL_EINVAL,
                    "%s is a run of [%s] with other settings (%s); remove that folder to repeat it, or give another "
                    "folder for the results",
                    run, x->name, other);
    ll_recipe_free(had);
    ll_recipe_free(expected);
    ll_free(path);
    return status;
}
