/* Any bytes as TSV and CSV, and their fields as ListOps: fields lie in the file and follow each other. */
#include <string.h>

#include "data/text/cells.h"
#include "data/synthetic/listops.h"
#include "fuzz/fuzz.h"

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
            const size_t n = ll_listops_tokens(field[i].at, field[i].size);
            check(n <= field[i].size);
            const int value = ll_listops_value(field[i].at, n);
            check(value >= -1 && value <= 9);
        }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    walk(data, size, 0, 0);
    walk(data, size, 0, 1);
    walk(data, size, 1, 0);
    return 0;
}
