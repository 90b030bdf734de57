/* The weight that a position alone gives to a distance. The same random vector x stands at every token, so the weight
 * of token j for token i comes from the position alone. Positions in attention are measured through an operator whose
 * features are x itself and whose sums are not divided; positions at the embedding through their vectors. A translation
 * invariant position gives the same weight along each diagonal. A monotonic one gives less weight to larger
 * distances. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/analyse_internal.h"
#include "attention/feature/feature_map.h"
#include "attention/position/premap.h"
#include "model/config/mechanism.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/network.h"

/* ---- The weights ---- */

/* The operator's position, with features x and without a divisor; nothing else but the decay stays. */
static ll_attention_config bare(const ll_attention *op, int T) {
    ll_attention_config c = op->premap ? op->premap->c : op->c;
    if (ll_position_row((int)c.position)->has & LL_HAS_FEATURES) c.D = ll_feature_count(&op->c);
    c.kernel = LL_KERNEL_IDENTITY, c.features = LL_FEATURES_POSITIVE;
    c.M = 0, c.projection = NULL;
    c.decay = op->c.decay, c.causal = c.decay != NULL;
    c.input_scale = 1, c.feature_eps = 0, c.den = LL_DEN_NONE, c.den_eps = 0;
    c.E = T;
    return c;
}

/* P (H, T, T) += <x at i, x at j>, for one draw of x for every head. */
static ll_status add_draw(const ll_attention *op, const ll_attention_config *c, int T, uint64_t seed, int draw,
                          float *x, float *A, float *P) {
    const size_t D = (size_t)c->D, all = (size_t)c->H * (size_t)T * (size_t)T;
    ll_normal_fill(x, (size_t)c->H * D, seed, ll_stream_id(LL_RANDOM_ANALYSE, 32, (uint32_t)draw), 0);
    const ll_view same = {x, 0, D, 0}; /* every token has the head's vector */
    const ll_status status = ll_attention_matrix(op, same, same, (ll_view){0}, T, T, 0, A);
    for (size_t i = 0; i < all && !status; i++) P[i] += A[i];
    return status;
}

static ll_status in_attention(const ll_model *m, int layer, int T, int contents, uint64_t seed, float *P) {
    const ll_attention_config c = bare(m->attention[layer], T);
    ll_attention *op = NULL;
    ll_status status = ll_attention_create(&op, &c);
    float *x = ll_alloc((size_t)c.H * (size_t)c.D, sizeof *x);
    float *A = ll_alloc((size_t)c.H * (size_t)T * (size_t)T, sizeof *A);
    if (!status && (!x || !A)) status = LL_ENOMEM;
    for (int i = 0; i < contents && !status; i++) status = add_draw(op, &c, T, seed, i, x, A, P);
    ll_free(x), ll_free(A);
    ll_attention_free(op);
    return status;
}

/* <e + p_i, e + p_j>, averaged over the model's token vectors e with random signs: |e|^2 + <p_i, p_j>. */
static ll_status in_embedding(const ll_model *m, int T, float *P) {
    const ll_model_config *c = m->c;
    const size_t C = (size_t)c->model.width, heads = (size_t)c->model.heads, n = (size_t)T;
    const size_t first = (size_t)(c->position.offset + c->position.cls); /* row of the first token in the table */
    const float *tokens = ll_param_at(m, m->at.embedding);
    float *p = ll_alloc(n * C, sizeof *p);
    double content = 0;
    if (!p) return LL_ENOMEM;
    for (size_t i = 0; i < C * (size_t)c->model.vocab; i++)
        content += (double)tokens[i] * (double)tokens[i] / (double)c->model.vocab;
    if (c->position.type == LL_POSITION_SINUSOIDAL) ll_sinus(m, p, T, 0);
    if (c->position.type == LL_POSITION_LEARNED)
        memcpy(p, ll_param_at(m, ll_top_stack(m)->at.position) + first * C, n * C * sizeof *p);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = content;
            for (size_t e = 0; e < C; e++) sum += (double)p[i * C + e] * (double)p[j * C + e];
            for (size_t h = 0; h < heads; h++) P[(h * n + i) * n + j] = (float)sum;
        }
    ll_free(p);
    return LL_OK;
}

