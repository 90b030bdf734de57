/* The weights of a folder: model.safetensors, or else the files that model.safetensors.index.json names. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "exchange/family.h"

enum { INDEX_MOST = 1 << 24, INDEX_DEPTH = 4, FILES_MOST = 1000 };
static const char single[] = "model.safetensors", shards[] = "model.safetensors.index.json";

static int is_there(const char *folder, const char *name) {
    char path[PATH_MAX]; /* not allocated: without memory a file would not be there */
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && !access(path, F_OK);
}

static ll_status open_file(ll_weights *w, const char *name) {
    char *path = ll_path_join(w->folder, name), *copy = ll_strdup(name);
    ll_status status = path && copy ? ll_safetensors_open(&w->file[w->files], path) : LL_ENOMEM;
    const char *format = status ? NULL : ll_safetensors_meta(w->file[w->files], "format");
    if (format && !strcmp(format, "longline-model")) {
        status = ll_fail(LL_EINVAL, "%s is a model of longline, not the weights of this folder; take it out", path);
        ll_safetensors_free(w->file[w->files]);
    }
    ll_free(path);
    if (status) {
        ll_free(copy);
        return status;
    }
    w->name[w->files++] = copy;
    return LL_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Opens the different files of an index, sorted. */
static ll_status open_named(ll_weights *w, json_t *map, const char *path) {
    const size_t n = json_object_size(map);
    const char **names = ll_alloc(n + 1, sizeof *names), *key;
    json_t *value;
    size_t count = 0, files = 0;
    if (!names) return LL_ENOMEM;
    ll_status status = LL_OK;
    json_object_foreach(map, key, value) {
        const char *name = json_string_value(value);
        if (!name || strchr(name, '/') || *name == '.') {
            status = ll_fail(LL_EFORMAT, "%s: the file of tensor %s is not a name in this folder", path, key);
            break;
        }
        if (!ll_text_ends(name, ".safetensors")) { /* an export knows its files of weights by this */
            status =
                ll_fail(LL_EFORMAT, "%s: the file of tensor %s, %s, is not called NAME.safetensors", path, key, name);
            break;
        }
        names[count++] = name;
    }
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(names[i], names[i - 1])) names[files++] = names[i];
    if (!status && files > FILES_MOST)
        status = ll_fail(LL_EFORMAT, "%s names %zu files, more than the %d that are read", path, files, FILES_MOST);
    if (!status) {
        w->file = ll_alloc(files + 1, sizeof(ll_safetensors *));
        w->name = ll_alloc(files + 1, sizeof *w->name);
        if (!w->file || !w->name) status = LL_ENOMEM;
    }
    for (size_t i = 0; i < files && !status; i++) status = open_file(w, names[i]);
    ll_free(names);
    return status;
}

static ll_status open_shards(ll_weights *w) {
    char *path = ll_path_join(w->folder, shards);
    ll_bytes bytes = {0};
    json_error_t error;
    int refused = 0;
    ll_status status = path ? ll_file_read(&bytes, path, INDEX_MOST) : LL_ENOMEM;
    if (!status && ll_json_is_deep(bytes.data, bytes.size, INDEX_DEPTH))
        status = ll_fail(LL_EFORMAT, "%s: nested more than %d deep", path, INDEX_DEPTH);
    json_t *json = status ? NULL : ll_json_load(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &error, &refused);
    json_t *map = json_object_get(json, "weight_map");
    if (refused) status = ll_fail(LL_ENOMEM, "no memory for %s", path);
    if (!status && !json) status = ll_fail(LL_EFORMAT, "%s: not JSON at byte %d: %s", path, error.position, error.text);
    if (!status && !json_is_object(map))
        status = ll_fail(LL_EFORMAT, "%s has no weight_map, which says which file has which tensor", path);
    if (!status) status = open_named(w, map, path);
    json_decref(json);
    ll_bytes_free(&bytes);
    ll_free(path);
    return status;
}

static ll_status open_single(ll_weights *w) {
    w->file = ll_alloc(1, sizeof(ll_safetensors *));
    w->name = ll_alloc(1, sizeof *w->name);
    return w->file && w->name ? open_file(w, single) : LL_ENOMEM;
}

static ll_status no_weights(const char *folder) {
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                                          "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
        if (is_there(folder, pickles[i]))
            return ll_fail(LL_EINVAL,
                           "%s has its weights in %s, which is not read (a pickle can run any program); save them as "
                           "model.safetensors: in Python, AutoModel.from_pretrained(FOLDER).save_pretrained(NEW, "
                           "safe_serialization=True)",
                           folder, pickles[i]);
    return ll_fail(LL_EINVAL, "%s has neither %s nor %s", folder, single, shards);
}

ll_status ll_weights_open(ll_weights *w, const char *folder) {
    *w = (ll_weights){.folder = folder};
    ll_status status = is_there(folder, single)   ? open_single(w) /* as transformers: an index may be older */
                       : is_there(folder, shards) ? open_shards(w)
                                                  : no_weights(folder);
    if (status) ll_weights_close(w);
    return status;
}

void ll_weights_close(ll_weights *w) {
    for (int i = 0; i < w->files; i++) {
        ll_safetensors_free(w->file[i]);
        ll_free(w->name[i]);
    }
    ll_free(w->file);
    ll_free(w->name);
    *w = (ll_weights){0};
}

const ll_st_tensor *ll_weights_find(const ll_weights *w, const char *name) {
    for (int i = 0; i < w->files; i++) {
        const ll_st_tensor *t = ll_safetensors_find(w->file[i], name);
        if (t) return t;
    }
    return NULL;
}
