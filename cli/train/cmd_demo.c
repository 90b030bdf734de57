/* longline demo: trains, measures and generates in two minutes, on text that is part of the program. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "generate/generate_output.h"

/* A causal PermuteFormer on bytes, small enough to learn something in two minutes on two cores. */
static const char recipe_text[] = "[model]\n"
                                  "task = lm\n"
                                  "layers = 4\n"
                                  "width = 128\n"
                                  "heads = 4\n"
                                  "ff = 512\n"
                                  "[attention]\n"
                                  "kernel = relu\n"
                                  "query-multiple = 2\n"
                                  "[position]\n"
                                  "type = permute\n"
                                  "decay = fixed\n"
                                  "[train]\n"
                                  "batch = 8\n"
                                  "length = 256\n"
                                  "optimizer = adamw\n"
                                  "schedule = cosine\n"
                                  "learning-rate = 0.003\n"
                                  "eval-batches = 8\n"
                                  "[data]\n"
                                  "format = demo\n";

enum { GENERATED = 2048 }; /* bytes: eight times the length of training */
static const char opening[] = "Linear attention";

static double minutes = 2;
static const char *out;

static const ll_arg args[] = {
    {LL_ARG_NUMBER, 0, "minutes", "M", &minutes, 0.05, 10000, "time to take, about"},
    {LL_ARG_TEXT, 'o', "out", "DIR", &out, 0, 0, "folder of the run; default runs/demo-1, -2, ..."},
    {.type = LL_ARG_END},
};

/* As many steps as fit. One step is timed, and the rest of the recipe follows from their number. */
static ll_status plan(ll_recipe *recipe) {
    double seconds = 0;
    char line[64];
    const char *const parts[] = {"train.warmup", "train.eval-every", "train.checkpoint-every"};
    ll_status status = ll_train_step_time(recipe, 3, &seconds);
    if (status) return status;
    /* A sixth of the time is for evaluation and generation, and for machines that slow down when they get warm. */
    const double fit = minutes * 60 * 5 / 6 / fmax(seconds, 1e-6);
    const int steps = (int)fmin(fmax(fit, 20), 1e9);
    const int share[] = {steps / 20 + 1, steps / 8 + 1, steps / 4 + 1};
    snprintf(line, sizeof line, "train.steps=%d", steps);
    status = ll_recipe_set(recipe, line);
    for (int i = 0; i < 3 && !status; i++) {
        snprintf(line, sizeof line, "%s=%d", parts[i], share[i]);
        status = ll_recipe_set(recipe, line);
    }
    ll_print("a step takes %.3f s on %d threads (%s): training %d steps", seconds, ll_threads(), ll_cpu(), steps);
    return status;
}

/* Writes text to stdout; *rate: bytes a second. */
static int write_text(ll_model *model, double *rate) {
    const ll_sampling how = {.temperature = 0.9f, .top_p = 0.95f, .seed = 1};
    ll_text_output s = {0};
    int code = ll_text_output_create(&s, model, NULL);
    ll_status status = LL_OK;
    if (code < 0) {
        fputs(opening, stdout);
        status = ll_text_output_feed(&s, (const uint8_t *)opening, sizeof opening - 1);
        const size_t state = status ? 0 : ll_text_output_bytes(&s);
        const double start = ll_now();
        for (int i = 0; i < GENERATED && !status; i++) {
            const char *text;
            size_t n;
            status = ll_text_output_next(&s, &how, &text, &n);
            if (!status) fwrite(text, 1, n, stdout);
            fflush(stdout);
        }
        *rate = GENERATED / (ll_now() - start);
        printf("\n\n");
        fflush(stdout);
        char then[24], now[24];
        if (!status)
            ll_print("%d bytes generated; the state has %s before and %s after", GENERATED,
                     ll_size(then, (double)state), ll_size(now, (double)ll_text_output_bytes(&s)));
        if (status) code = ll_failed(status, NULL);
    }
    ll_text_output_free(&s);
    return code;
}

