/* A run: created from a recipe, perhaps with another model's weights, or resumed from a checkpoint. All memory is
 * allocated and all data are opened here. The folder comes last, so that a run with a wrong recipe or wrong data
 * writes nothing. If files of the folder cannot be written, the folder stays, without a lock. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "train/train_internal.h"

static int same_folder(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Refuses a folder whose checkpoint a new run would replace. A best model alone may be one that somebody keeps, or of a
 * move that was killed. */
static ll_status refuse_old_run(const char *out) {
    static const char *const kept[2] = {"last.safetensors", "best.safetensors"},
                             *const remedy[2] = {"resume it", "without last.safetensors it cannot go on: remove it"};
    for (int i = 0; i < 2; i++) {
        char *path = ll_path_join(out, kept[i]);
        if (!path) return LL_ENOMEM;
        const int there = !access(path, F_OK);
        ll_free(path);
        if (there)
            return ll_fail(LL_EINVAL, "%s holds a run already (%s); %s, or choose another folder", out, kept[i],
                           remedy[i]);
    }
    return LL_OK;
}

/* Is a part of data.train held out, which then is not trained on? */
static int holds_out(const ll_recipe *recipe) {
    const ll_data_options *d = &recipe->c.data;
    return !(d->valid && *d->valid) && d->valid_fraction > 0;
}

/* from: a model whose vocabulary reads the data, or NULL. */
static ll_status open_data(ll_trainer *t, const ll_model *from) {
    const ll_config *c = &t->recipe->c;
    const ll_bytes *known = from && from->recipe->c.data.format == c->data.format ? &from->vocabulary : NULL;
    ll_config as = *c;
    if (known && !as.model.vocab) as.model.vocab = from->recipe->c.model.vocab;
    ll_status status = ll_reader_open_as(&t->train, &as, "train", known);
    if (status) return status;
    status = ll_fit_fill(t->recipe, t->train);
    if (status) return status;
    t->left_out = ll_reader_left_out(t->train);
    if (!ll_fit_has_valid(c)) return LL_OK;
    status = ll_reader_open_for(&t->valid, t->recipe, "valid", ll_reader_vocabulary(t->train));
    if (!status && !holds_out(t->recipe)) t->left_out += ll_reader_left_out(t->valid);
    return status;
}

/* The test split, which the final report needs, must exist at the beginning. */
static ll_status check_test(ll_trainer *t) {
    const ll_config *c = &t->recipe->c;
    ll_reader *test = NULL;
    if (!c->data.test || !c->data.test[0]) return LL_OK;
    ll_status status = ll_reader_open_for(&test, t->recipe, "test", ll_reader_vocabulary(t->train));
    if (status == LL_EIO) return ll_fail(LL_EIO, "%s (--set data.test= trains without)", ll_error());
    if (!status && (status = ll_fit_check(c, test, 0))) status = ll_fail_in(status, "data.test");
    if (!status) t->left_out += ll_reader_left_out(test);
    ll_reader_free(test);
    return status;
}

static ll_status check_data(ll_trainer *t) {
    const ll_config *c = &t->recipe->c;
    ll_status status = ll_config_check(c);
    if (!status) status = ll_fit_check(c, t->train, 0);
    if (!status && t->valid) status = ll_fit_check(c, t->valid, 0);
    return status ? status : check_test(t);
}

/* Do tokens of a model that a key names stand for what they do in the data? */
static ll_status check_words(const ll_trainer *t, const ll_model *model, const char *key, const char *path) {
    const ll_bytes *words = ll_reader_vocabulary(t->train), *known = &model->vocabulary;
    if (words->size == known->size && (!words->size || !memcmp(words->data, known->data, words->size))) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "%s = %s: its tokens stand for other words than those of the data; it was trained with "
                   "data.format = %s, and needs that and the same vocabulary",
                   key, path, ll_recipe_get(model->recipe, "data.format"));
}

/* Creates the model, with the weights of `from` if there is one. */
static ll_status make_model(ll_trainer *t, const ll_model *from) {
    if (!from) return ll_model_create(&t->model, t->recipe);
    const char *path = t->recipe->c.train.from;
    char *summary = NULL;
    ll_status status = check_words(t, from, "train.from", path);
    if (status) return status;
    status = ll_model_create_from(&t->model, t->recipe, from, &summary);
    if (status == LL_EINVAL) status = ll_fail_in(LL_EINVAL, path);
    const size_t capacity = status ? 0 : strlen(path) + strlen(summary) + 32;
    if (capacity && !(t->origin = ll_alloc(capacity, 1))) status = LL_ENOMEM;
    if (!status) snprintf(t->origin, capacity, "begins with %s: %s", path, summary);
    ll_free(summary);
    return status;
}

