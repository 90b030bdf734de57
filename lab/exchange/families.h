/* The families, and what their configurations share. */
#ifndef LL_FAMILIES_H
#define LL_FAMILIES_H

#include "exchange/family.h"

extern const ll_family ll_family_gpt2, ll_family_neox, ll_family_llama, ll_family_mistral, ll_family_qwen2,
    ll_family_bert, ll_family_roberta, ll_family_roformer, ll_family_esm;

typedef struct {
    int64_t layers, heads, width, ff, length;
    double eps;
    const char *activation; /* the activation as config.json calls it, or swiglu */
} ll_family_size;

/* Sets these keys, and those of the vocabulary. */
void ll_family_sizes(ll_reading *r, ll_family_size size);
/* position.type = rope with this base; fails if rope_scaling or rope_parameters ask for more. */
void ll_family_rope(ll_reading *r, double base);

#endif
