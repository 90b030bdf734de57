/* Families of language models: GPT-2, GPT-NeoX, and those like LLaMA. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "exchange/families.h"

/* ---- GPT-2 (Radford et al. 2019) ---- */

static const ll_tensor_rule gpt2_rules[] = {
    {"*wte.weight", "embedding.weight", LL_TABLE, 0, 0},
    {"*wpe.weight", "embedding.position", LL_TABLE, 0, 0},
    {"*h.#.ln_1.weight", "blocks.#.attention.norm.gain", LL_TABLE, 0, 0},
    {"*h.#.ln_1.bias", "blocks.#.attention.norm.bias", LL_TABLE, 0, 0},
    {"*h.#.attn.c_attn.weight", "blocks.#.attention.query.weight", LL_TABLE, 0, 3},
    {"*h.#.attn.c_attn.weight", "blocks.#.attention.key.weight", LL_TABLE, 1, 3},
    {"*h.#.attn.c_attn.weight", "blocks.#.attention.value.weight", LL_TABLE, 2, 3},
    {"*h.#.attn.c_attn.bias", "blocks.#.attention.query.bias", LL_TABLE, 0, 3},
    {"*h.#.attn.c_attn.bias", "blocks.#.attention.key.bias", LL_TABLE, 1, 3},
    {"*h.#.attn.c_attn.bias", "blocks.#.attention.value.bias", LL_TABLE, 2, 3},
    {"*h.#.attn.c_proj.weight", "blocks.#.attention.output.weight", LL_TABLE, 0, 0},
    {"*h.#.attn.c_proj.bias", "blocks.#.attention.output.bias", LL_TABLE, 0, 0},
    {"*h.#.ln_2.weight", "blocks.#.feed.norm.gain", LL_TABLE, 0, 0},
    {"*h.#.ln_2.bias", "blocks.#.feed.norm.bias", LL_TABLE, 0, 0},
    {"*h.#.mlp.c_fc.weight", "blocks.#.feed.in.weight", LL_TABLE, 0, 0},
    {"*h.#.mlp.c_fc.bias", "blocks.#.feed.in.bias", LL_TABLE, 0, 0},
    {"*h.#.mlp.c_proj.weight", "blocks.#.feed.out.weight", LL_TABLE, 0, 0},
    {"*h.#.mlp.c_proj.bias", "blocks.#.feed.out.bias", LL_TABLE, 0, 0},
    {"*ln_f.weight", "norm.gain", LL_TABLE, 0, 0},
    {"*ln_f.bias", "norm.bias", LL_TABLE, 0, 0},
    {"lm_head.weight", "head.weight", LL_OUT_IN, 0, 0},
    {"lm_head.weight", "embedding.weight", LL_DUPLICATE, 0, 0}, /* tied */
    {"*h.#.attn.bias", NULL, LL_KEPT, 0, 0},                    /* the causal mask */
    {"*h.#.attn.masked_bias", NULL, LL_KEPT, 0, 0},
    {0},
};

static void read_gpt2(ll_reading *r) {
    const int64_t width = ll_hf_integer(r, "n_embd", LL_NEEDED), length = ll_hf_integer(r, "n_positions", 1024);
    ll_hf_only(r, "add_cross_attention", "false");
    ll_hf_only(r, "scale_attn_weights", "true");
    ll_hf_only(r, "scale_attn_by_inverse_layer_idx", "false");
    ll_family_sizes(r, (ll_family_size){
                           .layers = ll_hf_integer(r, "n_layer", LL_NEEDED),
                           .heads = ll_hf_integer(r, "n_head", LL_NEEDED),
                           .width = width,
                           .ff = ll_hf_integer(r, "n_inner", 4 * width),
                           .length = length,
                           .eps = ll_hf_number(r, "layer_norm_epsilon", 1e-5),
                           .activation = ll_hf_text(r, "activation_function", "gelu_new"),
                       });
    ll_hf_set(r, "model.bias", "all");
    ll_hf_set(r, "position.type", "learned");
    ll_hf_set(r, "position.max-length", "%lld", (long long)length);
    ll_hf_set(r, "model.tied-embedding", ll_hf_flag(r, "tie_word_embeddings", 1) ? "on" : "off");
}

