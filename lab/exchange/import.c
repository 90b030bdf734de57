/* From a Hugging Face folder to a model. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/finite.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "data/subwords/tokenizer_files.h"
#include "exchange/family.h"
#include "longline-lab.h"

enum { FILE_MOST = 1 << 26 }; /* bytes of a file beside the weights */

/* Files of a model, stored for an export if they exist. */
static const char *const beside[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "tokenizer.model",
    "README.md",
    "preprocessor_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
};

typedef struct {
    const char *folder;
    ll_weights weights;
    ll_reading reading;
    json_t *names, *used; /* of all tensors; of those that a rule has used */
    ll_model *model;      /* a plan, until the folder's tensors are known to be its own */
    unsigned char *filled; /* our tensors that get their numbers from a rule */
    ll_done_fn *progress;
    void *arg;
    int with_tokenizer;
} import;

static ll_status list_names(import *x) {
    x->names = json_object();
    x->used = json_object();
    if (!x->names || !x->used) return LL_ENOMEM;
    for (int f = 0; f < x->weights.files; f++)
        for (int i = 0; i < ll_safetensors_count(x->weights.file[f]); i++) {
            const char *name = ll_safetensors_at(x->weights.file[f], i)->name;
            if (json_object_get(x->names, name))
                return ll_fail(LL_EFORMAT, "%s: tensor %s is in two files", x->folder, name);
            if (json_object_set_new(x->names, name, json_true())) return LL_ENOMEM;
        }
    return LL_OK;
}

/* "(768, 3, 16, 16)" */
static void shape_text(char text[120], const size_t *shape, int rank) {
    size_t n = 0;
    for (int i = 0; i < rank; i++) n += (size_t)snprintf(text + n, 120 - n, "%s%zu", i ? ", " : "(", shape[i]);
    snprintf(text + n, 120 - n, ")");
}

static ll_status check_shape(const import *x, const ll_mapped *m, const ll_st_tensor *t) {
    size_t shape[LL_MAPPED_AXES] = {0};
    char text[120];
    const int rank = ll_mapped_shape(x->model, m, shape);
    int same = t->rank == rank;
    for (int i = 0; i < rank && same; i++) same = t->shape[i] == shape[i];
    shape_text(text, shape, rank);
    if (!same)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has %d axes and %zu elements; config.json asks for %s", x->folder,
                       m->theirs, t->rank, t->count, text);
    if (t->dtype != LL_F32 && t->dtype != LL_ST_F16 && t->dtype != LL_ST_BF16 && t->dtype != LL_F64)
        return ll_fail(LL_EFORMAT, "%s: tensor %s is not of type F32, F16, BF16 or F64", x->folder, m->theirs);
    return LL_OK;
}

typedef struct {
    const ll_model *model;
    const ll_mapped *m;
    const float *theirs;
} copying;

static void copy_row(void *arg, size_t row) {
    const copying *c = arg;
    const ll_param *p = &c->model->param[c->m->tensor];
    for (int col = 0; col < p->cols; col++)
        p->value[row * (size_t)p->cols + (size_t)col] = c->theirs[ll_mapped_index(c->model, c->m, (int)row, col)];
}

/* If both copies of a tied weight are stored, they must be equal. */
static ll_status check_duplicate(const import *x, const ll_mapped *m, const float *theirs, size_t n) {
    const ll_param *p = &x->model->param[m->tensor];
    for (size_t i = 0; i < n; i++)
        if (theirs[i] != p->value[i])
            return ll_fail(LL_EFORMAT,
                           "%s: tensor %s differs from the one that it is tied to at element %zu; config.json should "
                           "have tie_word_embeddings = false",
                           x->folder, m->theirs, i);
    return LL_OK;
}

