/* The models that are served: one or more files, or those of a folder. Each is loaded twice, because the side thread
 * has models of its own. Files are mapped, so that the second copy needs little memory. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "serve/served_models.h"

ll_served ll_served_model[LL_MODELS_MOST];
int ll_served_models;

/* Of SHA-256; hex has digits + 1 bytes. */
static void digest(char *hex, size_t digits, const char *text) {
    char all[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data((const uint8_t *)text, strlen(text), all);
    memcpy(hex, all, digits);
    hex[digits] = 0;
}

/* The last part of a path of `size` bytes, without slashes behind it. */
static const char *last_part(const char *path, size_t size, size_t *n) {
    while (size && path[size - 1] == '/') size--;
    size_t begin = size;
    while (begin && path[begin - 1] != '/') begin--;
    *n = size - begin;
    return path + begin;
}

/* The name of a model: that of its file without the ending, or that of its folder if the file is "best" or "last". */
static void name_of(char name[LL_MODEL_NAME], const char *path) {
    struct stat info;
    char absolute[PATH_MAX];
    const int folder = !stat(path, &info) && S_ISDIR(info.st_mode);
    size_t n;
    const char *base = last_part(path, strlen(path), &n), *ending = folder ? NULL : strrchr(base, '.');
    if (ending && ending > base) n = (size_t)(ending - base);
    if (!folder && base > path && n == 4 && (!strncmp(base, "best", 4) || !strncmp(base, "last", 4)))
        base = last_part(path, (size_t)(base - path), &n);
    if ((!n || (n <= 2 && *base == '.')) && realpath(path, absolute)) { /* "." and ".." are no names */
        base = last_part(absolute, strlen(absolute), &n);
        if (!folder) base = last_part(absolute, (size_t)(base - absolute), &n);
    }
    if (n >= LL_MODEL_NAME) n = (size_t)ll_shown(base, LL_MODEL_NAME - 1);
    memcpy(name, base, n);
    name[n] = 0;
}

/* ---- Chat templates ---- */

static int chat_failed(const char *path, const char *message) {
    ll_print("%s: %s; it is {\"roles\": {\"user\": [\"before\", \"after\"], ..}, \"begin\": \"..\", "
             "\"stop\": [\"..\"]}", path, message);
    return 2;
}

static int is_list_of_texts(json_t *v) {
    if (!json_is_array(v) || json_array_size(v) > LL_STOPS) return 0;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i))) return 0;
    return 1;
}

static int is_pair(json_t *v) {
    return json_is_array(v) && json_array_size(v) == 2 && json_is_string(json_array_get(v, 0)) &&
           json_is_string(json_array_get(v, 1));
}

/* Reads the file of --chat-template, or the one beside the model's file if there is one. -1, or the exit code. */
static int load_chat(ll_served *m, const char *model) {
    char beside[4200], chosen[PATH_MAX];
    json_error_t error;
    json_t *value;
    const char *path = ll_serve.chat_template, *name;
    snprintf(beside, sizeof beside, "%s.chat.json", ll_model_file(model, chosen));
    FILE *file = ll_serve_open(path ? path : beside);
    if (!file && !path && (errno == ENOENT || errno == ENAMETOOLONG)) return -1;
    if (!file && errno == ENOMEM) return ll_fail_message("no memory to read a chat template");
    if (!file) return ll_usage("the chat template %s cannot be read: %s", path ? path : beside, strerror(errno));
    json_t *all = json_loadf(file, 0, &error);
    fclose(file);
    if (!path) path = beside;
    if (!all) return chat_failed(path, error.text);
    m->chat = ll_serve_alloc(1, sizeof *m->chat);
    m->chat->all = all;
    m->chat->roles = json_object_get(all, "roles");
    m->chat->stop = json_object_get(all, "stop");
    m->chat->begin = json_string_value(json_object_get(all, "begin"));
    if (!json_is_object(m->chat->roles) || !m->chat->begin) return chat_failed(path, "no roles or no begin");
    json_object_foreach(m->chat->roles, name, value)
        if (!is_pair(value)) return chat_failed(path, "a role is not a pair of texts");
    if (m->chat->stop && !is_list_of_texts(m->chat->stop))
        return chat_failed(path, "stop is not a list of at most 16 texts");
    return -1;
}

char *ll_chat_prompt(const ll_served *m, ll_request *r, size_t *size, ll_refusal *why) {
    ll_buffer text = {0};
    for (int i = 0; i < r->messages; i++) {
        json_t *role = json_object_get(m->chat->roles, r->message[i].role);
        if (!role) {
            char param[64];
            snprintf(param, sizeof param, "messages.%d.role", i);
            ll_refuse(why, 400, param, "the model's chat template has no role '%.*s'",
                      ll_shown(r->message[i].role, 40), r->message[i].role);
            ll_buffer_free(&text);
            return NULL;
        }
        ll_buffer_text(&text, json_string_value(json_array_get(role, 0)));
        ll_buffer_add(&text, r->message[i].content, r->message[i].size);
        ll_buffer_text(&text, json_string_value(json_array_get(role, 1)));
    }
    ll_buffer_text(&text, m->chat->begin);
    *size = text.size;
    ll_buffer_add(&text, "", 1);
    for (size_t i = 0; i < json_array_size(m->chat->stop); i++) {
        json_t *stop = json_array_get(m->chat->stop, i);
        if (!json_string_length(stop)) continue;
        r->stop[r->stops].text = json_string_value(stop);
        r->stop[r->stops++].size = json_string_length(stop);
    }
    return text.data;
}

