/* Any text as a recipe, and any line as an assignment: refused with a reason, or printed and read back the
 * same. */
#include <string.h>

#include "recipe/recipe.h"
#include "fuzz/fuzz.h"

static void check_round_trip(const ll_recipe *r) {
    char *first = NULL, *second = NULL;
    ll_recipe *back = NULL;
    check(!ll_recipe_text(r, &first));
    check(!ll_recipe_parse(&back, first, "printed"));
    check(!ll_recipe_text(back, &second));
    check(!strcmp(first, second));
    for (int i = 0; ll_recipe_key_at(i); i++) {
        const char *name = ll_recipe_key_at(i)->name;
        check(!strcmp(ll_recipe_get(r, name), ll_recipe_get(back, name)));
    }
    (void)!ll_config_check(&r->c);
    ll_text_free(first);
    ll_text_free(second);
    ll_recipe_free(back);
}

static void set_lines(ll_recipe *r, char *text) {
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        if (ll_recipe_set(r, text)) check(strlen(ll_error()) > 10);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    ll_recipe *r = NULL;
    check(text != NULL);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (ll_recipe_parse(&r, text, "input"))
        check(!r && strlen(ll_error()) > 10);
    else
        check_round_trip(r);
    ll_recipe_free(r);
    check(!ll_recipe_create(&r));
    set_lines(r, text);
    check_round_trip(r);
    ll_recipe_free(r);
    free(text);
    return 0;
}
