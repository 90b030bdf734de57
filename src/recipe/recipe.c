/* Recipes: every key has a value at all times. */
#include "recipe/recipe.h"

#include <string.h>

#include "base/ini.h"
#include "base/memory.h"
#include "data/reader.h"
#include "recipe/recipe_key.h"

/* The text of key number i if it is a text key; else NULL. */
static char **text_of(const ll_config *c, int i) {
    const ll_key *key = ll_key_at(i);
    return key->type == LL_KEY_TEXT ? ll_key_string(ll_config_part(c, i), key) : NULL;
}

ll_status ll_recipe_create(ll_recipe **recipe) {
    const int count = ll_key_count();
    ll_recipe *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->scratch = ll_alloc((size_t)count, LL_NUMBER_TEXT);
    ll_status status = r->scratch ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < count && !status; i++) status = ll_config_assign(&r->c, i, ll_key_at(i)->about.fallback);
    if (status) {
        ll_recipe_free(r);
        return status;
    }
    *recipe = r;
    return LL_OK;
}

ll_status ll_recipe_copy(ll_recipe **copy, const ll_recipe *recipe) {
    const int count = ll_key_count();
    ll_recipe *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->c = recipe->c;
    r->closed = recipe->closed;
    for (int i = 0; i < count; i++)
        if (text_of(&r->c, i)) *text_of(&r->c, i) = NULL;
    r->scratch = ll_alloc((size_t)count, LL_NUMBER_TEXT);
    int failed = !r->scratch;
    for (int i = 0; i < count && !failed; i++) {
        char **text = text_of(&recipe->c, i);
        if (text && *text) failed = !(*text_of(&r->c, i) = ll_strdup(*text));
    }
    if (failed) {
        ll_recipe_free(r);
        return LL_ENOMEM;
    }
    *copy = r;
    return LL_OK;
}

void ll_recipe_free(ll_recipe *recipe) {
    if (!recipe) return;
    for (int i = 0; i < ll_key_count(); i++)
        if (text_of(&recipe->c, i)) ll_free(*text_of(&recipe->c, i));
    ll_free(recipe->scratch);
    ll_free(recipe);
}

ll_status ll_recipe_set(ll_recipe *recipe, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return ll_fail(LL_EINVAL, "\"%.200s\" sets nothing; write section.key=value, as in model.layers=4", assignment);
    char *text = ll_strdup(assignment);
    if (!text) return LL_ENOMEM;
    char *rest = text + (equals - assignment);
    *rest = 0;
    const char *name = ll_ini_trim(text, 0), *value = ll_ini_trim(rest + 1, 0);
    const int key = name ? ll_key_find(name) : -1;
    ll_status status;
    if (key < 0)
        status = ll_fail(LL_EINVAL, "there is no key \"%.200s\"; the nearest is %s", name ? name : "",
                         ll_key_nearest(name ? name : ""));
    else if (!value)
        status = ll_fail(LL_EINVAL, "%s: the quotes around the value do not match; two in a row stand for one", name);
    else
        status = ll_config_assign(&recipe->c, key, value);
    ll_free(text);
    return status;
}

/* A recipe may name fewer classes than its files have folders. In other files such a folder may be a mistake, unless
 * the names are chosen for them. */
ll_status ll_recipe_change(ll_recipe *recipe, const char *assignment) {
    static const char *const files[] = {"data.train", "data.valid", "data.test"};
    const size_t n = strcspn(assignment, " =");
    const ll_status status = ll_recipe_set(recipe, assignment);
    if (status) return status;
    if (n == strlen("data.classes") && !strncmp(assignment, "data.classes", n)) recipe->closed = -1;
    for (int i = 0; i < 3 && !recipe->closed; i++)
        recipe->closed = n == strlen(files[i]) && !strncmp(assignment, files[i], n);
    return LL_OK;
}

const char *ll_recipe_get(const ll_recipe *recipe, const char *name) {
    const int key = ll_key_find(name);
    return key >= 0 ? ll_config_text(&recipe->c, key, recipe->scratch + key * LL_NUMBER_TEXT) : NULL;
}

const char *ll_recipe_unit(const ll_recipe *recipe) {
    return ll_config_per_token(&recipe->c) ? ll_data_unit(&recipe->c.data) : "example";
}

ll_status ll_recipe_same_tokens(const ll_recipe *recipe, const ll_recipe *other) {
    const char *unit = ll_data_unit(&recipe->c.data), *others = ll_data_unit(&other->c.data);
    if (!strcmp(unit, others)) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "tokens of data.format = %s are %ss, and this model was trained with data.format = %s, where they "
                   "are %ss",
                   ll_recipe_get(other, "data.format"), others, ll_recipe_get(recipe, "data.format"), unit);
}

/* Text that is first measured (out NULL), then written. */
typedef struct {
    char *out;
    size_t size;
} sink;

static void put(sink *s, const char *text, size_t n) {
    if (s->out) memcpy(s->out + s->size, text, n);
    s->size += n;
}

static void put_value(sink *s, const char *value) {
    if (!ll_ini_quoted(value)) {
        put(s, value, strlen(value));
        return;
    }
    put(s, "\"", 1);
    for (; *value; value++) put(s, *value == '"' ? "\"\"" : value, *value == '"' ? 2 : 1);
    put(s, "\"", 1);
}

/* Lines "key = value" under "[section]" lines, in the order of the table. */
static void print(sink *s, const ll_config *c) {
    char buffer[LL_NUMBER_TEXT];
    const char *section = NULL;
    size_t length = 0;
    for (int i = 0; i < ll_key_count(); i++) {
        const char *name = ll_key_at(i)->about.name, *word = strchr(name, '.') + 1;
        if (!section || strncmp(section, name, length)) {
            if (section) put(s, "\n", 1);
            section = name;
            length = (size_t)(word - name);
            put(s, "[", 1);
            put(s, name, length - 1);
            put(s, "]\n", 2);
        }
        put(s, word, strlen(word));
        put(s, " = ", 3);
        put_value(s, ll_config_text(c, i, buffer));
        put(s, "\n", 1);
    }
}

ll_status ll_recipe_text(const ll_recipe *recipe, char **text) {
    sink s = {0};
    print(&s, &recipe->c);
    s.out = ll_alloc(s.size + 1, 1);
    if (!s.out) return LL_ENOMEM;
    s.size = 0;
    print(&s, &recipe->c);
    *text = s.out;
    return LL_OK;
}

void ll_text_free(void *text) { ll_free(text); }