const ll_family ll_family_gpt2 = {"gpt2", "GPT-2", "transformer.", gpt2_rules, read_gpt2};

/* ---- GPT-NeoX, Pythia (Black et al. 2022, Biderman et al. 2023) ---- */

enum { NEOX = LL_OUT_IN | LL_BY_HEAD };
static const ll_tensor_rule neox_rules[] = {
    {"*embed_in.weight", "embedding.weight", LL_TABLE, 0, 0},
    {"*layers.#.input_layernorm.weight", "blocks.#.attention.norm.gain", LL_TABLE, 0, 0},
    {"*layers.#.input_layernorm.bias", "blocks.#.attention.norm.bias", LL_TABLE, 0, 0},
    {"*layers.#.attention.query_key_value.weight", "blocks.#.attention.query.weight", NEOX | LL_ROTATED, 0, 3},
    {"*layers.#.attention.query_key_value.weight", "blocks.#.attention.key.weight", NEOX | LL_ROTATED, 1, 3},
    {"*layers.#.attention.query_key_value.weight", "blocks.#.attention.value.weight", NEOX, 2, 3},
    {"*layers.#.attention.query_key_value.bias", "blocks.#.attention.query.bias", LL_BY_HEAD | LL_ROTATED, 0, 3},
    {"*layers.#.attention.query_key_value.bias", "blocks.#.attention.key.bias", LL_BY_HEAD | LL_ROTATED, 1, 3},
    {"*layers.#.attention.query_key_value.bias", "blocks.#.attention.value.bias", LL_BY_HEAD, 2, 3},
    {"*layers.#.attention.dense.weight", "blocks.#.attention.output.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.attention.dense.bias", "blocks.#.attention.output.bias", LL_TABLE, 0, 0},
    {"*layers.#.post_attention_layernorm.weight", "blocks.#.feed.norm.gain", LL_TABLE, 0, 0},
    {"*layers.#.post_attention_layernorm.bias", "blocks.#.feed.norm.bias", LL_TABLE, 0, 0},
    {"*layers.#.mlp.dense_h_to_4h.weight", "blocks.#.feed.in.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.mlp.dense_h_to_4h.bias", "blocks.#.feed.in.bias", LL_TABLE, 0, 0},
    {"*layers.#.mlp.dense_4h_to_h.weight", "blocks.#.feed.out.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.mlp.dense_4h_to_h.bias", "blocks.#.feed.out.bias", LL_TABLE, 0, 0},
    {"*final_layer_norm.weight", "norm.gain", LL_TABLE, 0, 0},
    {"*final_layer_norm.bias", "norm.bias", LL_TABLE, 0, 0},
    {"embed_out.weight", "head.weight", LL_OUT_IN, 0, 0},
    {"embed_out.weight", "embedding.weight", LL_DUPLICATE, 0, 0}, /* tied */
    {"*layers.#.attention.bias", NULL, LL_KEPT, 0, 0},            /* the causal mask */
    {"*layers.#.attention.masked_bias", NULL, LL_KEPT, 0, 0},
    {"*layers.#.attention.rotary_emb.inv_freq", NULL, LL_KEPT, 0, 0},
    {0},
};

