/* longline quantize: a model with smaller weights, in a smaller file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static const char *out, *weights = "int8";

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, "where the quantized model goes"},
    {LL_ARG_TEXT, 0, "weights", "KIND", &weights, 0, 0, "bf16, int8 or int4"},
    {.type = LL_ARG_END},
};

static long long bytes_of(const char *path) {
    struct stat file;
    return stat(path, &file) ? 0 : (long long)file.st_size;
}

static int quantize(int n, const char **words) {
    ll_model *model = NULL;
    char file[PATH_MAX];
    if (!out) return ll_usage("needs --out FILE, where the quantized model goes");
    if (!strcmp(weights, "f32")) return ll_usage("--weights f32 makes nothing smaller; give bf16, int8 or int4");
    int code = ll_target_apart("--out", out, n, words);
    if (code < 0) code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    const long long before = bytes_of(ll_model_file(words[0], file));
    code = ll_round_weights(model, words[0], weights);
    if (code < 0) {
        const ll_status status = ll_model_save(model, out);
        code = status ? ll_failed(status, NULL) : 0;
    }
    ll_model_free(model);
    if (!code)
        printf("quantize.model=%s\nquantize.bytes_before=%lld\nquantize.bytes=%lld\n", out, before, bytes_of(out));
    return code;
}

const ll_command ll_command_quantize = {
    .name = "quantize",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "make a model smaller, with weights of 16, 8 or 4 bits",
    .text =
        "Writes MODEL with its matrices rounded: bf16 keeps 8 significant bits, int8 and int4 are integers with one\n"
        "scale for 32 rows of a column, 8.5 and 4.5 bits a weight. Embeddings and vectors stay as they are. The file\n"
        "serves wherever a model is used (generate, eval, score, encode, classify, --from); it is mapped, and takes "
        "no\n"
        "more memory than its size. It generates faster; eval says what the rounding costs. It cannot be trained.\n\n"
        "  longline quantize runs/text-bytes-1/best.safetensors -o small.safetensors --weights int8\n"
        "  longline eval small.safetensors --split valid\n"
        "  longline generate small.safetensors --prompt 'The '",
    .args = args,
    .run = quantize,
};
