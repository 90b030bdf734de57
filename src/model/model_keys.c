/* The keys of [model]. Choices are numbered in this order by the enums of model_options.h. */
#include "model/model_options.h"

#define PART ll_model_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    CHOICE("model.task", task, "lm", "lm|classify|mlm|match|seq2seq",
           "what to learn: the next token, a class, masked tokens, whether texts belong together, another sequence"),
    INT("model.vocab", vocab, "256", 0, 1000000, "tokens that exist; 0 = as many as the data has"),
    INT("model.classes", classes, "10", 0, 1000000, "classes of a classifier; 0 = as many as the data has"),
    INT("model.layers", layers, "6", 1, 1000, "Transformer blocks"),
    INT("model.encoder-layers", encoder_layers, "0", 0, 1000, "blocks of the encoder, task = seq2seq; 0 = layers"),
    INT("model.width", width, "512", 1, 65536, "numbers that represent a token"),
    INT("model.heads", heads, "8", 1, 1024, "attention heads of a block"),
    INT("model.head-size", head_size, "0", 0, 65536, "values of a head; 0 = width / heads"),
    INT("model.ff", ff, "2048", 1, 1048576, "hidden units of the feed-forward layer"),
    INT("model.separator", separator, "-1", -1, 999999,
        "token that begins a document anew, so that nothing before it is seen: 10 = lines, 0 = files; -1 = none"),
    CHOICE("model.norm", norm, "pre", "pre|post|parallel",
           "layer norm before each sublayer, or after its sum; parallel: before, attention and feed-forward at once"),
    CHOICE("model.norm-kind", norm_kind, "layer", "layer|rms", "LayerNorm, or RMSNorm, which has no mean and no bias"),
    NUMBER("model.norm-eps", norm_eps, "1e-05", 0, 1, "added to the variance"),
    CHOICE("model.activation", activation, "gelu", "gelu|relu|gelu-tanh|silu|swiglu",
           "nonlinearity of the feed-forward layer; gelu-tanh: the approximation by tanh; swiglu: silu of a gate"),
    CHOICE("model.bias", bias, "feed", "feed|none|qkv|all",
           "linear layers of a block with a bias: those of feed-forward, none, queries with keys and values, or all"),
    INT("model.kv-heads", kv_heads, "0", 0, 1024,
        "heads of keys and values, each of which serves as many heads of queries; 0 = heads"),
    INT("model.token-types", token_types, "0", 0, 1024, "types of tokens that have an embedding; 0 = none"),
    INT("model.type-separator", type_separator, "-1", -1, 999999,
        "token after which the next type begins; -1 = all tokens are of the first type"),
    INT("model.mask-token", mask_token, "-1", -1, 999999,
        "token whose embedding is 0, while the others grow by its share as in ESM-2; -1 = none"),
    FLAG("model.head-transform", head_transform, "off",
         "a layer with activation and norm before the output layer of task = mlm"),
    FLAG("model.head-bias", head_bias, "off", "a bias of the output layer of a language model"),
    FLAG("model.tied-embedding", tied, "on", "output layer of a language model = its token embedding"),
    CHOICE("model.pool", pool, "mean", "mean|first",
           "what a classifier reads: the mean of all tokens, or a learned token that is put in front (first)"),
    FLAG("model.embedding-norm", embedding_norm, "off", "layer norm after the embedding"),
    FLAG("model.final-norm", final_norm, "on", "layer norm after the last block, where norm = pre"),
    NUMBER("model.dropout", dropout, "0", 0, 0.99, "share of activations set to 0 in training"),
    NUMBER("model.init-std", init_std, "0", 0, 10,
           "standard deviation of new weights; 0 = 0.02 at width 512, more where that is less: 0.45 / sqrt(width)"),
};
// clang-format on

const ll_key_table ll_model_keys = {keys, sizeof keys / sizeof *keys};