static ll_status fill(const import *x, const ll_mapped *m, const ll_st_tensor *t) {
    ll_status status = LL_OK;
    float *theirs = ll_alloc(t->count + 1, sizeof *theirs);
    if (!theirs) return LL_ENOMEM;
    ll_st_floats(theirs, t);
    const size_t infinite = ll_find_infinite(theirs, t->count);
    if (infinite < t->count) {
        status = ll_fail(LL_EFORMAT, "%s: tensor %s is not finite at element %zu", x->folder, m->theirs, infinite);
    } else if (m->rule->flags & LL_DUPLICATE) {
        status = check_duplicate(x, m, theirs, t->count);
    } else {
        const copying c = {x->model, m, theirs};
        ll_parallel_for((size_t)x->model->param[m->tensor].rows, copy_row, (void *)&c);
    }
    ll_free(theirs);
    return status;
}

static ll_status keep(const import *x, const char *name, const ll_st_tensor *t) {
    char full[LL_TENSOR_NAME + 8];
    snprintf(full, sizeof full, "kept/%s", name);
    return ll_model_keep_origin(x->model, full, t->data, t->bytes);
}

/* What is done with a tensor that a rule uses. */
typedef ll_status act_fn(const import *x, const ll_mapped *m, const ll_st_tensor *t);

static ll_status check_one(const import *x, const ll_mapped *m, const ll_st_tensor *t) {
    return m->rule->flags & LL_KEPT ? LL_OK : check_shape(x, m, t);
}

static ll_status read_one(const import *x, const ll_mapped *m, const ll_st_tensor *t) {
    return m->rule->flags & LL_KEPT ? keep(x, m->theirs, t) : fill(x, m, t);
}

/* Applies one rule for one layer. */
static ll_status apply(import *x, const ll_mapped *m, act_fn *act) {
    const ll_st_tensor *t = ll_weights_find(&x->weights, m->theirs);
    const int duplicate = m->rule->flags & LL_DUPLICATE, kept = m->rule->flags & LL_KEPT;
    ll_mapped older = *m;
    if (!t && ll_mapped_older(&older) && ll_weights_find(&x->weights, older.theirs)) return apply(x, &older, act);
    if (!t && (kept || duplicate || m->tensor < 0)) return LL_OK;
    if (!t && !(m->rule->flags & LL_DRAWN))
        return ll_fail(LL_EFORMAT, "%s: tensor %s is missing", x->folder, m->theirs);
    if (!kept && m->tensor < 0) return LL_OK; /* it is left over, unless another rule uses it */
    if (duplicate && json_object_get(x->used, m->theirs)) return LL_OK;
    if (!kept && !duplicate) x->filled[m->tensor] = 1;
    if (!t) return LL_OK;
    if (json_object_set_new(x->used, m->theirs, json_true())) return LL_ENOMEM;
    return act(x, m, t);
}

/* Applies all rules, layer by layer. */
static ll_status apply_all(import *x, act_fn *act, ll_done_fn *progress) {
    ll_mapped m;
    ll_status status = LL_OK;
    int all = 0;
    json_object_clear(x->used);
    while (ll_mapped_at(&m, x->model, x->reading.family, x->reading.prefix, all)) all++;
    for (int i = 0; i < all && !status; i++) {
        ll_mapped_at(&m, x->model, x->reading.family, x->reading.prefix, i);
        status = apply(x, &m, act);
        if (!status) status = ll_progress_done(progress, x->arg, i + 1, all);
    }
    return status;
}

/* Is every tensor of the folder one of the model, and the other way round? */
static ll_status check_all(import *x) {
    const char *name;
    json_t *value;
    x->filled = ll_alloc((size_t)x->model->count, 1);
    if (!x->filled) return LL_ENOMEM;
    const ll_status status = apply_all(x, check_one, NULL);
    if (status) return status;
    json_object_foreach(x->names, name, value) if (!json_object_get(x->used, name)) return ll_fail(
        LL_EFORMAT, "%s: tensor %s is left over: a %s of this config.json has no tensor of this name", x->folder, name,
        x->reading.family->name);
    for (int i = 0; i < x->model->count; i++)
        if (!x->filled[i])
            return ll_fail(LL_EFORMAT, "%s: no tensor of this folder is our %s", x->folder, x->model->param[i].name);
    return LL_OK;
}

