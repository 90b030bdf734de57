/* longline attend: runs the operator on a case, which another implementation may have written. */
#include <stdio.h>

#include "cli.h"

static const char *out;
static int streaming;
static int64_t tile;

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "FILE", &out, 0, 0, "file of the results, .safetensors"},
    {LL_ARG_FLAG, 0, "streaming", NULL, &streaming, 0, 0, "computes the causal result one token at a time"},
    {LL_ARG_INTEGER, 0, "tile", "N", &tile, 0, 1 << 20, "tokens in a tile; 0 = the default of the machine"},
    {.type = LL_ARG_END},
};

static int attend(int n, const char **words) {
    if (!out) return ll_usage("needs -o FILE for the results");
    const int code = ll_target_apart("--out", out, n, words);
    if (code >= 0) return code;
    const ll_status status = ll_attend_file(words[0], out, streaming, (int)tile);
    ll_reading_line_end();
    if (status) return ll_failed(status, words[0]);
    printf("attend.out=%s\n", out);
    return 0;
}

const ll_command ll_command_attend = {
    .name = "attend",
    .words = "CASE.safetensors -o OUT.safetensors",
    .least = 1,
    .most = 1,
    .summary = "apply attention to tensors in a file",
    .text = "Reads q, k, v, random draws and the settings of attention from a file (docs/format.md). Writes y and,\n"
            "if the file has g, the gradient grad.NAME of sum(y*g) for every input that has one. Settings that do not\n"
            "exist are refused by name.\n\n"
            "  longline attend case.safetensors -o out.safetensors\n"
            "  longline attend case.safetensors -o out.safetensors --streaming",
    .args = args,
    .run = attend,
};
