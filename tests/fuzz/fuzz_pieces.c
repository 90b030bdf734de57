/* Any bytes as a model of pieces of words: refused with a reason, or a model that cuts a text into tokens that exist
 * and have a text of bounded length, or refuses the text. */
#include <string.h>

#include "base/memory.h"
#include "data/text/pieces.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
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
