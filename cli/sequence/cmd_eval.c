/* longline eval: the loss and accuracy of a model on data that it was not trained on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static ll_arg_list set;
static const char *data, *labels, *split, *weights;
static int64_t batches, shift, class = -1;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "data", "PATH", &data, 0, 0, "evaluates on this file or folder; default: a split of the recipe"},
    {LL_ARG_TEXT, 0, "labels", "PATH", &labels, 0, 0, "labels of --data, for images"},
    {LL_ARG_TEXT, 0, "split", "NAME", &split, 0, 0, "train, valid, test; default: test if the recipe has it, or valid"},
    {LL_ARG_INTEGER, 0, "batches", "N", &batches, 0, 1e9, "evaluates on N batches, evenly spread; 0 = on all"},
    {LL_ARG_TEXT, 0, "weights", "KIND", &weights, 0, 0,
     "number format of weights: f32, bf16, int8 or int4, as for generate; default: that of the file"},
    {LL_ARG_INTEGER, 0, "shift", "N", &shift, 0, 4096,
     "accuracy of images with N empty columns on both sides, shifted by -N to N pixels"},
    {LL_ARG_INTEGER, 0, "class", "K", &class, 0, 255, "with --shift: only images of this class"},
    {LL_ARG_LIST, 0, "set", "KEY=VALUE", &set, 0, 0, "changes a key of [data] or [train]; may be repeated"},
    {.type = LL_ARG_END},
};

static ll_status change(ll_model *model, const char *key, const char *value) {
    char assignment[LL_ASSIGNMENT];
    return value ? ll_model_set(model, ll_assignment(assignment, key, value)) : LL_OK;
}

/* Images with a published name have their labels beside them. The library finds these if no others are named. */
static int has_labels_beside(const ll_model *model) {
    return data && !strcmp(ll_recipe_get(ll_model_recipe(model), "data.format"), "idx") &&
           (strstr(data, "images-idx3-ubyte") || strstr(data, "images.idx3-ubyte"));
}

static char trained_on[64]; /* data.format of the model */

/* The data do not fit a model that --set makes read another format than it was trained on. */
static int failed(ll_status status, const ll_recipe *recipe) {
    if (status != LL_EINVAL || !strcmp(ll_recipe_get(recipe, "data.format"), trained_on))
        return ll_failed_data(status, recipe);
    ll_print("%s; it was trained with data.format = %s", ll_error(), trained_on);
    return 2;
}

/* The answers of the model stand for the classes in the order of its own names. */
static int check_classes(const ll_model *model, const char *own) {
    const char *given = ll_recipe_get(ll_model_recipe(model), "data.classes");
    int at = 0;
    if (!*own || !strcmp(given, own)) return -1;
    if (!*given) return ll_usage("data.classes is empty, and the model's are %.300s; name as many", own);
    for (const char *name = given; *name; at++) {
        const size_t n = strcspn(name, ",");
        int i = 0;
        for (const char *other = own; *other; i++) {
            const size_t m = strcspn(other, ",");
            if (i != at && n == m && !memcmp(name, other, n))
                return ll_usage(
                    "data.classes = %.300s: '%.*s' is class %d of the model, whose classes are %.300s; keep "
                    "their order",
                    given, n < 100 ? (int)n : 100, name, i, own);
            other += m + (other[m] == ',');
        }
        name += n + (name[n] == ',');
    }
    ll_print("data.classes = %.300s: these names stand for the model's classes %.300s", given, own);
    return -1;
}

static ll_status change_all(ll_model *model) {
    snprintf(trained_on, sizeof trained_on, "%s", ll_recipe_get(ll_model_recipe(model), "data.format"));
    ll_status status = change(model, "data.test", data);
    if (!status) status = change(model, "data.test-labels", !labels && has_labels_beside(model) ? "" : labels);
    for (int i = 0; !status && i < set.n; i++) status = ll_model_set(model, set.at[i]);
    return status;
}

/* Progress counts all passes over the data together. */
typedef struct {
    ll_progress_line progress;
    int64_t pass, passes;
} waiting;

static int report_pass(int64_t done, int64_t total, void *arg) {
    waiting *w = arg;
    return ll_progress_report(w->pass * total + done, w->passes * total, &w->progress);
}

static ll_status set_number(ll_model *model, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return change(model, key, text);
}

/* Images have their labels in a file of their own. */
static int lacks_labels(const ll_model *model) {
    const ll_recipe *recipe = ll_model_recipe(model);
    const char *given = ll_recipe_get(recipe, "data.test-labels");
    return data && !strcmp(ll_recipe_get(recipe, "data.format"), "idx") && !(given && *given) &&
           !has_labels_beside(model);
}

/* The same images at every shift; they have empty columns, so nothing is lost. This shows whether what a model has
 * learned holds at other positions. */
static int shift_all(ll_model *model, waiting *w) {
    const ll_recipe *recipe = ll_model_recipe(model);
    ll_evaluation e = {.struct_size = sizeof e};
    ll_status status = set_number(model, "data.margin", shift);
    if (!status) status = set_number(model, "data.only", class);
    for (int64_t s = -shift; s <= shift && !status; s++) {
        w->pass = s + shift;
        status = set_number(model, "data.shift", s);
        if (!status) status = ll_evaluate(model, split, (int)batches, &e);
        if (status) break;
        ll_line_break();
        if (s == -shift) printf("eval.split=%s\neval.count=%lld\n", split, (long long)e.count);
        printf("eval.shift.%lld.accuracy=%.4f\neval.shift.%lld.loss=%.6f\n", (long long)s, e.accuracy, (long long)s,
               e.loss);
        fflush(stdout);
    }
    return status ? ll_failed_data(status, recipe) : 0;
}

