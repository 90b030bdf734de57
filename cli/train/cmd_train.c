/* longline train: trains a model from a recipe, or resumes a run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "output/show.h"

static ll_arg_list set;
static const char *data, *from, *out, *resume;
static int memory;
static int64_t ranks;
static const char NO_RECIPE[] = "name a recipe (.ini)"; /* in errors of files that look like no recipe */

static const ll_arg args[] = {
    {LL_ARG_TEXT, 0, "data", "PATH", &data, 0, 0, "training data; the same as --set data.train=PATH"},
    {LL_ARG_TEXT, 0, "from", "MODEL", &from, 0, 0, "starts with its weights; the same as --set train.from=MODEL"},
    {LL_ARG_LIST, 0, "set", "KEY=VALUE", &set, 0, 0, "changes a key of the recipe; may be repeated"},
    {LL_ARG_TEXT, 'o', "out", "DIR", &out, 0, 0, "folder of the run; default runs/NAME-1, -2, ..."},
    {LL_ARG_TEXT, 0, "resume", "DIR", &resume, 0, 0,
     "resumes the run in this folder; a RECIPE besides is its recipe from now on"},
    {LL_ARG_FLAG, 0, "memory", NULL, &memory, 0, 0,
     "prints the bytes that the run would take, and does not train; may read sizes from the data"},
    {LL_ARG_INTEGER, 0, "ranks", "N", &ranks, 0, 65536, "with --memory: for one of N ranks; 0 = for one process"},
    {.type = LL_ARG_END},
};

/* Applies --data and --from, if they are given. */
static ll_status set_path(ll_recipe *recipe, const char *key, const char *path) {
    char assignment[LL_ASSIGNMENT];
    return path ? ll_recipe_set(recipe, ll_assignment(assignment, key, path)) : LL_OK;
}

/* The recipe of the run that is resumed: its recipe.ini, or that of its checkpoint. */
static ll_status load_own(ll_recipe **recipe) {
    char path[4200], *text = NULL;
    ll_model *model = NULL;
    snprintf(path, sizeof path, "%s/recipe.ini", resume);
    if (!access(path, F_OK)) return ll_recipe_load(recipe, path);
    snprintf(path, sizeof path, "%s/last.safetensors", resume);
    ll_status status = ll_model_load(&model, path);
    if (!status) status = ll_recipe_text(ll_model_recipe(model), &text);
    if (!status) status = ll_recipe_parse(recipe, text, path);
    ll_text_free(text);
    ll_model_free(model);
    return status;
}

/* The recipe file, or that of the run that is resumed; then the options. NULL if a resumed run keeps its recipe. -1, or
 * the exit code. */
static int get_recipe(ll_recipe **recipe, const char *path) {
    if (data && strlen(data) > 4096) return ll_usage("--data: the path is too long");
    if (from && strlen(from) > 4096) return ll_usage("--from: the path is too long");
    if (resume && from) return ll_usage("--from begins a new run, and --resume continues one");
    if (resume && ll_line_check("--resume", resume) >= 0) return 2;
    int code = data ? ll_twice_check("--data", &set, "data.train") : -1;
    if (code < 0 && from) code = ll_twice_check("--from", &set, "train.from");
    if (code >= 0) return code;
    if (!path && !set.n && !data) return -1;
    ll_status status = path ? ll_recipe_load(recipe, path) : load_own(recipe);
    if (!status) status = ll_set_all(*recipe, &set);
    if (!status) status = set_path(*recipe, "data.train", data);
    if (!status) status = set_path(*recipe, "train.from", from);
    if (status && path && strstr(ll_error(), NO_RECIPE)) {
        ll_print("%s; data go to --data", ll_error());
        return 2;
    }
    return status ? ll_failed(status, path ? path : resume) : ll_data_check(*recipe, data);
}

/* "recipes/text-bytes.ini" -> "runs/text-bytes-1". The folder is in lines of results. */
static void name_run(char *folder, size_t size, const char *path) {
    char name[128];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = 0;
    ll_replace_controls(name, strlen(name), '-');
    ll_new_run(folder, size, name);
}

