/* An imported model is exported whole, or with an error if memory for the JSON of its headers is refused.
 * tests/cli/import.sh tests the formats. */
#include "folder.h"

#include "exchange/family.h"

static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":1,\"n_positions\":8,"
                             "\"vocab_size\":5}";
static const char header[] = "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[5,4],\"data_offsets\":[0,80]}}";

static long allocations, refused_at; /* allocations of jansson; the one that is refused, or 0 */

static void *allocate(size_t size) { return ++allocations == refused_at ? NULL : malloc(size); }

/* A model with one tensor of the folder from which it was imported. */
static ll_model *imported(void) {
    const ll_bytes bytes = {(uint8_t *)config, sizeof config - 1};
    json_t *names = json_object();
    ll_reading r;
    ll_model *model = NULL;
    CHECK_OK(ll_reading_begin(&r, &bytes, NULL, "config.json", names));
    CHECK_OK(ll_model_create(&model, r.recipe));
    CHECK_OK(ll_model_keep_origin(model, "config.json", config, sizeof config - 1));
    CHECK_OK(ll_model_keep_origin(model, "model.safetensors", header, sizeof header - 1));
    ll_reading_free(&r);
    json_decref(names);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_may_be_refused), cmocka_unit_test(a_lost_tensor_is_noticed),
        cmocka_unit_test(a_trained_tensor_is_not_left_out), cmocka_unit_test(rotated_channels)};
    return cmocka_run_group_tests_name("export", tests, make_folder, remove_folder);
}
