/* Tokens and numbers as JSON. */
#include <math.h>

#include "serve/reply.h"

json_t *ll_token_text(const ll_served *m, ll_tokenizer *tokenizer, int token) {
    size_t size = 0;
    const char *text = token < m->text_vocab ? ll_tokenizer_text(tokenizer, token, &size) : "";
    json_t *s = json_stringn(text, size);
    if (s) return s;
    char written[6 + 4 * 64 + 1] = "bytes:";
    for (size_t i = 0; i < size && i < 64; i++)
        snprintf(written + 6 + 4 * i, 5, "\\x%02x", (unsigned)(unsigned char)text[i]);
    return json_string(written);
}

json_t *ll_token_bytes(const ll_served *m, ll_tokenizer *tokenizer, int token) {
    size_t size = 0;
    const char *text = token < m->text_vocab ? ll_tokenizer_text(tokenizer, token, &size) : "";
    json_t *list = json_array();
    for (size_t i = 0; i < size; i++) json_array_append_new(list, json_integer((unsigned char)text[i]));
    return list;
}

json_t *ll_json_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }
