/* Writes a model back as the folder that it was imported from. The headers of the weights are the original ones; the
 * numbers are the model's. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "exchange/family.h"
#include "longline-lab.h"

enum { WEIGHTS_MOST = 1 << 30 }; /* elements of one tensor: sizes cannot overflow */

/* A rule for one layer, by one of the names that its foreign tensor may have. */
typedef struct {
    ll_mapped m;
    int order; /* the rule's place among all */
} named_rule;

typedef struct {
    const ll_model *model;
    const char *folder;
    ll_reading reading;
    json_t *names;    /* of all tensors: {"wte.weight": {"dtype": .., ..}} */
    named_rule *rule; /* for tensors that our model has, sorted by name */
    int rules;
} export;

static int is_weights(const char *name) { return ll_text_ends(name, ".safetensors"); }

static int is_kept(const char *name) { return !strncmp(name, "kept/", 5); }

static ll_status read_header(json_t **header, const ll_origin *o) {
    json_error_t error;
    int refused;
    *header = ll_json_load(o->bytes.data, o->bytes.size, JSON_REJECT_DUPLICATES, &error, &refused);
    if (refused) return ll_fail(LL_ENOMEM, "no memory for the header of %s", o->name);
    return json_is_object(*header) ? LL_OK : ll_fail(LL_EFORMAT, "the model has a damaged header of %s", o->name);
}

/* The tensors of all headers. Model files may come from anybody, so they are checked. */
static ll_status list_names(export *x) {
    x->names = json_object();
    if (!x->names) return LL_ENOMEM;
    for (int i = 0; i < x->model->origins; i++) {
        const ll_origin *o = &x->model->origin[i];
        if (!is_kept(o->name) && (strchr(o->name, '/') || *o->name == '.'))
            return ll_fail(LL_EFORMAT, "the model has a file %s, which is not the name of a file in a folder", o->name);
        if (!is_weights(o->name) || is_kept(o->name)) continue;
        json_t *header;
        ll_status status = read_header(&header, o);
        if (!status && json_object_update(x->names, header)) status = LL_ENOMEM;
        json_decref(header);
        if (status) return status;
    }
    return LL_OK;
}

/* Keys that may differ: they concern training alone, were found in the vocabulary, or have no effect. Of [data], keys
 * say what the answers are called and what is done to pictures. A folder without names leaves them open. */
static int may_differ(const export *x, const char *key) {
    static const char *const free_keys[] = {"model.dropout", "model.init-std", "model.type-separator"};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (!strcmp(key, free_keys[i])) return 1;
    if (!strcmp(key, "data.classes")) return !*ll_recipe_get(x->reading.recipe, key);
    if (!strncmp(key, "data.resize-", 12)) return !strcmp(ll_recipe_get(x->model->recipe, "data.resize"), "0");
    return strncmp(key, "model.", 6) && strncmp(key, "attention.", 10) && strncmp(key, "position.", 9);
}

static ll_status check_recipe(const export *x) {
    const ll_recipe_key *key;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        if (may_differ(x, key->name)) continue;
        const char *then = ll_recipe_get(x->reading.recipe, key->name);
        const char *now = ll_recipe_get(x->model->recipe, key->name);
        if (strcmp(then, now))
            return ll_fail(LL_EINVAL,
                           "the model is no longer that %s: %s is %.200s, and the imported folder says %.200s; only "
                           "what is still the same kind of model can be exported",
                           x->reading.family->name, key->name, *now ? now : "empty", then);
    }
    return LL_OK;
}

/* A model whose vocabulary is empty was imported without the folder's tokenizer. Data of a training then had other
 * tokens. */
static ll_status check_tokens(const export *x) {
    static const char *const files[] = {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"};
    const ll_recipe *recipe = x->model->recipe;
    const char *format = ll_recipe_get(recipe, "data.format"), *tokenizer = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !tokenizer; i++)
        if (ll_model_origin(x->model, files[i])) tokenizer = files[i];
    if (!tokenizer || x->model->vocabulary.size) return LL_OK;
    if (!*ll_recipe_get(recipe, "data.train") && !strcmp(format, "bytes")) return LL_OK; /* as import leaves them */
    return ll_fail(LL_EINVAL,
                   "the model was imported without its folder's tokenizer and trained with data.format = %s, whose "
                   "tokens are not those of %s; to export it, import the folder without that file, and train that",
                   format, tokenizer);
}

static void add_rule(export *x, const ll_mapped *m, int order) { x->rule[x->rules++] = (named_rule){*m, order}; }

/* Rules of one name stay in their order: duplicates come last. */
static int by_name(const void *a, const void *b) {
    const named_rule *p = a, *q = b;
    const int names = strcmp(p->m.theirs, q->m.theirs);
    return names ? names : p->order - q->order;
}

static ll_status list_rules(export *x) {
    ll_mapped m;
    int all = 0;
    while (ll_mapped_at(&m, x->model, x->reading.family, x->reading.prefix, all)) all++;
    x->rule = ll_alloc((size_t)all * 2, sizeof *x->rule);
    if (!x->rule) return LL_ENOMEM;
    for (int i = 0; i < all; i++) {
        ll_mapped_at(&m, x->model, x->reading.family, x->reading.prefix, i);
        if (m.tensor < 0) continue;
        add_rule(x, &m, i);
        if (ll_mapped_older(&m)) add_rule(x, &m, i);
    }
    qsort(x->rule, (size_t)x->rules, sizeof *x->rule, by_name);
    return LL_OK;
}

/* The number of the first rule whose name is not before this one. */
static int first_rule(const export *x, const char *name) {
    int low = 0, high = x->rules;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (strcmp(x->rule[middle].m.theirs, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Import draws a classifier that the folder does not have, and draws the same here. */
static ll_status check_drawn(const export *x, const unsigned char *stored) {
    ll_model *first = NULL;
    const ll_status status = ll_model_create(&first, x->reading.recipe);
    if (status) return status;
    int i = 0;
    for (; i < x->model->count; i++) {
        const ll_param *p = &x->model->param[i];
        const size_t bytes = (size_t)p->rows * (size_t)p->cols * sizeof *p->value;
        if (!stored[i] && memcmp(p->value, first->param[i].value, bytes)) break;
    }
    ll_model_free(first);
    if (i == x->model->count) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "%s was trained, and the folder that was imported has no tensor for it; to export it, import a "
                   "folder that has one, and train that",
                   x->model->param[i].name);
}

/* Is every tensor of the model in the folder? One that is not is lost, and may be so if it was not trained. */
static ll_status check_tensors(const export *x) {
    const int n = x->model->count;
    int found = 0;
    unsigned char *stored = ll_alloc((size_t)n, 1);
    if (!stored) return LL_ENOMEM;
    for (int i = 0; i < x->rules; i++)
        if (json_object_get(x->names, x->rule[i].m.theirs)) stored[x->rule[i].m.tensor] = 1;
    for (int i = 0; i < n; i++) found += stored[i];
    const ll_status status = found < n ? check_drawn(x, stored) : LL_OK;
    ll_free(stored);
    return status;
}

typedef struct {
    const char *name;
    enum ll_dtype dtype;
    size_t count, begin, end;
} wanted;

static size_t dtype_size(enum ll_dtype dtype) { return dtype == LL_F64 ? 8 : dtype == LL_F32 ? 4 : 2; }

/* 0: the number is finite, and too large for this type. */
static int put(uint8_t *out, enum ll_dtype dtype, size_t i, float x) {
    const double wide = (double)x;
    const uint16_t bits16 = dtype == LL_ST_F16 || dtype == LL_ST_BF16 ? ll_float16_from_float(dtype, x) : 0;
    out += i * dtype_size(dtype);
    switch (dtype) {
    case LL_F64: memcpy(out, &wide, 8); break;
    case LL_F32: memcpy(out, &x, 4); break;
    default: memcpy(out, &bits16, 2); return !isfinite(x) || isfinite(ll_float16_to_float(dtype, bits16));
    }
    return 1;
}

static ll_status damaged(const char *name) {
    return ll_fail(LL_EFORMAT, "the model has a header whose tensor %s is damaged", name);
}

static ll_status too_large(const wanted *w, float x) {
    return ll_fail(LL_EINVAL,
                   "tensor %s has the weight %g, which its type, %s, cannot hold; an export has the types of the "
                   "folder that was imported: import one with F32 weights, and train from that",
                   w->name, (double)x, w->dtype == LL_ST_F16 ? "F16" : "BF16");
}

static ll_status read_wanted(wanted *w, const char *name, const json_t *about) {
    static const struct {
        const char *name;
        enum ll_dtype dtype;
    } types[] = {{"F32", LL_F32}, {"F64", LL_F64}, {"F16", LL_ST_F16}, {"BF16", LL_ST_BF16}};
    const char *dtype = json_string_value(json_object_get(about, "dtype"));
    const json_t *offsets = json_object_get(about, "data_offsets"), *shape = json_object_get(about, "shape");
    *w = (wanted){.name = name, .dtype = LL_OTHER, .count = 1};
    for (size_t i = 0; dtype && i < sizeof types / sizeof *types; i++)
        if (!strcmp(dtype, types[i].name)) w->dtype = types[i].dtype;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_int_t n = json_integer_value(json_array_get(shape, i));
        if (n < 0 || (n && w->count > (size_t)WEIGHTS_MOST / (size_t)n)) return damaged(name);
        w->count *= (size_t)n;
    }
    const json_int_t begin = json_integer_value(json_array_get(offsets, 0)),
                     end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || end > (json_int_t)1 << 42) return damaged(name);
    w->begin = (size_t)begin, w->end = (size_t)end;
    return LL_OK;
}

