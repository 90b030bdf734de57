/* A pretrained model that finds no memory is told from one that is wrong. */
#include <string.h>

#include "base/safetensors.h"
#include "exchange/family.h"
#include "folder.h"

/* The family, and the keys of the recipe that it sets. */
static ll_status read_config(void) {
    static char text[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 29, \"n_embd\": 16, \"n_layer\": 2, "
                         "\"n_head\": 2, \"n_positions\": 24}";
    const ll_bytes config = {(uint8_t *)text, sizeof text - 1};
    json_t *names = json_object();
    ll_reading r = {0};
    const ll_status status = ll_reading_begin(&r, &config, NULL, "config.json", names);
    ll_reading_free(&r);
    json_decref(names);
    return status;
}

static ll_status open_weights(void) {
    ll_weights w;
    const ll_status status = ll_weights_open(&w, folder);
    if (!status) ll_weights_close(&w);
    return status;
}

static void test_refused_memory(void **state) {
    (void)state;
    const float number = 1;
    ll_st_writer *w = NULL;
    CHECK_FAILS(open_weights(), LL_EINVAL, "has neither model.safetensors");
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_add(w, "x", LL_F32, 1, (size_t[]){1}, &number));
    CHECK_OK(ll_st_save(w, at("model.safetensors")));
    ll_st_writer_free(w);
    assert_true(check_refused_memory(open_weights) >= 4);
    assert_true(check_refused_memory(read_config) >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused_memory)};
    return cmocka_run_group_tests_name("import_memory", tests, make_folder, remove_folder);
}
