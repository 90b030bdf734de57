/* longline bench --dist: what ranks cost. It measures the link between the first rank and the last, training steps,
 * and a step that only communicates. In training steps each rank has one example (weak scaling), or all ranks share
 * the same few (strong scaling). All ranks make the same calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { STRONG = 8 /* examples */, SMALL = 8, LARGE = 1 << 22, MANY = 256 };

typedef struct {
    double seconds, messages, sent; /* of one step; messages and bytes of this rank */
} step_cost;

/* ---- The link ---- */

/* The shortest of some tries, because other programs disturb most of them on a shared machine. */
static ll_status ping(size_t bytes, int count, int times, int tries, double *seconds) {
    *seconds = INFINITY;
    for (int i = 0; i < tries; i++) {
        double once;
        const ll_status status = ll_dist_ping(bytes, count, times, &once);
        if (status) return status;
        *seconds = fmin(*seconds, once);
    }
    return LL_OK;
}

/* The parameters of LogGP (Alexandrov et al. 1995): latency with both overheads, the gap between small messages, and
 * the time of a byte of a large one. */
static ll_status measure_link(int repeats) {
    double small, large, many;
    ll_status status = ping(SMALL, 1, 5, repeats, &small);
    if (!status) status = ping(SMALL, MANY, 1, repeats, &many);
    if (!status) status = ping(LARGE, 1, 1, repeats, &large);
    if (status || ll_dist_ranks().rank) return status;
    printf("bench.dist.latency_us=%.2f\n", 1e6 * small);
    printf("bench.dist.gap_us=%.3f\n", 1e6 * fmax(0, many - small) / (MANY - 1));
    if (large > small)
        printf("bench.dist.gb_per_s=%.4f\n", 1e-9 * LARGE / (large - small));
    else
        ll_print("a large message took no longer than a small one, so that the rate of the link is not known: other "
                 "programs use this machine");
    return LL_OK;
}

/* ---- Steps ---- */

static void end_cost(step_cost *c, const ll_traffic *before, int steps) {
    const ll_traffic after = ll_dist_traffic();
    c->messages = (after.messages - before->messages) / steps;
    c->sent = (after.sent - before->sent) / steps;
}

/* simulate and train make one step more, which is not timed. */
static ll_status simulate(size_t parameters, int layers, double compute, int repeats, step_cost *cost) {
    double time[LL_BENCH_REPEATS];
    const ll_simulated_step r = {parameters, layers, compute};
    const ll_traffic before = ll_dist_traffic();
    const ll_status status = ll_dist_simulate(&r, repeats, time);
    cost->seconds = ll_median(time, repeats);
    end_cost(cost, &before, repeats + 1);
    return status;
}

static ll_status train(ll_recipe *recipe, int examples, int repeats, step_cost *cost) {
    char key[64];
    snprintf(key, sizeof key, "train.batch=%d", examples);
    ll_status status = ll_recipe_set(recipe, key);
    snprintf(key, sizeof key, "dist.shards=%d", examples);
    if (!status) status = ll_recipe_set(recipe, key);
    const ll_traffic before = ll_dist_traffic();
    if (!status) status = ll_train_step_time(recipe, repeats, &cost->seconds);
    end_cost(cost, &before, repeats + 1);
    return status;
}

/* least: the fewest bytes of a step, 2 (N - 1) / N blocks: gradients are summed over ranks, and each rank then has all
 * parameters. */
static void report(const char *what, const step_cost *c, double least, double tokens) {
    printf("bench.dist.%s.seconds=%.6f\n", what, c->seconds);
    if (tokens > 0) printf("bench.dist.%s.tokens_per_second=%.1f\n", what, tokens / c->seconds);
    printf("bench.dist.%s.messages=%.0f\nbench.dist.%s.sent=%.0f\n", what, c->messages, what, c->sent);
    if (least > 0) printf("bench.dist.%s.sent_over_least=%.4f\n", what, c->sent / least);
}

static int number(const ll_recipe *recipe, const char *key) { return atoi(ll_recipe_get(recipe, key)); }

/* compute: seconds that a rank sleeps; 0: it trains. */
static ll_status measure_steps(ll_recipe *recipe, size_t block, double compute, int repeats) {
    const ll_ranks ranks = ll_dist_ranks();
    const int layers = number(recipe, "model.layers"), share = number(recipe, "dist.sequence");
    const int groups = ranks.size > share ? ranks.size / share : 1; /* training refuses a share that does not divide */
    const double least = 2.0 * (ranks.size - 1) / ranks.size * 4 * (double)block, T = number(recipe, "train.length");
    step_cost alone, cost;
    ll_status status = simulate(block, layers, 0, repeats, &alone);
    if (!status && ranks.size > 1) report("exchange", &alone, least, 0);
    if (!status && compute > 0) {
        status = simulate(block, layers, compute, repeats, &cost);
        if (status) return status;
        report("rehearsal", &cost, least, 0);
        printf("bench.dist.rehearsal.hidden=%.3f\n", fmax(0, 1 - (cost.seconds - compute) / alone.seconds));
        return LL_OK;
    }
    if (!status) status = train(recipe, groups, repeats, &cost);
    if (!status) report("weak", &cost, least, T * groups);
    if (status || groups > STRONG) return status;
    status = train(recipe, STRONG, repeats, &cost);
    if (!status) report("strong", &cost, least, T * STRONG);
    return status;
}

ll_status ll_bench_dist(const ll_bench *b, double compute) {
    static const ll_bench_model model = {
        "lm", 256, 1, {"model.layers=6", "model.width=256", "model.heads=4", "model.ff=1024", "train.length=256"}};
    const int repeats = b->repeats ? (int)b->repeats : 5;
    ll_recipe *recipe = NULL;
    ll_model *made = NULL;
    ll_status status = ll_bench_recipe(&recipe, b, &model, &ll_bench_system_list[0]);
    if (!status) status = ll_model_create(&made, recipe);
    const ll_model_sizes size = status ? (ll_model_sizes){0} : ll_model_size(made);
    ll_model_free(made);
    if (!status) printf("bench.dist.ranks=%d\nbench.dist.parameters=%zu\n", ll_dist_ranks().size, size.parameters);
    if (!status && ll_dist_ranks().size > 1) status = measure_link(2 * repeats);
    if (!status) status = measure_steps(recipe, size.block, compute, repeats);
    ll_recipe_free(recipe);
    return status;
}
