/* Attention by itself: one sequence, 8 heads, values of 64, as in the papers' base models.
 *
 *   favor    queries and keys of 64 through 256 random features
 *   relu     queries and keys of 256, which a layer would have projected itself
 *   softmax  queries and keys of 64
 *   local    the same in windows of 128; only where asked for, as all other kernels of `longline list`
 *   favor+permute-random, relu+permute-random: with position.cycles = random; only where asked for
 *   favor-one-head, relu-one-head: what is shared out within a head; only where asked for
 *
 * Needed work is what the operator's descriptor says of its cost: the products that its definition asks for, 2 flop a
 * multiply-add. Backward needs two products for each of forward's. Whatever is done besides (products within a causal
 * tile, features made again by backward) does not count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

enum { H = 8, E = 64, WIDE = 256, SMALL = 64, WINDOW = 128, RANK = 256, LANDMARKS = 64, BUCKET = 64, BLOCK = 1000003 };
enum { IN_CACHE = 4096 }; /* Up to this length the caches depend on the case before, so such cases run twice. */

/* The cases of the papers and those that answer a question, by names of the table of kernels and positions. Every other
 * kernel of the table follows, alone, on request. */
typedef struct {
    const char *name, *of, *with; /* kernel and position */
    int decay, heads;             /* heads: 0 = H */
    int random;                   /* position.cycles = random */
    int gated;                    /* the call brings gates */
    ll_kernel kernel;
    ll_position position;
} op_case;
static const op_case CHOSEN[] = {
    {"favor", "favor", "none"},
    {"favor+permute", "favor", "permute"},
    {"relu", "relu", "none"},
    {"relu+permute", "relu", "permute"},
    {"relu+permute+decay", "relu", "permute", .decay = 1},
    {"softmax", "softmax", "none"},
    /* Only on request: */
    {"elu1", "elu1", "none"},
    {"relu+permute2d", "relu", "permute2d"},
    {"favor+permute-random", "favor", "permute", .random = 1},
    {"relu+permute-random", "relu", "permute", .random = 1},
    {"favor+rope", "favor", "rope"},
    {"favor+rope-linear", "favor", "rope-linear"},
    {"relu+rope-linear", "relu", "rope-linear"},
    {"elu1+rope-linear", "elu1", "rope-linear"},
    {"favor+sine-spe", "favor", "sine-spe"},
    {"favor+conv-spe", "favor", "conv-spe"},
    {"gla", "gla", "none", .gated = 1},
    {"gla+rope", "gla", "rope", .gated = 1},
    {"local", "local", "none"},
    {"value", "value", "none"},
    {"favor-one-head", "favor", "none", .heads = 1},
    {"relu-one-head", "relu", "none", .heads = 1},
};
enum { CHOICES = sizeof CHOSEN / sizeof *CHOSEN, USUAL = 6, SINES = 5, TAPS = 128, IMAGE = 64 };

/* What may run: the chosen cases, then the rest of the table. */
static op_case KIND[LL_BENCH_KINDS];
static int KINDS;

static int number_of(const ll_mechanism *at(int i), const char *name) {
    int i = 0;
    while (strcmp(at(i)->name, name)) i++;
    return i;
}

static void add_kind(const op_case *s) {
    op_case *k = &KIND[KINDS++];
    *k = *s;
    k->kernel = (ll_kernel)number_of(ll_kernel_at, s->of);
    k->position = (ll_position)number_of(ll_position_at, s->with);
}

static void list_kinds(void) {
    KINDS = 0;
    for (int i = 0; i < CHOICES; i++) add_kind(&CHOSEN[i]);
    const ll_mechanism *k;
    for (int i = 0; (k = ll_kernel_at(i)) && KINDS < LL_BENCH_KINDS; i++) {
        int chosen = 0;
        for (int c = 0; c < CHOICES; c++) chosen |= !strcmp(CHOSEN[c].of, k->name);
        if (!chosen) add_kind(&(op_case){k->name, k->name, "none"});
    }
}