/* Releases the folder. The locked file stays, because another process may be about to lock it. A run that could not
 * begin removes it. */
static void release(ll_trainer *t, int keep) {
    if (!keep && t->lock >= 0) unlink(t->lock_file);
    if (t->lock >= 0) close(t->lock);
    t->lock = -1;
}

/* Keys of [dist] that depend on how a run was started are written to the recipe, so that it continues in the same
 * way. */
static void resolve_ranks(ll_config *c) {
    ll_dist_set_timeout(c->dist.timeout);
    if (!c->dist.shards && ll_dist_is_launched()) c->dist.shards = c->train.batch;
}

/* All that a step writes to; the teacher, where the recipe has one. */
static ll_status create_engine(ll_trainer *t) {
    const ll_config *c = &t->recipe->c;
    const char *teacher = c->train.teacher[0] ? c->train.teacher : c->train.from;
    ll_status status = ll_teaching_check(c);
    if (!status) status = ll_teaching_load(&t->teacher, c);
    if (!status && t->teacher) status = check_words(t, t->teacher, "train.teacher", teacher);
    if (!status) status = ll_engine_create(&t->engine, t->model);
    if (!status && t->teacher) status = ll_engine_teach(t->engine, t->teacher);
    return status == LL_EINVAL && t->engine && t->teacher ? ll_fail_in(status, teacher) : status;
}

static ll_status begin(ll_trainer *t, const ll_recipe *recipe, const char *out) {
    if (!recipe) return ll_fail(LL_EINVAL, "a new run needs a recipe");
    ll_model *from = NULL;
    ll_status status = refuse_old_run(out);
    if (!status) status = ll_recipe_copy(&t->recipe, recipe);
    if (!status) resolve_ranks(&t->recipe->c);
    if (!status) ll_teaching_resolve(&t->recipe->c);
    if (!status && t->recipe->c.train.from[0]) status = ll_teaching_open(&from, "train.from", t->recipe->c.train.from);
    if (!status) status = open_data(t, from);
    if (!status) status = check_data(t);
    if (!status) status = make_model(t, from);
    ll_model_free(from);
    if (!status) status = ll_model_keep(t->model, ll_reader_vocabulary(t->train));
    if (!status) status = create_engine(t);
    if (status) return status;
    t->state.data_size = ll_reader_size(t->train);
    return ll_rows_checksum(t->state.data_sum, t->train, &t->recipe->c, 1);
}

/* A run goes on with the data it began with. held_out: was a part of them held out? */
static ll_status check_same_data(ll_trainer *t, const char *path, int held_out) {
    ll_run_state *s = &t->state;
    char sum[LL_CHECKSUM_TEXT];
    const int64_t size = ll_reader_size(t->train);
    if (size != s->data_size && held_out != holds_out(t->recipe))
        return ll_fail(LL_EINVAL,
                       "data.valid is %s, and the run of %s began %s: the part of data.train that is held out would be "
                       "another; set data.valid as it was",
                       held_out ? "set" : "empty", path, held_out ? "without it" : "with it");
    if (size != s->data_size)
        return ll_fail(LL_EINVAL,
                       "data.train has %lld tokens or examples, but the run of %s began with %lld; give it "
                       "the same data",
                       (long long)size, path, (long long)s->data_size);
    const ll_status status = ll_rows_checksum(sum, t->train, &t->recipe->c, 1);
    if (status) return status;
    if (*s->data_sum && strcmp(sum, s->data_sum))
        return ll_fail(LL_EINVAL,
                       "data.train is as long as what the run of %s began with, but differs from it; give it the same "
                       "data, or begin a new run with train.from",
                       path);
    memcpy(s->data_sum, sum, sizeof sum);
    return LL_OK;
}

/* The recipe that a run continues with: the given one, else recipe.ini of its folder, else the one in the checkpoint.
 * recipe.ini is replaced as soon as a run is resumed, so it has settings that no checkpoint has yet. */
static ll_status choose_recipe(ll_trainer *t, const ll_recipe *given, const char *resume) {
    if (given) return ll_recipe_copy(&t->recipe, given);
    char *path = ll_path_join(resume, "recipe.ini");
    if (!path) return LL_ENOMEM;
    const ll_status status =
        access(path, F_OK) ? ll_recipe_copy(&t->recipe, t->model->recipe) : ll_recipe_load(&t->recipe, path);
    ll_free(path);
    return status;
}

