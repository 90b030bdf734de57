/* Models in files: parameters and draws as tensors, the recipe as metadata; see docs/format.md. A file is checked
 * against its own recipe before memory is allocated. A model that is trained further is copied. Any other stays in the
 * mapped file, which costs no copy and is shared with other programs that use the same model. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/network.h"

static const char format[] = "longline-model", version[] = "1", vocabulary[] = "vocabulary";
static const char import[] = "; `longline import FOLDER -o model.safetensors` makes one of a Hugging Face model";

static int rank_of(const ll_param *p) {
    return p->cols == 1 ? 1 : 2;
}

/* ---- Writing ---- */

ll_status ll_model_write(const ll_model *m, ll_st_writer *writer) {
    char redraws[32];
    snprintf(redraws, sizeof redraws, "%lld", (long long)m->redraws);
    char *text = NULL;
    ll_status status = ll_recipe_text(m->recipe, &text);
    if (!status) status = ll_st_meta(writer, "format", format);
    if (!status) status = ll_st_meta(writer, "version", version);
    if (!status) status = ll_st_meta(writer, "redraws", redraws);
    if (!status) status = ll_st_meta(writer, "recipe", text);
    if (!status && m->quantized) status = ll_st_meta(writer, "weights", ll_quantized_name(m));
    ll_text_free(text);
    for (int i = 0; i < m->count && !status; i++) {
        const ll_param *p = &m->param[i];
        const size_t shape[2] = {(size_t)p->rows, (size_t)p->cols};
        status = p->value ? ll_st_add(writer, p->name, LL_F32, rank_of(p), shape, p->value)
                          : ll_quantized_write(m, i, writer);
    }
    if (!status && m->vocabulary.size)
        status = ll_st_add(writer, vocabulary, LL_U8, 1, &m->vocabulary.size, m->vocabulary.data);
    if (!status) status = ll_origin_write(m, writer);
    return status ? status : ll_operators_write(m, writer);
}

ll_status ll_model_save(const ll_model *m, const char *path) {
    ll_st_writer *writer = NULL;
    ll_status status = ll_model_finite(m, "saved");
    if (status) return ll_fail_in(status, path);
    status = ll_st_writer_create(&writer);
    if (status) return status;
    status = ll_model_write(m, writer);
    if (!status) status = ll_st_save(writer, path);
    ll_st_writer_free(writer);
    return status;
}

ll_status ll_model_save_bytes(const ll_model *m, char **out, size_t *size) {
    ll_st_writer *writer = NULL;
    ll_bytes bytes = {0};
    ll_status status = ll_model_finite(m, "saved");
    if (!status) status = ll_st_writer_create(&writer);
    if (status) return status;
    status = ll_model_write(m, writer);
    if (!status) status = ll_st_bytes(writer, &bytes);
    ll_st_writer_free(writer);
    if (status) return status;
    *out = (char *)bytes.data;
    *size = bytes.size;
    return LL_OK;
}

/* ---- Reading ---- */

/* Is it a longline model? Reads the recipe and the number of redraws from the metadata. */
static ll_status read_meta(ll_model *m, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file), *what = ll_safetensors_meta(file, "format");
    const char *number = ll_safetensors_meta(file, "version"), *redraws = ll_safetensors_meta(file, "redraws");
    const char *recipe = ll_safetensors_meta(file, "recipe");
    if (!what || strcmp(what, format))
        return ll_fail(LL_EFORMAT, "%s: not a longline model (its metadata has no format = %s%s)", path, format,
                       what && !strncmp(what, "longline", 8) ? "" : import);
    if (!number || strcmp(number, version))
        return ll_fail(LL_EFORMAT, "%s: model format version %s; this program reads version %s", path,
                       number ? number : "(none)", version);
    if (!recipe) return ll_fail(LL_EFORMAT, "%s: the metadata has no recipe", path);
    if (!redraws || !ll_parse_integer(&m->redraws, redraws) || m->redraws < 0)
        return ll_fail(LL_EFORMAT, "%s: redraws is \"%s\", must be a number from 0", path, redraws ? redraws : "");
    ll_status status = ll_recipe_parse(&m->recipe, recipe, path);
    if (status == LL_EINVAL) status = LL_EFORMAT;
    return status;
}

static ll_status check_tensor(const ll_param *p, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file);
    const ll_st_tensor *t = ll_safetensors_find(file, p->name);
    if (!t) return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", path, p->name);
    if (t->dtype != LL_F32) return ll_fail(LL_EFORMAT, "%s: tensor %s is not of type F32", path, p->name);
    if (t->rank != rank_of(p) || t->shape[0] != (size_t)p->rows || (p->cols > 1 && t->shape[1] != (size_t)p->cols))
        return ll_fail(LL_EFORMAT, "%s: tensor %s has %zu elements in %d dimensions; its recipe says %d x %d", path,
                       p->name, t->count, t->rank, p->rows, p->cols);
    return LL_OK;
}

