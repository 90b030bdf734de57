/* Files that hold the state of a stream, as they were written and with one thing changed. */
#ifndef LL_STATES_H
#define LL_STATES_H

#include <unistd.h>

#include "base/safetensors.h"
#include "models.h"

static char path[] = "/tmp/ll-state-XXXXXX";
static char other[] = "/tmp/ll-state-XXXXXX";

static inline ll_status load(ll_model *model, const char *from) {
    ll_stream *s = NULL;
    const ll_status status = ll_stream_load(&s, model, from);
    assert_true(status ? s == NULL : s != NULL);
    ll_stream_free(s);
    return status;
}

/* The saved file with one thing changed. */
typedef struct {
    const char *tensor;
    enum { OMIT = 1, RESHAPE, RETYPE, PATCH, ADD } how;
    double value; /* PATCH: of element `at` from the end */
    size_t at;
} change;

static inline void patch(void *data, const ll_st_tensor *t, change c) {
    const float value = (float)c.value;
    uint8_t *end = (uint8_t *)data + t->count * (t->dtype == LL_F64 ? 8 : 4);
    if (t->dtype == LL_F64) {
        memcpy(end - 8 * c.at, &c.value, 8);
    } else {
        memcpy(end - 4 * c.at, &value, 4);
    }
}

static inline ll_status load_changed(ll_model *model, change c, const char *key, const char *value) {
    static const char *const keys[] = {"format", "version", "model", "position", "document", "source"};
    ll_safetensors *file = NULL;
    ll_st_writer *writer = NULL;
    void *copies[16] = {0};
    CHECK_OK(ll_safetensors_open(&file, path));
    CHECK_OK(ll_st_writer_create(&writer));
    for (int i = 0; i < 6; i++) {
        const int hit = key && !strcmp(key, keys[i]);
        const char *old = ll_safetensors_meta(file, keys[i]), *new = hit ? value : old;
        if (new) CHECK_OK(ll_st_meta(writer, keys[i], new));
    }
    for (int i = 0; i < ll_safetensors_count(file); i++) {
        const ll_st_tensor *t = ll_safetensors_at(file, i);
        const int how = c.tensor && !strcmp(t->name, c.tensor) ? (int)c.how : 0;
        const size_t flat[1] = {t->count};
        if (how == OMIT) continue;
        void *data = copies[i] = calloc(t->count + 1, 8);
        memcpy(data, t->data, t->count * (t->dtype == LL_F64 ? 8 : 4));
        if (how == PATCH) patch(data, t, c);
        const enum ll_dtype type = how == RETYPE ? (t->dtype == LL_F64 ? LL_I64 : LL_I32) : t->dtype;
        CHECK_OK(
            ll_st_add(writer, t->name, type, how == RESHAPE ? 1 : t->rank, how == RESHAPE ? flat : t->shape, data));
    }
    const float extra = 1;
    if (c.how == ADD) CHECK_OK(ll_st_add(writer, c.tensor, LL_F32, 0, NULL, &extra));
    CHECK_OK(ll_st_save(writer, other));
    ll_st_writer_free(writer);
    ll_safetensors_free(file);
    for (int i = 0; i < 16; i++) free(copies[i]);
    return load(model, other);
}

static inline int make_paths(void **state) {
    (void)state;
    const int a = mkstemp(path), b = mkstemp(other);
    return a < 0 || b < 0 || close(a) || close(b);
}

static inline int remove_paths(void **state) {
    (void)state;
    return unlink(path) | unlink(other);
}

#endif