/* The memory that all cases share. */
typedef struct {
    float *block; /* (BLOCK) random numbers with which everything is filled */
    float *q, *k, *v, *g, *y, *dq, *dk, *dv, *gate, *dgate, *saved;
    int32_t permutation[H * WIDE], random[H * WIDE], half[H * WIDE / 2]; /* half: of the features of one axis */
    float decay[H], filter[H * SMALL * TAPS]; /* filters as small as those of new models */
} tensors;

static int query_size(int kind) { return KIND[kind].kernel == LL_KERNEL_RELU ? WIDE : SMALL; }

static int heads(int kind) { return KIND[kind].heads ? KIND[kind].heads : H; }

static ll_status create_op(ll_attention **op, const ll_bench_case *c) {
    const tensors *t = c->shared;
    ll_attention_config a = ll_attention_default();
    a.kernel = KIND[c->kind].kernel;
    a.causal = c->causal;
    a.H = heads(c->kind), a.D = query_size(c->kind), a.E = E;
    if (a.kernel == LL_KERNEL_FAVOR) a.M = WIDE, a.projection = t->block;
    a.approximate = (ll_approximate_config){.window = WINDOW, .length = c->T, .rank = RANK, .landmarks = LANDMARKS,
                                            .iterations = 6, .buckets = 2 * ((c->T + 2 * BUCKET - 1) / (2 * BUCKET)),
                                            .chunk = BUCKET, .rounds = 2, .seed = 1};
    a.approximate.linformer_k = a.approximate.linformer_v = t->q ? t->q : t->block; /* (T, RANK): there are as many */
    a.input_scale = a.kernel == LL_KERNEL_FAVOR                                ? 0.35355339f
                    : ll_kernel_at((int)a.kernel)->decay                       ? 1
                                                                               : 0.125f;
    a.feature_eps = a.kernel == LL_KERNEL_RELU ? 1e-3f : 0;
    if (KIND[c->kind].gated) a.den = LL_DEN_NONE;
    a.position = KIND[c->kind].position;
    if (a.position == LL_POSITION_PERMUTE) a.permutation = KIND[c->kind].random ? t->random : t->permutation;
    if (a.position == LL_POSITION_PERMUTE2D) a.permutation = t->half;
    a.width = IMAGE, a.height = (c->T + IMAGE - 1) / IMAGE;
    if (a.position != LL_POSITION_PERMUTE2D) a.width = a.height = 0;
    a.encoding.realizations = SMALL, a.encoding.sines = SINES, a.encoding.taps = TAPS, a.encoding.seed = 1;
    a.encoding.freqs = a.encoding.offsets = a.encoding.gains = t->block;
    a.encoding.filter_q = a.encoding.filter_k = t->filter;
    if (KIND[c->kind].decay && c->causal) a.decay = t->decay;
    return ll_attention_create(op, &a);
}

/* (1, heads, T, n), with the layout that a model has. */
static ll_view view(const ll_bench_case *c, float *data, int n) {
    const size_t row = (size_t)heads(c->kind) * (size_t)n;
    return (ll_view){data, (size_t)c->T * row, (size_t)n, row};
}

static ll_status run(ll_bench_case *c, double *seconds) {
    const tensors *t = c->shared;
    const int D = query_size(c->kind);
    ll_attention *op = NULL;
    ll_status status = create_op(&op, c);
    if (status) return status;
    ll_attention_call call = {
        .B = 1,
        .T = c->T,
        .S = c->T,
        .q = view(c, t->q, D),
        .k = view(c, t->k, D),
        .v = view(c, t->v, E),
        .y = view(c, t->y, E),
        .saved = c->backward ? t->saved : NULL,
        .g = view(c, t->g, E),
        .dq = view(c, t->dq, D),
        .dk = view(c, t->dk, D),
        .dv = view(c, t->dv, E),
    };
    if (KIND[c->kind].gated) call.gate = view(c, t->gate, 1), call.dgate = view(c, t->dgate, 1);
    const size_t saved = ll_attention_saved(op, &call) * sizeof(float);
    for (int warm = c->warm; warm >= 0 && !status; warm--) {
        const double start = ll_now();
        status = ll_attention_forward(op, &call);
        if (!status && c->backward) status = ll_attention_backward(op, &call);
        *seconds = ll_now() - start;
    }
    if (!c->runs && c->backward) c->row.bytes = (double)saved; /* its memory has been touched before */
    ll_attention_free(op);
    return status;
}

