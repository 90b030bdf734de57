/* Any bytes as a file of sequences, of every kind: refused with a reason, or pieces that lie within memory. Joined,
 * they are the same for pieces of any size. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "longline.h"

/* A hash of all that the input returns, in order. */
static uint64_t digest(const char *path, ll_input_format format, size_t piece, int keys) {
    ll_input_options how = {.format = format, .piece = piece};
    if (keys) how.text_key = "text", how.id_key = "name", how.label_key = "label";
    ll_input *in = NULL;
    ll_sequence s;
    uint64_t sum = 1469598103934665603u;
    int found = 1, open = 0;
    ll_status status = ll_input_open(&in, &path, 1, &how);
    while (!status && !(status = ll_input_next(in, &s, &found)) && found) {
        check(s.begins == !open && s.id && s.file && strlen(s.id) < 1 << 26);
        for (size_t i = 0; i < s.size; i++) sum = (sum ^ s.text[i]) * 1099511628211u;
        if (s.ends) sum = (sum ^ (uint64_t)(s.line + 256)) * 1099511628211u;
        open = !s.ends;
    }
    if (status) check(strlen(ll_error()) > 10);
    ll_input_close(in);
    return status ? 0 : sum; /* what came before an error may depend on the size of pieces */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = in_memory(data, size);
    for (int format = LL_INPUT_AUTO; format <= LL_INPUT_IDX; format++)
        check(digest(path, (ll_input_format)format, 0, 0) == digest(path, (ll_input_format)format, 3, 0));
    check(digest(path, LL_INPUT_JSONL, 0, 1) == digest(path, LL_INPUT_JSONL, 3, 1));
    return 0;
}
