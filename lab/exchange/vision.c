/* Families of models of images: ViT. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "exchange/families.h"

/* ---- What a processor does to pictures (preprocessor_config.json) ---- */

/* "0.5,0.5,0.5" of an array of numbers; a number is that of all channels; fallback if it is missing. */
static void pixel_list(ll_reading *r, const char *ours, const char *key, double fallback, double scale) {
    enum { MOST = 3 };
    const json_t *list = json_object_get(r->json, key);
    const size_t count = json_array_size(list);
    char text[160] = "";
    size_t n = 0;
    int wrong = !count || count > MOST;
    if (!json_is_array(list)) {
        ll_hf_set(r, ours, "%.9g", ll_hf_number(r, key, fallback) * scale);
        return;
    }
    for (size_t i = 0; i < count && i < MOST; i++) {
        const json_t *number = json_array_get(list, i);
        wrong |= !json_is_number(number);
        if (i) text[n++] = ',';
        ll_format_text(text + n, sizeof text - n, "%.9g", json_number_value(number) * scale);
        n += strlen(text + n);
    }
    if (wrong && !r->status)
        r->status = ll_fail(LL_EFORMAT, "%s: %s is not a list of a number for each channel", r->path, key);
    ll_hf_set(r, ours, "%s", text);
}

/* "size" or "crop_size": a number, or a height and a width, which must be equal. 0: missing. */
static int64_t side_of(ll_reading *r, const char *key) {
    const json_t *size = json_object_get(r->json, key), *height = json_object_get(size, "height");
    if (!size || r->status) return 0;
    const int64_t side = ll_hf_whole(height ? height : size);
    if (side < 0 || (height && !json_equal(height, json_object_get(size, "width"))))
        r->status =
            ll_fail(LL_EFORMAT, "%s: %s is not a height and a width that are equal, and no other form is supported",
                    r->path, key);
    return side;
}

/* Pictures become squares of `size`, of which a processor that crops takes the middle. */
static void read_resizing(ll_reading *r) {
    const int crops = ll_hf_flag(r, "do_center_crop", 0), resizes = ll_hf_flag(r, "do_resize", 1);
    const int64_t filter = ll_hf_integer(r, "resample", 2), size = side_of(r, "size");
    if (resizes && filter != 2 && filter != 3) ll_hf_only(r, "resample", "2 or 3");
    if (resizes && filter == 3) ll_hf_set(r, "data.resize-filter", "bicubic");
    if (!crops) return;
    ll_hf_only(r, "do_resize", "true");
    const int64_t kept = side_of(r, "crop_size");
    char side[24];
    snprintf(side, sizeof side, "%lld", (long long)kept);
    if (!r->status && size < 1) r->status = ll_fail(LL_EFORMAT, "%s: it crops, and says no size before", r->path);
    if (!r->status && strcmp(side, ll_recipe_get(r->recipe, "data.resize")))
        r->status = ll_fail(LL_EFORMAT, "%s: crop_size is %s, and the model reads images of %s pixels", r->path, side,
                            ll_recipe_get(r->recipe, "data.resize"));
    ll_hf_set(r, "data.resize-side", "%lld", (long long)size);
}

/* Pixels of 0 to 255 are multiplied by rescale_factor; ours are divided by 255. The rest is the same line. */
static void read_pixels(ll_reading *r) {
    const int rescales = ll_hf_flag(r, "do_rescale", 1), normalises = ll_hf_flag(r, "do_normalize", 1);
    const double factor = rescales ? ll_hf_number(r, "rescale_factor", 1.0 / 255) : 1, scale = 1 / (255 * factor);
    ll_hf_only(r, "offset", "false");
    read_resizing(r);
    if ((!(factor > 0) || !isfinite(scale)) && !r->status)
        r->status = ll_fail(LL_EFORMAT, "%s: rescale_factor is not above 0, or too small", r->path);
    if (normalises) {
        pixel_list(r, "model.pixel-mean", "image_mean", 0.5, scale);
        pixel_list(r, "model.pixel-std", "image_std", 0.5, scale);
    } else {
        ll_hf_set(r, "model.pixel-mean", "0");
        ll_hf_set(r, "model.pixel-std", "%.9g", scale);
    }
}