/* The products that the operator's definition asks for, in flop, of a sequence. */
static double needed(const ll_bench_case *c) {
    ll_attention *op = NULL;
    if (create_op(&op, c)) return 0;
    const double each = ll_attention_cost(op, c->causal ? (c->T + 1) / 2.0 : c->T, NULL);
    ll_attention_free(op);
    return 2 * each * c->T * (c->backward ? 3 : 1);
}

/* ---- Which cases ---- */

static double most_saved(const ll_bench_case *cases, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) {
        ll_attention *op = NULL;
        if (!cases[i].backward || create_op(&op, &cases[i])) continue;
        most =
            fmax(most, (double)ll_attention_saved(op, &(ll_attention_call){.B = 1, .T = cases[i].T, .S = cases[i].T}));
        ll_attention_free(op);
    }
    return most;
}

/* Of the usual systems, without a pattern: softmax runs only where it does not take minutes. The figure needs a few
 * more lengths. */
static int usual(const ll_bench *b, const ll_bench_case *c) {
    const int kind = c->kind, T = c->T;
    const int softmax = KIND[kind].kernel == LL_KERNEL_SOFTMAX;
    int listed = 0;
    for (int i = 0; i < b->lengths; i++) listed |= b->length[i] == T;
    if (listed && (!softmax || c->row.flops < 2.5e11)) return 1;
    const int shown = !strcmp(KIND[kind].name, "relu+permute") || kind == 0 || softmax;
    return b->figure && c->causal && c->backward && shown && (!softmax || T <= 8192);
}

static int add_length(int *length, int n, int T) {
    for (int i = 0; i < n; i++)
        if (length[i] == T) return n;
    length[n] = T;
    return n + 1;
}

/* Systems that are compared are neighbours, so that they run in the same minute. */
static int list_cases(const ll_bench *b, ll_bench_case *cases, int most, tensors *t) {
    int length[LL_BENCH_MOST], lengths = 0, n = 0;
    for (int i = 0; i < b->lengths; i++) lengths = add_length(length, lengths, b->length[i]);
    for (int T = 256; b->figure && T <= 65536; T *= 2) lengths = add_length(length, lengths, T);
    for (int form = 0; form < 4; form++)
        for (int i = 0; i < lengths; i++)
            for (int kind = 0; kind < KINDS && n < most; kind++) {
                const int causal = form / 2, backward = form % 2, T = length[i];
                ll_bench_case c = {
                    .run = run, .kind = kind, .causal = causal, .backward = backward, .T = T, .shared = t};
                c.warm = T <= IN_CACHE;
                if (!causal && (KIND[kind].decay || !ll_kernel_at((int)KIND[kind].kernel)->whole)) continue;
                if (causal && !(ll_kernel_at((int)KIND[kind].kernel)->causal &&
                                ll_position_at((int)KIND[kind].position)->causal))
                    continue;
                snprintf(c.row.name, sizeof c.row.name, "attention/%s/%s/%s/%d", KIND[kind].name,
                         causal ? "causal" : "bidir", backward ? "fwdbwd" : "fwd", T);
                c.row.tokens = T;
                if (!ll_bench_wanted(b, c.row.name, kind < USUAL)) continue;
                c.row.flops = needed(&c);
                if (b->pattern || usual(b, &c)) cases[n++] = c;
            }
    return n;
}

/* ---- Memory ---- */

static double floats_for(const ll_bench_case *c) {
    const double row = (double)heads(c->kind) * c->T;
    return row * (2.0 * query_size(c->kind) + 2 * E) * (c->backward ? 2 : 1);
}

/* Leaves out cases for which this machine has not enough memory. */
static int keep_possible(ll_bench *b, ll_bench_case *cases, int n) {
    const double limit = 0.8 * ll_memory_available() / sizeof(float);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (floats_for(&cases[i]) <= limit)
            cases[kept++] = cases[i];
        else
            ll_print("%s is left out: it needs %.0f MiB", cases[i].row.name, floats_for(&cases[i]) * 4 / 1048576);
    }
    b->left_out += n - kept;
    return kept;
}

