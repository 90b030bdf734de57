/* A tokenizer.json and, after the last zero byte, a text: what is accepted cuts any text into tokens that exist. The
 * same bytes as a tokenizer.model: refused, or a tokenizer.json. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/subwords.h"
#include "data/subwords/tokenizer_files.h"
#include "fuzz/fuzz.h"

static void as_sentencepiece(const uint8_t *data, size_t size) {
    const ll_bytes file = {(uint8_t *)data, size};
    json_t *json = NULL;
    const ll_status status = ll_sentencepiece_compose(&json, &file, "input");
    check(!status == (json != NULL));
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memrchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size, rest = zero ? size - n - 1 : 0;
    ll_bytes json = {malloc(n + 1), n};
    ll_subwords *s = NULL;
    int32_t *tokens = NULL;
    int64_t count = 0;
    check(json.data != NULL);
    if (n) memcpy(json.data, data, n);
    as_sentencepiece(data, size);
    const int bad = ll_subwords_create(&s, &json, "input") != LL_OK;
    check(bad == (s == NULL));
    free(json.data);
    if (bad) return 0;
    if (!ll_subwords_encode(s, rest ? zero + 1 : data, rest ? rest : n, &tokens, &count)) {
        for (int64_t i = 0; i < count; i++) {
            size_t length;
            check(tokens[i] >= 0 && tokens[i] < ll_subwords_count(s));
            check(ll_subwords_text(s, tokens[i], &length) != NULL);
        }
        ll_free(tokens);
    }
    ll_subwords_free(s);
    return 0;
}
