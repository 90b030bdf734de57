/* Any bytes as FASTA: refused, or sequences that fit the memory that is documented to be enough. */
#include "data/sequence/fasta.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *out = malloc(size + 1);
    int64_t tokens = -1, sequences = -1, boundaries = 0;
    check(out != NULL);
    if (ll_fasta_parse(out, &tokens, &sequences, data, size, "input")) {
        check(tokens == -1 && sequences == -1);
    } else {
        check(sequences > 0 && tokens >= 2 * sequences && (size_t)tokens <= size);
        check(out[0] == LL_FASTA_BOUNDARY && out[tokens - 1] != LL_FASTA_BOUNDARY);
        for (int64_t i = 0; i < tokens; i++) {
            check(out[i] < LL_FASTA_VOCAB);
            boundaries += out[i] == LL_FASTA_BOUNDARY;
        }
        check(boundaries == sequences);
    }
    free(out);
    return 0;
}