/* The same reading, of the processor's file. Without one it is ViT's usual one. */
static void read_processor(ll_reading *r) {
    ll_reading processor = *r;
    processor.json = r->processor;
    processor.path = r->processor_path;
    if (r->processor) read_pixels(&processor);
    r->status = processor.status;
}

/* ---- Names of classes ---- */

static int is_usual(const char *name, size_t i) {
    char usual[32];
    snprintf(usual, sizeof usual, "LABEL_%zu", i);
    return !strcmp(name, usual);
}

enum { NUMBER = 24 }; /* bytes of " (2)", or of a number alone */

/* The name of class i: one that is there already gets a number, and an empty one is the usual one. Commas part names in
 * data.classes, so that those within names become semicolons. seen: the last number of each name. */
static ll_status name_class(char *out, size_t capacity, const char *name, size_t i, json_t *seen) {
    if (*name)
        snprintf(out, capacity, "%s", name);
    else
        snprintf(out, capacity, "LABEL_%zu", i);
    for (char *c = out; (c = strchr(c, ','));) *c = ';';
    json_t *last = json_object_get(seen, out);
    if (!last) return json_object_set_new(seen, out, json_integer(1)) ? LL_ENOMEM : LL_OK;
    const size_t n = strlen(out);
    json_int_t copy = json_integer_value(last);
    while (json_object_get(seen, out)) snprintf(out + n, capacity - n, " (%" JSON_INTEGER_FORMAT ")", ++copy);
    return json_integer_set(last, copy) || json_object_set_new(seen, out, json_integer(1)) ? LL_ENOMEM : LL_OK;
}

/* Adds a name to a value in quotes, where two quotes stand for one. */
static char *add_name(char *at, const char *name) {
    for (; *name; *at++ = *name++)
        if (*name == '"') *at++ = '"';
    return at;
}

/* data.classes from id2label. */
static ll_status set_names(ll_reading *r, const json_t *labels) {
    static const char key[] = "data.classes=\"";
    const size_t count = json_object_size(labels);
    size_t size = sizeof key + 1, longest = 0, named = 0;
    const char *name;
    json_t *value, *seen = json_object();
    json_object_foreach((json_t *)labels, name, value) {
        const size_t n = json_string_length(value);
        size += 2 * n + NUMBER;
        if (n > longest) longest = n;
    }
    char *text = ll_alloc(size, 1), *one = ll_alloc(longest + NUMBER, 1), *at = text + sizeof key - 1;
    ll_status status = text && one && seen ? LL_OK : LL_ENOMEM;
    if (!status) memcpy(text, key, sizeof key);
    for (size_t i = 0; i < count && !status; i++) {
        char number[NUMBER];
        snprintf(number, sizeof number, "%zu", i);
        const char *theirs = json_string_value(json_object_get(labels, number));
        if (!theirs) {
            status = ll_fail(LL_EFORMAT, "%s: id2label has no text for class %zu of %zu", r->path, i, count);
            break;
        }
        if (!ll_is_plain_text(theirs)) {
            status = ll_fail(LL_EFORMAT, "%s: id2label of class %zu has a control character; write a blank for it",
                             r->path, i);
            break;
        }
        named += !is_usual(theirs, i);
        status = name_class(one, longest + NUMBER, theirs, i, seen);
        if (i) *at++ = ',';
        if (!status) at = add_name(at, one);
    }
    if (!status) memcpy(at, "\"", 2);
    if (!status && named) status = ll_recipe_set(r->recipe, text);
    json_decref(seen);
    ll_free(one);
    ll_free(text);
    return status;
}

static void read_classes(ll_reading *r) {
    const json_t *labels = json_object_get(r->json, "id2label");
    const int64_t count =
        json_is_object(labels) ? (int64_t)json_object_size(labels) : ll_hf_integer(r, "num_labels", 2);
    ll_hf_set(r, "model.classes", "%lld", (long long)count);
    if (json_is_object(labels) && !r->status) r->status = set_names(r, labels);
}

/* ---- ViT (Dosovitskiy et al. 2021) ---- */

#define LINEAR(theirs, ours)                                                                                           \
    {theirs ".weight", ours ".weight", LL_OUT_IN, 0, 0}, { theirs ".bias", ours ".bias", LL_TABLE, 0, 0 }
