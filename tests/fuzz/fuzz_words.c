/* Any bytes as a text from which a vocabulary is made, and as the vocabulary of a model: what is accepted is
 * consistent. */
#include <string.h>

#include "base/memory.h"
#include "data/text/words.h"
#include "fuzz/fuzz.h"

/* Every token is in range, and every word but unknown ones comes back. */
static void use(const ll_bytes *list, const uint8_t *data, size_t size, int complete) {
    ll_words *words = NULL;
    int32_t *tokens = NULL;
    int64_t n = -1;
    const int bad = ll_words_create(&words, list, "input") != LL_OK;
    check(bad == (words == NULL) && !(bad && complete));
    if (bad) return;
    check(!ll_words_encode(words, data, size, &tokens, &n));
    check(n == ll_count_words(&(ll_bytes){.data = (uint8_t *)(size_t)data, .size = size}));
    for (int64_t i = 0; i < n; i++) {
        size_t length = 0;
        check(tokens[i] >= 0 && tokens[i] < ll_words_count(words));
        check(ll_words_text(words, tokens[i], &length) && length > 0);
        if (complete && !tokens[i]) check(memmem(data, size, "<unk>", 5) != NULL);
    }
    ll_free(tokens);
    ll_words_free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ll_bytes list = {0}, own = {malloc(size + 1), size};
    check(own.data != NULL);
    if (size) memcpy(own.data, data, size);
    check(!ll_words_list(&list, &(ll_bytes){(uint8_t *)data, size}, 1, 0, LL_WORDS_TOGETHER));
    use(&list, data, size, 1);
    /* A few words at a time give the same list; each time all words before are sorted again. */
    ll_bytes few = {0}, some = {0};
    check(!ll_words_list(&few, &(ll_bytes){(uint8_t *)data, size}, 1, 0, 3 + size / 64));
    check(few.size == list.size && !memcmp(few.data, list.data, list.size));
    check(!ll_words_list(&some, &(ll_bytes){(uint8_t *)data, size}, 2, 6, LL_WORDS_TOGETHER));
    check(some.size <= list.size);
    ll_bytes_free(&few);
    ll_bytes_free(&some);
    use(&own, data, size, 0);
    ll_bytes_free(&list);
    free(own.data);
    return 0;
}
