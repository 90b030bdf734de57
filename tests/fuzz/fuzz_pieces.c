/* Any bytes as a model of pieces of words: refused with a reason, or a model that cuts a text into tokens that exist
 * and have a text of bounded length, or refuses the text. Behind the word "train", the bytes are a text from whose
 * lines, or every second of them, a model is made. */
#include <string.h>

#include "base/memory.h"
#include "data/text/pieces.h"
#include "fuzz/fuzz.h"

static void train(const uint8_t *data, size_t size) {
    const ll_bytes text = {(uint8_t *)data, size};
    for (size_t most = size; most <= size + 1; most++) {
        ll_bytes model = {0};
        ll_pieces *pieces = NULL;
        if (ll_pieces_train(&model, &text, 300, most ? most : 1)) {
            check(!model.data && strlen(ll_error()) > 10);
            continue;
        }
        check(!ll_pieces_create(&pieces, &model, "made"));
        ll_pieces_free(pieces);
        ll_bytes_free(&model);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 5 && !memcmp(data, "train", 5)) {
        train(data + 5, size - 5);
        return 0;
    }
    static const char text[] = "a line of words\nand \xff another";
    const ll_bytes model = {(uint8_t *)data, size};
    ll_pieces *pieces = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;
    if (ll_pieces_create(&pieces, &model, "input")) {
        check(!pieces && strlen(ll_error()) > 10);
        return 0;
    }
    const int count = ll_pieces_count(pieces);
    if (!ll_pieces_encode(pieces, (const uint8_t *)text, sizeof text - 1, &tokens, &n))
        for (int64_t i = 0; i < n; i++) {
            size_t length = 0;
            check(tokens[i] >= 0 && tokens[i] < count && ll_pieces_text(pieces, tokens[i], &length));
            check(length < 4096);
        }
    ll_free(tokens);
    ll_pieces_free(pieces);
    return 0;
}
