/* Files of the folder that a model was imported from. An export writes them again, and quantized models, which cannot
 * be exported, have no use for them in their files. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/network.h"

static const char prefix[] = "origin/"; /* prefix of their tensors in a model file */

ll_status ll_model_keep_origin(ll_model *m, const char *name, const void *data, size_t size) {
    ll_origin *more = ll_alloc((size_t)m->origins + 1, sizeof *more);
    char *copy = ll_strdup(name);
    uint8_t *bytes = ll_alloc(size + 1, 1);
    if (!more || !copy || !bytes) {
        ll_free(more);
        ll_free(copy);
        ll_free(bytes);
        return LL_ENOMEM;
    }
    if (m->origins) memcpy(more, m->origin, (size_t)m->origins * sizeof *more);
    if (size) memcpy(bytes, data, size);
    ll_free(m->origin);
    m->origin = more;
    m->origin[m->origins++] = (ll_origin){copy, {bytes, size}};
    return LL_OK;
}

const ll_bytes *ll_model_origin(const ll_model *m, const char *name) {
    for (int i = 0; i < m->origins; i++)
        if (!strcmp(m->origin[i].name, name)) return &m->origin[i].bytes;
    return NULL;
}

ll_status ll_origin_copy(ll_model *m, const ll_model *from) {
    ll_status status = LL_OK;
    for (int i = 0; i < from->origins && !status; i++)
        status = ll_model_keep_origin(m, from->origin[i].name, from->origin[i].bytes.data, from->origin[i].bytes.size);
    return status;
}

ll_status ll_origin_write(const ll_model *m, ll_st_writer *writer) {
    ll_status status = LL_OK;
    for (int i = 0; i < m->origins && !status && !m->quantized; i++) {
        char name[512];
        const ll_origin *o = &m->origin[i];
        if (snprintf(name, sizeof name, "%s%s", prefix, o->name) >= (int)sizeof name)
            return ll_fail(LL_EINVAL, "the name %s is too long for a model file", o->name);
        status = ll_st_add(writer, name, LL_U8, 1, &o->bytes.size, o->bytes.data);
    }
    return status;
}

ll_status ll_origin_read(ll_model *m, const ll_safetensors *file) {
    ll_status status = LL_OK;
    const size_t n = strlen(prefix);
    for (int i = 0; i < ll_safetensors_count(file) && !status; i++) {
        const ll_st_tensor *t = ll_safetensors_at(file, i);
        if (strncmp(t->name, prefix, n)) continue;
        if (t->dtype != LL_U8 || t->rank != 1)
            return ll_fail(LL_EFORMAT, "%s: tensor %s is not a row of bytes (U8)", ll_safetensors_path(file), t->name);
        status = ll_model_keep_origin(m, t->name + n, t->data, t->count);
    }
    return status;
}

void ll_origin_free(ll_model *m) {
    for (int i = 0; i < m->origins; i++) {
        ll_free(m->origin[i].name);
        ll_bytes_free(&m->origin[i].bytes);
    }
    ll_free(m->origin);
}
