/* Recipes as the command line changes them, folders of runs, and models. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

ll_status ll_set_all(ll_recipe *recipe, const ll_arg_list *set) {
    for (int i = 0; i < set->n; i++) {
        const ll_status status = ll_recipe_set(recipe, set->at[i]);
        if (status) return status;
    }
    return LL_OK;
}

const char *ll_assignment(char text[LL_ASSIGNMENT], const char *key, const char *value) {
    size_t n = (size_t)snprintf(text, 64, "%.60s=\"", key);
    for (; *value && n + 4 < LL_ASSIGNMENT; value++) {
        if (*value == '"') text[n++] = '"';
        text[n++] = *value;
    }
    strcpy(text + n, "\"");
    return text;
}

static int made_runs; /* the folder of all of them */

void ll_drop_run(const char *folder) {
    rmdir(folder);
    if (made_runs) rmdir("runs");
}

static char begun[4200];

static void drop_begun(void) { ll_drop_run(begun); }

void ll_new_run(char *out, size_t size, const char *name) {
    int i = 1;
    made_runs |= !mkdir("runs", 0777);
    do snprintf(out, size, "runs/%s-%d", name, i);
    while (i++ < 1000000 && mkdir(out, 0777) && errno == EEXIST);
    snprintf(begun, sizeof begun, "%s", out);
    ll_stop_after(drop_begun);
}

int ll_has_checkpoint(const char *folder) {
    char path[4200];
    const int n = snprintf(path, sizeof path, "%s/last.safetensors", folder);
    return n > 0 && n < (int)sizeof path && !access(path, R_OK);
}

/* What may not be looked at counts as there: opening it says why. */
static int is_absent(const char *path) { return access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR); }

void ll_run_model(char *path, size_t size, const char *run) {
    snprintf(path, size, "%s/best.safetensors", run);
    if (is_absent(path)) snprintf(path, size, "%s/last.safetensors", run);
}

static void note(const char *path) {
    ll_print("%s has no checksums (written before version 0.2.0), so damage to it would not be noticed", path);
}

void ll_note_unchecked(const char *path) {
    int tensors, checked;
    if (!ll_tensor_file_check(path, &tensors, &checked) && !checked) note(path);
}

const char *ll_model_file(const char *path, char file[PATH_MAX]) {
    struct stat about;
    if (stat(path, &about) || !S_ISDIR(about.st_mode)) return path;
    ll_run_model(file, PATH_MAX, path);
    return is_absent(file) ? path : file;
}

int ll_load_model(ll_model **model, const char *path) {
    char file[PATH_MAX];
    struct stat about;
    path = ll_model_file(path, file);
    if (!stat(path, &about) && S_ISDIR(about.st_mode)) {
        char quoted[LL_QUOTED];
        return ll_usage("the folder %s has no model: neither best.safetensors nor last.safetensors; a run has one from "
                        "its first checkpoint on, and `longline import %s` makes one of a Hugging Face model",
                        path, ll_quoted(quoted, path));
    }
    const ll_status status = ll_model_load(model, path);
    ll_line_break();
    if (status) return ll_failed(status, path);
    if (!ll_model_size(*model).checked) note(path);
    return -1;
}

int ll_round_weights(ll_model *model, const char *path, const char *weights) {
    static const char *const names[] = {"f32", "bf16", "int8", "int4"};
    int kind = 0;
    if (!weights) return -1; /* as they are in the file */
    while (kind < 4 && strcmp(weights, names[kind])) kind++;
    if (kind == 4) return ll_usage("--weights %s: needs f32, bf16, int8 or int4", weights);
    const ll_status status = ll_model_quantize(model, (ll_precision)kind);
    return status ? ll_failed_at(status, path) : -1;
}

int ll_twice_check(const char *option, const ll_arg_list *set, const char *key) {
    if (!ll_args_name_key(set, key)) return -1;
    return ll_usage("give %s or --set %s, which mean the same", option, key);
}

