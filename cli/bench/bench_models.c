/* Training steps of whole models: forward, backward and update, on random tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { LEAST_TOKENS = 2048, LONG = 100000 /* tokens; for more, softmax takes hours */ };

static ll_status set(ll_recipe *r, const char *key, int value) {
    char text[64];
    snprintf(text, sizeof text, "%s=%d", key, value);
    return ll_recipe_set(r, text);
}

static ll_status run(ll_bench_case *c, double *seconds) {
    return ll_train_step_time(c->shared, 1, seconds);
}

/* A multiply-add is 2 flop, and backward needs two products for each product of forward. */
static ll_status needed(ll_bench_case *c) {
    ll_model *model = NULL;
    const ll_status status = ll_model_create(&model, c->shared);
    if (status) return status;
    /* At the middle of the sequence, whose cost for softmax is the mean over all tokens. */
    c->row.flops = 6 * ll_model_cost(model, (c->T + 1) / 2).multiply_adds * c->T * c->B;
    c->row.tokens = (double)c->T * c->B;
    ll_model_free(model);
    return LL_OK;
}

/* Adds a case of this name if it is requested; its recipe is freed with it. bf16: with products of bfloat16. */
static ll_status add(const ll_bench *b, ll_bench_case *cases, int *n, const ll_bench_model *m, const ll_bench_system *s,
                     int T, int B, int bf16, int usual) {
    ll_bench_case c = {.run = run, .warm = 1, .T = T, .B = B};
    ll_recipe *recipe = NULL;
    if (m->T)
        snprintf(c.row.name, sizeof c.row.name, "train/%s/%s%s", m->name, s->name, bf16 ? "/bf16" : "");
    else
        snprintf(c.row.name, sizeof c.row.name, "train/%s/%s/%d", m->name, s->name, T);
    if (m->T >= LONG && (!b->pattern || !strstr(b->pattern, m->name))) return LL_OK;
    if (!ll_bench_wanted(b, c.row.name, usual)) return LL_OK;
    ll_status status = ll_bench_recipe(&recipe, b, m, s);
    if (!status) status = set(recipe, "train.length", T);
    if (!status) status = set(recipe, "train.batch", B);
    if (!status && bf16) status = ll_recipe_set(recipe, "train.precision=bf16");
    c.shared = recipe;
    if (!status) status = needed(&c);
    if (status)
        ll_recipe_free(recipe);
    else
        cases[(*n)++] = c;
    return status;
}

/* By default: language models with all systems, and one layer for the crossing. */
static int usual(const ll_bench_model *m, const ll_bench_system *s) {
    const int plain =
        !strcmp(s->name, "favor") || !strcmp(s->name, "relu+permute+decay") || !strcmp(s->name, "softmax");
    return (plain || (m->T && !strcmp(s->name, "value"))) && strncmp(m->name, "text", 4) != 0;
}

static ll_status list_cases(const ll_bench *b, ll_bench_case *cases, int *n) {
    static const int lengths[] = {256, 512, 1024, 2048, 4096, 8192};
    ll_status status = LL_OK;
    for (const ll_bench_model *m = ll_bench_model_list; m->name && !status; m++)
        for (const ll_bench_system *s = ll_bench_system_list; s->name && !status; s++) {
            const int decays = strstr(s->name, "decay") != NULL, classifies = !strncmp(m->name, "text", 4);
            if (decays && classifies) continue; /* not causal */
            for (int bf16 = 0; m->T && bf16 < 2 && !status; bf16++)
                status = add(b, cases, n, m, s, m->T, m->B, bf16, usual(m, s) && (!bf16 || !strcmp(s->name, "favor")));
            for (int i = 0; !strcmp(m->name, "layer") && i < 6 && !status; i++) {
                const int T = lengths[i];
                status = add(b, cases, n, m, s, T, T < LEAST_TOKENS ? LEAST_TOKENS / T : 1, 0, usual(m, s));
            }
        }
    return status;
}

ll_status ll_bench_models(ll_bench *b) {
    enum { MOST = 128 };
    ll_bench_case *cases = calloc(MOST, sizeof *cases);
    int n = 0;
    ll_status status = cases ? list_cases(b, cases, &n) : LL_ENOMEM;
    if (!status && n) status = ll_bench_run(b, "training", cases, n);
    for (int i = 0; i < n; i++) ll_recipe_free(cases[i].shared);
    free(cases);
    return status;
}