static ll_status write_parts(const export *x, const wanted *w, uint8_t *out) {
    size_t written = 0;
    for (int r = first_rule(x, w->name); r < x->rules && written < w->count; r++) {
        const ll_mapped *m = &x->rule[r].m;
        const ll_param *p = &x->model->param[m->tensor];
        if (strcmp(m->theirs, w->name)) break;
        for (int row = 0; row < p->rows; row++)
            for (int col = 0; col < p->cols; col++, written++) {
                const size_t i = ll_mapped_index(x->model, m, row, col);
                if (i >= w->count) return damaged(w->name);
                const float weight = p->value[(size_t)row * (size_t)p->cols + (size_t)col];
                if (!put(out, w->dtype, i, weight)) return too_large(w, weight);
            }
    }
    return written == w->count ? LL_OK : damaged(w->name);
}

static ll_status write_tensor(const export *x, const wanted *w, uint8_t *out) {
    char full[LL_TENSOR_NAME + 8];
    snprintf(full, sizeof full, "kept/%s", w->name);
    const ll_bytes *kept = ll_model_origin(x->model, full);
    if (kept) {
        if (kept->size != w->end - w->begin) return damaged(w->name);
        memcpy(out, kept->data, kept->size);
        return LL_OK;
    }
    if (w->dtype == LL_OTHER || w->count * dtype_size(w->dtype) != w->end - w->begin) return damaged(w->name);
    return write_parts(x, w, out);
}

/* One file of weights. */
static ll_status write_weights(const export *x, const ll_origin *o, ll_writer *to) {
    json_t *header, *about;
    const char *name;
    size_t size = 0;
    wanted w;
    ll_status status = read_header(&header, o);
    json_object_foreach(header, name, about) {
        if (!strcmp(name, "__metadata__")) continue;
        if ((status = read_wanted(&w, name, about))) break;
        if (w.end > size) size = w.end;
    }
    const uint64_t n = o->bytes.size;
    uint8_t *file = status ? NULL : ll_alloc(8 + o->bytes.size + size, 1);
    if (!status && !file) status = LL_ENOMEM;
    if (!status) {
        memcpy(file, &n, 8);
        memcpy(file + 8, o->bytes.data, o->bytes.size);
        json_object_foreach(header, name, about) {
            if (!strcmp(name, "__metadata__")) continue;
            status = read_wanted(&w, name, about);
            if (!status) status = write_tensor(x, &w, file + 8 + o->bytes.size + w.begin);
            if (status) break;
        }
    }
    if (!status) status = ll_writer_put(to, file, 8 + o->bytes.size + size);
    ll_free(file);
    json_decref(header);
    return status;
}

