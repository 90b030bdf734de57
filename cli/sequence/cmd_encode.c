/* longline encode: embeddings of sequences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sequence/sequences.h"

static const char *pool = "mean", *out;
static int64_t layer = -1;
static int json;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, ".safetensors, .npy or .csv; default or -: CSV on standard output"},
    {LL_ARG_TEXT, 0, "pool", "KIND", &pool, 0, 0, "mean, first, last or all tokens (patches of images)"},
    {LL_ARG_INTEGER, 0, "layer", "K", &layer, -1, 1000,
     "output of block K; 0 = the embedding, -1 = the last, after its norm"},
    {LL_ARG_FLAG, 0, "json", NULL, &json, 0, 0, "prints one JSON object a line on standard output"},
    {.type = LL_ARG_END},
};

static const char *const kinds[] = {
    [LL_EMBED_MEAN] = "mean", [LL_EMBED_FIRST] = "first", [LL_EMBED_LAST] = "last", [LL_EMBED_ALL] = "all"};
static ll_embed_kind kind;
static ll_row_file *rows;
static int width, numbers; /* of a vector; of a sequence that make one */

static ll_status run(ll_model *model, float *to, const int *tokens, const int *lengths, int B, int T) {
    return ll_model_encode(model, (int)layer, kind, to, tokens, lengths, B, T);
}

static void show_vector(const float *x) {
    putchar('[');
    for (int c = 0; c < width; c++) {
        if (c) putchar(',');
        ll_put_number("%.9g", (double)x[c]);
    }
    putchar(']');
}

static int64_t empty; /* sequences without tokens */

static int show(const ll_item *item) {
    if (!item->n) empty++;
    const int n = kind == LL_EMBED_ALL ? item->n / numbers : 1;
    if (!json) {
        const ll_status status = ll_row_file_add(rows, item->id, item->answer, n);
        return status ? ll_failed(status, NULL) : -1;
    }
    fputs("{\"id\":", stdout);
    ll_put_string(item->id);
    printf(",\"tokens\":%d,\"embedding%s", item->n, kind == LL_EMBED_ALL ? "s\":[" : "\":");
    for (int i = 0; i < n; i++) {
        if (i) putchar(',');
        show_vector(item->answer + (size_t)i * (size_t)width);
    }
    puts(kind == LL_EMBED_ALL ? "]}" : "}");
    return -1;
}

static int encode_with(ll_model *model, int files, const char **paths) {
    const int all = kind == LL_EMBED_ALL;
    if (ll_dist_ranks().rank) out = NULL; /* rank 0 writes */
    if (!strcmp(ll_recipe_get(ll_model_recipe(model), "model.task"), "seq2seq")) {
        ll_print("the model (model.task = seq2seq) has no vectors of single sequences; use %s", ll_uses(model));
        return 2;
    }
    const char *layers = ll_recipe_get(ll_model_recipe(model), "model.layers");
    if (layer > atoi(layers))
        return ll_usage("--layer: there is no layer %lld: the model has %s, and 0 is the input of the first",
                        (long long)layer, layers);
    width = ll_model_size(model).width;
    numbers = ll_patch_numbers(ll_model_recipe(model));
    const ll_job job = {.model = model,
                        .width = (size_t)width,
                        .per_token = all,
                        .numbers = numbers,
                        .run = run,
                        .show = show,
                        .quiet = out != NULL};
    if (!json) {
        const ll_status status = ll_row_file_create(&rows, out ? out : "-", width, all);
        if (status) return ll_failed(status, NULL);
    }
    if (out) ll_stop_on_signals(1, "stopping", "no file was written");
    const int code = ll_sequences(&job, files, paths);
    if (!code && empty)
        ll_print("%lld %s no tokens: the vector is zeros", (long long)empty,
                 empty > 1 ? "sequences have" : "sequence has");
    if (json) return code;
    if (code) {
        ll_row_file_abandon(rows);
        return code;
    }
    const ll_status status = ll_row_file_commit(rows);
    return status ? ll_failed(status, NULL) : 0;
}

static int encode(int n, const char **words) {
    int i = LL_EMBED_ALL;
    while (i >= 0 && strcmp(pool, kinds[i])) i--;
    if (i < 0) return ll_usage("--pool %s: needs mean, first, last or all", pool);
    if (json && out && strcmp(out, "-")) return ll_usage("give --json or -o FILE, not both");
    kind = (ll_embed_kind)i;
    const int code = ll_vectors_target(&out, n, words);
    return code < 0 ? ll_sequences_with(n, words, encode_with) : code;
}

const ll_command ll_command_encode = {
    .name = "encode",
    .words = "MODEL [FILE...]",
    .least = 1,
    .most = 1 << 20,
    .summary = "turn sequences into vectors",
    .text =
        "Writes an embedding of every sequence, in the order of the input: the mean of its tokens' vectors in the\n"
        "last layer, or what --pool and --layer say. Files (or standard input) have a text a line, JSONL, FASTA, idx\n"
        "or PNG images; plain, .gz, .xz or .zst. The file of -o is written as a whole or not at all.\n\n"
        "  longline encode runs/text-bytes-1/best.safetensors lines.txt > vectors.csv\n"
        "  longline encode MODEL proteins.fasta.gz -o vectors.safetensors\n"
        "  longline encode MODEL book.txt --whole --pool all --layer 3 -o tokens.npy",
    .args = args,
    .shared = ll_sequence_args,
    .run = encode,
    .ranks = 1,
};
