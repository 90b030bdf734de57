/* Models of patches of images: against their definition in double, gradients against differences; what they read. */
#include "models.h"

#include "model/network.h"

enum { B = 3, MOST = 1000 };

/* Models with the size of their images: width, height, channels, patch. */
static const struct {
    const char *keys;
    int width, height, channels, patch;
} variants[] = {
    {"attention.kernel=softmax position.type=learned position.cls-token=on position.max-length=7 model.pool=first "
     "model.bias=all model.pixel-mean=0.485,0.456,0.406 model.pixel-std=0.229,0.224,0.225",
     6, 4, 3, 2},
    {"attention.kernel=relu position.type=permute2d model.pool=first", 6, 9, 1, 3},
    {"attention.kernel=favor position.type=learned position.max-length=9 position.offset=1 model.embedding-norm=on "
     "model.dropout=0.2 model.pixel-std=0.25",
     4, 8, 1, 2},
    {"attention.kernel=elu1 position.type=sinusoidal model.norm=post model.pool=first", 4, 4, 3, 4},
    {"attention.kernel=relu position.type=learned position.cls-token=on position.offset=2 position.max-length=9 "
     "model.pool=first train.recompute=on",
     3, 2, 3, 1},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void keys_of(char text[500], int v) {
    const int n = variants[v].width * variants[v].height * variants[v].channels;
    snprintf(text, 500,
             "model.task=classify model.vocab=256 model.patch=%d model.channels=%d position.width=%d "
             "position.height=%d train.length=%d %s",
             variants[v].patch, variants[v].channels, variants[v].width, variants[v].height, n, variants[v].keys);
}

static void gradients(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        char keys[500];
        keys_of(keys, v);
        ll_model *model = tiny_model(keys);
        ll_workspace *ws = NULL;
        const int T = variants[v].width * variants[v].height * variants[v].channels;
        const int patches = T / (variants[v].patch * variants[v].patch * variants[v].channels);
        int tokens[MOST], targets[B];
        assert_true(B * T <= MOST);
        assert_int_equal(ll_model_rows(model, T), patches + model->cls_tokens);
        random_ints(tokens, B * T, 256, 0, 1);
        random_ints(targets, B, 5, 0, 2);
        CHECK_OK(ll_workspace_create(&ws, model, B, T, 1));
        float *grad = calloc(model->size, sizeof *grad);
        ll_tally tally = {0};
        const ll_batch in = {B, T, tokens, targets, NULL, 0, NULL, NULL, 0};
        CHECK_OK(ll_model_run(model, ws, &in, grad, 0.5f, 41, &tally));
        oracle_model o = oracle_model_of(model, B, patches);
        o.tokens = tokens, o.targets = targets, o.dropout = 1, o.draw = 41;
        const float loss = (float)tally.loss;
        const double expected = oracle_model_loss(&o);
        check_close(keys, 1, &loss, &expected, 1e-5);
        for (int i = 0; i < model->count; i++) check_tensor(&o, keys, &model->param[i], grad, 0.5, 24);
        free(grad);
        free(o.params);
        ll_workspace_free(ws);
        ll_model_free(model);
    }
}

/* An image has the same answer alone and among others, and with several threads. */
static void alone_and_together(void **state) {
    (void)state;
    char keys[500];
    keys_of(keys, 0);
    ll_model *model = tiny_model(keys);
    int tokens[4 * 72];
    float together[4 * 5], alone[5], vectors[4 * 16], vector[16];
    random_ints(tokens, 4 * 72, 256, 0, 3);
    CHECK_OK(ll_model_logp(model, together, tokens, NULL, 4, 72));
    CHECK_OK(ll_model_encode(model, -1, LL_EMBED_FIRST, vectors, tokens, NULL, 4, 72));
    ll_set_threads(3);
    for (int b = 0; b < 4; b++) {
        CHECK_OK(ll_model_logp(model, alone, tokens + 72 * b, NULL, 1, 72));
        assert_memory_equal(alone, together + 5 * b, sizeof alone);
        CHECK_OK(ll_model_encode(model, -1, LL_EMBED_FIRST, vector, tokens + 72 * b, NULL, 1, 72));
        assert_memory_equal(vector, vectors + 16 * b, sizeof vector);
    }
    ll_set_threads(1);
    ll_model_free(model);
}

