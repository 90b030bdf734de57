/* Any text as a recipe, and any line as an assignment: refused with a reason, or printed and read back the
 * same. */
#include <string.h>

#include "recipe/recipe_key.h"
#include "fuzz/fuzz.h"

static void check_round_trip(const ll_recipe *r) {
    char *first = NULL, *second = NULL;
    ll_recipe *back = NULL;
    check(!ll_recipe_text(r, &first));
    check(!ll_recipe_parse(&back, first, "printed"));
    check(!ll_recipe_text(back, &second));
    check(!strcmp(first, second));
    for (int i = 0; i < ll_key_count(); i++) {
        char one[LL_NUMBER_TEXT], other[LL_NUMBER_TEXT];
        check(!strcmp(ll_config_text(&r->c, i, one), ll_config_text(&back->c, i, other)));
    }
    (void)!ll_config_check(&r->c);
    ll_text_free(first);
    ll_text_free(second);
    ll_recipe_free(back);
}

/* Up to a few lines that are refused: the name nearest to an unknown one takes long to find. */
static void set_lines(ll_recipe *r, char *text) {
    int refused = 0;
    for (char *next; text && refused < 2; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        if (!ll_recipe_set(r, text)) continue;
        check(strlen(ll_error()) > 10);
        refused++;
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
    r = NULL;
    if (ll_recipe_load(&r, in_memory(data, size)))
        check(!r && strlen(ll_error()) > 10);
    else
        ll_recipe_free(r);
    check(!ll_recipe_create(&r));
    set_lines(r, text);
    check_round_trip(r);
    ll_recipe_free(r);
    free(text);
    return 0;
}
