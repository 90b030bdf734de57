/* longline analyse: experiments on the papers' claims. */
#include "lab/analyse_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 16, LONGEST = 65536 };

static const char *folder, *csv, *json, *model_file, *text, *kernels, *positions;
static int64_t seed = 1, repeats, length, layer = -1;
static double spread = 1;
static int quick, png;
static const char NEEDS_OUT[] = "--png needs --out DIR, where the pictures go";

static const ll_arg args[] = {
    {LL_ARG_TEXT, 'o', "out", "DIR", &folder, 0, 0, "writes pictures (SVG) and tables (CSV) into this folder"},
    {LL_ARG_FLAG, 0, "png", NULL, &png, 0, 0, "pictures as PNG instead of SVG"},
    {LL_ARG_TEXT, 0, "csv", "FILE", &csv, 0, 0, "writes the table as CSV; - is standard output; one experiment"},
    {LL_ARG_TEXT, 0, "json", "FILE", &json, 0, 0, "writes all tables as JSON; - is standard output"},
    {LL_ARG_INTEGER, 0, "seed", "S", &seed, 0, 1e9, "seed of all random numbers"},
    {LL_ARG_FLAG, 0, "quick", NULL, &quick, 0, 0, "small sizes: takes seconds, with more noise"},
    {LL_ARG_INTEGER, 0, "repeats", "N", &repeats, 0, 1e8, "number of draws to average; 0 = the experiment's default"},
    {LL_ARG_INTEGER, 0, "length", "T", &length, 0, LL_STREAM_ERROR_LONGEST, "tokens; 0 = the experiment's default"},
    {LL_ARG_TEXT, 0, "kernels", "LIST", &kernels, 0, 0, "stream-error: only these kernels, as favor,relu; or all"},
    {LL_ARG_TEXT, 0, "positions", "LIST", &positions, 0, 0,
     "stream-error: only these positions, as none,rope,decay; or all"},
    {LL_ARG_NUMBER, 0, "spread", "S", &spread, 1e-3, 100, "features, lengths: standard deviation of queries and keys"},
    {LL_ARG_TEXT, 0, "model", "FILE", &model_file, 0, 0, "matrices, positions, periods: of this model"},
    {LL_ARG_TEXT, 0, "text", "FILE", &text, 0, 0,
     "matrices: the first tokens of this text, image (all its patches), protein or piece of music"},
    {LL_ARG_INTEGER, 0, "layer", "L", &layer, -1, 999, "matrices: only this layer; -1 = all"},
    {.type = LL_ARG_END},
};

static int show(double share, void *line) { return ll_progress_report((int64_t)(1e6 * share), 1000000, line); }

/* ---- Files ---- */

static size_t made; /* the length of the first folder that make_folder made; 0: all were there */

/* With the folders above it. */
static int make_folder(void) {
    char path[PATH_MAX];
    const int code = ll_folder_check("--out", folder);
    if (code >= 0) return code;
    for (const char *end = folder; *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        snprintf(path, sizeof path, "%.*s", (int)(end - folder), folder);
        const int is_new = !mkdir(path, 0777);
        if (!is_new && errno != EEXIST) return ll_fail_message("cannot make %s: %s", path, strerror(errno));
        if (is_new && !made) made = (size_t)(end - folder);
    }
    return -1;
}

/* Folders that were made and are empty go again. */
static void drop_folder(void) {
    char path[PATH_MAX];
    for (size_t n = strlen(folder); n >= made; n--) {
        if (folder[n] && folder[n] != '/') continue;
        snprintf(path, sizeof path, "%.*s", (int)n, folder);
        rmdir(path);
    }
}

/* -1, or the exit code. */
static int write_csv(const char *path, const ll_table *table) {
    if (!strcmp(path, "-")) {
        ll_analysis_csv(stdout, table);
        return -1;
    }
    ll_output output;
    FILE *file = ll_output_begin(&output, path);
    if (!file) return 1;
    ll_analysis_csv(file, table);
    return ll_output_end(&output);
}

static int write_folder(const char *name, const ll_table *table) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s.csv", folder, name);
    const int code = write_csv(path, table);
    if (code >= 0) return code;
    ll_analysis_wrote("csv", path);
    const ll_status status = ll_analysis_pictures(table, folder, png ? "png" : "svg");
    return status ? ll_failed(status, NULL) : -1;
}

/* ---- Experiments ---- */

static int to_stdout(void) { return (csv && !strcmp(csv, "-")) || (json && !strcmp(json, "-")); }

/* Tokens of the matrices of positions: as in the table, up to 64. */
static int picture_tokens(void) {
    const int64_t tokens = length ? length : quick ? 32 : 64;
    return tokens < 64 ? (int)tokens : 64;
}

static int run_one(const char *name, const ll_model *model, FILE *out, int last) {
    const double start = ll_now();
    ll_progress_line line = ll_progress_of(LL_PROGRESS_SHARE, name);
    ll_analysis how = {.seed = (uint64_t)seed, .quick = quick, .spread = spread, .model = model, .progress = show};
    how.repeats = (int)repeats, how.length = (int)length, how.arg = &line;
    how.kernels = kernels, how.positions = positions;
    ll_table *table = NULL;
    const ll_status status = ll_analyse(&table, name, &how);
    ll_progress_end(&line);
    if (status) return ll_failed(status, NULL);
    if (!to_stdout()) ll_analysis_print(name, table);
    if (!to_stdout()) printf("analyse.seconds=%.1f\n", ll_now() - start);
    int code = csv ? write_csv(csv, table) : -1;
    if (out) ll_analysis_json(out, name, table), fputs(last ? "\n" : ",\n", out);
    if (code < 0 && folder) code = write_folder(name, table);
    if (code < 0 && folder && !strcmp(name, "positions"))
        code = ll_attention_maps_at_positions(model, picture_tokens(), seed, folder, png ? "png" : "svg");
    ll_table_free(table);
    return code;
}

static int run_all(const char **names, int n, const ll_model *model) {
    ll_output output = {0};
    FILE *out = !json ? NULL : !strcmp(json, "-") ? stdout : ll_output_begin(&output, json);
    if (json && !out) return 1;
    if (out) fprintf(out, "[\n");
    int code = -1;
    for (int i = 0; i < n && code < 0; i++) code = run_one(names[i], model, out, i == n - 1);
    if (out) fprintf(out, "]\n");
    if (code >= 0) ll_output_drop(&output);
    if (code < 0 && output.file) code = ll_output_end(&output);
    return code < 0 ? 0 : code;
}

static int unknown(const char *word) {
    const char *names[MOST + 1];
    int n = 0;
    for (; n < MOST && ll_experiment_at(n); n++) names[n] = ll_experiment_at(n)->name;
    names[n++] = "matrices";
    const char *near = ll_args_nearest(word, names, n);
    if (near) return ll_usage("there is no experiment '%s'; did you mean '%s'?", word, near);
    return ll_usage("there is no experiment '%s'", word);
}

static int known(const char *word) {
    for (int i = 0; ll_experiment_at(i); i++)
        if (!strcmp(ll_experiment_at(i)->name, word)) return 1;
    return 0;
}

static int matrices(void) {
    if (!model_file || !text) return ll_usage("matrices are of a model on a text: give --model FILE and --text FILE");
    if (csv || json) return ll_usage("--csv and --json are for tables; matrices go into a folder: --out DIR");
    if (kernels || positions || repeats || spread != 1 || ll_args_given("seed"))
        return ll_usage("--kernels, --positions, --repeats, --spread and --seed are for other experiments than "
                        "matrices");
    if (length > LONGEST) return ll_usage("matrices takes up to %d tokens (--length)", LONGEST);
    if (png && !folder) return ll_usage(NEEDS_OUT);
    const int code = folder ? make_folder() : -1;
    if (code >= 0) return code;
    const ll_attention_maps how = {
        model_file, text, folder, png ? "png" : "svg", (int)(length ? length : quick ? 32 : 64), (int)layer};
    return ll_attention_maps_at(&how);
}

static int is_among(const char *word, int n, const char *const *names) {
    while (n--)
        if (!strcmp(names[n], word)) return 1;
    return 0;
}

/* Some options are for some experiments alone. They are refused where no experiment takes them. */
static int check_takers(int n, const char **words) {
    static const char *const spreads[] = {"features", "lengths"}, *const fixed[] = {"moments", "periods"};
    int spread_taken = 0, length_taken = 0, repeats_taken = 0, drawn = 0;
    for (int i = 0; i < n; i++) {
        spread_taken |= is_among(words[i], 2, spreads);
        length_taken |= !is_among(words[i], 2, fixed);
        repeats_taken |= strcmp(words[i], "stream-error") != 0;
        drawn |= !model_file || strcmp(words[i], "periods");
    }
    if (spread != 1 && !spread_taken)
        return ll_usage("--spread is for features and lengths: longline analyse features");
    if (length && !length_taken) return ll_usage("%s takes no --length: it draws no sequences", words[0]);
    if (!drawn && (repeats || quick || ll_args_given("seed")))
        return ll_usage("periods of a model takes no --repeats, --seed or --quick: it draws nothing");
    if (repeats && !repeats_taken) return ll_usage("stream-error takes no --repeats: it draws once");
    return -1;
}

