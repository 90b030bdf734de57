/* All keys: the tables of the rooms, one after the other. Parsing, printing, help and errors loop over them. */
#include "base/integer.h"
#include "recipe/recipe_key.h"

#include <string.h>

static const struct {
    const ll_key_table *table;
    size_t part; /* offset of its struct in ll_config */
} sections[] = {
    {&ll_model_keys, offsetof(ll_config, model)},       {&ll_attention_keys, offsetof(ll_config, attention)},
    {&ll_position_keys, offsetof(ll_config, position)}, {&ll_train_keys, offsetof(ll_config, train)},
    {&ll_data_keys, offsetof(ll_config, data)},         {&ll_dist_keys, offsetof(ll_config, dist)},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

int ll_key_count(void) {
    int count = 0;
    for (int s = 0; s < SECTIONS; s++) count += sections[s].table->count;
    return count;
}

/* The section of key number *i, which becomes its number in that section; SECTIONS after the last key. */
static int section_of(int *i) {
    int s = 0;
    for (; s < SECTIONS && *i >= sections[s].table->count; s++) *i -= sections[s].table->count;
    return s;
}

const ll_key *ll_key_at(int i) {
    if (i < 0) return NULL;
    const int s = section_of(&i);
    return s < SECTIONS ? &sections[s].table->keys[i] : NULL;
}

const ll_recipe_key *ll_recipe_key_at(int i) {
    const ll_key *key = ll_key_at(i);
    return key ? &key->about : NULL;
}

int ll_key_find(const char *name) {
    const ll_key *key;
    for (int i = 0; (key = ll_key_at(i)); i++)
        if (!strcmp(key->about.name, name)) return i;
    return -1;
}

void *ll_config_part(const ll_config *c, int i) { return (char *)c + sections[section_of(&i)].part; }

ll_status ll_config_assign(ll_config *c, int i, const char *value) {
    return ll_key_assign(ll_config_part(c, i), ll_key_at(i), value);
}

const char *ll_config_text(const ll_config *c, int i, char buffer[LL_NUMBER_TEXT]) {
    return ll_key_text(ll_config_part(c, i), ll_key_at(i), buffer);
}

static const char *after_dot(const char *name) {
    const char *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

/* A correct word in a wrong section, or without one, is nearer than any other word. */
const char *ll_key_nearest(const char *name) {
    const char *nearest = NULL;
    int least = 1 << 20;
    for (int i = 0; i < ll_key_count(); i++) {
        const char *key = ll_key_at(i)->about.name;
        const int whole = ll_edit_distance(key, name), word = 1 + ll_edit_distance(after_dot(key), after_dot(name));
        const int distance = ll_min_int(whole, word);
        if (distance < least) {
            least = distance;
            nearest = key;
        }
    }
    return nearest;
}