/* A recipe that asks for fewer steps than were made would not be that of the run. */
static ll_status check_steps(const ll_trainer *t, const char *path) {
    const long long made = (long long)t->state.step, asked = (long long)t->recipe->c.train.steps;
    if (asked >= made) return LL_OK;
    return ll_fail(LL_EINVAL, "train.steps = %lld: %s has made %lld steps; set train.steps to more than that", asked,
                   path, made);
}

/* A run that is made longer keeps the step where its teaching changes. Checkpoints of earlier versions may have 0. */
static void resolve_teaching(ll_trainer *t) {
    ll_config *old = &t->model->recipe->c, *c = &t->recipe->c;
    ll_teaching_resolve(old);
    if (!c->train.distil_switch) c->train.distil_switch = old->train.distil_switch;
}

/* Whoever gives another learning rate means that one, and not a part of it. */
static void reset_rewinds(ll_trainer *t) {
    if (t->recipe->c.train.learning_rate != t->model->recipe->c.train.learning_rate) t->state.rewinds = 0;
}

/* The checkpoint, and a recipe that is its own except for keys that may change. */
static ll_status take_over(ll_trainer *t, const ll_recipe *recipe, const char *resume, const ll_safetensors *file) {
    const char *path = ll_safetensors_path(file);
    ll_status status = ll_checkpoint_state(&t->state, file);
    if (!status) status = ll_model_read(&t->model, file);
    if (!status) status = choose_recipe(t, recipe, resume);
    if (!status) status = check_steps(t, path);
    if (!status) resolve_ranks(&t->recipe->c);
    if (!status) resolve_teaching(t);
    if (!status) reset_rewinds(t);
    const int held_out = !status && holds_out(t->model->recipe);
    if (!status) status = open_data(t, t->model);
    if (!status) status = ll_fit_resume(t->model, t->recipe, path);
    if (!status) status = check_data(t);
    if (status) return status;
    status = check_same_data(t, path, held_out);
    if (!status) status = create_engine(t);
    if (status) return status;
    t->engine->optimizer->halvings = (int)t->state.rewinds;
    return ll_checkpoint_moments(t->engine, file);
}

static ll_status resume_from(ll_trainer *t, const ll_recipe *recipe, const char *out, const char *resume) {
    ll_safetensors *file = NULL;
    ll_status status = same_folder(out, resume) ? LL_OK : refuse_old_run(out);
    if (!status) status = ll_run_folder_check(resume, "last.safetensors");
    if (!status && !t->ranks.rank && same_folder(out, resume)) status = ll_folder_lock(&t->lock, &t->unlocked, out);
    if (status) return status;
    char *path = ll_path_join(resume, "last.safetensors");
    if (!path) return LL_ENOMEM;
    status = ll_safetensors_open(&file, path);
    if (!status) status = take_over(t, recipe, resume, file);
    ll_safetensors_free(file);
    ll_free(path);
    return status;
}

static ll_status copy_from(const char *to, const char *folder, const char *name) {
    char *from = ll_path_join(folder, name);
    if (!from) return LL_ENOMEM;
    const ll_status status = access(from, F_OK) ? LL_OK : ll_file_copy(to, from);
    ll_free(from);
    return status;
}

/* A resumed run that moves to another folder copies its models there, the checkpoint at the end. So it can be resumed
 * there, too, if it is killed before the next checkpoint, and only where all are there. */
static ll_status copy_models(const ll_trainer *t, const char *resume) {
    ll_status status = t->state.rewind_aside ? copy_from(t->back, resume, "back.safetensors") : LL_OK;
    if (!status) status = copy_from(t->best, resume, "best.safetensors");
    if (!status) status = copy_from(t->last, resume, "last.safetensors");
    if (status) unlink(t->best), unlink(t->back);
    return status;
}

static ll_status name_files(ll_trainer *t, const char *out) {
    if (!out) return ll_fail(LL_EINVAL, "a run needs a folder to write to");
    t->folder = ll_strdup(out);
    t->last = ll_path_join(out, "last.safetensors");
    t->best = ll_path_join(out, "best.safetensors");
    t->back = ll_path_join(out, "back.safetensors");
    t->ini = ll_path_join(out, "recipe.ini");
    t->lock_file = ll_path_join(out, LL_LOCK_FILE);
    return t->folder && t->last && t->best && t->back && t->ini && t->lock_file ? LL_OK : LL_ENOMEM;
}

/* Another run may have begun and ended there while the data were opened. */
static ll_status take_new_folder(ll_trainer *t) {
    ll_status status = ll_folder_create(t->folder);
    if (!status) status = ll_folder_lock(&t->lock, &t->unlocked, t->folder);
    return status ? status : refuse_old_run(t->folder);
}

