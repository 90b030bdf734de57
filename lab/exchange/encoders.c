/* Families of masked language models: BERT, RoBERTa, RoFormer, ESM-2. */
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "exchange/families.h"

/* Blocks as in BERT: the norm comes after the sum. FLAGS: of queries and keys. */
#define LINEAR(theirs, ours, flags)                                                                                    \
    {theirs ".weight", ours ".weight", LL_OUT_IN | (flags), 0, 0}, { theirs ".bias", ours ".bias", (flags), 0, 0 }
#define NORM(theirs, ours)                                                                                             \
    {theirs ".weight", ours ".gain", LL_TABLE, 0, 0}, { theirs ".bias", ours ".bias", LL_TABLE, 0, 0 }
#define BLOCK(flags, attention_norm, feed_norm)                                                                        \
    LINEAR("*encoder.layer.#.attention.self.query", "blocks.#.attention.query", flags),                                \
        LINEAR("*encoder.layer.#.attention.self.key", "blocks.#.attention.key", flags),                                \
        LINEAR("*encoder.layer.#.attention.self.value", "blocks.#.attention.value", 0),                                \
        LINEAR("*encoder.layer.#.attention.output.dense", "blocks.#.attention.output", 0),                             \
        NORM("*encoder.layer.#." attention_norm, "blocks.#.attention.norm"),                                           \
        LINEAR("*encoder.layer.#.intermediate.dense", "blocks.#.feed.in", 0),                                          \
        LINEAR("*encoder.layer.#.output.dense", "blocks.#.feed.out", 0),                                               \
        NORM("*encoder.layer.#." feed_norm, "blocks.#.feed.norm")
#define WORDS                                                                                                          \
    { "*embeddings.word_embeddings.weight", "embedding.weight", LL_TABLE, 0, 0 }
#define POSITIONS                                                                                                      \
    { "*embeddings.position_embeddings.weight", "embedding.position", LL_TABLE, 0, 0 }
#define TYPES                                                                                                          \
    { "*embeddings.token_type_embeddings.weight", "embedding.type", LL_TABLE, 0, 0 }
#define KEPT(theirs)                                                                                                   \
    { theirs, NULL, LL_KEPT, 0, 0 }
/* An output layer: its transform, its bias, and its weight, which may be the embedding's. */
#define HEAD(dense, norm, bias, decoder)                                                                               \
    LINEAR(dense, "head.transform", 0), NORM(norm, "head.norm"), {bias, "head.bias", LL_TABLE, 0, 0},                  \
        {decoder ".weight", "head.weight", LL_OUT_IN, 0, 0},                                                           \
        {decoder ".weight", "embedding.weight", LL_DUPLICATE, 0, 0}, {                                                 \
        decoder ".bias", "head.bias", LL_DUPLICATE, 0, 0                                                               \
    }

#define BERT_HEAD                                                                                                      \
    HEAD("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias",             \
         "cls.predictions.decoder")
#define LM_HEAD HEAD("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder")

/* ---- What the families share ---- */

static void read_encoder(ll_reading *r, const char *head_bias, const char *activation) {
    static const char *const heads[] = {"Model", "ForMaskedLM", "ForPreTraining", NULL};
    ll_family_head(r, heads, "masked language models");
    ll_hf_only(r, "is_decoder", "false");
    ll_hf_only(r, "add_cross_attention", "false");
    ll_family_sizes(r, (ll_family_size){
                           .layers = ll_hf_integer(r, "num_hidden_layers", LL_NEEDED),
                           .heads = ll_hf_integer(r, "num_attention_heads", LL_NEEDED),
                           .width = ll_hf_integer(r, "hidden_size", LL_NEEDED),
                           .ff = ll_hf_integer(r, "intermediate_size", LL_NEEDED),
                           .length = ll_hf_integer(r, "max_position_embeddings", 512),
                           .eps = ll_hf_number(r, "layer_norm_eps", 1e-12),
                           .activation = activation,
                       });
    const char *head = ll_hf_has(r, head_bias) ? "on" : "off";
    ll_hf_set(r, "model.task", "mlm");
    ll_hf_set(r, "model.bias", "all");
    ll_hf_set(r, "model.head-transform", "%s", head);
    ll_hf_set(r, "model.head-bias", "%s", head);
    ll_hf_set(r, "model.tied-embedding", ll_hf_flag(r, "tie_word_embeddings", 1) ? "on" : "off");
}

static void read_post_norm(ll_reading *r, const char *head_bias) {
    read_encoder(r, head_bias, ll_hf_text(r, "hidden_act", "gelu"));
    ll_hf_set(r, "model.norm", "post");
    ll_hf_set(r, "model.embedding-norm", "on");
    ll_hf_set(r, "model.token-types", "%lld", (long long)ll_hf_integer(r, "type_vocab_size", 2));
}

/* Learned positions; the first `offset` of them do not belong to tokens. */
static void read_positions(ll_reading *r, int64_t offset) {
    const int64_t rows = ll_hf_integer(r, "max_position_embeddings", 512), reach = rows - offset;
    ll_hf_only(r, "position_embedding_type", "absolute");
    ll_hf_set(r, "position.type", "learned");
    ll_hf_set(r, "position.max-length", "%lld", (long long)rows);
    ll_hf_set(r, "position.offset", "%lld", (long long)offset);
    ll_hf_set(r, "train.length", "%lld", (long long)ll_min_int64(reach, 1024));
}

