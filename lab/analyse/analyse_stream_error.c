/* Long streams of every kernel with every position. They are fed in blocks of random sizes and compared with double
 * precision and with tiles. Operators are those of new models. softmax, whose time grows with the square of the length,
 * stops earlier. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/analyse_internal.h"
#include "attention/operator.h"
#include "reference/reference.h"
#include "attention/feature/maps.h"
#include "attention/table.h"
#include "model/config/mechanism.h"
#include "model/model_internal.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "model/network.h"

enum { SQUARE_MOST = 30000 /* tokens for softmax */ };
static const char decay[] = "decay";

/* Is the name in a list separated by commas? NULL: no list. */
static int listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    if (!strcmp(list, "all")) return 1;
    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
        if (!strncmp(at, name, n) && (at[n] == ',' || !at[n])) return 1;
    return 0;
}

/* Checks that every name of a list is in the table; `more` is one further name. */
static ll_status check_list(const char *list, const char *what, const ll_mechanism *(*row)(int), const char *more) {
    for (const char *at = list; list && strcmp(list, "all") && at; at = strchr(at, ','), at += at != NULL) {
        char name[64];
        const char *nearest = more ? more : row(0)->name;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        for (int i = 0; row(i); i++)
            if (ll_edit_distance(row(i)->name, name) < ll_edit_distance(nearest, name)) nearest = row(i)->name;
        const int apart = ll_edit_distance(nearest, name), is_near = 2 * apart <= (int)strlen(name);
        if (apart)
            return ll_fail(LL_EINVAL, "there is no %s \"%s\"%s%s; `longline list` has them all", what, name,
                           is_near ? "; did you mean " : "", is_near ? nearest : "");
    }
    return LL_OK;
}

/* A pair; if the position is past the table's last one, a kernel with decay. */
typedef struct {
    int kernel, position, last;
} pair;

static const char *position_name(const pair *p) {
    return p->position == p->last ? decay : ll_position_at(p->position)->name;
}

/* Without lists: each kernel without a position, and favor and softmax with each position. */
static int wanted(const ll_analysis *how, const pair *p) {
    const char *position = position_name(p);
    const int kernel = how->kernels ? listed(how->kernels, ll_kernel_at(p->kernel)->name) : 1;
    if (how->positions) return kernel && listed(how->positions, position);
    if (how->kernels) return kernel;
    return p->kernel == LL_KERNEL_FAVOR || p->kernel == LL_KERNEL_SOFTMAX || p->position == LL_POSITION_NONE;
}

/* Does the pair stream, and is it another operator than without the position? */
static int streams(const pair *p) {
    const ll_mechanism *kernel = ll_kernel_at(p->kernel);
    if (!kernel->causal || kernel->stream == LL_STREAM_NONE) return 0;
    if (p->position == p->last) return kernel->decay;
    const ll_status status = ll_pair_check(p->kernel, p->position, 1);
    return !status && (!p->position || !(ll_position_row(p->position)->has & LL_EMBEDDED));
}

static ll_status create(ll_model **model, const pair *p, const ll_analysis *how) {
    const ll_map *map = ll_map_of((ll_kernel)p->kernel);
    /* Leaves out sums of weights of both signs: they come near 0, and the quotient then shows only that. */
    const int orthogonal = p->position == LL_POSITION_ORTHOGONAL, either = orthogonal || (map && map->sign);
    char keys[600];
    snprintf(keys, sizeof keys,
             "model.layers=1|model.width=32|model.heads=2|model.ff=1|model.vocab=2|model.task=lm|attention.kernel=%s|"
             "attention.num-features=64|attention.features=%s|attention.window=64|attention.normalise=%s|position.type="
             "%s|position.decay=%s|"
             "position.realizations=16|train.length=64|train.seed=%llu",
             ll_kernel_at(p->kernel)->name, p->kernel == LL_KERNEL_FAVOR && orthogonal ? "gaussian" : "positive",
             either ? "off" : "on", p->position == p->last ? "none" : ll_position_at(p->position)->name,
             p->position == p->last ? "fixed" : "none", (unsigned long long)(how->seed % 1000000000));
    return ll_analyse_model(model, keys);
}