static ll_status write_file(const export *x, const ll_origin *o, ll_writer **to) {
    char *path = ll_path_join(x->folder, o->name);
    ll_status status = path ? ll_writer_open(to, path) : LL_ENOMEM;
    ll_free(path);
    if (status) return status;
    return is_weights(o->name) ? write_weights(x, o, *to) : ll_writer_put(*to, o->bytes.data, o->bytes.size);
}

/* Is it what this file has after any export of the model? The headers of weights stay, and all other files. */
static int is_exported(const ll_origin *o, const ll_bytes *file) {
    const uint64_t n = o->bytes.size;
    const size_t before = is_weights(o->name) ? sizeof n : 0;
    if (before ? file->size < before + n || memcmp(file->data, &n, before) : file->size != n) return 0;
    return !memcmp(file->data + before, o->bytes.data, n);
}

/* Only files of earlier exports are replaced, so never the model, or what else is in a folder. */
static ll_status check_replaced(const ll_origin *o, const char *path) {
    struct stat about;
    ll_bytes file = {0};
    if (ll_is_absent(path)) return LL_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int plain = fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode);
    ll_status status = plain && about.st_size ? ll_descriptor_map(&file, fd, (size_t)about.st_size, path) : LL_OK;
    if (!status && (!plain || !is_exported(o, &file)))
        status = ll_fail(LL_EINVAL, "%s is not of an earlier export of this model, and would be replaced; name another "
                                    "folder, or remove it", path);
    ll_bytes_free(&file);
    if (fd >= 0) close(fd);
    return status;
}

/* Older weights that an export does not replace would be read in the place of its own, or with them. */
static ll_status check_folder(const export *x) {
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char *path = ll_path_join(x->folder, weights[i]);
        if (!path) return LL_ENOMEM;
        const int other = !ll_model_origin(x->model, weights[i]) && !access(path, F_OK);
        const ll_status status =
            other ? ll_fail(LL_EINVAL, "%s has weights of another model; name another folder, or remove it", path)
                  : LL_OK;
        ll_free(path);
        if (status) return status;
    }
    for (int i = 0; i < x->model->origins; i++) {
        const ll_origin *o = &x->model->origin[i];
        if (is_kept(o->name)) continue;
        char *path = ll_path_join(x->folder, o->name);
        const ll_status status = path ? check_replaced(o, path) : LL_ENOMEM;
        ll_free(path);
        if (status) return status;
    }
    return LL_OK;
}

/* No file gets its name before all are written: weights of now and a configuration of before are no model. */
static ll_status write_files(const export *x) {
    const int n = x->model->origins, existed = ll_is_folder(x->folder);
    ll_writer **file = ll_alloc((size_t)n, sizeof *file);
    ll_status status = file ? ll_folder_create(x->folder) : LL_ENOMEM;
    for (int i = 0; i < n && !status; i++)
        if (!is_kept(x->model->origin[i].name)) status = write_file(x, &x->model->origin[i], &file[i]);
    for (int i = 0; file && i < n; i++) {
        if (!file[i]) continue;
        if (status) {
            ll_writer_abandon(file[i]);
        } else {
            status = ll_writer_commit(file[i]);
        }
    }
    ll_free(file);
    if (status && !existed) rmdir(x->folder);
    return status;
}

ll_status ll_model_export(const ll_model *model, const char *folder) {
    export x = {.model = model, .folder = folder};
    const ll_bytes *config = ll_model_origin(model, "config.json"),
                   *processor = ll_model_origin(model, "preprocessor_config.json");
    if (model->quantized)
        return ll_fail(LL_EINVAL, "its weights are quantized; export the model that they were made of");
    if (!config)
        return ll_fail(LL_EINVAL, "the model was not imported, so no other program has its architecture; only what "
                                  "'longline import' made, and what was trained from that before it was quantized, "
                                  "can be exported");
    ll_status status = list_names(&x);
    if (!status) status = ll_reading_begin(&x.reading, config, processor, "config.json", x.names);
    if (!status) status = check_recipe(&x);
    if (!status) status = check_tokens(&x);
    if (!status) status = list_rules(&x);
    if (!status) status = check_tensors(&x);
    if (!status) status = check_folder(&x);
    if (!status) status = write_files(&x);
    ll_free(x.rule);
    ll_reading_free(&x.reading);
    json_decref(x.names);
    return status;
}
