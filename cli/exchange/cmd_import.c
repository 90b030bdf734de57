/* longline import: converts a pretrained model of another program. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char *out = "model.safetensors";
static int without_tokenizer;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, "file of the model"},
    {LL_ARG_FLAG, 0, "without-tokenizer", NULL, &without_tokenizer, 0, 0,
     "leave the folder's tokenizer out: text is read as bytes, tokens are numbers for programs"},
    {.type = LL_ARG_END},
};

/* A model.safetensors in the folder would come before its shards from then on. */
static int check_out(int n, const char **words) {
    char weights[PATH_MAX];
    const int code = ll_target_apart("--out", out, n, words);
    if (code >= 0) return code;
    if (snprintf(weights, sizeof weights, "%s/model.safetensors", words[0]) >= (int)sizeof weights) return -1;
    return ll_target_is(out, weights)
               ? ll_usage("give --out another name: %s would be read instead of the weights of %s", out, words[0])
               : -1;
}

static int import(int n, const char **words) {
    ll_model *model = NULL;
    const int code = check_out(n, words);
    if (code >= 0) return code;
    ll_progress_line line = ll_progress_of(LL_PROGRESS_COUNT, words[0]);
    ll_status status = ll_model_import(&model, words[0], !without_tokenizer, ll_progress_report, &line);
    ll_progress_end(&line);
    if (status) return ll_failed(status, words[0]);
    status = ll_model_save(model, out);
    if (!status) {
        const ll_recipe *recipe = ll_model_recipe(model);
        printf("import.model=%s\n", out);
        printf("import.parameters=%zu\n", ll_model_size(model).parameters);
        printf("import.tokenizer=%s\n", !strcmp(ll_recipe_get(recipe, "data.format"), "subwords") ? "yes" : "no");
        printf("import.task=%s\n", ll_recipe_get(recipe, "model.task"));
        printf("import.layers=%s\nimport.width=%s\n", ll_recipe_get(recipe, "model.layers"),
               ll_recipe_get(recipe, "model.width"));
    }
    ll_model_free(model);
    return status ? ll_failed(status, NULL) : 0;
}

const ll_command ll_command_import = {
    .name = "import",
    .words = "FOLDER",
    .least = 1,
    .most = 1,
    .summary = "read a pretrained model from a Hugging Face folder",
    .text = "Reads config.json and the weights of FOLDER (model.safetensors, or the files of\n"
            "model.safetensors.index.json; F32, F16, BF16, F64) and writes a model for all commands. Families: GPT-2,\n"
            "GPT-NeoX and Pythia, LLaMA (also Mistral and Qwen2), BERT, RoBERTa, RoFormer, ESM-2, ViT. Every tensor\n"
            "of FOLDER must be used; an error names one that is left over. The tokenizer (tokenizer.json; or\n"
            "vocab.txt; or vocab.json and merges.txt; or tokenizer.model) comes along, so that the model reads and\n"
            "writes text.\n\n"
            "  longline import gpt2 -o gpt2.safetensors\n"
            "  longline inspect gpt2.safetensors\n"
            "  longline export gpt2.safetensors gpt2-again --to hf",
    .args = args,
    .run = import,
};
