/* Training on batches from memory. Losses and gradients equal those of the network, updates those of the trainer's
 * optimizer. Models can be bytes in memory. Wrong batches are refused. */
#include "attention/operator.h"
#include "attention/position/premap.h"
#include "base/memory.h"
#include "folder.h"
#include "models.h"
#include "packers.h"
#include "train/train_internal.h"

enum { B = 3, T = 4 };
static const int tokens[B * T] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, lengths[B] = {4, 2, 3};
static const int targets[B * T] = {2, 3, 4, 5, 6, -1, 3, 3, 10, 0, 1, 2};

static ll_memory_batch batch_of(void) {
    return (ll_memory_batch){.struct_size = sizeof(ll_memory_batch),
                             .B = B,
                             .T = T,
                             .tokens = tokens,
                             .targets = targets,
                             .lengths = lengths};
}

/* The definition: the mean of -log p over the targets that count, from ll_model_logp. */
static double definition(ll_model *model, const ll_memory_batch *b) {
    const int V = 11;
    float logp[B * T * 11];
    double sum = 0;
    int count = 0;
    CHECK_OK(ll_model_logp(model, logp, b->tokens, b->lengths, B, T));
    for (int i = 0; i < B; i++)
        for (int t = 0; t < b->lengths[i]; t++)
            if (b->targets[i * T + t] >= 0) sum -= logp[(i * T + t) * V + b->targets[i * T + t]], count++;
    assert_int_equal(count, 8);
    return sum / count;
}

static void loss_and_gradients(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=elu1");
    const ll_memory_batch b = batch_of();
    ll_loss loss = {.struct_size = sizeof loss}, moved = loss;
    const size_t n = ll_model_size(model).block;
    float *gradients = ll_alloc(n, sizeof *gradients);
    CHECK_OK(ll_model_loss(model, &b, gradients, &loss));
    assert_int_equal(loss.count, 8);
    assert_true(fabs(loss.loss - definition(model, &b)) < 1e-5);
    /* A step of h against the gradient g lowers the loss by h |g|^2, to first order. */
    double square = 0, h = 1e-3;
    for (size_t i = 0; i < n; i++) square += (double)gradients[i] * (double)gradients[i];
    ll_tensor tensor;
    for (int i = 0; (tensor = ll_model_tensor(model, i)).name; i++)
        for (int j = 0; j < tensor.rows * tensor.cols; j++)
            tensor.data[j] -= (float)(h / square * (double)gradients[tensor.offset + (size_t)j]);
    CHECK_OK(ll_model_loss(model, &b, NULL, &moved));
    assert_true(fabs((loss.loss - moved.loss) / h - 1) < 0.02);
    ll_free(gradients);
    ll_model_free(model);
}

/* Whatever the memory held, tokens that are not in the batch have a gradient of 0, and so has the last one of a row
 * whose target does not count. */
static void gradients_begin_with_0(void **state) {
    (void)state;
    ll_model *model = tiny_model("model.tied-embedding=off");
    const ll_memory_batch b = batch_of();
    ll_loss loss = {.struct_size = sizeof loss};
    const size_t n = ll_model_size(model).block;
    float *gradients = ll_alloc(n, sizeof *gradients);
    for (size_t i = 0; i < n; i++) gradients[i] = 1;
    CHECK_OK(ll_model_loss(model, &b, gradients, &loss));
    const ll_tensor rows = ll_model_tensor(model, 0);
    assert_string_equal(rows.name, "embedding.weight");
    for (int token = 0; token < rows.rows; token++)
        for (int j = 0; j < rows.cols; j++)
            assert_true((gradients[rows.offset + (size_t)(token * rows.cols + j)] == 0) == (token >= 6 && token <= 8));
    ll_free(gradients);
    ll_model_free(model);
}

