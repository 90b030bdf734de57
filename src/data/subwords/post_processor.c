/* The post-processor: tokens that go before and after a text. Of a pair of texts only the first is looked at. */
#include <string.h>

#include "base/memory.h"
#include "data/subwords/parts.h"

static ll_status add_id(ll_tokens *to, const json_t *id, const char *name) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
        return ll_fail(LL_EFORMAT, "%s: the post_processor of its tokenizer has a token without a number", name);
    return ll_tokens_add(to, (int32_t)json_integer_value(id));
}

/* {"single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": ..}, ..], "special_tokens": {"[CLS]": {"ids": [101]}}} */
static ll_status read_template(ll_post_processor *p, const json_t *part, const char *name) {
    const json_t *single = json_object_get(part, "single"), *tokens = json_object_get(part, "special_tokens");
    ll_status status = LL_OK;
    int after = 0;
    for (size_t i = 0; i < json_array_size(single) && !status; i++) {
        const json_t *piece = json_array_get(single, i);
        if (json_object_get(piece, "Sequence")) {
            after = 1;
            continue;
        }
        const json_t *ids = json_object_get(
            json_object_get(tokens, ll_part_text(json_object_get(piece, "SpecialToken"), "id", "")), "ids");
        if (!json_array_size(ids))
            return ll_fail(LL_EFORMAT, "%s: the post_processor of its tokenizer has a token without a number", name);
        for (size_t k = 0; k < json_array_size(ids) && !status; k++)
            status = add_id(after ? &p->after : &p->before, json_array_get(ids, k), name);
    }
    return status;
}

ll_status ll_post_processor_read(ll_post_processor *p, const json_t *part, const char *name) {
    const json_t *one;
    ll_status status = LL_OK;
    for (size_t i = 0; !status && (one = ll_part_at(part, "processors", i)); i++) {
        const char *type = ll_part_type(one);
        if (!strcmp(type, "ByteLevel")) continue;
        if (!strcmp(type, "TemplateProcessing")) {
            status = read_template(p, one, name);
        } else if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) {
            status = add_id(&p->before, json_array_get(json_object_get(one, "cls"), 1), name);
            if (!status) status = add_id(&p->after, json_array_get(json_object_get(one, "sep"), 1), name);
        } else {
            status = ll_part_unknown(name, "post_processor", one);
        }
    }
    return status;
}