/* Does the position give a weight by itself? */
static ll_status check_position(const ll_model *m) {
    const ll_mechanism_row *row = ll_position_row(m->c->position.type);
    if (m->stacks > 1)
        return ll_fail(LL_EINVAL, "model.task = seq2seq has two stacks; only models with one can be analysed");
    if (m->c->position.type && row->has & LL_EMBEDDED && m->at.embedding < 0)
        return ll_fail(LL_EINVAL,
                       "position.type = %s is measured beside the vectors of tokens, and with model.patch there are "
                       "none",
                       row->about.name);
    if (m->c->position.type == LL_POSITION_T5 || m->c->position.type == LL_POSITION_SHAW)
        return ll_fail(LL_EINVAL,
                       "position.type = %s adds to logits, and has no weight by itself; `longline report` shows what "
                       "it adds",
                       row->about.name);
    if (m->c->position.type == LL_POSITION_RELATIVE_S2)
        return ll_fail(LL_EINVAL,
                       "position.type = %s has vectors in place of keys, whose mean weight is 0; `longline report` "
                       "shows them",
                       row->about.name);
    return LL_OK;
}

static ll_status check_tokens(int T) {
    if (T >= 1 && T <= LL_POSITION_KERNEL_LONGEST) return LL_OK;
    return ll_fail(LL_EINVAL, "weights of %d tokens: must be 1 to %d", T, LL_POSITION_KERNEL_LONGEST);
}

ll_status ll_position_kernel(const ll_model *m, int layer, int T, int contents, uint64_t seed, float *P) {
    const ll_model_config *c = m->c;
    const size_t heads = (size_t)c->model.heads, n = (size_t)T;
    ll_status status = check_position(m);
    if (status) return status;
    if (layer < 0 || layer >= c->model.layers)
        return ll_fail(LL_EINVAL, "layer %d is not in 0..%d", layer, c->model.layers - 1);
    if (contents < 1) return ll_fail(LL_EINVAL, "weights of %d contents: at least 1 is needed", contents);
    status = check_tokens(T);
    if (status) return status;
    if (T > ll_position_limit(&c->position))
        return ll_fail(LL_EINVAL, "learned positions end at %d tokens (position.max-length)",
                       (int)ll_position_limit(&c->position));
    memset(P, 0, heads * n * n * sizeof *P);
    const int embedded = c->position.type && ll_position_row(c->position.type)->has & LL_EMBEDDED;
    status = embedded ? in_embedding(m, T, P) : in_attention(m, layer, T, contents, seed, P);
    for (size_t h = 0; h < heads && !status; h++) {
        double diagonal = 0;
        for (size_t i = 0; i < n; i++) diagonal += (double)P[(h * n + i) * n + i] / (double)n;
        for (size_t i = 0; i < n * n; i++) P[h * n * n + i] = (float)((double)P[h * n * n + i] / diagonal);
    }
    return status;
}

/* ---- Statistics of the weights ---- */

typedef struct {
    int T, reach;
    double *weight, *spread; /* (reach + 1) means over heads, by distance */
    double invariance, monotonicity;
} profile;

/* Are they equal but for rounding? Weights of far tokens are small, so that only the ratio says it. */
static int same(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

/* Ranks of y (n), the largest first; equal values share the mean rank. */
static double rank_of(const double *y, int n, int i) {
    double rank = 0;
    for (int k = 0; k < n; k++) rank += same(y[k], y[i]) ? 0.5 * (k != i) : y[k] > y[i];
    return rank;
}

/* Spearman's correlation between nearness and weight: 1 if every step away has less weight. */
static double monotonicity(const double *y, int n) {
    double xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        const double a = i - 0.5 * (n - 1), b = rank_of(y, n, i) - 0.5 * (n - 1);
        xy += a * b, xx += a * a, yy += b * b;
    }
    return yy > 0 ? xy / sqrt(xx * yy) : 0;
}

