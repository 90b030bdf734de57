/* Checks a recipe against the data it names, and against the checkpoint it continues from. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "model/config/mechanism.h"
#include "recipe/recipe_key.h"
#include "train/train_internal.h"

/* The loss of a model that gives all answers the same probability. */
static double chance(const ll_config *c) {
    const int answers = ll_config_per_token(c) ? c->model.vocab : c->model.classes;
    return log(answers > 1 ? answers : 2);
}

int ll_fit_is_above_chance(const ll_config *c, double loss) {
    return loss > 2 * chance(c) + 1;
}

ll_status ll_fit_above_chance(const ll_config *c, double loss) {
    const char *clip = c->train.clip > 0 && c->train.clip <= 1 ? "a longer train.warmup" : "train.clip = 1";
    return ll_fail(LL_EDIVERGED,
                   "the loss is %.4g nats, and %.4g would be chance: lower train.learning-rate = %g, or try %s", loss,
                   chance(c), c->train.learning_rate, clip);
}

int ll_fit_has_valid(const ll_config *c) {
    return ll_data_is_made(&c->data) || (c->data.valid && c->data.valid[0]) || c->data.valid_fraction > 0;
}

int ll_fit_lacks_sizes(const ll_config *c) {
    const int image = c->model.patch || ll_position_is_image(&c->position);
    return !c->model.vocab || !c->model.classes || !c->train.length ||
           (image && (!c->position.width || !c->position.height));
}

static ll_status one_class(const ll_config *c, const ll_reader *reader) {
    const char *names = ll_reader_class_names(reader) ? ll_reader_class_names(reader) : c->data.class_names;
    return ll_fail(LL_EINVAL, "data.train: %s: all examples have the class %s, and a classifier needs at least 2",
                   c->data.train, names && *names ? names : "0");
}

ll_status ll_fit_fill(ll_recipe *recipe, const ll_reader *reader) {
    ll_config *c = &recipe->c;
    int width, height;
    ll_reader_image(reader, &width, &height);
    if (c->model.vocab == 0) c->model.vocab = ll_reader_vocab(reader);
    if (c->model.classes == 0) c->model.classes = ll_reader_classes(reader);
    if (c->model.classes == 1 && ll_reader_classes(reader) == 1) return one_class(c, reader);
    if (c->position.width == 0 && c->position.height == 0) {
        c->position.width = width;
        c->position.height = height;
    }
    if (c->train.length == 0) c->train.length = width * height * ll_reader_channels(reader);
    if (!ll_reader_class_names(reader)) return LL_OK;
    char *names = ll_strdup(ll_reader_class_names(reader));
    if (!names) return LL_ENOMEM;
    ll_free(c->data.class_names);
    c->data.class_names = names;
    recipe->closed = 1;
    return LL_OK;
}

/* The data has `has` of something, and the model only `sized`, by this key. */
static ll_status too_many(const char *what, int has, const char *key, int sized, int fixed) {
    if (fixed)
        return ll_fail(LL_EINVAL, "the data has %d %s, and this model, which is fixed, %d (%s)", has, what, sized, key);
    return ll_fail(LL_EINVAL, "%s is %d, but the data has %d %s; set %s=%d", key, sized, has, what, key, has);
}

ll_status ll_fit_check(const ll_config *c, const ll_reader *reader, int fixed) {
    const int vocab = ll_reader_vocab(reader), classes = ll_reader_classes(reader);
    int width, height;
    ll_reader_image(reader, &width, &height);
    const char *tokens = c->model.task == LL_TASK_MLM ? "different tokens with that of the mask" : "different tokens";
    if (vocab > c->model.vocab) return too_many(tokens, vocab, "model.vocab", c->model.vocab, fixed);
    if (classes > c->model.classes && !ll_config_per_token(c))
        return too_many("classes", classes, "model.classes", c->model.classes, fixed);
    const long long numbers = (long long)width * height * ll_reader_channels(reader);
    if (width > 0 && numbers > c->train.length)
        return ll_fail(LL_EINVAL, "train.length is %d, but an image of %d x %d has %lld tokens; set train.length=0",
                       c->train.length, width, height, numbers);
    const int image = c->model.patch || ll_position_is_image(&c->position);
    if (image && (width != c->position.width || height != c->position.height))
        return ll_fail(LL_EINVAL,
                       "position.width and position.height are %d and %d, but the images of the data are %d x %d",
                       c->position.width, c->position.height, width, height);
    return LL_OK;
}