/* ---- BERT (Devlin et al. 2019) ---- */

static const ll_tensor_rule bert_rules[] = {
    WORDS,
    POSITIONS,
    TYPES,
    NORM("*embeddings.LayerNorm", "embedding.norm"),
    BLOCK(0, "attention.output.LayerNorm", "output.LayerNorm"),
    BERT_HEAD,
    KEPT("*embeddings.position_ids"),
    KEPT("*pooler.dense.weight"),
    KEPT("*pooler.dense.bias"),
    KEPT("cls.seq_relationship.weight"),
    KEPT("cls.seq_relationship.bias"),
    {0},
};

static void read_bert(ll_reading *r) {
    read_post_norm(r, "cls.predictions.bias");
    read_positions(r, 0);
}

const ll_family ll_family_bert = {"bert", "BERT", "bert.", bert_rules, read_bert};

/* ---- RoBERTa (Liu et al. 2019): positions begin after the number of the padding token ---- */

static const ll_tensor_rule roberta_rules[] = {
    WORDS,
    POSITIONS,
    TYPES,
    NORM("*embeddings.LayerNorm", "embedding.norm"),
    BLOCK(0, "attention.output.LayerNorm", "output.LayerNorm"),
    LM_HEAD,
    KEPT("*embeddings.position_ids"),
    KEPT("*pooler.dense.weight"),
    KEPT("*pooler.dense.bias"),
    {0},
};

static void read_roberta(ll_reading *r) {
    read_post_norm(r, "lm_head.bias");
    if (ll_hf_has(r, "lm_head.bias")) ll_hf_only(r, "hidden_act", "gelu"); /* that of the head in any case */
    read_positions(r, ll_hf_integer(r, "pad_token_id", 1) + 1);
}

const ll_family ll_family_roberta = {"roberta", "RoBERTa", "roberta.", roberta_rules, read_roberta};

/* ---- RoFormer (Su et al. 2021): neighbouring channels are rotated, as here ---- */

static const ll_tensor_rule roformer_rules[] = {
    WORDS,
    TYPES,
    NORM("*embeddings.LayerNorm", "embedding.norm"),
    BLOCK(0, "attention.output.LayerNorm", "output.LayerNorm"),
    BERT_HEAD,
    KEPT("*encoder.embed_positions.weight"), /* sines and cosines, which are computed here */
    KEPT("*pooler.dense.weight"),
    KEPT("*pooler.dense.bias"),
    {0},
};

static void read_roformer(ll_reading *r) {
    const int64_t width = ll_hf_integer(r, "hidden_size", LL_NEEDED);
    read_post_norm(r, "cls.predictions.bias");
    if (ll_hf_integer(r, "embedding_size", width) != width && !r->status)
        r->status = ll_fail(LL_EINVAL, "%s: embedding_size differs from hidden_size, which is not supported", r->path);
    ll_hf_only(r, "rotary_value", "false");
    ll_hf_set(r, "position.type", "rope");
}

const ll_family ll_family_roformer = {"roformer", "RoFormer", "roformer.", roformer_rules, read_roformer};

/* ---- ESM-2 (Lin et al. 2023) ---- */

static const ll_tensor_rule esm_rules[] = {
    WORDS,
    NORM("*embeddings.layer_norm", "embedding.norm"),
    BLOCK(LL_ROTATED, "attention.LayerNorm", "LayerNorm"),
    NORM("*encoder.emb_layer_norm_after", "norm"),
    LM_HEAD,
    KEPT("*embeddings.position_ids"),
    KEPT("*embeddings.position_embeddings.weight"), /* of ESM-1; ESM-2 does not read it */
    KEPT("*encoder.layer.#.attention.self.rotary_embeddings.inv_freq"),
    KEPT("*contact_head.regression.weight"),
    KEPT("*contact_head.regression.bias"),
    KEPT("*pooler.dense.weight"),
    KEPT("*pooler.dense.bias"),
    {0},
};

static void read_esm(ll_reading *r) {
    read_encoder(r, "lm_head.bias", "gelu"); /* hidden_act is not read */
    ll_hf_only(r, "is_folding_model", "false");
    if (!r->status && strcmp(ll_hf_text(r, "position_embedding_type", "absolute"), "rotary"))
        r->status = ll_fail(LL_EINVAL, "%s: position_embedding_type is not rotary: this is not ESM-2", r->path);
    ll_hf_set(r, "model.embedding-norm", ll_hf_flag(r, "emb_layer_norm_before", 0) ? "on" : "off");
    ll_hf_set(r, "position.type", "rope");
    if (ll_hf_flag(r, "token_dropout", 0))
        ll_hf_set(r, "model.mask-token", "%lld", (long long)ll_hf_integer(r, "mask_token_id", LL_NEEDED));
}

const ll_family ll_family_esm = {"esm", "ESM-2", "esm.", esm_rules, read_esm};
