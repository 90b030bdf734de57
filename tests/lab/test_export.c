/* An imported model is exported whole, or with an error if memory for the JSON of its headers is refused.
 * tests/cli/import.sh tests the formats. */
#include "folder.h"

#include "exchange/family.h"

static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":1,\"n_positions\":8,"
                             "\"vocab_size\":5}";
static const char header[] = "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[5,4],\"data_offsets\":[0,80]}}";

static long allocations, refused_at; /* allocations of jansson; the one that is refused, or 0 */

static void *allocate(size_t size) { return ++allocations == refused_at ? NULL : malloc(size); }

/* A model that was imported from a folder with this config.json, without its weights. */
static ll_model *imported_from(const char *json) {
    const ll_bytes bytes = {(uint8_t *)json, strlen(json)};
    json_t *names = json_object();
    ll_reading r;
    ll_model *model = NULL;
    CHECK_OK(ll_reading_begin(&r, &bytes, NULL, "config.json", names));
    CHECK_OK(ll_model_create(&model, r.recipe));
    CHECK_OK(ll_model_keep_origin(model, "config.json", json, strlen(json)));
    ll_reading_free(&r);
    json_decref(names);
    return model;
}

/* With one tensor of that folder. */
static ll_model *imported(void) {
    ll_model *model = imported_from(config);
    CHECK_OK(ll_model_keep_origin(model, "model.safetensors", header, sizeof header - 1));
    return model;
}

static void memory_may_be_refused(void **state) {
    (void)state;
    ll_model *model = imported();
    ll_status status = LL_ENOMEM;
    long n = 0;
    while (status) {
        allocations = 0;
        refused_at = ++n;
        status = ll_model_export(model, at("again"));
        refused_at = 0;
        if (status) assert_int_equal(status, LL_ENOMEM);
        ll_safetensors *file = NULL;
        if (!access(at("again/model.safetensors"), F_OK)) { /* a file that exists is whole */
            CHECK_OK(ll_safetensors_open(&file, at("again/model.safetensors")));
            const ll_st_tensor *t = ll_safetensors_find(file, "wte.weight");
            assert_non_null(t);
            assert_memory_equal(t->data, ll_model_tensor(model, 0).data, 80);
            ll_safetensors_free(file);
        }
    }
    assert_true(n > 20);
    ll_model_free(model);
}

/* Model files may come from anybody: this one has lost the tensor that its header says is kept. */
static void a_lost_tensor_is_noticed(void **state) {
    (void)state;
    static const char lost[] = "{\"h.0.attn.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    ll_model *model = imported();
    CHECK_OK(ll_model_keep_origin(model, "lost.safetensors", lost, sizeof lost - 1));
    CHECK_FAILS(ll_model_export(model, at("lost")), LL_EFORMAT, "h.0.attn.bias");
    ll_model_free(model);
}

/* A tensor that the folder does not have, as the classifier of a bare ViT, is left out only as it was drawn. */
static void a_trained_tensor_is_not_left_out(void **state) {
    (void)state;
    ll_model *model = imported();
    CHECK_OK(ll_model_export(model, at("drawn")));
    *model->param[model->count - 1].value += 1;
    CHECK_FAILS(ll_model_export(model, at("trained")), LL_EINVAL, model->param[model->count - 1].name);
    assert_int_not_equal(access(at("trained"), F_OK), 0);
    ll_model_free(model);
}

/* A folder has one file of weights, which comes first, or an index: the other one is never left beside an export. */
static void older_weights_are_noticed(void **state) {
    (void)state;
    ll_model *single = imported(), *shards = imported_from(config);
    CHECK_OK(ll_model_keep_origin(shards, "model.safetensors.index.json", "{}", 2));
    CHECK_OK(ll_model_keep_origin(shards, "model-1.safetensors", header, sizeof header - 1));
    for (int again = 0; again < 2; again++) {
        CHECK_OK(ll_model_export(single, at("single")));
        CHECK_OK(ll_model_export(shards, at("shards")));
    }
    CHECK_FAILS(ll_model_export(shards, at("single")), LL_EINVAL, "single/model.safetensors has weights of another");
    assert_int_not_equal(access(at("single/model-1.safetensors"), F_OK), 0);
    CHECK_FAILS(ll_model_export(single, at("shards")), LL_EINVAL, "index.json has weights of another model");
    ll_model_free(single);
    ll_model_free(shards);
}

/* Weights of before are replaced; files of others are not. */
static void only_exports_are_replaced(void **state) {
    (void)state;
    ll_model *model = imported();
    CHECK_OK(ll_model_keep_origin(model, "README.md", "theirs", 6));
    CHECK_OK(ll_folder_create(at("notes")));
    put_file(at("notes/README.md"), "my own", 6);
    CHECK_FAILS(ll_model_export(model, at("notes")), LL_EINVAL, "notes/README.md is not of an earlier export");
    assert_int_equal(files_in(at("notes")), 1);
    put_file(at("notes/README.md"), "theirs", 6);
    CHECK_OK(ll_model_export(model, at("notes")));
    *model->param[0].value += 1;
    CHECK_OK(ll_model_export(model, at("notes")));
    put_file(at("notes/model.safetensors"), "", 0);
    CHECK_FAILS(ll_model_export(model, at("notes")), LL_EINVAL, "model.safetensors is not of an earlier export");
    ll_model_free(model);
}