/* A config.json may ask for any size. So all tensors are checked before there is memory for the model. */
static ll_status create_model(import *x, const char *path) {
    ll_status status = ll_model_plan(&x->model, x->reading.recipe);
    if (!status) {
        status = check_all(x);
        if (status) return status;
        ll_model_free(x->model);
        x->model = NULL;
        status = ll_model_create(&x->model, x->reading.recipe);
    }
    if (status == LL_EINVAL) return ll_fail_in(LL_EFORMAT, path);
    return status ? status : apply_all(x, read_one, x->progress);
}

/* Stores the headers of the weights and the files beside them, for an export. */
static ll_status keep_files(const import *x) {
    ll_status status = LL_OK;
    for (int i = 0; i < x->weights.files && !status; i++) {
        size_t size = 0;
        const char *header = ll_safetensors_header(x->weights.file[i], &size);
        status = ll_model_keep_origin(x->model, x->weights.name[i], header, size);
    }
    for (size_t i = 0; i < sizeof beside / sizeof *beside && !status; i++) {
        char *path = ll_path_join(x->folder, beside[i]);
        ll_bytes bytes = {0};
        if (!path) return LL_ENOMEM;
        if (!access(path, F_OK)) {
            status = ll_file_read(&bytes, path, FILE_MOST);
            if (!status) status = ll_model_keep_origin(x->model, beside[i], bytes.data, bytes.size);
        }
        ll_bytes_free(&bytes);
        ll_free(path);
    }
    return status;
}

/* The type of tokens changes after [SEP]; only the vocabulary tells its number. */
static ll_status set_separator(import *x) {
    const char *types = ll_recipe_get(x->reading.recipe, "model.token-types");
    int token = -1;
    if (!types || !strcmp(types, "0") || !strcmp(types, "1")) return LL_OK;
    const ll_status status = ll_subwords_number(&token, x->folder, "[SEP]");
    if (!status && token >= 0) ll_hf_set(&x->reading, "model.type-separator", "%d", token);
    return status ? status : x->reading.status;
}

/* preprocessor_config.json, of models of images; others have none. */
static ll_status read_processor(const import *x, ll_bytes *processor) {
    char *path = ll_path_join(x->folder, "preprocessor_config.json");
    ll_status status = path ? LL_OK : LL_ENOMEM;
    if (!status && !access(path, F_OK)) status = ll_file_read(processor, path, FILE_MOST);
    ll_free(path);
    return status;
}

static ll_status read_folder(import *x) {
    char *path = ll_path_join(x->folder, "config.json");
    ll_bytes config = {0}, processor = {0};
    ll_status status = path ? LL_OK : LL_ENOMEM;
    if (!status && !ll_is_folder(x->folder))
        status = ll_fail(LL_EINVAL, "%s is not a folder; give the one that has the model's config.json", x->folder);
    if (!status && ll_is_absent(path))
        status = ll_fail(LL_EINVAL, "%s has no config.json; give the folder that a model was saved to", x->folder);
    if (!status) status = ll_file_read(&config, path, FILE_MOST);
    if (!status) status = ll_weights_open(&x->weights, x->folder);
    if (!status) status = list_names(x);
    if (!status) status = read_processor(x, &processor);
    if (!status)
        status = ll_reading_begin(&x->reading, &config, processor.data ? &processor : NULL, path, x->names);
    if (!status) status = set_separator(x);
    if (!status) status = create_model(x, path);
    if (!status) status = keep_files(x);
    if (!status && x->with_tokenizer) status = ll_import_tokenizer(x->model, x->folder);
    ll_bytes_free(&config);
    ll_bytes_free(&processor);
    x->reading.path = NULL;
    ll_free(path);
    return status;
}

ll_status ll_model_import(ll_model **model, const char *folder, int with_tokenizer, ll_done_fn *progress, void *arg) {
import x = {.folder = folder, .progress = progress, .arg = arg, .with_tokenizer = with_tokenizer };
    const ll_status status = read_folder(&x);
    ll_free(x.filled);
    ll_reading_free(&x.reading);
    json_decref(x.names);
    json_decref(x.used);
    ll_weights_close(&x.weights);
    if (status) {
        ll_model_free(x.model);
        return status;
    }
    *model = x.model;
    return LL_OK;
}
