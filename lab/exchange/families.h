/* The families, and what their configurations share. */
#ifndef LL_FAMILIES_H
#define LL_FAMILIES_H

#include "exchange/family.h"

extern const ll_family ll_family_gpt2, ll_family_neox, ll_family_llama, ll_family_mistral, ll_family_qwen2,
    ll_family_bert, ll_family_roberta, ll_family_roformer, ll_family_esm,
    ll_family_vit;

typedef struct {
    int64_t vocab; /* 0: vocab_size of config.json */
    int64_t layers, heads, width, ff, length;
    double eps;
    const char *activation; /* the activation as config.json calls it, or swiglu */
} ll_family_size;

/* Sets these keys, and those of the vocabulary. */
void ll_family_sizes(ll_reading *r, ll_family_size size);
/* Fails unless the architecture ends with one of these words (NULL ends them). Heads for other tasks have tensors that
 * would be left over, and an error that names the head is clearer. what: "image classifiers" are supported. */
void ll_family_head(ll_reading *r, const char *const *fine, const char *what);
/* position.type = rope with this base, unless rope_scaling or rope_parameters have another, and what else they say. */
void ll_family_rope(ll_reading *r, double base);
/* The share of a head's channels that is rotated, where they have one; else the given one. */
double ll_family_rotary(ll_reading *r, double share);

#endif