/* The loss of the trained model. */
static int show(ll_trainer *trainer, const ll_recipe *recipe) {
    ll_model *model = NULL;
    ll_evaluation e = {0};
    double bigram = 0, rate = 0, seconds = 0, trained = 0;
    int64_t tokens = 0;
    char path[4200], picture[4200];
    ll_run_model(path, sizeof path, ll_trainer_folder(trainer));
    snprintf(picture, sizeof picture, "%s/loss.svg", ll_trainer_folder(trainer));
    ll_status status = ll_model_load(&model, path);
    if (!status) status = ll_evaluate(model, "valid", 0, &e);
    if (!status) status = ll_ngrams(recipe, 2, "valid", NULL, NULL, &bigram, &tokens);
    bigram /= log(2); /* of nats, bits */
    if (!status) status = ll_run_picture(ll_trainer_folder(trainer), picture);
    if (!status) status = ll_run_speed(ll_trainer_folder(trainer), &seconds, &trained);
    int code = status ? ll_failed(status, NULL) : -1;
    if (code < 0) {
        ll_print("held-out text: %.3f bits a byte; a table of byte pairs needs %.3f", e.bits_per_token, bigram);
        code = write_text(model, &rate);
    }
    ll_model_free(model);
    if (code >= 0) return code;
    char quoted[LL_QUOTED];
    ll_print("the model, its report and the picture are in %s; go on with: longline generate %s --prompt 'Attention'",
             ll_trainer_folder(trainer), ll_quoted(quoted, path));
    printf("demo.bits_per_byte=%.4f\ndemo.bigram_bits_per_byte=%.4f\n", e.bits_per_token, bigram);
    printf("demo.train_tokens_per_second=%.0f\ndemo.generate_tokens_per_second=%.0f\n", trained, rate);
    printf("demo.model=%s\ndemo.picture=%s\n", path, picture);
    return 0;
}

static int train_and_show(ll_trainer *trainer, const ll_recipe *recipe) {
    ll_watch watch;
    ll_watch_start(&watch, recipe, ll_trainer_folder(trainer));
    ll_trainer_on_report(trainer, ll_trainer_report, NULL);
    const ll_status status = ll_trainer_run(trainer, ll_watch_step, &watch);
    ll_watch_end(&watch);
    if (status == LL_ESTOPPED) {
        char folder[LL_QUOTED];
        ll_print("stopped and saved; go on with: longline train --resume %s",
                 ll_quoted(folder, ll_trainer_folder(trainer)));
        return 0;
    }
    if (status == LL_EIO) return ll_broken_off(trainer, &watch);
    ll_stop_no_more(); /* the run is on the disk */
    return status ? ll_failed(status, NULL) : show(trainer, recipe);
}

static int demo(int n, const char **words) {
    (void)n, (void)words;
    const int refused = out ? ll_folder_check("--out", out) : -1;
    if (refused >= 0) return refused;
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    char folder[64] = "";
    if (!out) ll_new_run(folder, sizeof folder, "demo");
    ll_status status = ll_recipe_parse(&recipe, recipe_text, "the demo's recipe");
    if (!status) status = plan(recipe);
    if (!status) status = ll_trainer_create(&trainer, recipe, out ? out : folder, NULL);
    const int code = status ? ll_failed(status, NULL) : train_and_show(trainer, recipe);
    if (status && *folder) ll_drop_run(folder);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return code;
}

const ll_command ll_command_demo = {
    .name = "demo",
    .words = "",
    .summary = "train, measure and generate in two minutes",
    .text = "Trains a small causal PermuteFormer on text that is part of the program (its own documentation).\n"
            "Compares it on held-out text with a table of byte pairs, and generates text several times as long as\n"
            "the sequences of training. Prints the paths of the model and of the picture of its training.\n\n"
            "  longline demo\n"
            "  longline demo --minutes 10 --out runs/longer",
    .args = args,
    .run = demo,
};
