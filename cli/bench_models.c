/* Training steps of whole models: forward, backward and update, on random tokens.
 *
 * The model is that of the papers' byte language models: causal, 6 layers of width 512 with 8 heads, feed-forward
 * 1024, 256 tokens. Where linear attention overtakes softmax is measured with one layer of it: all are
 * alike, and embedding and head are small beside one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *const KIND[][4] = {
    {"favor", "attention.kernel=favor", "position.type=none", NULL},
    {"relu+permute+decay", "attention.kernel=relu", "position.type=permute", "position.decay=fixed"},
    {"softmax", "attention.kernel=softmax", "position.type=none", NULL},
    {"identity", "attention.kernel=value", "position.type=none", NULL}, /* what all but attention costs */
};
enum { KINDS = 4, IDENTITY = 3, LEAST_TOKENS = 2048 };

typedef struct {
    ll_recipe *recipe[2][KINDS]; /* whole; one layer */
} recipes;

static ll_status set(ll_recipe *r, const char *key, int value) {
    char text[64];
    snprintf(text, sizeof text, "%s=%d", key, value);
    return ll_recipe_set(r, text);
}

static ll_status create(ll_recipe **out, const ll_bench *b, int kind, int one_layer) {
    static const char *const base[] = {"model.task=lm",          "model.layers=6",  "model.width=512",
                                       "model.heads=8",          "model.ff=1024",   "model.vocab=256",
                                       "attention.num-features=256", "data.format=demo"};
    ll_status status = ll_recipe_create(out);
    for (size_t i = 0; i < sizeof base / sizeof *base && !status; i++) status = ll_recipe_set(*out, base[i]);
    for (int i = 1; i < 4 && KIND[kind][i] && !status; i++) status = ll_recipe_set(*out, KIND[kind][i]);
    if (!status) status = ll_set_all(*out, b->set);
    if (!status && one_layer) status = set(*out, "model.layers", 1);
    return status;
}

static ll_status run(ll_bench_case *c, double *seconds) {
    recipes *r = c->shared;
    ll_recipe *recipe = r->recipe[c->one_layer][c->kind];
    ll_status status = set(recipe, "train.length", c->T);
    if (!status) status = set(recipe, "train.batch", c->B);
    return status ? status : ll_train_step_time(recipe, 1, seconds);
}

/* 2 flop a multiply-add, and backward needs two products for each of forward's. */
static ll_status needed(ll_bench_case *c) {
    recipes *r = c->shared;
    ll_recipe *recipe = r->recipe[c->one_layer][c->kind];
    ll_model *model = NULL;
    ll_status status = set(recipe, "train.length", c->T);
    if (!status) status = set(recipe, "train.batch", c->B);
    if (!status) status = ll_model_create(&model, recipe);
    if (status) return status;
    /* At the middle of the sequence, which for softmax is the mean of all its tokens. */
    c->row.flops = 6 * ll_model_token_cost(model, (c->T + 1) / 2) * c->T * c->B;
    c->row.tokens = (double)c->T * c->B;
    ll_model_free(model);
    return LL_OK;
}

static ll_status list_cases(const ll_bench *b, ll_bench_case *cases, int most, int *n, recipes *r) {
    static const int whole[][2] = {{512, 4}, {4096, 1}}, single[] = {256, 512, 1024, 2048, 4096, 8192};
    ll_status status = LL_OK;
    for (int one = 0; one < 2; one++)
        for (int i = 0; i < (one ? 6 : 2); i++)
            for (int kind = 0; kind < KINDS && *n < most && !status; kind++) {
                ll_bench_case c = {.run = run, .kind = kind, .one_layer = one, .warm = 1, .shared = r};
                c.T = one ? single[i] : whole[i][0];
                c.B = !one ? whole[i][1] : c.T < LEAST_TOKENS ? LEAST_TOKENS / c.T : 1;
                if (one)
                    snprintf(c.row.name, sizeof c.row.name, "train/layer/%s/%d", KIND[kind][0], c.T);
                else
                    snprintf(c.row.name, sizeof c.row.name, "train/%s/%dx%d", KIND[kind][0], c.T, c.B);
                if (!ll_bench_wanted(b, c.row.name, !one || kind != IDENTITY)) continue;
                status = needed(&c);
                if (!status) cases[(*n)++] = c;
            }
    return status;
}

ll_status ll_bench_models(ll_bench *b) {
    enum { MOST = 32 };
    recipes r = {0};
    ll_bench_case *cases = calloc(MOST, sizeof *cases);
    ll_status status = cases ? LL_OK : LL_ENOMEM;
    int n = 0;
    for (int one = 0; one < 2; one++)
        for (int kind = 0; kind < KINDS && !status; kind++) status = create(&r.recipe[one][kind], b, kind, one);
    if (!status) status = list_cases(b, cases, MOST, &n, &r);
    if (!status && n) status = ll_bench_run(b, "training", cases, n);
    for (int i = 0; i < 2 * KINDS; i++) ll_recipe_free(r.recipe[i / KINDS][i % KINDS]);
    free(cases);
    return status;
}
