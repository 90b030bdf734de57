/* Any bytes as a config.json, and as the preprocessor_config.json of a ViT: refused with a reason, or a recipe. */
#include <string.h>

#include "exchange/family.h"
#include "fuzz/fuzz.h"

static void read_both(const ll_bytes *config, const ll_bytes *processor) {
    json_t *names = json_object();
    ll_reading r = {0};
    check(names != NULL);
    if (ll_reading_begin(&r, config, processor, "config.json", names)) {
        check(strlen(ll_error()) > 10);
    } else {
        check(r.recipe && r.family);
    }
    ll_reading_free(&r);
    json_decref(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char vit[] = "{\"model_type\": \"vit\"}";
    uint8_t *copy = malloc(size + 1);
    check(copy != NULL);
    memcpy(copy, data, size);
    copy[size] = 0;
    const ll_bytes bytes = {copy, size}, config = {(uint8_t *)vit, sizeof vit - 1};
    read_both(&bytes, NULL);
    read_both(&config, &bytes);
    free(copy);
    return 0;
}