/* Prints the path of its page. */
static void name_report(ll_trainer *trainer) {
    char page[4200];
    const int n = snprintf(page, sizeof page, "%s/report.html", ll_trainer_folder(trainer));
    const char *wanted = ll_recipe_get(ll_model_recipe(ll_trainer_model(trainer)), "train.report");
    if (n > 0 && n < (int)sizeof page && !strcmp(wanted, "on") && !access(page, F_OK))
        printf("train.report=%s\n", page);
}

/* The run's curves, as a picture beside its metrics. A run whose picture fails is finished all the same. */
static void draw(ll_trainer *trainer) {
    char picture[4200];
    const int n = snprintf(picture, sizeof picture, "%s/loss.svg", ll_trainer_folder(trainer));
    if (n < 0 || n >= (int)sizeof picture) return;
    if (ll_run_picture(ll_trainer_folder(trainer), picture)) {
        ll_print("no picture: %s", ll_error());
    } else {
        printf("train.picture=%s\n", picture);
    }
}

static void report(ll_trainer *trainer, const ll_watch *watch) {
    const ll_progress *p = &watch->last;
    char model[4200];
    ll_run_model(model, sizeof model, ll_trainer_folder(trainer));
    printf("train.folder=%s\ntrain.model=%s\ntrain.steps=%lld\n", ll_trainer_folder(trainer), model,
           (long long)p->step);
    if (isfinite(p->loss)) printf("train.%s=%.6f\n", p->matching ? "distillation_loss" : "loss", p->loss);
    if (watch->unit && !p->matching && isfinite(p->loss))
        printf("train.bits_per_%s=%.4f\n", watch->unit, p->loss / log(2));
    if (isfinite(p->valid_loss)) {
        printf("train.valid_loss=%.6f\n", p->valid_loss);
        if (watch->unit) printf("train.valid_bits_per_%s=%.4f\n", watch->unit, p->valid_loss / log(2));
        printf("train.valid_accuracy=%.4f\n", p->valid_accuracy);
        if (watch->unit) ll_show_perplexity("train.valid_perplexity", exp(p->valid_loss));
        ll_show_baseline("train", ll_model_recipe(ll_trainer_model(trainer)), "valid",
                         atoi(ll_recipe_get(ll_model_recipe(ll_trainer_model(trainer)), "train.eval-batches")));
    }
    double seconds, speed;
    if (watch->steps && !ll_run_speed(ll_trainer_folder(trainer), &seconds, &speed))
        printf("train.tokens_per_second=%.0f\ntrain.seconds=%.1f\n", speed, seconds);
}

/* Does a model that predicts the next token see it? One that predicts masked tokens sees all others. */
static int sees_ahead(const ll_model *model) {
    const ll_recipe *recipe = ll_model_recipe(model);
    return ll_unit(recipe) && strcmp(ll_recipe_get(recipe, "model.task"), "mlm") && ll_model_can_stream(model);
}

/* A run that had finished before. */
static void print_finished(const ll_trainer *trainer, const ll_progress *p) {
    char folder[LL_QUOTED];
    ll_print("finished already: step %lld of %lld; go on with: longline train --resume %s --set train.steps=N",
             (long long)p->step, (long long)p->steps, ll_quoted(folder, ll_trainer_folder(trainer)));
}

/* Has a new model more classes than data.classes has names? The readers fill that in where the data name them. */
static void question_classes(const ll_recipe *recipe) {
    const char *names = ll_recipe_get(recipe, "data.classes");
    const int classes = atoi(ll_recipe_get(recipe, "model.classes"));
    int n = names && *names;
    if (!n || resume || ll_unit(recipe)) return;
    for (const char *s = names; (s = strchr(s, ',')); s++) n++;
    if (classes > n)
        ll_print("model.classes = %d, but the data has %d class%s (%.400s%s); set model.classes=%d or 0", classes, n,
                 n > 1 ? "es" : "", names, strlen(names) > 400 ? ".." : "", n);
}

/* Does train.distil = both end before it comes to logits? */
static void question_stages(const ll_recipe *recipe, long long steps) {
    const long long change = strtoll(ll_recipe_get(recipe, "train.distil-switch"), NULL, 10),
                    until = strtoll(ll_recipe_get(recipe, "train.distil-until"), NULL, 10),
                    last = until > 0 && until < steps ? until : steps;
    if (!strcmp(ll_recipe_get(recipe, "train.distil"), "both") && last > 0 && change >= last)
        ll_print("train.distil-switch = %lld is not before the last step with a teacher, %lld, so that logits are not "
                 "matched",
                 change, last);
}