static void read_neox(ll_reading *r) {
    const int64_t width = ll_hf_integer(r, "hidden_size", LL_NEEDED);
    const int64_t heads = ll_hf_integer(r, "num_attention_heads", LL_NEEDED);
    const double share = ll_family_rotary(r, ll_hf_number(r, "rotary_pct", 0.25));
    ll_family_sizes(r, (ll_family_size){
                           .layers = ll_hf_integer(r, "num_hidden_layers", LL_NEEDED),
                           .heads = heads,
                           .width = width,
                           .ff = ll_hf_integer(r, "intermediate_size", LL_NEEDED),
                           .length = ll_hf_integer(r, "max_position_embeddings", 2048),
                           .eps = ll_hf_number(r, "layer_norm_eps", 1e-5),
                           .activation = ll_hf_text(r, "hidden_act", "gelu"),
                       });
    ll_hf_only(r, "attention_bias", "true");
    ll_hf_set(r, "model.bias", "all");
    ll_hf_set(r, "model.norm", ll_hf_flag(r, "use_parallel_residual", 1) ? "parallel" : "pre");
    ll_hf_set(r, "model.tied-embedding", ll_hf_flag(r, "tie_word_embeddings", 0) ? "on" : "off");
    const int rotary = heads && fabs(share) <= 1 ? (int)((double)(width / heads) * share) : -1;
    ll_family_rope(r, ll_hf_number(r, "rotary_emb_base", 10000));
    if (!rotary && !r->status)
        r->status = ll_fail(LL_EINVAL, "%s: it rotates no channel of a head, which is not supported", r->path);
    ll_hf_set(r, "position.rotary", "%d", rotary);
}

const ll_family ll_family_neox = {"gpt_neox", "GPT-NeoX", "gpt_neox.", neox_rules, read_neox};

/* ---- LLaMA and similar models (Touvron et al. 2023) ---- */

static const ll_tensor_rule llama_rules[] = {
    {"*embed_tokens.weight", "embedding.weight", LL_TABLE, 0, 0},
    {"*layers.#.input_layernorm.weight", "blocks.#.attention.norm.gain", LL_TABLE, 0, 0},
    {"*layers.#.self_attn.q_proj.weight", "blocks.#.attention.query.weight", LL_OUT_IN | LL_ROTATED, 0, 0},
    {"*layers.#.self_attn.k_proj.weight", "blocks.#.attention.key.weight", LL_OUT_IN | LL_ROTATED, 0, 0},
    {"*layers.#.self_attn.v_proj.weight", "blocks.#.attention.value.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.self_attn.o_proj.weight", "blocks.#.attention.output.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.self_attn.q_proj.bias", "blocks.#.attention.query.bias", LL_ROTATED, 0, 0},
    {"*layers.#.self_attn.k_proj.bias", "blocks.#.attention.key.bias", LL_ROTATED, 0, 0},
    {"*layers.#.self_attn.v_proj.bias", "blocks.#.attention.value.bias", LL_TABLE, 0, 0},
    {"*layers.#.post_attention_layernorm.weight", "blocks.#.feed.norm.gain", LL_TABLE, 0, 0},
    {"*layers.#.mlp.gate_proj.weight", "blocks.#.feed.gate.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.mlp.up_proj.weight", "blocks.#.feed.in.weight", LL_OUT_IN, 0, 0},
    {"*layers.#.mlp.down_proj.weight", "blocks.#.feed.out.weight", LL_OUT_IN, 0, 0},
    {"*norm.weight", "norm.gain", LL_TABLE, 0, 0},
    {"lm_head.weight", "head.weight", LL_OUT_IN, 0, 0},
    {"lm_head.weight", "embedding.weight", LL_DUPLICATE, 0, 0}, /* tied */
    {"*layers.#.self_attn.rotary_emb.inv_freq", NULL, LL_KEPT, 0, 0},
    {0},
};

/* The number of layers with Qwen2's window: those that layer_types lists, or else those from max_window_layers on. */
static int64_t count_windows(ll_reading *r, int64_t layers) {
    const json_t *types = json_object_get(r->json, "layer_types");
    int64_t windows = 0, known = 0;
    if (!types || json_is_null(types))
        return layers - ll_min_int64(ll_hf_integer(r, "max_window_layers", 28), layers);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        const int window = type && !strcmp(type, "sliding_attention");
        windows += window;
        known += window || (type && !strcmp(type, "full_attention"));
    }
    if (!r->status && (known != layers || json_array_size(types) != (size_t)layers))
        r->status = ll_fail(LL_EFORMAT, "%s: layer_types is not a sliding_attention or full_attention for each layer",
                            r->path);
    return windows;
}