static int evaluate(ll_model *model, waiting *w) {
    const ll_recipe *recipe = ll_model_recipe(model);
    if (!split) {
        const char *test = ll_recipe_get(recipe, "data.test");
        split = data || (test && *test) ? "test" : "valid";
    }
    if (shift && !ll_reads_images(recipe)) return ll_usage("--shift moves images, and this model does not read images");
    if (shift) return shift_all(model, w);
    ll_evaluation e = {.struct_size = sizeof e};
    const ll_status status = ll_evaluate(model, split, (int)batches, &e);
    ll_progress_end(&w->progress);
    if (status) return failed(status, recipe);
    const char *unit = ll_unit(recipe);
    printf("eval.split=%s\neval.count=%lld\neval.loss=%.6f\n", split, (long long)e.count, e.loss);
    if (unit) printf("eval.bits_per_%s=%.4f\n", unit, e.bits_per_token);
    if (unit) ll_show_perplexity("eval.perplexity", exp(e.loss));
    if (unit && strcmp(unit, "word") && isfinite(e.bits_per_word)) {
        printf("eval.bits_per_word=%.4f\n", e.bits_per_word);
        ll_show_perplexity("eval.word_perplexity", exp2(e.bits_per_word));
    }
    if (unit && strcmp(unit, "byte") && isfinite(e.bits_per_byte)) printf("eval.bits_per_byte=%.4f\n", e.bits_per_byte);
    if (isfinite(e.unknown)) printf("eval.unknown=%.4f\n", e.unknown);
    ll_show_baseline("eval", recipe, split, (int)batches);
    printf("eval.accuracy=%.4f\n", e.accuracy);
    if (isfinite(e.majority))
        printf("eval.majority_accuracy=%.4f\neval.balanced_accuracy=%.4f\n", e.majority, e.balanced);
    if (e.sequences) printf("eval.sequences=%lld\neval.exact=%.4f\n", (long long)e.sequences, e.exact);
    printf("eval.seconds=%.2f\n", e.seconds);
    if (e.left_out)
        ll_print("files left out, as data.classes does not name their folders: %lld", (long long)e.left_out);
    if (e.cut)
        ll_print("%lld of %lld texts are longer than train.length = %s and are cut to it; classify and encode cut them "
                 "with --length alone",
                 (long long)e.cut, (long long)e.texts, ll_recipe_get(recipe, "train.length"));
    if (e.unknown > 0)
        ll_print("%.2g %% of the tokens are unknown %ss, each predicted as one token: bits_per_byte is too low to be "
                 "compared with a model that spells them",
                 100 * e.unknown, unit);
    return 0;
}

static int eval(int n, const char **words) {
    (void)n;
    ll_model *model = NULL;
    if (split && strcmp(split, "train") && strcmp(split, "valid") && strcmp(split, "test"))
        return ll_usage("--split %s: needs train, valid or test", split);
    if (data && split) return ll_usage("give --data or --split, not both");
    if (class >= 0 && !shift) return ll_usage("--class needs --shift");
    if (labels && !data) return ll_usage("--labels needs --data");
    int code = data ? ll_twice_check("--data", &set, "data.test") : -1;
    if (code < 0 && labels) code = ll_twice_check("--labels", &set, "data.test-labels");
    if (code < 0) code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    char *classes = strdup(ll_recipe_get(ll_model_recipe(model), "data.classes"));
    ll_status status = change_all(model);
    if (!status) status = ll_dist_same_model(model);
    if (status)
        code = ll_failed(status, NULL);
    else
        code = classes ? check_classes(model, classes) : ll_fail_message("out of memory");
    free(classes);
    if (code < 0) code = ll_data_check(ll_model_recipe(model), data);
    if (code < 0 && labels && ll_unmet(ll_model_recipe(model), "data.test-labels"))
        code = ll_usage("--labels %s: the labels of idx images are a file, and data.format = %s has none; leave out "
                        "--labels",
                        labels, ll_recipe_get(ll_model_recipe(model), "data.format"));
    if (code < 0) code = ll_round_weights(model, words[0], weights);
    if (code < 0 && lacks_labels(model)) code = ll_usage("--data %s: images need labels, too: --labels FILE", data);
    waiting w = {.progress = ll_progress_of(LL_PROGRESS_SHARE, "evaluated"), .passes = 2 * shift + 1};
    ll_model_watch(model, report_pass, &w);
    if (code < 0) code = evaluate(model, &w);
    ll_progress_end(&w.progress);
    ll_model_free(model);
    return code;
}

const ll_command ll_command_eval = {
    .name = "eval",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "measure a model on data",
    .text =
        "Prints the loss (nats), bits a byte for text, and the fraction of bytes or images predicted right. Text\n"
        "is cut into windows of train.length; with longer ones the model sees more context. With --set data.format\n"
        "it reads another format whose tokens are the same, as demo for bytes.\n\n"
        "  longline eval runs/text-bytes-1/best.safetensors --data other.txt\n"
        "  longline eval runs/text-bytes-1/best.safetensors --set train.length=8192 --set train.batch=1\n"
        "  longline eval runs/mnist-1/best.safetensors --shift 8",
    .args = args,
    .run = eval,
    .ranks = 1,
};