/* Memory of n floats, touched: filled with random numbers, which repeat, or with zeros. */
static float *fill(const float *block, double floats) {
    const size_t n = ((size_t)floats + 31) / 16 * 16;
    float *p = ll_bench_floats(n);
    if (!p) return NULL;
    memset(p, 0, n * sizeof *p);
    for (size_t i = 0; block && i < n; i += BLOCK) memcpy(p + i, block, (n - i < BLOCK ? n - i : BLOCK) * sizeof *p);
    return p;
}

static unsigned below(uint64_t *state, unsigned n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % n);
}

/* The same numbers each time: sums of four with variance 1, which is near enough to normal. Permutations are those of a
 * model, and decays the usual ones. */
static void draw(tensors *t) {
    uint64_t s = 1;
    for (int i = 0; i <= BLOCK; i++) {
        double x = 0;
        for (int k = 0; k < 4; k++) x += below(&s, 1 << 24) / (double)(1 << 24) - 0.5;
        t->block[i] = (float)(x * 1.7320508);
    }
    for (int i = 0; i < H * SMALL * TAPS; i++) t->filter[i] = t->block[i] / 8; /* sqrt(TAPS / 2) */
    for (int h = 0; h < H; h++) {
        t->decay[h] = (float)(1 / (1 + exp(-2 - 3.0 * h / H)));
        ll_permutation_long(t->permutation + h * WIDE, WIDE, h);
        ll_permutation_random(t->random + h * WIDE, WIDE, 1, 0, h);
        ll_permutation_long(t->half + h * WIDE / 2, WIDE / 2, h);
    }
}

static void tensors_free(tensors *t) {
    float *all[] = {t->block, t->q, t->k, t->v, t->g, t->y, t->dq, t->dk, t->dv,
                    t->gate, t->dgate, t->saved};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(t);
}

/* As large as the largest case needs. */
static int tensors_fill(tensors *t, const ll_bench_case *cases, int n) {
    double query = 0, value = 0, dquery = 0, dvalue = 0;
    for (int i = 0; i < n; i++) {
        const double row = (double)heads(cases[i].kind) * cases[i].T;
        query = fmax(query, row * query_size(cases[i].kind));
        value = fmax(value, row * E);
        if (!cases[i].backward) continue;
        dquery = fmax(dquery, row * query_size(cases[i].kind));
        dvalue = fmax(dvalue, row * E);
    }
    t->q = fill(t->block, query), t->k = fill(t->block + 1, query - 1);
    t->v = fill(t->block, value), t->y = fill(NULL, value), t->g = fill(t->block, dvalue);
    t->dq = fill(NULL, dquery), t->dk = fill(NULL, dquery), t->dv = fill(NULL, dvalue);
    t->gate = fill(t->block, value / E), t->dgate = fill(NULL, value / E);
    for (double i = 0; t->gate && i < value / E; i++) t->gate[(size_t)i] = -fabsf(t->gate[(size_t)i]) / 16;
    t->saved = fill(NULL, most_saved(cases, n));
    return t->q && t->k && t->v && t->y && t->g && t->dq && t->dk && t->dv && t->gate &&
           t->dgate && t->saved;
}

ll_status ll_bench_ops(ll_bench *b) {
    enum { MOST = LL_BENCH_ROWS };
    list_kinds();
    tensors *t = calloc(1, sizeof *t);
    ll_bench_case *cases = calloc(MOST, sizeof *cases);
    ll_status status = LL_ENOMEM;
    if (t && cases && (t->block = malloc((BLOCK + 1) * sizeof(float)))) {
        draw(t);
        const int n = keep_possible(b, cases, list_cases(b, cases, MOST, t));
        status = LL_OK;
        if (n && !tensors_fill(t, cases, n)) status = LL_ENOMEM;
        if (n && !status) status = ll_bench_run(b, "attention", cases, n);
    }
    if (t) tensors_free(t);
    free(cases);
    return status;
}
