/* Any bytes as a config.json: refused with a reason, or a recipe. */
#include <string.h>

#include "exchange/family.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1);
    json_t *names = json_object();
    ll_reading r = {0};
    check(copy && names);
    memcpy(copy, data, size);
    copy[size] = 0;
    const ll_bytes bytes = {copy, size};
    if (ll_reading_begin(&r, &bytes, "config.json", names)) {
        check(strlen(ll_error()) > 10);
    } else {
        check(r.recipe && r.family);
    }
    ll_reading_free(&r);
    json_decref(names);
    free(copy);
    return 0;
}