/* Adds the matrix of one head: token i reads token i - d. */
static void add_head(profile *p, const float *P, int heads, double *row) {
    double off = 0, all = 0;
    for (int d = 0; d <= p->reach; d++) {
        ll_mean m = {0};
        for (int i = d; i < p->T; i++) {
            const double w = (double)P[(size_t)i * (size_t)p->T + (size_t)(i - d)];
            ll_mean_add(&m, w);
            all += w * w;
        }
        row[d] = m.mean;
        p->weight[d] += m.mean / heads;
        p->spread[d] += sqrt(m.square / m.n) / heads;
        off += m.square;
    }
    p->invariance += sqrt(off / all) / heads;
    p->monotonicity += monotonicity(row, p->reach + 1) / heads;
}

static ll_status measure(ll_table *t, const char *label, const ll_model *m, int layer, int T, const ll_analysis *how) {
    const int heads = m->c->model.heads;
    const size_t n = (size_t)T;
    profile p = {.T = T, .reach = T / 2};
    float *P = ll_alloc((size_t)heads * n * n, sizeof *P);
    double *rows = ll_alloc(3 * (n + 1), sizeof *rows);
    ll_status status = P && rows ? LL_OK : LL_ENOMEM;
    if (!status) {
        p.weight = rows, p.spread = rows + n + 1;
        status = ll_position_kernel(m, layer, T, how->repeats ? how->repeats : how->quick ? 4 : 64, how->seed, P);
    }
    for (int h = 0; h < heads && !status; h++) add_head(&p, P + (size_t)h * n * n, heads, rows + 2 * (n + 1));
    for (int d = 0; d <= p.reach && !status; d++)
        status = ll_table_add(
            t, label, (double[]){d, p.weight[d], p.spread[d], d ? NAN : p.invariance, d ? NAN : p.monotonicity});
    ll_free(P), ll_free(rows);
    return status;
}

static ll_status fresh(ll_model **model, const char *position, const char *decay, int T, const ll_analysis *how) {
    char keys[500];
    snprintf(keys, sizeof keys,
             "model.layers=1|model.width=256|model.heads=8|model.ff=1|model.vocab=256|attention.kernel=relu|"
             "position.type=%s|position.decay=%s|position.max-length=%d|train.length=%d|train.seed=%llu",
             position, decay, T, T, (unsigned long long)(how->seed % 1000000000));
    return ll_analyse_model(model, keys);
}

/* New models of every position in the table that is legal in causal linear attention and gives a weight by itself, and
 * of the decay. */
static ll_status all_positions(ll_table *t, int T, const ll_analysis *how) {
    int count = 0, done = 0;
    while (ll_position_row(count)) count++;
    ll_status status = LL_OK;
    for (int i = 0; i <= count && !status; i++) {
        const char *name = i < count ? ll_position_row(i)->about.name : "none";
        if (i < count && (i == LL_POSITION_RELATIVE_S2 || ll_pair_check(LL_KERNEL_RELU, i, 1))) continue;
        ll_model *model = NULL;
        status = fresh(&model, name, i < count ? "none" : "fixed", T, how);
        if (!status) status = measure(t, i < count ? name : "decay", model, 0, T, how);
        ll_model_free(model);
        if (!status) status = ll_analyse_step(how, ++done, count + 1);
    }
    return status;
}

ll_status ll_analyse_positions(ll_table **table, const ll_analysis *how) {
    static const char *const columns[] = {"distance", "weight", "spread", "invariance", "monotonicity", NULL};
    static const ll_plot plots[] = {{"positions", "Weight that a position gives to a distance", "tokens back",
                                     "weight, 1 for a token itself; band: spread along the diagonal", 0, 1, 2, 0, 0}};
    const int T = how->length ? how->length : how->quick ? 32 : 128;
    ll_status status = check_tokens(T);
    if (!status)
        status = ll_table_create(table, "Weights by distance, and how they vary along a diagonal", "position", columns,
                                 1, plots);
    if (status) return status;
    if (!how->model) {
        ll_table_verdict(*table, "claim: relative positions are translation invariant (invariance 0: no spread along "
                                 "diagonals), stochastic ones up to the noise of their realizations");
        return all_positions(*table, T, how);
    }
    for (int l = 0; l < how->model->c->model.layers && !status; l++) {
        char label[LL_TABLE_LABEL];
        snprintf(label, sizeof label, "layer %d", l);
        status = measure(*table, label, how->model, l, T, how);
        if (!status) status = ll_analyse_step(how, l + 1, how->model->c->model.layers);
    }
    return status;
}
