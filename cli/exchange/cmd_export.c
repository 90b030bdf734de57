/* longline export: writes an imported model back for the program that it came from. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

static const char *to = "hf";

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "to", "FORMAT", &to, 0, 0, "hf: a Hugging Face folder, the only format so far"},
    {.type = LL_ARG_END},
};

static int check_folder(const char *folder) {
    struct stat about;
    if (ll_line_check("FOLDER", folder) >= 0) return 2;
    return !stat(folder, &about) && !S_ISDIR(about.st_mode) ? ll_usage("%s is a file; name a folder", folder) : -1;
}

static int export(int n, const char **words) {
    (void)n;
    ll_model *model = NULL;
    if (strcmp(to, "hf")) return ll_usage("--to %s: there is no such format; give hf", to);
    int code = check_folder(words[1]);
    if (code < 0) code = ll_load_model(&model, words[0]);
    if (code >= 0) return code;
    const ll_status status = ll_model_export(model, words[1]);
    if (!status) printf("export.folder=%s\n", words[1]);
    ll_model_free(model);
    return status ? ll_failed(status, NULL) : 0;
}

const ll_command ll_command_export = {
    .name = "export",
    .words = "MODEL FOLDER",
    .least = 2,
    .most = 2,
    .summary = "write an imported model back as a Hugging Face folder",
    .text =
        "Writes the folder that MODEL was imported from, with the weights that it has now. Files and number types\n"
        "are the original ones; if nothing was trained, all bytes are, save those of F64, which import rounds to F32.\n"
        "In FOLDER only files of an earlier export of the model are replaced: weights whose header, and other files\n"
        "whose bytes are the same. Another file of such a name is an error, and nothing is written.\n"
        "MODEL may have been trained further (longline train --from), as long as its recipe is still what its\n"
        "config.json says. The recipe is what inspect prints before the tensors:\n\n"
        "  longline import gpt2 -o gpt2.safetensors\n"
        "  longline inspect gpt2.safetensors | sed '/^tensor /,$d' >gpt2.ini\n"
        "  longline train gpt2.ini --from gpt2.safetensors --data my.txt\n"
        "  longline export runs/gpt2-1/best.safetensors gpt2-tuned --to hf",
    .args = args,
    .run = export,
};