/* Checks the options before anything is computed. */
static int check(int n, const char **words) {
    for (int i = 0; i < n; i++) {
        const int of_model = !strcmp(words[i], "positions") || !strcmp(words[i], "periods");
        if (!strcmp(words[i], "matrices"))
            return ll_usage("matrices goes by itself: longline analyse matrices --model FILE --text FILE");
        if (!known(words[i])) return unknown(words[i]);
        if (length > LONGEST && strcmp(words[i], "stream-error"))
            return ll_usage("%s takes up to %d tokens (--length); only stream-error takes longer streams", words[i],
                            LONGEST);
        if (length > LL_POSITION_KERNEL_LONGEST && !strcmp(words[i], "positions"))
            return ll_usage("positions takes up to %d tokens (--length); for more, name other experiments",
                            LL_POSITION_KERNEL_LONGEST);
        if ((kernels || positions) && strcmp(words[i], "stream-error"))
            return ll_usage("--kernels and --positions are for stream-error: longline analyse stream-error");
        if (model_file && !of_model)
            return ll_usage("--model is for matrices, positions and periods; %s makes its own", words[i]);
    }
    if (csv && n > 1) return ll_usage("--csv writes the table of one experiment, and there are %d; use --out DIR", n);
    const int same = csv && json ? ll_targets_differ("--csv", csv, "--json", json) : -1;
    if (same >= 0) return same;
    if (text || layer >= 0) return ll_usage("--text and --layer are for matrices");
    if (png && !folder) return ll_usage(NEEDS_OUT);
    return check_takers(n, words);
}

static int experiments(int n, const char **words) {
    const char *all[MOST];
    if (!n) {
        for (; n < MOST && ll_experiment_at(n); n++) all[n] = ll_experiment_at(n)->name;
        words = all;
    }
    for (int i = 0; i < n; i++)
        if (!strcmp(words[i], "drift")) words[i] = "stream-error"; /* its name in version 0.1 */
    int code = check(n, words);
    const char *const read[] = {model_file};
    if (code < 0 && csv && strcmp(csv, "-")) code = ll_text_target_apart("--csv", csv, model_file != NULL, read);
    if (code < 0 && json && strcmp(json, "-")) code = ll_text_target_apart("--json", json, model_file != NULL, read);
    if (code < 0 && folder) code = make_folder();
    if (code >= 0) return code;
    ll_model *model = NULL;
    if (model_file) {
        code = ll_load_model(&model, model_file);
        if (code >= 0) return code;
    }
    ll_analysis_pipe(to_stdout());
    code = run_all(words, n, model);
    ll_model_free(model);
    return code;
}

static int analyse(int n, const char **words) {
    const int code = n == 1 && !strcmp(words[0], "matrices") ? matrices() : experiments(n, words);
    if (code && made) drop_folder();
    return code;
}

const ll_command ll_command_analyse = {
    .name = "analyse",
    .words = "[WHAT..]",
    .most = MOST,
    .summary = "test the papers' claims; show what a model attends to",
    .text = "Without arguments, runs all experiments but the last, in a few minutes on two cores:\n\n"
            "  features      error of linear attention against the number of random features (Performer, Fig. 4)\n"
            "  lengths       the same error against the length, and the rounding in it (Performer, Theorem 4)\n"
            "  moments       mean squared errors of the estimators against their formulas (Lemma 2, Theorem 2)\n"
            "  layers        error of random features through the layers of a Transformer (Fig. 14)\n"
            "  periods       distances that permutations can distinguish (PermuteFormer); of a model with --model\n"
            "  positions     weights that positions alone give (SPE); of a model with --model\n"
            "  stream-error  long streams against double precision and tiles, by kernel and position\n"
            "  matrices      attention matrices of a model on a text, by one-hot values (Performer, appendix C.4)\n\n"
            "Tables go to standard output. The same seed gives the same numbers.\n\n"
            "  longline analyse --out figures\n"
            "  longline analyse moments --repeats 1000000 --csv moments.csv\n"
            "  longline analyse stream-error --length 1000000 --kernels favor,relu --positions none,permute,decay\n"
            "  longline analyse matrices --model runs/mine/best.safetensors --text my.txt --out figures",
    .args = args,
    .run = analyse,
};