/* Can every tensor be used in place? */
static int is_usable(const ll_safetensors *file) {
    int aligned = 1;
    for (int i = 0; i < ll_safetensors_count(file); i++) {
        const ll_st_tensor *t = ll_safetensors_at(file, i);
        const size_t unit = t->dtype == LL_F32 ? _Alignof(float) : t->dtype == LL_ST_BF16 ? _Alignof(uint16_t) : 1;
        aligned &= (uintptr_t)t->data % unit == 0;
    }
    return aligned;
}

/* Copies the parameters, or, with `in_place`, uses them in the file if they are aligned. */
static ll_status read_tensors(ll_model *m, const ll_safetensors *file, int in_place) {
    ll_precision kind;
    ll_status status = ll_quantized_kind(&kind, file);
    for (int i = 0; i < m->count && !status; i++)
        if (!kind || !ll_is_quantized(m, i)) status = check_tensor(&m->param[i], file);
    if (!status && in_place) in_place = is_usable(file);
    if (!status && kind) status = ll_quantized_read(m, kind, file, in_place);
    if (!status && !in_place) status = ll_params_allocate(m);
    if (status) return status;
    for (int i = 0; i < m->count; i++) {
        if (kind && ll_is_quantized(m, i)) continue;
        const ll_st_tensor *t = ll_safetensors_find(file, m->param[i].name);
        if (in_place)
            m->param[i].value = (float *)t->data;
        else
            ll_st_floats(m->param[i].value, t);
    }
    return ll_model_check_file(m, ll_safetensors_path(file));
}

static ll_status read_vocabulary(ll_model *m, const ll_safetensors *file) {
    const ll_st_tensor *t = ll_safetensors_find(file, vocabulary);
    if (!t) return LL_OK;
    if (t->dtype != LL_U8 || t->rank != 1)
        return ll_fail(LL_EFORMAT, "%s: tensor %s is not a row of bytes (U8)", ll_safetensors_path(file), vocabulary);
    return ll_model_keep(m, &(ll_bytes){(uint8_t *)t->data, t->count});
}

static ll_status read_model(ll_model **out, const ll_safetensors *file, int in_place) {
    LL_FLOAT_MODE;
    ll_model *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    ll_status status = read_meta(m, file);
    if (!status) {
        status = ll_model_read_recipe(m);
        if (!status) status = ll_params_plan(m);
        if (status == LL_EINVAL) status = ll_fail_in(LL_EFORMAT, ll_safetensors_path(file));
    }
    if (!status) status = read_tensors(m, file, in_place);
    if (!status) status = read_vocabulary(m, file);
    if (!status) status = ll_origin_read(m, file);
    if (!status) status = ll_operators_create(m, file, NULL);
    if (status) {
        ll_model_free(m);
        return status;
    }
    m->checked = ll_safetensors_checked(file);
    *out = m;
    return LL_OK;
}

ll_status ll_model_read(ll_model **out, const ll_safetensors *file) {
    return read_model(out, file, 0);
}

ll_status ll_model_restore(ll_model *m, const ll_safetensors *file) {
    ll_model *from = NULL;
    ll_status status = ll_model_read(&from, file);
    if (!status && (from->size != m->size || from->operators != m->operators))
        status = ll_fail(LL_EFORMAT, "%s has another model than the run", ll_safetensors_path(file));
    if (!status) {
        memcpy(m->data, from->data, m->size * sizeof *m->data);
        for (int op = 0; op < m->operators; op++)
            if (m->attention[op]->c.M)
                ll_attention_set_projection(m->attention[op], from->attention[op]->c.projection);
        m->redraws = from->redraws;
    }
    ll_model_free(from);
    return status;
}

ll_status ll_model_map(ll_model **out, ll_safetensors *file) {
    ll_model *m = NULL;
    const ll_status status = read_model(&m, file, 1);
    if (status || m->data) {
        ll_safetensors_free(file);
    } else {
        m->file = file;
    }
    if (!status) *out = m;
    return status;
}

ll_status ll_model_load(ll_model **out, const char *path) {
    ll_safetensors *file = NULL;
    if (ll_is_folder(path)) return ll_fail(LL_EIO, "%s is a folder; name a file%s", path, import);
    const ll_status status = ll_safetensors_open(&file, path);
    return status ? status : ll_model_map(out, file);
}

ll_status ll_model_load_bytes(ll_model **out, const void *bytes, size_t size, const char *name) {
    ll_safetensors *file = NULL;
    ll_status status = ll_safetensors_parse(&file, bytes, size, name);
    if (status) return status;
    status = read_model(out, file, 0);
    ll_safetensors_free(file);
    return status;
}