/* Does a model have the noise of evaluation? Streams of one model, in several threads, then only read it. */
static void check_noise(const ll_model *m) {
    for (int op = 0; op < m->operators; op++)
        assert_int_equal(m->attention[op]->premap->c.encoding.seed, (uint64_t)m->c->seed);
}

static void noise_is_that_of_evaluation(void **state) {
    (void)state;
    static const char *const kinds[] = {"position.type=sine-spe", "position.type=conv-spe position.taps=3",
                                        "position.type=sine-spe train.chunk=2"};
    for (int i = 0; i < 3; i++) {
        char keys[200];
        snprintf(keys, sizeof keys, "attention.kernel=favor position.realizations=4 %s", kinds[i]);
        ll_model *model = tiny_model(keys);
        const ll_memory_batch b = batch_of();
        ll_loss loss = {.struct_size = sizeof loss};
        float *gradients = ll_alloc(ll_model_size(model).block, sizeof *gradients);
        CHECK_OK(ll_model_loss(model, &b, gradients, &loss));
        check_noise(model);
        ll_free(gradients);
        ll_model_free(model);
    }
}

static void updates_lower_the_loss(void **state) {
    (void)state;
    ll_model *model = tiny_model("train.learning-rate=0.01 train.warmup=0 attention.kernel=favor attention.redraw=7");
    const ll_memory_batch b = batch_of();
    ll_loss first = {.struct_size = sizeof first}, last = first;
    float *gradients = ll_alloc(ll_model_size(model).block, sizeof *gradients);
    ll_adam *adam = NULL;
    double norm = 0;
    CHECK_OK(ll_adam_create(&adam, model));
    CHECK_OK(ll_model_loss(model, &b, NULL, &first));
    for (int i = 0; i < 60; i++) {
        assert_int_equal(model->redraws, i / 7); /* before updates 8, 15, .. 57 */
        CHECK_OK(ll_model_loss(model, &b, gradients, &last));
        CHECK_OK(ll_adam_step(adam, gradients, &norm));
        assert_true(norm > 0);
    }
    assert_true(last.loss < 0.5 * first.loss);
    gradients[0] = NAN;
    const float before = model->data[0];
    assert_int_equal(ll_adam_step(adam, gradients, NULL), LL_EDIVERGED);
    assert_true(model->data[0] == before);
    CHECK_OK(ll_model_quantize(model, LL_INT8));
    CHECK_FAILS(ll_adam_step(adam, gradients, NULL), LL_EINVAL, "weights are int8 and cannot be trained");
    ll_adam_free(adam);
    ll_free(gradients);
    ll_model_free(model);
}

/* How often features are drawn anew in so many updates. */
static void counts_redraws(const char *keys, int updates, int third, int64_t redraws) {
    ll_model *model = tiny_model(keys);
    float *gradients = ll_alloc(ll_model_size(model).block, sizeof *gradients);
    ll_adam *adam = NULL;
    CHECK_OK(ll_adam_create(&adam, model));
    for (int i = 1; i <= updates; i++) {
        gradients[0] = 1;
        CHECK_OK(ll_adam_step(adam, gradients, NULL));
        if (i == 3) assert_int_equal(model->redraws, third);
    }
    assert_int_equal(model->redraws, redraws);
    ll_adam_free(adam);
    ll_free(gradients);
    ll_model_free(model);
}

/* Features change in a warm-up, too, as at 3/40 of the highest rate; no more after the rate has fallen below a tenth,
 * as at update 89, nor after the last update, whose model has learned with the features that it has. */
static void late_updates_keep_features(void **state) {
    (void)state;
    counts_redraws("train.warmup=40 train.steps=100 attention.kernel=favor attention.redraw=2", 100, 1, 43);
    counts_redraws("train.schedule=constant train.steps=6 attention.kernel=favor attention.redraw=3", 6, 1, 1);
}

