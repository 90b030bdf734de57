/* The keys of [model]. Choices are numbered in this order by the enums of model_options.h. */
#include "model/config/model_options.h"

#define PART ll_model_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    CHOICE("model.task", task, "lm", "lm|classify|mlm|match|seq2seq",
           "lm: next token; classify: a class; mlm: masked tokens; match: do two texts match; seq2seq: a target text"),
    INT("model.vocab", vocab, "256", 0, 1000000, "number of different tokens; 0 = as many as the data has"),
    INT_IF("model.classes", classes, "10", 0, 1000000, "classes of a classifier; 0 = as many as the data has",
           "model.task=classify|match"),
    INT("model.layers", layers, "6", 1, 1000, "Transformer blocks"),
    INT_IF("model.encoder-layers", encoder_layers, "0", 0, 1000, "blocks of the encoder; 0 = layers",
           "model.task=seq2seq"),
    INT("model.width", width, "512", 1, 65536, "size of a token's vector"),
    INT("model.heads", heads, "8", 1, 1024, "attention heads of a block"),
    INT("model.head-size", head_size, "0", 0, 65536, "values of a head; 0 = width / heads"),
    INT("model.ff", ff, "2048", 1, 1048576, "size of the hidden layer of feed-forward"),
    INT("model.separator", separator, "-1", -1, 999999,
        "token that begins a document, which sees nothing before it: of bytes 10 = lines, 0 = files; of words and "
        "pieces 1 = lines; -1 = none"),
    CHOICE("model.norm", norm, "pre", "pre|post|parallel",
           "norm before each sublayer, or after its sum; parallel: before, attention and feed-forward at once"),
    CHOICE("model.norm-kind", norm_kind, "layer", "layer|rms", "LayerNorm, or RMSNorm, which has no mean and no bias"),
    NUMBER("model.norm-eps", norm_eps, "1e-05", 0, 1, "added to the variance"),
    CHOICE("model.activation", activation, "gelu", "gelu|relu|gelu-tanh|silu|swiglu",
           "activation of the feed-forward layer; gelu-tanh: the approximation by tanh; swiglu: silu of a gate"),
    CHOICE("model.bias", bias, "feed", "feed|none|qkv|all",
           "linear layers of a block that have a bias: feed-forward; none; queries, keys and values; or all"),
    INT("model.kv-heads", kv_heads, "0", 0, 1024,
        "heads of keys and values, each shared by as many heads of queries; 0 = heads"),
    INT("model.token-types", token_types, "0", 0, 1024, "number of token types with an embedding; 0 = none"),
    INT("model.type-separator", type_separator, "-1", -1, 999999,
        "token after which the next type begins; -1 = all tokens have the first type"),
    INT("model.mask-token", mask_token, "-1", -1, 999999,
        "token whose embedding is 0; the others are scaled by its share, as in ESM-2; -1 = none"),
    FLAG_IF("model.head-transform", head_transform, "off", "a layer with activation and norm before the output layer",
            "model.task=mlm"),
    FLAG_IF("model.head-bias", head_bias, "off", "bias of the output layer of a language model",
            "model.task=lm|mlm|seq2seq"),
    INT("model.patch", patch, "0", 0, 4096,
        "side in pixels of the square patches of an image that are its tokens; 0 = each number of the data is a token"),
    INT("model.channels", channels, "1", 1, 3,
        "numbers of a pixel: 1 gray, 3 red, green and blue (needs model.patch); 2 is refused"),
    TEXT("model.pixel-mean", pixel_mean,
         "mean that is subtracted from pixels of 0 to 1, or one for each channel: 0.485,0.456,0.406; empty = 0.5"),
    TEXT("model.pixel-std", pixel_std, "what they are then divided by, likewise; empty = 0.5"),
    FLAG_IF("model.tied-embedding", tied, "on", "the output layer of a language model shares the token embedding",
            "model.task=lm|mlm|seq2seq"),
    CHOICE_IF("model.pool", pool, "mean", "mean|first",
              "vector that a classifier reads: mean of all tokens, or of a CLS token before them (first)",
              "model.task=classify|match"),
    FLAG("model.embedding-norm", embedding_norm, "off", "norm after the embedding"),
    FLAG_IF("model.final-norm", final_norm, "on", "norm after the last block", "model.norm=pre|parallel"),
    NUMBER("model.dropout", dropout, "0", 0, 0.99, "share of activations that training sets to 0"),
    NUMBER("model.init-std", init_std, "0", 0, 10,
           "standard deviation of initial weights; 0 = 0.02 at width 512, more at smaller widths: 0.45 / sqrt(width)"),
};
// clang-format on

const ll_key_table ll_model_keys = {keys, sizeof keys / sizeof *keys};