/* Is a key set, from `least` on, and the one that it needs 0? */
static void question_pair(const ll_recipe *recipe, const char *key, int least, const char *needs, const char *what) {
    if (atoi(ll_recipe_get(recipe, key)) >= least && !ll_unmet(recipe, key) && !atoi(ll_recipe_get(recipe, needs)))
        ll_print("%s has no effect: it needs %s%s", key, needs, what);
}

/* Warnings about settings that are probably mistakes. */
static void question_settings(const ll_recipe *recipe) {
    const char *steps = ll_recipe_get(recipe, "train.steps"), *warmup = ll_recipe_get(recipe, "train.warmup");
    const long long most = strtoll(steps, NULL, 10), rising = strtoll(warmup, NULL, 10);
    if (most > 0 && rising > most)
        ll_print("train.warmup = %s is longer than train.steps = %s, so that the learning rate rises to %.0f %% of "
                 "train.learning-rate", warmup, steps, 100.0 * (double)most / (double)rising);
    question_stages(recipe, most);
    for (int i = 0; i < set.n; i++) {
        char key[LL_KEY];
        const char *needs = ll_unmet(recipe, ll_args_key(set.at[i], key));
        if (needs) ll_print("%s has no effect: it needs %s", key, needs);
    }
    question_pair(recipe, "data.only", 0, "data.margin", "");
    question_pair(recipe, "data.resize-side", 1, "data.resize", ", the size of the middle that is taken");
    question_classes(recipe);
}

static int run_it(ll_trainer *trainer) {
    ll_watch watch;
    const ll_recipe *recipe = ll_model_recipe(ll_trainer_model(trainer));
    if (sees_ahead(ll_trainer_model(trainer))) ll_print("losses will be too low: %s", ll_error());
    if (ll_trainer_origin(trainer)) ll_print("%s", ll_trainer_origin(trainer));
    if (!strcmp(ll_recipe_get(recipe, "train.precision"), "bf16") && strcmp(ll_cpu(), "avx512bf16") != 0)
        ll_print("train.precision = bf16 is slower than fp32 with %s instructions, and no more precise", ll_cpu());
    question_settings(recipe);
    ll_question_memory(recipe);
    ll_watch_start(&watch, recipe, ll_trainer_folder(trainer));
    ll_trainer_on_report(trainer, ll_trainer_report, NULL);
    const ll_status status = ll_trainer_run(trainer, ll_watch_step, &watch);
    ll_watch_end(&watch);
    if (status == LL_ESTOPPED) {
        char folder[LL_QUOTED];
        ll_print("stopped after step %lld and saved; go on with: longline train --resume %s",
                 (long long)watch.last.step, ll_quoted(folder, ll_trainer_folder(trainer)));
        return 0;
    }
    if (status == LL_EIO || status == LL_EDIST) return ll_broken_off(trainer, &watch);
    if (status) return ll_failed(status, NULL);
    ll_stop_no_more(); /* the run is on the disk, so nothing is lost where what follows is ended */
    if (!watch.steps && watch.last.step > 0) print_finished(trainer, &watch.last);
    report(trainer, &watch);
    if (!ll_dist_ranks().rank) draw(trainer);
    name_report(trainer);
    return 0;
}

/* The key of a resumed run whose relative path is not there, and does not come from the command line; or NULL. */
static const char *lost_path(const ll_recipe *recipe) {
    static const char *const keys[] = {"data.train", "data.valid", "data.test", "data.docs", "train.teacher"};
    char error[4300];
    for (size_t i = 0; recipe && i < sizeof keys / sizeof *keys; i++) {
        const char *path = ll_recipe_get(recipe, keys[i]);
        snprintf(error, sizeof error, "cannot open %s: %s", path ? path : "", strerror(ENOENT));
        if (!path || !*path || *path == '/' || !strstr(ll_error(), error)) continue;
        return ll_args_name_key(&set, keys[i]) || (data && !strcmp(keys[i], "data.train")) ? NULL : keys[i];
    }
    return NULL;
}

