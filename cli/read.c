/* Files that are read from front to back as they are, but unpacked where they are packed. */
#include <string.h>

#include "cli.h"

int ll_read_blocks(const char *path, ll_block_fn *take, void *arg) {
    const ll_input_options how = {.format = LL_INPUT_WHOLE, .piece = 4096};
    const char *name = strcmp(path, "-") ? path : "standard input";
    ll_input *input = NULL;
    ll_sequence block;
    int found = 1, enough = 0;
    ll_status status = ll_input_open(&input, &path, 1, &how);
    while (!status && !enough && !ll_stop_wanted()) {
        status = ll_input_next(input, &block, &found);
        if (status || !found) break;
        enough = take(block.text, block.size, arg);
    }
    ll_input_close(input);
    if (ll_stop_wanted()) {
        ll_say("stopped while reading %s", name);
        return -1;
    }
    return status ? ll_failed(status, strcmp(path, "-") ? path : NULL) : -1;
}