/* Mistral's window, and Qwen2's, which some of its layers may have. A Mistral whose config.json has no such key has the
 * window of Mistral 7B v0.1; null means none. */
static void set_window(ll_reading *r, int64_t layers) {
    const int mistral = !strcmp(r->family->type, "mistral"), qwen = !strcmp(r->family->type, "qwen2");
    if (!mistral && !(qwen && ll_hf_flag(r, "use_sliding_window", 0))) return;
    const int null = json_is_null(json_object_get(r->json, "sliding_window"));
    const int64_t window = ll_hf_integer(r, "sliding_window", null ? 0 : 4096);
    const int64_t windows = qwen && window ? count_windows(r, layers) : layers;
    if (r->status || !window || !windows) return;
    if (windows < layers)
        r->status = ll_fail(LL_EINVAL,
                            "%s: a sliding_window of %lld of %lld layers is not supported; one of all layers is. With "
                            "\"use_sliding_window\": false it is the same model for sequences of up to %lld tokens",
                            r->path, (long long)windows, (long long)layers, (long long)window);
    ll_hf_set(r, "attention.kernel", "local");
    ll_hf_set(r, "attention.window", "%lld", (long long)window);
}

/* The number of heads of keys and values where config.json has none: null means that of all heads. Without the key it
 * is that of the first Mistral and Qwen2, or of all heads. */
static int64_t usual_kv_heads(const ll_reading *r, int64_t heads) {
    if (json_object_get(r->json, "num_key_value_heads")) return heads;
    return !strcmp(r->family->type, "mistral") ? 8 : !strcmp(r->family->type, "qwen2") ? 32 : heads;
}

static void read_llama(ll_reading *r) {
    const int64_t width = ll_hf_integer(r, "hidden_size", LL_NEEDED);
    const int64_t heads = ll_hf_integer(r, "num_attention_heads", LL_NEEDED);
    const int64_t layers = ll_hf_integer(r, "num_hidden_layers", LL_NEEDED);
    const int64_t kv = ll_hf_integer(r, "num_key_value_heads", usual_kv_heads(r, heads));
    const int64_t head = ll_hf_integer(r, "head_dim", 0);
    ll_hf_only(r, "hidden_act", "silu");
    ll_hf_only(r, "attention_bias", "false");
    ll_hf_only(r, "mlp_bias", "false");
    set_window(r, layers);
    ll_family_sizes(r, (ll_family_size){
                           .layers = layers,
                           .heads = heads,
                           .width = width,
                           .ff = ll_hf_integer(r, "intermediate_size", LL_NEEDED),
                           .length = ll_hf_integer(r, "max_position_embeddings", 2048),
                           .eps = ll_hf_number(r, "rms_norm_eps", 1e-6),
                           .activation = "swiglu",
                       });
    ll_hf_set(r, "model.bias", strcmp(r->family->type, "qwen2") ? "none" : "qkv");
    ll_hf_set(r, "model.norm-kind", "rms");
    if (head) ll_hf_set(r, "model.head-size", "%lld", (long long)head);
    if (kv != heads) ll_hf_set(r, "model.kv-heads", "%lld", (long long)kv);
    ll_hf_set(r, "model.tied-embedding", ll_hf_flag(r, "tie_word_embeddings", 0) ? "on" : "off");
    ll_family_rope(r, ll_hf_number(r, "rope_theta", 10000));
}

const ll_family ll_family_llama = {"llama", "LLaMA", "model.", llama_rules, read_llama};
const ll_family ll_family_mistral = {"mistral", "Mistral", "model.", llama_rules, read_llama};
const ll_family ll_family_qwen2 = {"qwen2", "Qwen2", "model.", llama_rules, read_llama};