/* ---- Loading ---- */

static int number_of(const ll_served *m, const char *key) {
    const char *value = ll_recipe_get(ll_model_recipe(m->model), key);
    return value ? atoi(value) : -1;
}

/* Makes the batcher of a language model that can stream. */
static int prepare_streams(ll_served *m, const char *path) {
    const char *task = ll_recipe_get(ll_model_recipe(m->model), "model.task");
    if (!task || strcmp(task, "lm") != 0 || ll_model_can_stream(m->model)) return -1;
    ll_stream *stream = NULL;
    ll_status status = ll_batcher_create(&m->batcher, m->model, (int)(ll_serve.batch + ll_serve.block));
    if (!status) status = ll_batcher_stream(&stream, m->batcher);
    if (!status) m->positions = ll_stream_left(stream);
    ll_stream_free(stream);
    return status ? ll_failed_at(status, path) : -1;
}

/* Answers are JSON, and all of them have the name of a model. */
static int is_utf8(const char *name) {
    json_t *text = json_string(name);
    const int good = text && *name;
    json_decref(text);
    return good;
}

static int load(const char *path) {
    if (ll_served_models == LL_MODELS_MOST) return ll_usage("more than %d models", LL_MODELS_MOST);
    ll_served *m = &ll_served_model[ll_served_models];
    name_of(m->name, path);
    if (!is_utf8(m->name))
        return ll_usage("%s: the name of a model must be UTF-8; rename the file, or link to it", path);
    digest(m->digest, LL_NAME_DIGEST, m->name);
    for (int i = 0; i < ll_served_models; i++)
        if (!strcmp(ll_served_model[i].digest, m->digest))
            return ll_usage("two models have the name '%s'; rename the file or the folder of one", m->name);
    int code = ll_load_model(&m->model, path);
    ll_served_models++;
    if (code < 0) code = ll_round_weights(m->model, path, ll_serve.weights);
    if (code < 0) code = ll_load_model(&m->side_model, path);
    if (code < 0) code = ll_round_weights(m->side_model, path, ll_serve.weights);
    if (code >= 0) return code;
    ll_status status = ll_tokenizer_create(&m->tokenizer, m->model);
    if (!status) status = ll_tokenizer_create(&m->http_tokenizer, m->model);
    if (!status) status = ll_tokenizer_create(&m->token_tokenizer, m->model);
    if (!status) status = ll_tokenizer_create(&m->side_tokenizer, m->model);
    if (status) return ll_failed_at(status, path);
    m->text_vocab = ll_tokenizer_vocab(m->tokenizer);
    m->vocab = ll_model_size(m->model).vocab;
    size_t pieces;
    const int *piece = ll_tokenizer_special(m->tokenizer, LL_SPECIAL_PIECE, &pieces);
    m->separator = number_of(m, "model.separator");
    m->end = pieces ? *piece : m->separator;
    m->classes = ll_model_size(m->model).classes;
    m->width = ll_model_size(m->model).width;
    m->unit = ll_recipe_unit(ll_model_recipe(m->model));
    m->created = (double)time(NULL);
    code = prepare_streams(m, path);
    return code < 0 && m->batcher ? load_chat(m, path) : code;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_model(const struct dirent *entry) {
    const char *ending = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && ending && !strcmp(ending, ".safetensors");
}

static int load_folder(const char *folder) {
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, is_model, by_name);
    int code = -1;
    if (n < 0 && errno == ENOENT) return ll_usage("--models %s: there is no such folder", folder);
    if (n < 0 && errno == ENOTDIR) return ll_usage("--models %s: it is a file; name a folder", folder);
    if (n < 0) return ll_usage("--models %s: the folder cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (code < 0) code = load(path);
        free(entries[i]);
    }
    free(entries);
    return code < 0 && !n ? ll_usage("--models %s: no file ends in .safetensors", folder) : code;
}

int ll_served_load(int n, const char **paths) {
    int code = -1;
    for (int i = 0; i < n && code < 0; i++) code = load(paths[i]);
    return code < 0 && ll_serve.models ? load_folder(ll_serve.models) : code;
}

void ll_served_free(void) {
    for (int i = 0; i < ll_served_models; i++) {
        ll_served *m = &ll_served_model[i];
        ll_tokenizer_free(m->tokenizer);
        ll_tokenizer_free(m->http_tokenizer);
        ll_tokenizer_free(m->token_tokenizer);
        ll_tokenizer_free(m->side_tokenizer);
        ll_batcher_free(m->batcher);
        ll_model_free(m->model);
        ll_model_free(m->side_model);
        if (m->chat) json_decref(m->chat->all);
        free(m->chat);
    }
    ll_served_models = 0;
}

ll_served *ll_served_find(const char *name) {
    if (!name) return ll_served_models ? ll_served_model : NULL;
    for (int i = 0; i < ll_served_models; i++)
        if (!strcmp(ll_served_model[i].name, name)) return &ll_served_model[i];
    return NULL;
}

ll_served *ll_served_of(const char *session) {
    for (int i = 0; i < ll_served_models; i++)
        if (ll_served_model[i].batcher && !strncmp(session + 5, ll_served_model[i].digest, LL_NAME_DIGEST))
            return &ll_served_model[i];
    return NULL;
}
