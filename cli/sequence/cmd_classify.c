/* longline classify: classes of sequences and images. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sequence/sequences.h"

static const char *labels, *label_key, *out;
static int64_t top = 1;
static int json;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, "writes this file, .csv as CSV; default or -: standard output"},
    {LL_ARG_INTEGER, 0, "top", "N", &top, 1, 1000, "prints the N most likely classes"},
    {LL_ARG_TEXT, 0, "labels", "FILE", &labels, 0, 0, "idx file of the true classes of images, for the accuracy"},
    {LL_ARG_TEXT, 0, "label-key", "KEY", &label_key, 0, 0, "key of the true class in JSONL, for the accuracy"},
    {LL_ARG_FLAG, 0, "json", NULL, &json, 0, 0, "prints one JSON object a line instead of TSV"},
    {.type = LL_ARG_END},
};

static int classes;
static const ll_recipe *recipe;
static int64_t right, labelled, unknown;
static char *stranger; /* the first label that is not a class */

/* The class that a label means: the one of that name, else the one of that number. Labels of an idx file are numbers.
 * -1: no class. */
static int class_of(const char *label) {
    char text[LL_CLASS_NAME];
    for (int c = 0; c < classes && !labels; c++)
        if (!strcmp(ll_class_name(recipe, c, text), label)) return c;
    for (int c = 0; c < classes; c++) {
        snprintf(text, sizeof text, "%d", c);
        if (!strcmp(text, label)) return c;
    }
    return -1;
}

/* Is the most likely class the true one? */
static void count(const char *label, int first) {
    const int class = class_of(label);
    labelled++;
    right += class == first;
    unknown += class < 0;
    if (class < 0 && !stranger) stranger = strdup(label);
}

/* The next class after number `last` (-1: the first) in the order of probability; of equal ones the smaller number
 * first. */
static int next_class(const float *logp, int last) {
    int best = -1;
    for (int c = 0; c < classes; c++) {
        if (last >= 0 && !(logp[c] < logp[last] || (logp[c] == logp[last] && c > last))) continue;
        if (best < 0 || logp[c] > logp[best]) best = c;
    }
    return best;
}

static void show_json(const ll_item *item) {
    char text[LL_CLASS_NAME];
    const int first = next_class(item->answer, -1);
    fputs("{\"id\":", stdout);
    ll_put_string(item->id);
    if (item->label) {
        fputs(",\"label\":", stdout);
        ll_put_string(item->label);
    }
    fputs(",\"class\":", stdout);
    ll_put_string(ll_class_name(recipe, first, text));
    printf(",\"probability\":%.6f", exp((double)item->answer[first]));
    if (top > 1) {
        fputs(",\"top\":[", stdout);
        for (int i = 0, c = first; i < top && c >= 0; i++, c = next_class(item->answer, c)) {
            printf("%s{\"class\":", i ? "," : "");
            ll_put_string(ll_class_name(recipe, c, text));
            printf(",\"probability\":%.6f}", exp((double)item->answer[c]));
        }
        putchar(']');
    }
    puts("}");
}

static int show(const ll_item *item) {
    char text[LL_CLASS_NAME];
    const int first = next_class(item->answer, -1);
    if (item->label) count(item->label, first);
    if (json) {
        show_json(item);
        return -1;
    }
    ll_put_field(item->id);
    if (item->label) {
        putchar(ll_field_end());
        ll_put_field(item->label);
    }
    for (int i = 0, c = first; i < top && c >= 0; i++, c = next_class(item->answer, c)) {
        putchar(ll_field_end());
        ll_put_field(ll_class_name(recipe, c, text));
        printf("%c%.6f", ll_field_end(), exp((double)item->answer[c]));
    }
    putchar('\n');
    return -1;
}

static void header(void) {
    if (json) return;
    const char s = ll_field_end();
    fputs("id", stdout);
    if (labels || label_key) printf("%clabel", s);
    printf("%cclass%cprobability", s, s);
    for (int i = 2; i <= top && i <= classes; i++) printf("%cclass%d%cprobability%d", s, i, s, i);
    putchar('\n');
}

static int classify_with(ll_model *model, int files, const char **paths) {
    classes = ll_model_size(model).classes;
    if (!classes) {
        const char *task = ll_recipe_get(ll_model_recipe(model), "model.task");
        ll_print("the model (model.task = %s) does not classify sequences; use %s", task, ll_uses(model));
        return 2;
    }
    recipe = ll_model_recipe(model);
    const ll_job job = {.model = model,
                        .width = (size_t)classes,
                        .run = ll_model_logp,
                        .show = show,
                        .header = header,
                        .label_key = label_key,
                        .labels = labels,
                        .out = out};
    const int code = ll_sequences(&job, files, paths);
    if (!code && unknown)
        ll_print("%lld of %lld labels are not classes of the model, the first is '%s'; they count as mistakes",
               (long long)unknown, (long long)labelled, stranger ? stranger : "");
    free(stranger);
    if (!code && labelled)
        ll_print("accuracy %.4f: %lld of %lld right", (double)right / (double)labelled, (long long)right,
               (long long)labelled);
    return code;
}

static int classify(int n, const char **words) {
    const char *const read[] = {words[0], labels};
    int code = ll_answers_target(&out, json, n, words);
    if (code < 0 && out && labels) code = ll_target_apart("--out", out, 2, read);
    return code < 0 ? ll_sequences_with(n, words, classify_with) : code;
}

const ll_command ll_command_classify = {
    .name = "classify",
    .words = "MODEL [FILE...]",
    .least = 1,
    .most = 1 << 20,
    .summary = "print the classes of sequences or images",
    .text =
        "Prints the most likely class of every sequence and its probability, as TSV in the order of the input. Files\n"
        "(or standard input) have a text a line, JSONL, FASTA, idx or PNG images; plain, .gz, .xz or .zst.\n"
        "Images are resized to the size of the model's.\n\n"
        "  longline classify runs/mnist-1/best.safetensors t10k-images-idx3-ubyte.gz --top 3\n"
        "  longline classify MODEL images --labels labels\n"
        "  longline classify MODEL reviews.jsonl --json",
    .args = args,
    .shared = ll_sequence_args,
    .run = classify,
    .ranks = 1,
};
