/* Any bytes as TSV and CSV, and their fields as ListOps: fields lie in the file and follow each other. */
#include <string.h>

#include "data/text/cells.h"
#include "data/synthetic/listops.h"
#include "fuzz/fuzz.h"

/* An expression that is drawn, as text and read again. */
static void draw(uint64_t seed) {
    static const ll_listops how = {.depth = 5, .arguments = 4, .least = 3, .most = 60};
    uint8_t tokens[64];
    char text[1024];
    const size_t n = (size_t)ll_listops_draw(tokens, &how, seed, 0), size = ll_listops_text(NULL, tokens, n);
    check(n < 60 && size < sizeof text && ll_listops_text(text, tokens, n) == size);
    const int value = ll_listops_value(tokens, n);
    check(value >= 0 && value <= 9);
    check(ll_listops_tokens((uint8_t *)text, size) == n && !memcmp(tokens, text, n)); /* in place */
}

static void walk(const uint8_t *data, size_t size, int comma, int rest) {
    uint8_t *copy = malloc(size + 1);
    check(copy != NULL);
    if (size) memcpy(copy, data, size);
    ll_bytes bytes = {copy, size};
    ll_cells t = ll_cells_of(&bytes, "input", comma, rest);
    const uint8_t *last = copy;
    ll_slice field[2];
    int found = 1;
    while (found && !ll_cells_next(&t, field, 2, &found) && found)
        for (int i = 0; i < 2; i++) {
            check(field[i].at >= last && field[i].at + field[i].size <= copy + size);
            last = field[i].at + field[i].size;
            uint8_t some[16];
            check(ll_slice_copy(some, sizeof some, &field[i]) <= sizeof some);
            check(ll_slice_is(&field[i], "value") == (field[i].size == 5 && !memcmp(field[i].at, "value", 5)));
            const size_t n = ll_listops_tokens(field[i].at, field[i].size);
            check(n <= field[i].size);
            const int value = ll_listops_value(field[i].at, n);
            check(value >= -1 && value <= 9);
        }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    draw(size + (size ? data[size / 2] : 0));
    walk(data, size, 0, 0);
    walk(data, size, 0, 1);
    walk(data, size, 1, 0);
    return 0;
}