/* A run that cannot begin or resume: because of its checkpoint, or of the data that its recipe names. */
static int not_begun(ll_status status, const ll_recipe *recipe) {
    char last[4200];
    const char *what = status == LL_EIO ? ll_disk_remedy(ll_error()) : "";
    if (*what) return ll_fail_message("%s; %sgive the same command again", ll_error(), what);
    if (!resume) return ll_failed_data(status, recipe);
    snprintf(last, sizeof last, "%s/last.safetensors", resume);
    if (access(last, R_OK)) return ll_failed(status, last);
    const char *key = lost_path(recipe);
    if (!key) return ll_failed_data(status, recipe);
    ll_print("%s; paths of a run count from the folder where it began: resume it there, or give %s%s%s", ll_error(),
             strcmp(key, "data.train") ? "--set " : "--data PATH", strcmp(key, "data.train") ? key : "",
             strcmp(key, "data.train") ? "=PATH" : "");
    return 2;
}

/* A run writes its whole recipe into its folder. Where that has a checkpoint, the trainer says how to go on with it. */
static int check_recipe_stays(const char *recipe) {
    char own[PATH_MAX + 16];
    if (ll_has_checkpoint(out)) return -1;
    snprintf(own, sizeof own, "%s/recipe.ini", out);
    return ll_target_is(own, recipe)
               ? ll_usage("--out %s: the run would overwrite %s, which it reads; name another folder", out, recipe)
               : -1;
}

static int train(int n, const char **words) {
    if (!n && !resume) return ll_usage("needs a RECIPE, or --resume DIR");
    ll_recipe *recipe = NULL, *own = NULL;
    ll_trainer *trainer = NULL;
    char folder[300] = "";
    if (memory && out) return ll_usage("--memory does not train; leave out --out");
    int code = get_recipe(&recipe, n ? words[0] : NULL);
    if (code < 0 && ranks && !memory) code = ll_usage("--ranks goes with --memory; start ranks with mpirun -n N");
    if (code < 0 && !recipe) {
        const ll_status status = load_own(&own);
        if (status) own = NULL;
        if (status && memory) code = ll_failed(status, resume); /* else the trainer says why */
    }
    if (code < 0 && memory) code = ll_print_memory(recipe ? recipe : own, (int)ranks);
    if (code < 0 && out) code = ll_folder_check("--out", out);
    if (code < 0 && out && n && !resume) code = check_recipe_stays(words[0]);
    if (code < 0) {
        if (!out && !resume) {
            /* One rank creates the folder, and all that is in it. */
            if (ll_dist_ranks().rank)
                snprintf(folder, sizeof folder, "runs"); /* the trainer tells all which one */
            else
                name_run(folder, sizeof folder, words[0]);
            out = folder;
        }
        if (recipe || own) ll_watch_preempt(recipe ? recipe : own);
        const ll_status status = ll_trainer_create(&trainer, recipe, out ? out : resume, resume);
        code = status ? not_begun(status, recipe ? recipe : own) : run_it(trainer);
        if (status && *folder && !ll_dist_ranks().rank) ll_drop_run(folder);
    }
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    ll_recipe_free(own);
    return code;
}

const ll_command ll_command_train = {
    .name = "train",
    .words = "[RECIPE]",
    .most = 1,
    .summary = "train a model as a recipe says, or go on with a run",
    .text = "Trains a model. Its folder gets recipe.ini, metrics.csv, last.safetensors (everything needed to resume),\n"
            "best.safetensors (lowest held-out loss), loss.svg (the curves) and report.html (all results). Ctrl-C\n"
            "and SIGTERM save and stop.\n\n"
            "  longline train recipes/text-bytes.ini --data my.txt --set train.steps=2000\n"
            "  longline train --resume runs/text-bytes-1\n"
            "  longline train my-reviews.ini --from runs/text-bytes-1     (a new run, with that model's weights)\n"
            "  longline train gpt2.ini --from gpt2.safetensors --set attention.kernel=favor --set train.distil=both\n"
            "                                          (linear attention, which learns from the exact model)\n\n"
            "'longline recipe' lists the keys.",
    .args = args,
    .run = train,
    .ranks = 1,
};