static ll_status open_folder(ll_trainer *t, const char *resume) {
    const int moves = resume && !same_folder(t->folder, resume), takes = !resume || moves;
    ll_status status = takes ? take_new_folder(t) : LL_OK;
    if (!status) status = ll_metrics_open(&t->metrics, t->folder, resume, t->state.row);
    if (!status) status = ll_run_recipe_write(t);
    if (!status && moves) status = copy_models(t, resume);
    if (status && takes) release(t, 0);
    return status;
}

/* All but the folder. If this fails, all ranks fail together, before anything is written. */
static ll_status prepare(ll_trainer *t, const ll_recipe *recipe, const char *out, const char *resume) {
    const ll_group all = ll_group_all();
    ll_status status = name_files(t, out);
    if (!status) status = resume ? resume_from(t, recipe, out, resume) : begin(t, recipe, out);
    if (!status && t->valid)
        status = ll_evaluator_of(&t->evaluator, t->engine, t->valid);
    if (!status && t->valid) status = ll_evaluator_check(&t->evaluator, t->recipe->c.train.eval_batches);
    if (!status && t->valid) status = ll_best_evaluation(t->evaluation, t->valid, &t->recipe->c);
    status = ll_group_agree(&all, status);
    return status ? status : ll_same_ranks(t);
}

/* Where back.safetensors was not copied along, the run would go back to the checkpoint that it has. Where
 * best.safetensors was not, the model of the next evaluation is the best one. Rank 0 looks for all. */
static ll_status find_files(ll_trainer *t) {
    const ll_group all = ll_group_all();
    int there[2] = {!access(t->back, F_OK), !access(t->best, F_OK)};
    const ll_status status = ll_group_broadcast(&all, there, sizeof there, 0);
    if (t->state.rewind_aside && !there[0]) ll_rewind_point_set(&t->state);
    if (there[1]) return status;
    t->lost_best = t->state.best_step;
    ll_best_forget(&t->state);
    return status;
}

/* Every rank names the folder of rank 0, which has the files, in what it says. */
static ll_status share_folder(ll_trainer *t) {
    const ll_group all = ll_group_all();
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", t->folder);
    const ll_status status = ll_group_broadcast(&all, name, sizeof name, 0);
    char *folder = status || !t->ranks.rank ? NULL : ll_strdup(name);
    if (!folder) return status; /* without memory it keeps its own */
    ll_free(t->folder);
    t->folder = folder;
    return LL_OK;
}

ll_status ll_trainer_create(ll_trainer **trainer, const ll_recipe *recipe, const char *out, const char *resume) {
    LL_FLOAT_MODE;
    ll_trainer *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    t->saved = t->state.rewind_step = -1;
    t->lock = -1;
    t->unsaved = 1;
    t->report_interval = 1;
    t->state.valid_loss = t->state.valid_accuracy = t->state.best_loss = NAN;
    t->ranks = ll_dist_ranks();
    if (resume && !out) out = resume;
    const ll_group all = ll_group_all();
    ll_status status = prepare(t, recipe, out, resume);
    if (!status) status = ll_group_agree(&all, t->ranks.rank ? LL_OK : open_folder(t, resume));
    if (!status) status = share_folder(t);
    if (!status && resume) {
        status = find_files(t);
        t->saved = t->state.step;
        t->unsaved =
            t->state.rewind_aside || !same_folder(t->folder, resume); /* what was copied has the recipe of before */
    }
    if (status) {
        ll_trainer_free(t);
        return status;
    }
    *trainer = t;
    return LL_OK;
}

void ll_trainer_free(ll_trainer *t) {
    if (!t) return;
    ll_metrics_close(&t->metrics);
    release(t, 1);
    ll_evaluator_free(&t->evaluator);
    ll_engine_free(t->engine);
    ll_reader_free(t->train);
    ll_reader_free(t->valid);
    ll_model_free(t->model);
    ll_model_free(t->teacher);
    ll_recipe_free(t->recipe);
    ll_free(t->origin);
    ll_free(t->folder);
    ll_free(t->last);
    ll_free(t->best);
    ll_free(t->back);
    ll_free(t->ini);
    ll_free(t->lock_file);
    ll_free(t);
}

ll_model *ll_trainer_model(ll_trainer *trainer) {
    return trainer->model;
}

void ll_trainer_on_report(ll_trainer *trainer, ll_report_fn *report, void *arg) {
    trainer->report = report;
    trainer->report_arg = arg;
}

const char *ll_trainer_folder(const ll_trainer *trainer) {
    return trainer->folder;
}

const char *ll_trainer_origin(const ll_trainer *trainer) {
    return trainer->origin;
}