int ll_data_check(const ll_recipe *recipe, const char *data) {
    const char *format = ll_recipe_get(recipe, "data.format");
    if (!data || !ll_format_makes(format)) return -1;
    return ll_usage("--data %s: data.format = %s makes its data; leave out --data, or set another data.format", data,
                    format);
}

int ll_reads_images(const ll_recipe *recipe) {
    return strcmp(ll_recipe_get(recipe, "model.patch"), "0") ||
           ll_format_has_images(ll_recipe_get(recipe, "data.format"));
}

ll_input_options ll_input_of(const ll_recipe *recipe) {
    ll_input_options how = {.grid = atoi(ll_recipe_get(recipe, "data.grid"))};
    if (!ll_reads_images(recipe)) return how;
    how.width = atoi(ll_recipe_get(recipe, "position.width"));
    how.height = atoi(ll_recipe_get(recipe, "position.height"));
    how.channels = atoi(ll_recipe_get(recipe, "model.channels"));
    if (atoi(ll_recipe_get(recipe, "data.resize")) > 0) how.side = atoi(ll_recipe_get(recipe, "data.resize-side"));
    how.bicubic = !strcmp(ll_recipe_get(recipe, "data.resize-filter"), "bicubic");
    return how;
}

int ll_image_numbers(const ll_recipe *recipe) {
    const int pixels = atoi(ll_recipe_get(recipe, "position.width")) * atoi(ll_recipe_get(recipe, "position.height"));
    if (!ll_reads_images(recipe)) return 0;
    return atoi(ll_recipe_get(recipe, pixels > 0 ? "model.channels" : "train.length")) * (pixels > 0 ? pixels : 1);
}

int ll_patch_numbers(const ll_recipe *recipe) {
    const int side = atoi(ll_recipe_get(recipe, "model.patch"));
    return side ? side * side * atoi(ll_recipe_get(recipe, "model.channels")) : 1;
}

const char *ll_class_name(const ll_recipe *recipe, int class, char text[LL_CLASS_NAME]) {
    const char *at = ll_recipe_get(recipe, "data.classes");
    for (int i = 0; i < class && at && *at; i++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (at && *at)
        snprintf(text, LL_CLASS_NAME, "%.*s", (int)strcspn(at, ","), at);
    else
        snprintf(text, LL_CLASS_NAME, "%d", class);
    return text;
}

const char *ll_uses(const ll_model *model) {
    static const char *const uses[][2] = {{"lm", "score, encode, generate, eval"},
                                          {"classify", "classify, encode, eval"},
                                          {"mlm", "encode, eval"},
                                          {"match", "encode, eval"},
                                          {"seq2seq", "generate, eval"}};
    const char *task = ll_recipe_get(ll_model_recipe(model), "model.task");
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (!strcmp(task, uses[i][0])) return uses[i][1];
    return "eval";
}

const char *ll_unit(const ll_recipe *recipe) {
    const char *unit = ll_recipe_unit(recipe);
    return strcmp(unit, "example") ? unit : NULL;
}

void ll_show_perplexity(const char *key, double perplexity) {
    if (isfinite(perplexity)) printf(perplexity < 1e9 ? "%s=%.4f\n" : "%s=%.5e\n", key, perplexity);
}

void ll_show_baseline(const char *command, const ll_recipe *recipe, const char *split, int batches) {
    ll_baseline b;
    if (!ll_format_has_baseline(ll_recipe_get(recipe, "data.format"))) return;
    fflush(stdout); /* the lines so far, before a long wait */
    ll_reading_line_begin();
    const ll_status status = ll_unigram(recipe, split, batches, &b);
    ll_reading_line_end();
    if (status)
        ll_print("no baseline: %s", ll_error());
    else
        printf("%s.unigram_perplexity=%.4f\n%s.unigram_accuracy=%.4f\n", command, exp(b.loss), command, b.accuracy);
}