/* Expects that a model is not exported any more after a key of its recipe has changed. */
static void expect_refused(ll_model *model, const char *assignment, const char *say) {
    CHECK_OK(ll_model_set(model, assignment));
    CHECK_FAILS(ll_model_export(model, at("changed")), LL_EINVAL, say);
}

/* The folder's tokenizer is not that of a model that was imported without it, and then learned bytes. */
static void other_tokens_are_noticed(void **state) {
    (void)state;
    ll_model *model = imported();
    CHECK_OK(ll_model_set(model, "data.train=text.txt"));
    CHECK_OK(ll_model_export(model, at("without")));
    CHECK_OK(ll_model_keep_origin(model, "vocab.json", "{}", 2));
    expect_refused(model, "data.train=text.txt", "data.format = bytes, whose tokens are not those of vocab.json");
    CHECK_OK(ll_model_set(model, "data.train="));
    CHECK_OK(ll_model_export(model, at("numbers")));
    expect_refused(model, "data.format=demo", "data.format = demo");
    ll_model_free(model);
}

/* A classifier of pictures with other names, or of pictures that are resized in another way, is not that of the
 * folder. */
static void another_classifier_is_noticed(void **state) {
    (void)state;
    static const char vit[] = "{\"model_type\":\"vit\",\"hidden_size\":4,\"num_hidden_layers\":1,"
                              "\"num_attention_heads\":1,\"intermediate_size\":4,\"image_size\":4,\"patch_size\":2,"
                              "\"id2label\":{\"0\":\"cat\",\"1\":\"dog\"}}";
    ll_model *model = imported_from(vit);
    CHECK_OK(ll_model_set(model, "data.format=png"));
    CHECK_OK(ll_model_export(model, at("vit")));
    expect_refused(model, "data.classes=dog,cat", "data.classes is dog,cat, and the imported folder says cat,dog");
    expect_refused(model, "data.classes=", "data.classes is empty");
    CHECK_OK(ll_model_set(model, "data.classes=cat,dog"));
    expect_refused(model, "data.resize-filter=bicubic", "data.resize-filter is bicubic");
    CHECK_OK(ll_model_set(model, "data.resize=0")); /* then the filter has no effect */
    CHECK_OK(ll_model_export(model, at("vit")));
    ll_model_free(model);
}

/* Reads the configuration of a GPT-NeoX with heads of 8 channels. */
static ll_status neox(ll_reading *r, const char *more) {
    char text[400];
    snprintf(text, sizeof text,
             "{\"model_type\":\"gpt_neox\",\"hidden_size\":16,\"num_attention_heads\":2,\"num_hidden_layers\":1,"
             "\"intermediate_size\":16,\"vocab_size\":5%s}",
             more);
    return ll_reading_begin(r, &(ll_bytes){(uint8_t *)text, strlen(text)}, NULL, "config.json", NULL);
}

static void expect_rotary(const char *more, const char *channels, const char *base) {
    ll_reading r;
    CHECK_OK(neox(&r, more));
    assert_string_equal(ll_recipe_get(r.recipe, "position.rotary"), channels);
    assert_string_equal(ll_recipe_get(r.recipe, "position.base"), base);
    ll_reading_free(&r);
}

/* Newer files have the share of rotated channels where they have the base. */
static void rotated_channels(void **state) {
    (void)state;
    ll_reading r;
    expect_rotary("", "2", "10000");
    expect_rotary(",\"rotary_pct\":0.5,\"rotary_emb_base\":500", "4", "500");
    expect_rotary(",\"rope_parameters\":{\"rope_theta\":700,\"partial_rotary_factor\":1.0}", "8", "700");
    CHECK_FAILS(neox(&r, ",\"rotary_pct\":0"), LL_EINVAL, "rotates no channel"); /* 0 would mean all */
    ll_reading_free(&r);
}

int main(void) {
    json_set_alloc_funcs(allocate, free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_may_be_refused),
                                       cmocka_unit_test(a_lost_tensor_is_noticed),
                                       cmocka_unit_test(a_trained_tensor_is_not_left_out),
                                       cmocka_unit_test(older_weights_are_noticed),
                                       cmocka_unit_test(only_exports_are_replaced),
                                       cmocka_unit_test(other_tokens_are_noticed),
                                       cmocka_unit_test(another_classifier_is_noticed),
                                       cmocka_unit_test(rotated_channels)};
    return cmocka_run_group_tests_name("export", tests, make_folder, remove_folder);
}