ll_status ll_fit_heading(const ll_reader *reader) {
    const char *name = ll_reader_heading(reader);
    if (!*name) return LL_OK;
    return ll_fail(LL_EINVAL, "only the first row has the label \"%s\"; if it names the columns, set data.header=on",
                   name);
}

ll_status ll_fit_unused(const ll_config *c, const ll_reader *reader) {
    const char *key = ll_reader_unused(reader);
    if (!key) return LL_OK;
    const char *form = strstr(key, "-key") ? "JSONL" : "TSV and CSV";
    return ll_fail(LL_EINVAL, "%s is for %s, and %s is another form of texts with classes", key, form, c->data.train);
}

ll_status ll_fit_left_out(int64_t files) {
    if (!files) return LL_OK;
    return ll_fail(LL_EINVAL, "files left out, as data.classes does not name their folders: %lld", (long long)files);
}

ll_status ll_fit_cut(const ll_config *c, const ll_reader *reader) {
    int64_t texts, cut;
    ll_reader_cut(reader, &texts, &cut);
    if (!cut) return LL_OK;
    return ll_fail(LL_EINVAL, "%lld of %lld texts are longer than train.length = %d and are cut to it", (long long)cut,
                   (long long)texts, c->train.length);
}

ll_status ll_fit_apart(const ll_config *c, int test) {
    char name[300];
    if (!ll_data_shared(name, sizeof name, &c->data, test)) return LL_OK;
    return ll_fail(LL_EINVAL, "%s is in data.train, too, so that the %s loss says nothing of other data", name,
                   test ? "test" : "held-out");
}

/* Keys that are not resumable must have the same values. A path that is must lead to the same data (same_ranks.c). */
static ll_status compare(const ll_recipe *old, const ll_recipe *recipe, const char *path) {
    const ll_recipe_key *key;
    for (int i = 0; (key = ll_recipe_key_at(i)); i++) {
        const char *a = ll_recipe_get(old, key->name), *b = ll_recipe_get(recipe, key->name);
        if (key->resumable || !strcmp(a, b)) continue;
        return ll_fail(LL_EINVAL,
                       "%s is of another run: its %s is \"%s\", the recipe says \"%s\"; set %s=%s to go on, "
                       "or begin a new run",
                       path, key->name, a, b, key->name, a);
    }
    return LL_OK;
}

ll_status ll_fit_resume(ll_model *model, const ll_recipe *recipe, const char *path) {
    ll_recipe *copy = NULL;
    ll_status status = compare(model->recipe, recipe, path);
    if (!status) status = ll_recipe_copy(&copy, recipe);
    if (status) return status;
    ll_recipe_free(model->recipe);
    model->recipe = copy;
    return ll_model_read_recipe(model);
}

ll_status ll_fit_restore(ll_model *model, const ll_recipe *recipe) {
    const ll_recipe_key *key;
    ll_status status = LL_OK;
    for (int i = 0; !status && (key = ll_recipe_key_at(i)); i++) {
        const char *own = ll_recipe_get(recipe, key->name);
        if (strcmp(own, ll_recipe_get(model->recipe, key->name)) != 0)
            status = ll_config_assign(&model->recipe->c, i, own);
    }
    model->recipe->closed = recipe->closed;
    return status ? status : ll_model_read_recipe(model);
}
