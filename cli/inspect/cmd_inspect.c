/* longline inspect: shows the content and the cost of a model. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static int64_t length;
static int verify;

static const ll_arg args[] = {
    {LL_ARG_INTEGER, 0, "length", "T", &length, 0, 1e9, "cost of a token at this position; 0 = at train.length"},
    {LL_ARG_FLAG, 0, "verify", NULL, &verify, 0, 0, "compares every tensor of any .safetensors file with its checksum"},
    {.type = LL_ARG_END},
};

static void tensors(const ll_model *model) {
    for (int i = 0;; i++) {
        const ll_tensor t = ll_model_tensor(model, i);
        if (!t.name) return;
        if (t.cols > 1)
            printf("tensor %s %dx%d\n", t.name, t.rows, t.cols);
        else
            printf("tensor %s %d\n", t.name, t.rows);
    }
}

static void costs(const ll_model *model, int at) {
    const size_t parameters = ll_model_size(model).parameters;
    printf("inspect.parameters=%zu\n", parameters);
    printf("inspect.parameter_bytes=%zu\n", parameters * sizeof(float));
    /* Parameters, their gradient, and two moments of Adam. */
    printf("inspect.training_bytes=%zu\n", 4 * parameters * sizeof(float));
    printf("inspect.memory_now=%zu\n", ll_memory_now());
    printf("inspect.position=%d\n", at);
    printf("inspect.multiply_adds_per_token=%.0f\n", ll_model_cost(model, at).multiply_adds);
    if (ll_model_can_stream(model))
        printf("inspect.stream=no: %s\n", ll_error());
    else
        printf("inspect.stream_bytes=%zu\n", ll_model_cost(model, at).stream_bytes);
}

/* Compares a model, a state or a checkpoint with its checksums. */
static int verify_file(const char *path) {
    char file[PATH_MAX];
    int tensors = 0, checked = 0;
    path = ll_model_file(path, file);
    const ll_status status = ll_tensor_file_check(path, &tensors, &checked);
    if (status) return ll_failed(status, path);
    printf("inspect.tensors=%d\ninspect.checked=%d\n", tensors, checked);
    if (checked == tensors) return 0;
    ll_print("%s: %d of %d tensors have no checksum, so that damage to them cannot be found", path,
             tensors - checked, tensors);
    return 2;
}

static int inspect(int n, const char **words) {
    (void)n;
    ll_model *model = NULL;
    char *text = NULL;
    if (verify && ll_args_given("length")) return ll_usage("--length is for costs, which --verify does not print");
    if (verify) return verify_file(words[0]);
    const int code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    const ll_recipe *recipe = ll_model_recipe(model);
    const ll_status status = ll_recipe_text(recipe, &text);
    if (!status) {
        const char *own = ll_recipe_get(recipe, "train.length");
        int at = (int)length;
        if (!at && own) sscanf(own, "%d", &at);
        printf("%s\n", text);
        tensors(model);
        printf("\n");
        costs(model, at > 0 ? at : 1);
    }
    ll_text_free(text);
    ll_model_free(model);
    return status ? ll_failed(status, NULL) : 0;
}

const ll_command ll_command_inspect = {
    .name = "inspect",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "print a model's recipe, tensors, memory and cost",
    .text = "Prints the recipe of a model, its tensors and its cost: parameters, memory of training (parameters,\n"
            "gradient, moments; without activations), multiply-adds for one token at a position, and bytes of state\n"
            "in generation. With --verify it compares every tensor with its checksum, in models, checkpoints and\n"
            "states; the exit code is 2 if a tensor is damaged or has no checksum.\n\n"
            "  longline inspect runs/text-bytes-1/last.safetensors\n"
            "  longline inspect runs/text-bytes-1/last.safetensors --length 1000000\n"
            "  longline inspect runs/text-bytes-1/last.safetensors --verify",
    .args = args,
    .run = inspect,
};