#define NORM(theirs, ours)                                                                                             \
    {theirs ".weight", ours ".gain", LL_TABLE, 0, 0}, { theirs ".bias", ours ".bias", LL_TABLE, 0, 0 }
#define KEPT(theirs)                                                                                                   \
    { theirs, NULL, LL_KEPT, 0, 0 }

static const ll_tensor_rule vit_rules[] = {
    {"*embeddings.cls_token", "embedding.first", LL_TABLE | LL_BATCH_OF_ONE, 0, 0},
    {"*embeddings.position_embeddings", "embedding.position", LL_TABLE | LL_BATCH_OF_ONE, 0, 0},
    {"*embeddings.patch_embeddings.projection.weight", "embedding.patch.weight", LL_OUT_IN | LL_SQUARES, 0, 0},
    {"*embeddings.patch_embeddings.projection.bias", "embedding.patch.bias", LL_TABLE, 0, 0},
    LINEAR("*encoder.layer.#.attention.attention.query", "blocks.#.attention.query"),
    LINEAR("*encoder.layer.#.attention.attention.key", "blocks.#.attention.key"),
    LINEAR("*encoder.layer.#.attention.attention.value", "blocks.#.attention.value"),
    LINEAR("*encoder.layer.#.attention.output.dense", "blocks.#.attention.output"),
    LINEAR("*encoder.layer.#.intermediate.dense", "blocks.#.feed.in"),
    LINEAR("*encoder.layer.#.output.dense", "blocks.#.feed.out"),
    NORM("*encoder.layer.#.layernorm_before", "blocks.#.attention.norm"),
    NORM("*encoder.layer.#.layernorm_after", "blocks.#.feed.norm"),
    NORM("*layernorm", "norm"),
    {"classifier.weight", "head.weight", LL_OUT_IN | LL_DRAWN, 0, 0},
    {"classifier.bias", "head.bias", LL_TABLE | LL_DRAWN, 0, 0},
    KEPT("*embeddings.mask_token"),
    KEPT("*pooler.dense.weight"),
    KEPT("*pooler.dense.bias"),
    {0},
};

static void read_vit(ll_reading *r) {
    static const char *const heads[] = {"Model", "ForImageClassification", NULL};
    const int64_t side = ll_hf_integer(r, "image_size", 224), patch = ll_hf_integer(r, "patch_size", 16);
    const int64_t channels = ll_hf_integer(r, "num_channels", 3), across = patch ? side / patch : 0;
    ll_family_head(r, heads, "image classifiers");
    ll_hf_only(r, "qkv_bias", "true");
    ll_family_sizes(r, (ll_family_size){
                           .vocab = 256,
                           .layers = ll_hf_integer(r, "num_hidden_layers", 12),
                           .heads = ll_hf_integer(r, "num_attention_heads", 12),
                           .width = ll_hf_integer(r, "hidden_size", 768),
                           .ff = ll_hf_integer(r, "intermediate_size", 3072),
                           .eps = ll_hf_number(r, "layer_norm_eps", 1e-12),
                           .activation = ll_hf_text(r, "hidden_act", "gelu"),
                       });
    ll_hf_set(r, "model.task", "classify");
    ll_hf_set(r, "model.pool", "first");
    ll_hf_set(r, "model.bias", "all");
    ll_hf_set(r, "model.patch", "%lld", (long long)patch);
    ll_hf_set(r, "model.channels", "%lld", (long long)channels);
    if (r->status) return; /* sizes beyond those of the recipe have products that int64_t cannot hold */
    ll_hf_set(r, "position.type", "learned");
    ll_hf_set(r, "position.cls-token", "on");
    ll_hf_set(r, "position.max-length", "%lld", (long long)(across * across + 1));
    ll_hf_set(r, "position.width", "%lld", (long long)side);
    ll_hf_set(r, "position.height", "%lld", (long long)side);
    ll_hf_set(r, "train.length", "%lld", (long long)(side * side * channels));
    ll_hf_set(r, "data.format", "idx");
    ll_hf_set(r, "data.resize", "%lld", (long long)side);
    read_classes(r);
    read_processor(r);
}

const ll_family ll_family_vit = {"vit", "ViT", "vit.", vit_rules, read_vit};
