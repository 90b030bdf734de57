/* Every kernel and every position that streams, with and without a decay. Not all pairs are legal. */
#ifndef LL_STREAM_PAIRS_H
#define LL_STREAM_PAIRS_H

#include "models.h"

static const char *const stream_kernels[] = {
    "attention.kernel=softmax",
    "attention.kernel=favor",
    "attention.kernel=favor attention.feature-eps=0.01",
    "attention.kernel=favor attention.features=hyperbolic",
    "attention.kernel=favor attention.features=trigonometric attention.normalise=off",
    "attention.kernel=favor attention.features=gaussian attention.normalise=off",
    "attention.kernel=relu",
    "attention.kernel=relu attention.projection=orthogonal attention.query-multiple=2",
    "attention.kernel=elu1",
    "attention.kernel=exp",
    "attention.kernel=sigmoid",
    "attention.kernel=abs",
    "attention.kernel=square",
    "attention.kernel=gelu attention.normalise=off",
    "attention.kernel=cos attention.normalise=off",
    "attention.kernel=tanh attention.normalise=off",
    "attention.kernel=identity attention.normalise=off",
    "attention.kernel=local attention.window=40",
    "attention.kernel=reformer attention.buckets=6 attention.chunk=7 attention.rounds=3",
    "attention.kernel=value",
    "attention.kernel=gla",
};
static const char *const stream_positions[] = {
    "position.type=none",
    "position.type=sinusoidal",
    "position.type=learned position.max-length=400",
    "position.type=permute",
    "position.type=rope",
    "position.type=rope-linear",
    "position.type=sine-spe position.realizations=8",
    "position.type=sine-spe position.realizations=8 position.gated=on position.shared=on",
    "position.type=conv-spe position.realizations=8 position.taps=9",
    "position.type=relative-s1 position.scales=3",
    "position.type=relative-s2 position.clip=9",
    "position.type=t5",
    "position.type=shaw position.clip=9 position.values=on",
    "position.type=orthogonal",
};
static const char *const stream_decays[] = {"position.decay=none", "position.decay=fixed"};
enum {
    STREAM_KERNELS = sizeof stream_kernels / sizeof *stream_kernels,
    STREAM_POSITIONS = sizeof stream_positions / sizeof *stream_positions
};

/* The model of a pair; NULL: it is not legal. */
static inline ll_model *stream_model(int kernel, int position, int decay, char *keys, size_t size) {
    ll_model *model = NULL;
    snprintf(keys, size, "%s %s %s", stream_kernels[kernel], stream_positions[position], stream_decays[decay]);
    ll_recipe *recipe = tiny_recipe(keys);
    const ll_status status = ll_model_create(&model, recipe);
    ll_recipe_free(recipe);
    if (status == LL_EINVAL) return NULL;
    CHECK_OK(status);
    tiny_shake(model);
    return model;
}

/* Runs `check` on every legal pair, or with LL_FAST on one in seven. Returns how many there were. */
static inline int on_every_streaming_pair(void (*check)(ll_model *model, const char *keys)) {
    int ran = 0, all = 0;
    for (int k = 0; k < STREAM_KERNELS; k++)
        for (int p = 0; p < STREAM_POSITIONS; p++)
            for (int d = 0; d < 2; d++, all++) {
                char keys[512];
                ll_model *model = all % 7 && getenv("LL_FAST") ? NULL : stream_model(k, p, d, keys, sizeof keys);
                if (!model) continue;
                check(model, keys);
                ll_model_free(model);
                ran++;
            }
    return ran;
}

#endif