/* Parameters that start at 0 or near it are set to values as after training. */
static void train(ll_model *m, uint64_t seed) {
    static const char *const names[] = {"position.rpe", "position.bias", "position.distance_k", "position.distance_v"};
    for (int i = 0; i < m->count; i++) {
        const size_t n = (size_t)m->param[i].rows * (size_t)m->param[i].cols;
        for (int j = 0; j < 4; j++) {
            if (!strstr(m->param[i].name, names[j])) continue;
            ll_normal_fill(m->param[i].value, n, seed, ll_stream_id(LL_RANDOM_ANALYSE, 48, (uint32_t)i), 0);
        }
    }
}

/* Progress of one pair among all, in tokens. */
typedef struct {
    const ll_analysis *how;
    double before, here, all;
} watch;

static int report(double share, void *arg) {
    const watch *w = arg;
    return w->how->progress ? w->how->progress((w->before + share * w->here) / w->all, w->how->arg) : 0;
}

static int64_t tokens_of(const ll_analysis *how, const pair *p) {
    const int64_t T = how->length ? how->length : how->quick ? 2000 : 20000;
    return p->kernel == LL_KERNEL_SOFTMAX && T > SQUARE_MOST ? SQUARE_MOST : T;
}

static ll_status measure(ll_table *t, const pair *p, watch *w, double worst[2]) {
    ll_model *model = NULL;
    ll_stream_error error;
    char label[LL_TABLE_LABEL];
    ll_status status = create(&model, p, w->how);
    if (status) return status;
    train(model, w->how->seed);
    status = ll_stream_error_of(&error, model->attention[0], tokens_of(w->how, p), w->how->seed, report, w);
    snprintf(label, sizeof label, "%s %s", ll_kernel_at(p->kernel)->name, position_name(p));
    for (int i = 0; !status && i < error.count; i++) {
        status = ll_table_add(t, label, (double[]){(double)error.tokens[i], error.deviation[i], error.tiles[i]});
        worst[0] = ll_worse(worst[0], error.deviation[i]), worst[1] = ll_worse(worst[1], error.tiles[i]);
    }
    ll_model_free(model);
    return status;
}

/* Pair number i of the chosen ones; 0: there are no more. */
static int next(const ll_analysis *how, pair *p) {
    for (p->position++;; p->position = 0, p->kernel++) {
        if (!ll_kernel_at(p->kernel)) return 0;
        for (; p->position <= p->last; p->position++)
            if (wanted(how, p) && streams(p)) return 1;
    }
}

ll_status ll_analyse_stream_error(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"tokens", "deviation", "tiles", NULL};
    static const ll_plot plots[] = {{"stream-error", "Deviation of streams from double precision", "tokens",
                                     "largest difference over largest answer", 0, 1, -1, 1, 1, 1}};
    pair first = {.position = -1};
    double worst[2] = {0};
    watch w = {.how = how};
    while (ll_position_at(first.last)) first.last++;
    ll_status status = check_list(how->kernels, "attention.kernel", ll_kernel_at, NULL);
    if (!status) status = check_list(how->positions, "position.type", ll_position_at, decay);
    for (pair p = first; !status && next(how, &p);) w.all += (double)tokens_of(how, &p);
    if (!status && w.all <= 0)
        status = ll_fail(LL_EINVAL, "stream-error: none of these kernels streams with one of these positions");
    if (!status)
        status = ll_table_create(table, "Streams in random blocks against double precision, and against tiles",
                                 "kernel and position", columns, 1, plots);
    for (pair p = first; !status && next(how, &p); w.before += w.here) {
        w.here = (double)tokens_of(how, &p);
        status = measure(*table, &p, &w, worst);
    }
    if (!status)
        ll_table_verdict(*table,
                         "claim: a stream stays as near to exact arithmetic as rounding allows, and gives what "
                         "tiles give. Largest deviation %.2g; from tiles %.2g",
                         worst[0], worst[1]);
    return status;
}
