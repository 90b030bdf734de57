/* One value: parsed from text into its field, and printed as the same text. */
#include "base/key.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static int *int_field(const void *part, const ll_key *k) { return (int *)((char *)part + k->offset); }
static int64_t *int64_field(const void *part, const ll_key *k) { return (int64_t *)((char *)part + k->offset); }
static double *number_field(const void *part, const ll_key *k) { return (double *)((char *)part + k->offset); }
char **ll_key_string(const void *part, const ll_key *k) { return (char **)((char *)part + k->offset); }

static ll_status wrong(const ll_key *k, const char *value, const char *what) {
    return ll_fail(LL_EINVAL, "%s = \"%.200s\" must be %s: %s", k->about.name, value, what, k->about.help);
}

static ll_status out_of_range(const ll_key *k, const char *value) {
    return ll_fail(LL_EINVAL, "%s = %.200s is out of range: %s", k->about.name, value, k->about.help);
}

static ll_status assign_integer(void *part, const ll_key *k, const char *value) {
    int64_t v = 0;
    if (!ll_parse_integer(&v, value)) return wrong(k, value, "a whole number in range");
    if ((double)v < k->lo || (double)v > k->hi) return out_of_range(k, value);
    if (k->type == LL_KEY_INT)
        *int_field(part, k) = (int)v;
    else
        *int64_field(part, k) = v;
    return LL_OK;
}

static ll_status assign_number(void *part, const ll_key *k, const char *value) {
    double v = 0;
    if (ll_is_infinite_text(value)) return out_of_range(k, value);
    if (!ll_parse_number(&v, value)) return wrong(k, value, "a number");
    if (v < k->lo || v > k->hi) return out_of_range(k, value);
    *number_field(part, k) = v;
    return LL_OK;
}

static ll_status assign_flag(void *part, const ll_key *k, const char *value) {
    static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
    for (int i = 0; i < 8; i++)
        if (!strcmp(value, words[i])) {
            *int_field(part, k) = i % 2;
            return LL_OK;
        }
    return wrong(k, value, "on or off");
}

/* Choice number i of "a|b|c" and its length; NULL after the last. */
static const char *choice(const char *choices, int i, size_t *length) {
    for (; i > 0 && choices; i--) {
        choices = strchr(choices, '|');
        if (choices) choices++;
    }
    *length = choices ? strcspn(choices, "|") : 0;
    return choices;
}

/* The choice nearest to `value` in edit distance; 0 if none is near. */
enum { NEAR = 64 };
static int nearest(char near[NEAR], const char *choices, const char *value) {
    size_t length;
    const char *word;
    int least = 1 + (int)strlen(value) / 3, found = 0;
    for (int i = 0; (word = choice(choices, i, &length)); i++) {
        char one[NEAR];
        snprintf(one, sizeof one, "%.*s", (int)length, word);
        const int changes = ll_edit_distance(value, one);
        if (changes > least || (found && changes == least)) continue;
        least = changes, found = 1;
        memcpy(near, one, sizeof one);
    }
    return found;
}

static ll_status assign_choice(void *part, const ll_key *k, const char *value) {
    size_t length;
    const char *word;
    for (int i = 0; (word = choice(k->about.choices, i, &length)); i++)
        if (strlen(value) == length && !memcmp(value, word, length)) {
            *int_field(part, k) = i;
            return LL_OK;
        }
    char near[NEAR];
    if (nearest(near, k->about.choices, value))
        return ll_fail(LL_EINVAL, "%s = \"%.200s\" is not known; did you mean %s? It is one of %s", k->about.name,
                       value, near, k->about.choices);
    return ll_fail(LL_EINVAL, "%s = \"%.200s\" must be one of %s", k->about.name, value, k->about.choices);
}

static ll_status assign_text(void *part, const ll_key *k, const char *value) {
    if (!ll_is_plain_text(value))
        return ll_fail(LL_EINVAL,
                       "%s = \"%.200s\" must be UTF-8 without control characters, because it is written into recipes; "
                       "where it names a file, rename that, or make a link to it with a plain name",
                       k->about.name, value);
    char *copy = ll_strdup(value);
    if (!copy) return LL_ENOMEM;
    char **field = ll_key_string(part, k);
    ll_free(*field);
    *field = copy;
    return LL_OK;
}

ll_status ll_key_assign(void *part, const ll_key *k, const char *value) {
    switch (k->type) {
    case LL_KEY_INT:
    case LL_KEY_INT64: return assign_integer(part, k, value);
    case LL_KEY_NUMBER: return assign_number(part, k, value);
    case LL_KEY_FLAG: return assign_flag(part, k, value);
    case LL_KEY_CHOICE: return assign_choice(part, k, value);
    case LL_KEY_TEXT: break;
    }
    return assign_text(part, k, value);
}

const char *ll_key_text(const void *part, const ll_key *k, char buffer[LL_NUMBER_TEXT]) {
    size_t length;
    const char *word;
    switch (k->type) {
    case LL_KEY_INT: snprintf(buffer, LL_NUMBER_TEXT, "%d", *int_field(part, k)); break;
    case LL_KEY_INT64: snprintf(buffer, LL_NUMBER_TEXT, "%lld", (long long)*int64_field(part, k)); break;
    case LL_KEY_NUMBER: ll_print_number(buffer, *number_field(part, k)); break;
    case LL_KEY_FLAG: return *int_field(part, k) ? "on" : "off";
    case LL_KEY_TEXT: return *ll_key_string(part, k) ? *ll_key_string(part, k) : "";
    case LL_KEY_CHOICE:
        word = choice(k->about.choices, *int_field(part, k), &length);
        snprintf(buffer, LL_NUMBER_TEXT, "%.*s", (int)length, word ? word : "");
        break;
    }
    return buffer;
}

const ll_key *ll_key_of(const ll_key_table *table, const char *name) {
    for (int i = 0; i < table->count; i++)
        if (!strcmp(table->keys[i].about.name, name)) return &table->keys[i];
    return NULL;
}
