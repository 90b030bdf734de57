/* Files of rows: reading gives what was written, and a file is whole or absent. */
#include "base/safetensors.h"
#include "inputs.h"

enum { C = 3 };
static const float values[5][C] = {{0, -1.5f, 1e-30f}, {1.0f / 3, 2, 3}, {4, 5, 6}, {7, 8, 9}, {-0.1f, 1e20f, 0.5f}};
static const char *const ids[4] = {"a", "b,\"c\"", "", "d\ne"};
static const int counts[4] = {1, 3, 0, 1};

static const char *written(const char *name, int per_token) {
    ll_row_file *rows = NULL;
    const char *path = at(name);
    CHECK_OK(ll_row_file_create(&rows, path, C, per_token));
    for (int i = 0, row = 0; i < (per_token ? 4 : 3); i++) {
        CHECK_OK(ll_row_file_add(rows, ids[i], values[row], per_token ? counts[i] : 1));
        row += per_token ? counts[i] : 1;
    }
    assert_true(access(path, F_OK)); /* not there before it is whole */
    CHECK_OK(ll_row_file_commit(rows));
    return path;
}

static void test_safetensors(void **state) {
    (void)state;
    for (int per_token = 0; per_token < 2; per_token++) {
        ll_safetensors *f = NULL;
        CHECK_OK(ll_safetensors_open(&f, written(per_token ? "t.safetensors" : "s.safetensors", per_token)));
        const ll_st_tensor *x = ll_safetensors_find(f, "embeddings"), *id = ll_safetensors_find(f, "ids");
        const ll_st_tensor *rows = ll_safetensors_find(f, "rows");
        const char *const expected = per_token ? "a\nb,\"c\"\n\nd e\n" : "a\nb,\"c\"\n\n";
        assert_string_equal(ll_safetensors_meta(f, "format"), "longline-embeddings");
        assert_true(x->rank == 2 && x->shape[0] == (per_token ? 5 : 3) && x->shape[1] == C && x->dtype == LL_F32);
        assert_memory_equal(x->data, values, x->count * sizeof(float));
        assert_true(id->dtype == LL_U8 && id->count == strlen(expected));
        assert_memory_equal(id->data, expected, id->count);
        assert_true((rows != NULL) == per_token);
        if (rows) assert_memory_equal(rows->data, counts, sizeof counts);
        ll_safetensors_free(f);
    }
}

static char *contents(const char *path, size_t *size) {
    static char text[4000];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *size = fread(text, 1, sizeof text - 1, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

static void test_npy(void **state) {
    (void)state;
    static const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    size_t size;
    const char *text = contents(written("x.npy", 1), &size);
    assert_int_equal(size, 128 + sizeof values);
    assert_memory_equal(text, magic, sizeof magic);
    assert_non_null(strstr(text + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }"));
    assert_int_equal(text[127], '\n');
    assert_int_equal(strlen(text + 10) >= 118, 1);
    assert_memory_equal(text + 128, values, sizeof values);
}

static void test_csv(void **state) {
    (void)state;
    size_t size;
    assert_string_equal(contents(written("x.csv", 0), &size),
                        "id,e0,e1,e2\na,0,-1.5,1e-30\n\"b,\"\"c\"\"\",0.333333343,2,3\n,4,5,6\n");
}

static void test_csv_of_tokens(void **state) {
    (void)state;
    size_t size;
    const char *text = contents(written("y.csv", 1), &size);
    assert_non_null(strstr(text, "id,position,e0,e1,e2\na,0,0,-1.5,"));
    assert_non_null(strstr(text, "\n\"b,\"\"c\"\"\",2,7,8,9\n\"d\ne\",0,-0.1"));
}

static void test_refusals(void **state) {
    (void)state;
    ll_row_file *rows = NULL;
    char command[200];
    CHECK_FAILS(ll_row_file_create(&rows, at("x.txt"), C, 0), LL_EINVAL, ".safetensors, .npy or .csv");
    CHECK_FAILS(ll_row_file_create(&rows, at("no/x.npy"), C, 0), LL_EIO, "no/x.npy");
    CHECK_FAILS(ll_row_file_create(&rows, at("x.csv"), 0, 0), LL_EINVAL, "at least 1");
    assert_null(rows);
    CHECK_OK(ll_row_file_create(&rows, at("gone.safetensors"), C, 0));
    CHECK_OK(ll_row_file_add(rows, "a", values[0], 1));
    ll_row_file_abandon(rows);
    snprintf(command, sizeof command, "ls %s | grep -q 'gone\\|part\\|tmp'", folder);
    assert_true(system(command) != 0);
    for (long n = 1; n < 9; n++) {
        ll_memory_fail_at(n);
        const ll_status status = ll_row_file_create(&rows, at("m.safetensors"), C, 0);
        ll_memory_fail_at(0);
        if (!status) {
            ll_row_file_abandon(rows);
            return;
        }
        assert_int_equal(status, LL_ENOMEM);
    }
    fail_msg("no end of allocations");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),   cmocka_unit_test(test_npy),      cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_of_tokens), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