/* All vectors of an image are those of its patches: their mean is the mean that is asked for, the last is the last. */
static void all_patches(void **state) {
    (void)state;
    char keys[500];
    keys_of(keys, 0);
    enum { PATCHES = 6, C = 16 };
    ll_model *model = tiny_model(keys);
    int tokens[2 * 72];
    float all[2 * PATCHES * C + 1], mean[2 * C], last[2 * C];
    random_ints(tokens, 2 * 72, 256, 0, 5);
    all[2 * PATCHES * C] = 77;
    CHECK_OK(ll_model_encode(model, -1, LL_EMBED_ALL, all, tokens, NULL, 2, 72));
    CHECK_OK(ll_model_encode(model, -1, LL_EMBED_MEAN, mean, tokens, NULL, 2, 72));
    CHECK_OK(ll_model_encode(model, -1, LL_EMBED_LAST, last, tokens, NULL, 2, 72));
    assert_true(all[2 * PATCHES * C] == 77);
    for (int b = 0; b < 2; b++) {
        assert_memory_equal(last + b * C, all + (b * PATCHES + PATCHES - 1) * C, C * sizeof *last);
        for (int c = 0; c < C; c++) {
            double sum = 0;
            for (int i = 0; i < PATCHES; i++) sum += (double)all[(b * PATCHES + i) * C + c];
            assert_float_equal(mean[b * C + c], sum / PATCHES, 1e-5);
        }
    }
    ll_model_free(model);
}

/* Plain gradient descent tells four images apart. */
static void learns(void **state) {
    (void)state;
    char keys[500];
    keys_of(keys, 0);
    ll_model *model = tiny_model(keys);
    ll_workspace *ws = NULL;
    int tokens[4 * 72], targets[4] = {0, 1, 2, 3};
    float *grad = calloc(model->size, sizeof *grad);
    ll_tally tally = {0};
    random_ints(tokens, 4 * 72, 256, 0, 3);
    const ll_batch in = {4, 72, tokens, targets, NULL, 0, NULL, NULL, 0};
    CHECK_OK(ll_workspace_create(&ws, model, 4, 72, 1));
    for (int step = 0; step < 100; step++) {
        memset(grad, 0, model->size * sizeof *grad);
        CHECK_OK(ll_model_run(model, ws, &in, grad, 0.25f, step, &tally));
        for (size_t i = 0; i < model->size; i++) model->data[i] -= 0.1f * grad[i];
    }
    tally = (ll_tally){0};
    CHECK_OK(ll_model_run(model, ws, &in, NULL, 0, 0, &tally));
    assert_int_equal(tally.correct, 4);
    ll_workspace_free(ws);
    ll_model_free(model);
    free(grad);
}

static void refuse(const char *more, const char *why) {
    char keys[500];
    keys_of(keys, 0);
    ll_recipe *recipe = tiny_recipe(keys);
    ll_model *model = NULL;
    char text[300];
    snprintf(text, sizeof text, "%s", more);
    for (char *rest = text, *key; (key = strtok_r(rest, " ", &rest));) CHECK_OK(ll_recipe_set(recipe, key));
    CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, why);
    ll_recipe_free(recipe);
}

static void refusals(void **state) {
    (void)state;
    refuse("model.patch=4", "model.patch = 4 does not divide images of 6 x 4");
    refuse("model.task=lm position.cls-token=off", "set model.task=classify");
    refuse("model.channels=2", "use 1 (gray) or 3");
    refuse("model.patch=0", "model.channels = 3 is for images that are cut into patches");
    refuse("train.length=70", "has 72 numbers; set train.length=72");
    refuse("position.width=8192 position.height=8192", "at most 134217728; set a smaller position.width");
    refuse("position.width=0", "set position.width and position.height");
    refuse("model.vocab=11", "set model.vocab=256");
    refuse("model.pixel-mean=0.5,0.5", "one for each of the 3 channels");
    refuse("model.pixel-mean=half", "must be a number");
    refuse("model.pixel-std=0.5,0,0.5", "must be above 0");
    refuse("model.pool=mean", "position.cls-token = on gives a CLS token");
    refuse("position.max-length=6", "the last learned position; in a new model, position.max-length=");
    char keys[500];
    keys_of(keys, 0);
    ll_model *model = tiny_model(keys);
    int tokens[72] = {0};
    float out[5];
    CHECK_FAILS(ll_model_logp(model, out, tokens, NULL, 1, 60), LL_EINVAL, "reads images of 6 x 4 pixels");
    CHECK_FAILS(ll_model_logp(model, out, tokens, (const int[]){71}, 1, 72), LL_EINVAL, "reads whole images");
    tokens[5] = 256;
    CHECK_FAILS(ll_model_logp(model, out, tokens, NULL, 1, 72), LL_EINVAL, "token 256 at position 5");
    ll_model_free(model);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(alone_and_together),
        cmocka_unit_test(all_patches),
        cmocka_unit_test(learns),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
