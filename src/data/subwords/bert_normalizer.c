/* What BERT's tokenizer (Devlin et al. 2019) does to a text first. */
#include "data/subwords/parts.h"

ll_status ll_strip_marks(ll_grown *out, const uint8_t *text, size_t n, int all) {
    ll_status status = LL_OK;
    for (size_t i = 0, size; i < n && !status; i += size) {
        const int32_t c = ll_char_at(text + i, n - i, &size);
        if (c < 0x300 || !(all ? ll_is_mark(c) : ll_is_nonspacing(c))) status = ll_grown_add(out, text + i, size);
    }
    return status;
}

ll_status ll_lower_all(ll_grown *out, const uint8_t *text, size_t n) {
    ll_status status = LL_OK;
    for (size_t i = 0, size; i < n && !status; i += size) {
        const int32_t c = ll_char_at(text + i, n - i, &size);
        status = c < 0 ? ll_grown_add(out, text + i, 1) : ll_add_lower(out, c);
    }
    return status;
}

static int is_chinese(int32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* White space becomes blanks, control characters go, and each Chinese character stands between blanks. */
static ll_status clean(const ll_bert_rules *rules, ll_grown *out, const uint8_t *text, size_t n) {
    ll_status status = LL_OK;
    for (size_t i = 0, size; i < n && !status; i += size) {
        const int32_t c = ll_char_at(text + i, n - i, &size);
        const int lone = rules->chinese && is_chinese(c);
        const int line = c == '\t' || c == '\n' || c == '\r';
        if (rules->clean && (c == 0 || c == 0xfffd || (ll_is_control(c) && !line))) continue;
        if (rules->clean && ll_is_white(c)) {
            status = ll_grown_add(out, " ", 1);
            continue;
        }
        if (lone) status = ll_grown_add(out, " ", 1);
        if (!status) status = ll_grown_add(out, text + i, size);
        if (!status && lone) status = ll_grown_add(out, " ", 1);
    }
    return status;
}

ll_status ll_bert_normalize(const ll_bert_rules *rules, ll_grown *out, const uint8_t *text, size_t n) {
    ll_grown cleaned = {0}, parted = {0}, bare = {0};
    ll_status status = clean(rules, &cleaned, text, n);
    if (!status && rules->accents) {
        status = ll_add_normal(&parted, cleaned.at, cleaned.n, LL_NFD);
        if (!status) status = ll_strip_marks(&bare, parted.at, parted.n, 0);
    }
    const ll_grown *last = rules->accents ? &bare : &cleaned;
    if (!status) status = rules->lower ? ll_lower_all(out, last->at, last->n) : ll_grown_add(out, last->at, last->n);
    ll_grown_free(&cleaned);
    ll_grown_free(&parted);
    ll_grown_free(&bare);
    return status;
}
