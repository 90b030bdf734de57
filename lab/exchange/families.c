/* The table of families. */
#include "exchange/families.h"

#include <string.h>

static const ll_family *const families[] = {
    &ll_family_gpt2, &ll_family_neox,    &ll_family_llama,    &ll_family_mistral, &ll_family_qwen2,
    &ll_family_bert, &ll_family_roberta, &ll_family_roformer, &ll_family_esm,
    &ll_family_vit,
};

const ll_family *ll_family_of(const char *type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i]->type, type)) return families[i];
    return NULL;
}

const char *ll_families_text(void) {
    return "gpt2, gpt_neox, llama, mistral, qwen2, bert, roberta, roformer, esm, vit";
}
