/* longline analyse positions, as pictures: the weight that each position gives to two tokens. */
#include <stdlib.h>
#include <string.h>

#include "lab/analyse_write.h"

enum { CONTENTS = 64, MOST = 64 };

typedef struct {
    int n, tokens;
    ll_panel panel[MOST];
    char label[MOST][40];
    float *P[MOST]; /* (heads, tokens, tokens) each */
} panels;

static void destroy(panels *p) {
    for (int i = 0; i < MOST; i++) free(p->P[i]);
    free(p);
}

static int number(const ll_model *model, const char *key) {
    const char *text = ll_recipe_get(ll_model_recipe(model), key);
    return text ? atoi(text) : 0;
}

/* The weights of one layer: a panel for each head, or only for the first. */
static ll_status add(panels *p, const ll_model *model, int layer, const char *label, int all, int64_t seed) {
    const int heads = number(model, "model.heads"), first = p->n, T = p->tokens;
    const size_t size = (size_t)T * (size_t)T;
    float *P = calloc((size_t)heads * size, sizeof *P);
    if (!P) return LL_ENOMEM;
    p->P[first] = P;
    for (int h = 0; h < (all ? heads : 1) && p->n < MOST; h++) {
        snprintf(p->label[p->n], sizeof p->label[0], all ? "%s head %d" : "%s", label, h);
        p->panel[p->n] = (ll_panel){p->label[p->n], T, T, P + (size_t)h * size};
        p->n++;
    }
    return ll_position_kernel(model, layer, T, CONTENTS, (uint64_t)seed, P);
}

static ll_status add_new(panels *p, const char *position, int64_t seed) {
    char keys[][60] = {"model.layers=1",
                       "model.width=128",
                       "model.heads=4",
                       "attention.kernel=relu",
                       "",
                       "position.max-length=64",
                       ""};
    ll_recipe *recipe = NULL;
    ll_model *model = NULL;
    snprintf(keys[4], sizeof keys[0], "position.type=%s", position);
    snprintf(keys[6], sizeof keys[0], "train.seed=%lld", (long long)seed);
    ll_status status = ll_recipe_create(&recipe);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++) status = ll_recipe_set(recipe, keys[i]);
    if (!status) status = ll_recipe_set(recipe, "train.length=64");
    if (!status) status = ll_model_create(&model, recipe);
    if (!status) status = add(p, model, 0, position, 0, seed);
    ll_recipe_free(recipe);
    ll_model_free(model);
    return status;
}

static ll_status gather(panels *p, const ll_model *model, int64_t seed) {
    ll_status status = LL_OK;
    for (int l = 0; model && l < number(model, "model.layers") && p->n < MOST && !status; l++) {
        char label[24];
        snprintf(label, sizeof label, "layer %d", l);
        status = add(p, model, l, label, 1, seed);
    }
    for (int i = 0; !model && ll_position_at(i) && p->n < MOST && !status; i++) {
        const char *name = ll_position_at(i)->name;
        if (!strcmp(name, "relative-s2")) continue; /* gives no weight by itself */
        if (!ll_pair_legal("relu", name, 1)) status = add_new(p, name, seed);
    }
    return status;
}

int ll_attention_maps_at_positions(const ll_model *model, int tokens, int64_t seed, const char *folder,
                                   const char *ending) {
    panels *p = calloc(1, sizeof *p);
    if (!p) return ll_fail_message("out of memory");
    p->tokens = tokens;
    char path[4200];
    snprintf(path, sizeof path, "%s/positions-matrix.%s", folder, ending);
    ll_status status = gather(p, model, seed);
    const ll_heat_map map = {.title = "Weights that a position alone gives",
                             .x_label = "across: key, the token that is read",
                             .y_label = "down: query, the token that reads",
                             .across = model ? number(model, "model.heads") : 0,
                             .shades = LL_SHADES_RANGE,
                             .n = p->n,
                             .panels = p->panel};
    const int heads = model ? number(model, "model.heads") * number(model, "model.layers") : p->n;
    if (!status && p->n < heads) ll_print("%s shows the first %d of %d heads", path, p->n, heads);
    if (!status) status = ll_heat_map_write(&map, path);
    if (!status) ll_analysis_wrote("figure", path);
    destroy(p);
    return status ? ll_failed(status, NULL) : -1;
}
