/* longline recipe: the keys of recipes, from the table that also reads them. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void explain(const ll_recipe_key *k) {
    printf("%s\n  %s\n  type     %s\n", k->name, k->help, k->type);
    if (k->choices) {
        printf("  choices  ");
        for (const char *c = k->choices; *c; c++) fputs(*c == '|' ? ", " : (char[2]){*c, 0}, stdout);
        printf("\n");
    }
    printf("  default  %s\n", k->fallback && *k->fallback ? k->fallback : "(empty)");
    if (k->needs) printf("  needs    %s\n", k->needs);
    if (k->resumable) printf("  resume   may change\n");
}

/* All keys at their defaults, as a recipe to save and change. */
static void list(void) {
    char section[64] = "";
    const ll_recipe_key *k;
    printf("# A longline recipe with every key at its default.\n");
    for (int i = 0; (k = ll_recipe_key_at(i)); i++) {
        const char *dot = strchr(k->name, '.');
        const size_t n = dot ? (size_t)(dot - k->name) : 0;
        if (n && n < sizeof section && (strncmp(section, k->name, n) || section[n])) {
            memcpy(section, k->name, n);
            section[n] = 0;
            printf("\n[%s]\n", section);
        }
        printf("# %s%s", k->help, k->resumable ? "; may change on resume" : "");
        if (k->needs) printf("; needs %s", k->needs);
        if (k->choices) printf("; one of %s", k->choices);
        printf("\n%s = %s\n", n ? dot + 1 : k->name, k->fallback ? k->fallback : "");
    }
}

static int no_key(const char *word) {
    const char *names[256];
    char section[16][32];
    int n = 0, sections = 0;
    const ll_recipe_key *k;
    for (int i = 0; n < 256 && sections < 16 && (k = ll_recipe_key_at(i)); i++) {
        char *own = section[sections];
        snprintf(own, sizeof section[0], "%.*s", (int)strcspn(k->name, "."), k->name);
        if (!sections || strcmp(own, section[sections - 1])) names[n++] = own, sections++;
        if (n < 256) names[n++] = k->name;
    }
    const char *near = ll_args_nearest(word, names, n);
    if (!near) near = ll_args_nearest_key(word, 2 + (int)strlen(word) / 3);
    if (near) return ll_usage("there is no key '%s'; did you mean '%s'?", word, near);
    return ll_usage("there is no key or section '%s'", word);
}

static int recipe(int n, const char **words) {
    if (!n) {
        list();
        return 0;
    }
    const size_t length = strlen(words[0]);
    int found = 0;
    const ll_recipe_key *k;
    for (int i = 0; (k = ll_recipe_key_at(i)); i++)
        if (!strcmp(k->name, words[0]) || (!strncmp(k->name, words[0], length) && k->name[length] == '.'))
            explain(k), found = 1;
    return found ? 0 : no_key(words[0]);
}

const ll_command ll_command_recipe = {
    .name = "recipe",
    .words = "[KEY]",
    .most = 1,
    .summary = "list and explain the keys of recipes",
    .text = "Without a key, prints all of them at their defaults, as a recipe to start from. With a key or a\n"
            "section, explains it.\n\n"
            "  longline recipe > mine.ini\n"
            "  longline recipe position.type",
    .run = recipe,
};