static void models_as_bytes(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=favor position.type=permute"), *copy = NULL;
    char *bytes = NULL, *again = NULL;
    size_t size = 0, size_again = 0;
    CHECK_OK(ll_model_save_bytes(model, &bytes, &size));
    CHECK_OK(ll_model_load_bytes(&copy, bytes, size, "copy"));
    memset(bytes, 0, size); /* the model keeps no pointer to it */
    CHECK_OK(ll_model_save_bytes(copy, &again, &size_again));
    assert_int_equal(size, size_again);
    float a[B * T * 11], c[B * T * 11];
    CHECK_OK(ll_model_logp(model, a, tokens, NULL, B, T));
    CHECK_OK(ll_model_logp(copy, c, tokens, NULL, B, T));
    assert_memory_equal(a, c, sizeof a);
    ll_model_free(copy);
    for (size_t cut = 0; cut < size_again; cut += size_again / 50) {
        assert_int_equal(ll_model_load_bytes(&copy, again, cut, "cut.safetensors"), LL_EFORMAT);
        assert_non_null(strstr(ll_error(), "cut.safetensors"));
    }
    ll_text_free(bytes);
    ll_text_free(again);
    ll_model_free(model);
}

/* Packed files are not mapped, and the same holds for them. */
static void loaded_files_are_not_trained(void **state) {
    (void)state;
    ll_model *model = tiny_model(""), *loaded = NULL;
    ll_adam *adam = NULL;
    char *bytes = NULL;
    size_t size = 0;
    CHECK_OK(ll_model_save_bytes(model, &bytes, &size));
    uint8_t *packed = ll_alloc(2 * size, 1);
    put_file(at("model.safetensors"), bytes, size);
    put_file(at("model.safetensors.gz"), packed, pack_gzip(packed, 2 * size, (uint8_t *)bytes, size));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ll_model_load(&loaded, at(i ? "model.safetensors.gz" : "model.safetensors")));
        CHECK_FAILS(ll_adam_create(&adam, loaded), LL_EINVAL, "cannot be trained; load it with ll_model_load_bytes");
        ll_model_free(loaded);
    }
    CHECK_OK(ll_model_load_bytes(&loaded, bytes, size, "bytes"));
    CHECK_OK(ll_adam_create(&adam, loaded));
    ll_adam_free(adam);
    ll_model_free(loaded);
    ll_free(packed);
    ll_text_free(bytes);
    ll_model_free(model);
}

static void refused(void **state) {
    (void)state;
    ll_model *model = tiny_model("");
    ll_loss loss = {.struct_size = sizeof loss};
    ll_memory_batch b = batch_of();
    int wrong[B * T];
    memcpy(wrong, targets, sizeof wrong);
    b.targets = wrong;
    wrong[5] = 11;
    assert_int_equal(ll_model_loss(model, &b, NULL, &loss), LL_EINVAL);
    assert_string_equal(ll_error(),
                        "target 11 at position 1 of sequence 1 is not in 0..10, nor -1, which does not count");
    for (int i = 0; i < B * T; i++) wrong[i] = i == 6 ? 3 : -1; /* its sequence has 2 tokens */
    CHECK_FAILS(ll_model_loss(model, &b, NULL, &loss), LL_EINVAL,
                "nothing to predict: every target is -1, or past the length of its sequence");
    b = batch_of();
    b.struct_size = sizeof b + 1;
    CHECK_FAILS(ll_model_loss(model, &b, NULL, &loss), LL_EINVAL, "struct_size of ll_memory_batch");
    b = batch_of();
    b.source = tokens;
    assert_int_equal(ll_model_loss(model, &b, NULL, &loss), LL_EINVAL);
    ll_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients),
        cmocka_unit_test(gradients_begin_with_0),
        cmocka_unit_test(noise_is_that_of_evaluation),
        cmocka_unit_test(updates_lower_the_loss),
        cmocka_unit_test(late_updates_keep_features),
        cmocka_unit_test(models_as_bytes),
        cmocka_unit_test(loaded_files_are_not_trained),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
