/* The models that bench trains and generates with, and their kernels and positions. */
#include "bench/bench.h"

/* lm and the two classifiers are those of docs/performance.md. small is for long streams. `layer` (one layer of lm)
 * gives the length at which linear attention overtakes softmax: all layers are alike, and embedding and output layer
 * cost little beside one. */
#define LM "model.layers=6", "model.width=512", "model.heads=8", "model.ff=1024"
#define SMALL_TEXT                                                                                                     \
    "model.task=classify", "model.layers=2", "model.width=64", "model.heads=2", "model.ff=128", "model.classes=2"
const ll_bench_model ll_bench_model_list[] = {
    {"lm-512", 512, 4, {LM}},
    {"lm-4096", 4096, 1, {LM}},
    {"lm-131072", 131072, 1, {LM}},
    {"text-permuteformer",
     4096,
     1,
     {"model.task=classify", "model.layers=6", "model.width=512", "model.heads=8", "model.ff=2048", "model.classes=2",
      "attention.query-multiple=4"}},
    {"text-small", 4096, 4, {SMALL_TEXT}},
    {"text-small-1048576", 1048576, 1, {SMALL_TEXT}},
    {"layer", 0, 0, {"model.layers=1", "model.width=512", "model.heads=8", "model.ff=1024"}},
    {"lm", 0, 0, {LM}},
    {"small",
     0,
     0,
     {"model.layers=2", "model.width=128", "model.heads=4", "model.ff=512", "attention.num-features=128"}},
    {0},
};

const ll_bench_system ll_bench_system_list[] = {
    {"favor", {"attention.kernel=favor", "position.type=none"}},
    {"elu1", {"attention.kernel=elu1", "position.type=none"}},
    {"relu+permute", {"attention.kernel=relu", "position.type=permute"}},
    {"relu+permute+decay", {"attention.kernel=relu", "position.type=permute", "position.decay=fixed"}},
    {"softmax", {"attention.kernel=softmax", "position.type=none"}},
    {"value", {"attention.kernel=value", "position.type=none"}}, /* the cost of everything but attention */
    {0},
};

ll_status ll_bench_recipe(ll_recipe **recipe, const ll_bench *b, const ll_bench_model *m, const ll_bench_system *s) {
    static const char *const base[] = {"model.vocab=256", "attention.num-features=256", "data.format=demo"};
    ll_status status = ll_recipe_create(recipe);
    for (size_t i = 0; i < sizeof base / sizeof *base && !status; i++) status = ll_recipe_set(*recipe, base[i]);
    for (int i = 0; m->set[i] && !status; i++) status = ll_recipe_set(*recipe, m->set[i]);
    for (int i = 0; s->set[i] && !status; i++) status = ll_recipe_set(*recipe, s->set[i]);
    return status ? status : ll_set_all(*recipe, b->set);
}
