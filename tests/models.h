/* Small models for tests: made from a few keys, with parameters that have no special initial values. */
#ifndef LL_MODELS_H
#define LL_MODELS_H

#include "base/random.h"
#include "oracle/oracle_model.h"
#include "test.h"

/* Keys separated by blanks, on top of a tiny causal model. */
static inline ll_recipe *tiny_recipe(const char *more) {
    static const char basis[] =
        "model.vocab=11 model.classes=5 model.layers=2 model.width=16 model.heads=2 model.ff=24 "
        "model.init-std=0.3 attention.num-features=12 train.seed=7 train.length=4";
    ll_recipe *recipe = NULL;
    char text[2048];
    CHECK_OK(ll_recipe_create(&recipe));
    snprintf(text, sizeof text, "%s %s", basis, more);
    for (char *rest = text, *key; (key = strtok_r(rest, " ", &rest));) CHECK_OK(ll_recipe_set(recipe, key));
    return recipe;
}

/* Parameters that start at 0 or 1 get random values, too. */
static inline void tiny_shake(ll_model *model) {
    for (int i = 0; i < model->count; i++) {
        const ll_param *p = &model->param[i];
        for (int j = 0; (p->cols == 1 || strstr(p->name, "position.")) && j < p->rows * p->cols; j++)
            model->data[p->offset + (size_t)j] += ll_uniform(3, 5, p->offset + (size_t)j) - 0.5f;
    }
}

static inline ll_model *tiny_model(const char *more) {
    ll_recipe *recipe = tiny_recipe(more);
    ll_model *model = NULL;
    CHECK_OK(ll_model_create(&model, recipe));
    ll_recipe_free(recipe);
    tiny_shake(model);
    return model;
}

/* A tensor's gradient against `scale` times central differences, at `most` of its elements. */
static inline void check_tensor(oracle_model *o, const char *keys, const ll_param *p, const float *grad, double scale,
                                size_t most) {
    enum { ROOM = 24 };
    const size_t n = (size_t)p->rows * (size_t)p->cols, count = n < most ? n : most;
    float got[ROOM + 1];
    /* Biases of keys have no gradient under softmax but rounding, which is some 2^-22 here. */
    double expected[ROOM + 1], largest = strstr(p->name, "key.bias") ? 4e-3 : 0;
    assert_true(most <= ROOM);
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)grad[p->offset + i]));
    for (size_t i = 0; i < count; i++) {
        const size_t at = p->offset + (n <= most ? i : ll_below((uint32_t)n, 9, p->offset, i));
        got[i] = grad[at];
        expected[i] = oracle_model_difference(o, at) * scale;
    }
    got[count] = (float)largest; /* errors count in units of the largest element */
    expected[count] = largest;
    char what[600];
    snprintf(what, sizeof what, "%s of {%s}", p->name, keys);
    check_close(what, count + 1, got, expected, 2e-4);
}

/* A loss is the oracle's. The gradient of half of it, which was added to ones, is half of its central difference, at
 * `most` elements of each tensor. */
static inline void check_loss(oracle_model *o, const char *keys, const ll_model *m, double loss, float *grad,
                              size_t most) {
    const float got = (float)loss;
    const double expected = oracle_model_loss(o);
    check_close(keys, 1, &got, &expected, 1e-5);
    for (size_t i = 0; i < m->size; i++) grad[i] -= 1;
    for (int i = 0; i < m->count; i++) check_tensor(o, keys, &m->param[i], grad, 0.5, most);
}

/* Integers in 0..range-1; with `holes` some of them are -1. */
static inline void random_ints(int *x, int n, int range, int holes, uint64_t seed) {
    for (int i = 0; i < n; i++) {
        x[i] = (int)ll_below((uint32_t)range, seed, 77, (uint64_t)i);
        if (holes && ll_below(5, seed, 78, (uint64_t)i) == 0) x[i] = -1;
    }
}

#endif
