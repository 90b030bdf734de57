/* Linear attention: distributes the heads of a call over the threads. One (sequence, head) is one task, unless threads
 * would have no work. */
#include "attention/linear/linear.h"

#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/parallel.h"

enum { FEW_NUMBERS = 128 }; /* features and values of a token */

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    int backward, tile, chunk, threads;
    size_t scratch; /* floats of a worker */
    float *pool;    /* (workers, scratch) */
    float *shared;  /* causal: for heads that all threads work on */
    /* Of queries and of keys: */
    ll_top *top[2];  /* (B H) largest exponents, for the released stabilisers; or NULL */
    ll_top *best;    /* (B H) the keys' best, for all heads; or NULL */
    double *dtop[2]; /* (B H) gradients of those */
    int side;        /* whose largest exponents are computed now */
    double *ddecay;  /* (B H) */
} linear_call;

/* Causal scans save a state at the start of each chunk, except for the first chunk of a sequence. Its index is that of
 * the chunk of the row in which it starts, so that packed sequences never share one. Bidirectional scans save the whole
 * sum. */
static int chunk_tokens(int tile) { return tile * (tile <= 16 ? 16 : LL_TILE_MOST / tile); }

/* Tokens of a tile. A causal forward pass takes more of them. Not with running features, whose exponents backward finds
 * again, tile by tile: there both passes have the same tiles. In both directions twice as many rows stay in L1 where
 * features and values are few. */
static int tile_tokens(const ll_attention *op, int backward) {
    const ll_feature_map *map = ll_linear_map(op);
    if (op->tile) return op->tile;
    if (!op->c.causal) return op->usual_tile * (map->features + op->c.E <= FEW_NUMBERS ? 2 : 1);
    return !backward && map->phi[LL_KEY] != LL_PHI_RUNNING ? op->scan_tile : op->usual_tile;
}

static size_t chunks(const ll_attention *op, int T) {
    const int chunk = chunk_tokens(ll_attention_tile(op));
    return ((size_t)T + (size_t)chunk - 1) / (size_t)chunk;
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)S;
    const size_t H = (size_t)op->c.H, rows = (size_t)B * H;
    const size_t states = op->c.causal ? rows * chunks(op, T) : (size_t)segments * H;
    return rows * (size_t)T + states * ll_state_floats(op);
}

static ll_head head_of(linear_call *l, size_t index, int worker) {
    const ll_attention_call *c = l->c;
    const int H = l->op->c.H;
    const ll_span s = ll_sequence_at(c, (int)(index / (size_t)H));
    ll_head j = {.op = l->op, .map = ll_linear_map(l->op), .k = ll_kernel_table(), .n = s.queries, .s = s.keys};
    j.h = (int)(index % (size_t)H);
    for (int side = 0; side < 2; side++) j.first[side] = ll_sequence_offset(c, side, (int)(index / (size_t)H));
    j.decay = l->op->c.decay ? l->op->c.decay[j.h] : 1;
    j.tile = l->tile;
    j.chunk = l->chunk;
    j.bf16 = c->bf16;
    j.at = ll_views_at(c, &s, j.h);
    j.mask = c->key_mask ? c->key_mask + (size_t)s.row * (size_t)c->S + (size_t)s.key : NULL;
    j.pool.base = l->pool + (size_t)worker * l->scratch;
    if (c->saved) {
        const size_t T = (size_t)c->T, row = (size_t)s.row * (size_t)H + (size_t)j.h;
        const size_t first = row * chunks(l->op, c->T) + (size_t)(s.query / l->chunk);
        j.den = c->saved + row * T + (size_t)s.query;
        j.states = c->saved + (size_t)c->B * (size_t)H * T +
                   (l->op->c.causal ? first : index) * ll_state_floats(l->op);
    } else {
        j.den = ll_arena_take(&j.pool, (size_t)l->tile);
    }
    const size_t floats = ll_carried_floats(l->op);
    const ll_carried carried =
        ll_carried_at(c, (size_t)H * floats, (int)(index / (size_t)H), (size_t)j.h * floats);
    j.state_in = carried.in, j.state_out = carried.out, j.dstate_in = carried.din, j.dstate_out = carried.dout;
    for (int side = 0; side < 2; side++) {
        if (l->top[side] && l->top[side][index].value > -INFINITY) j.shift[side] = l->top[side][index].value;
        if (l->dtop[side]) j.dtop[side] = &l->dtop[side][index];
    }
    return j;
}

/* intra_head: all threads compute this head. */
static void do_head(linear_call *l, size_t index, int worker, int intra_head) {
    ll_head j = head_of(l, index, worker);
    const ll_span s = ll_sequence_at(l->c, (int)(index / (size_t)l->op->c.H));
    const int workers = intra_head ? l->threads : 1;
    if (!l->backward) {
        ll_zero_rows(&j.at.y, j.n, s.query_capacity, l->op->c.E);
        if (l->op->c.causal && intra_head) {
            ll_intra_head_forward(&j, l->threads, l->shared);
        } else if (l->op->c.causal) {
            ll_causal_forward(&j);
        } else {
            ll_bidirectional_forward(&j, workers, l->scratch);
        }
        return;
    }
    ll_zero_rows(&j.at.dq, j.n, s.query_capacity, l->op->D);
    ll_zero_rows(&j.at.dk, j.s, s.key_capacity, l->op->D);
    ll_zero_rows(&j.at.dv, j.s, s.key_capacity, l->op->c.E);
    if (l->op->c.causal && intra_head) {
        ll_intra_head_backward(&j, l->threads, l->shared, l->pool, l->scratch);
    } else if (l->op->c.causal) {
        ll_causal_backward(&j);
    } else {
        ll_bidirectional_backward(&j, workers, l->scratch);
    }
    if (j.at.gate.data) ll_zero_rows(&j.at.dgate, j.n, j.at.dgate.data ? s.query_capacity : j.n, 1);
    if (j.at.gate.data && j.at.dgate.data) ll_gate_gradient(&j);
    if (l->ddecay) l->ddecay[index] = ll_decay_gradient(&j);
}

static void run_head(void *arg, size_t index, int worker) { do_head(arg, index, worker, 0); }

/* The number of heads that all threads share. These are the last heads, which would leave most threads without work.
 * How work is divided changes no bit. At most three heads are shared, one after another; with more heads, one thread a
 * head is faster. Gradients of the released stabilisers are sums over all tokens, which one thread computes. */
static size_t count_intra_head(const linear_call *l, size_t heads) {
    const size_t threads = (size_t)l->threads, rest = heads % threads;
    const int longest = ll_max_int(l->c->T, l->c->S);
    const int brief = l->op->c.causal ? l->c->T < 2 * l->chunk : longest < 2 * LL_SUM_CHUNK;
    return brief || l->dtop[0] || l->dtop[1] || rest > 3 || 2 * rest > threads ? 0 : rest;
}

/* ---- The released stabilisers: one number for many tokens, known before the scan ---- */

static void top_of_head(void *arg, size_t index, int worker) {
    linear_call *l = arg;
    ll_head j = head_of(l, index, worker);
    const int keys = l->side == LL_KEY, n = keys ? j.s : j.n;
    float *work = ll_arena_take(&j.pool, ll_feature_work(ll_linear_map(l->op), (size_t)l->tile, j.bf16));
    int64_t px[LL_TILE_MOST], py[LL_TILE_MOST];
    ll_top best = {-INFINITY, 0, 0};
    for (int t0 = 0; t0 < n; t0 += j.tile) {
        const int C = ll_min_int(n - t0, j.tile);
        ll_feature_tile tile = ll_tile_at(&j, l->side, t0, C, px, py, work);
        ll_top top = ll_features_top(&tile, keys && j.mask ? j.mask + t0 : NULL);
        top.token += t0;
        if (top.value > best.value) best = top;
    }
    l->top[l->side][index] = best; /* -inf for no tokens, so that it does not count among those of other heads */
}

static size_t best_head(const ll_top *top, size_t heads) {
    size_t best = 0;
    for (size_t i = 1; i < heads; i++)
        if (top[i].value > top[best].value) best = i;
    return best;
}

static int fixed_rule(const ll_attention *op, int side) {
    const int shared = side == LL_KEY ? op->c.key_max != LL_MAX_NONE : op->c.query_max == LL_MAX_SEQUENCE;
    return ll_linear_map(op)->phi[side] == LL_PHI_FIXED && shared;
}

/* The gradient of a stabiliser goes to the token that set it. */
static void push_tops(const linear_call *l, int side, const ll_top *top, size_t heads) {
    const ll_attention *op = l->op;
    const ll_view *x = side == LL_KEY ? &l->c->k : &l->c->q, *dx = side == LL_KEY ? &l->c->dk : &l->c->dq;
    const int batch = side == LL_KEY && op->c.key_max == LL_MAX_BATCH;
    double *dtop = l->dtop[side];
    const size_t best = batch ? best_head(top, heads) : 0;
    if (batch)
        for (size_t i = 0; i < heads; i++)
            if (i != best) dtop[best] += dtop[i];
    for (size_t i = batch ? best : 0; i < (batch ? best + 1 : heads); i++) {
        const ll_span s = ll_sequence_at(l->c, (int)(i / (size_t)op->c.H));
        const int h = (int)(i % (size_t)op->c.H), token = top[i].token + (side == LL_KEY ? s.key : s.query);
        if (top[i].value == -INFINITY) continue; /* no tokens */
        ll_features_top_back(ll_linear_map(op), h, top[i].feature, dtop[i], ll_element(x, s.row, h, token),
                             ll_element(dx, s.row, h, token));
    }
}

static void find_tops(linear_call *l, int side, size_t heads) {
    l->side = side;
    ll_parallel_among(l->threads, heads, top_of_head, l);
}

static void run(linear_call *l, size_t heads) {
    ll_top *const own = l->top[LL_KEY]; /* the maxima of keys, if every head takes the largest of them */
    for (int side = 0; side < 2; side++)
        if (l->top[side]) find_tops(l, side, heads);
    if (l->best) {
        const float value = own[best_head(own, heads)].value;
        for (size_t i = 0; i < heads; i++) l->best[i] = (ll_top){value, 0, 0};
        l->top[LL_KEY] = l->best;
    }
    const size_t shared = count_intra_head(l, heads);
    ll_parallel_among(l->threads, heads - shared, run_head, l);
    for (size_t i = heads - shared; i < heads; i++) do_head(l, i, 0, 1);
    for (int side = 0; side < 2; side++)
        if (l->dtop[side]) push_tops(l, side, side == LL_KEY ? own : l->top[side], heads);
}

/* Floats of a worker: divisors, and what the scan of a head takes. */
static size_t worker_floats(const linear_call *l, ll_head *j) {
    size_t floats = !l->op->c.causal ? ll_bidirectional_floats(j, l->backward)
                    : l->backward    ? ll_causal_backward_floats(j)
                                     : ll_causal_forward_floats(j);
    if (l->backward && l->c->ddecay) floats = ll_max_size(floats, ll_decay_floats(j));
    return ll_round_up((size_t)l->tile, LL_LINE) + floats;
}

/* A call of so many heads. It takes shared memory for a head on all threads wherever a head could be shared. */
static linear_call call_of(const ll_attention *op, const ll_attention_call *c, int backward, size_t heads,
                           ll_arena *a) {
    linear_call l = {.op = op, .c = c, .backward = backward, .threads = c->threads};
    l.tile = tile_tokens(op, backward);
    l.chunk = chunk_tokens(ll_attention_tile(op));
    ll_head one = {.op = op, .map = ll_linear_map(op), .tile = l.tile, .chunk = l.chunk, .bf16 = c->bf16};
    l.scratch = worker_floats(&l, &one);
    l.pool = ll_arena_take(a, (size_t)l.threads * l.scratch);
    if (op->c.causal && l.threads > 1 && c->T >= 2 * l.chunk)
        l.shared = ll_arena_take(a, backward ? ll_intra_head_backward_floats(&one, l.threads)
                                             : ll_intra_head_forward_floats(&one, l.threads));
    for (int side = 0; side < 2; side++) {
        if (!fixed_rule(op, side)) continue;
        l.top[side] = ll_arena_bytes(a, heads, sizeof *l.top[side]);
        if (backward && op->c.max_gradient) l.dtop[side] = ll_arena_bytes(a, heads, sizeof *l.dtop[side]);
    }
    if (fixed_rule(op, LL_KEY) && op->c.key_max == LL_MAX_BATCH) l.best = ll_arena_bytes(a, heads, sizeof *l.best);
    if (backward && c->ddecay && op->c.decay) l.ddecay = ll_arena_bytes(a, heads, sizeof *l.ddecay);
    return l;
}

static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_arena a = {0};
    (void)call_of(op, c, backward, ll_most_sequences(c) * (size_t)op->c.H, &a);
    return a.used;
}

static ll_status linear(const ll_attention *op, const ll_attention_call *c, int backward) {
    const size_t heads = (size_t)ll_sequence_count(c) * (size_t)op->c.H;
    const ll_status status = c->gate.data ? ll_causal_check_gate(op) : LL_OK;
    if (status) return status;
    if (!heads) return LL_OK;
    ll_arena a = {.base = c->scratch};
    linear_call l = call_of(op, c, backward, heads, &a);
    for (int side = 0; side < 2; side++)
        if (l.dtop[side]) memset(l.dtop[side], 0, heads * sizeof *l.dtop[side]);
    run(&l, heads);
    for (size_t i = 0; i < heads && l.ddecay; i++) c->ddecay[i % (size_t)op->c.H] += (float)l.ddecay[i];
    return LL_OK;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) { return linear(op, c, 0); }
static ll_status backward(const ll_attention *op, const ll_attention_call *c) { return linear(op, c, 1); }

/* ---- The kind ---- */

static ll_status create(ll_attention *op, const ll_attention_config *engine) {
    ll_feature_map *map;
    const ll_status status = ll_feature_map_create(&map, engine, op->map, op->postmap);
    if (!status) op->own = map;
    return status;
}

static void free_map(ll_attention *op) { ll_feature_map_free(op->own); }

static void project(ll_attention *op, const float *projection) { ll_feature_map_project(op->own, projection); }

/* For a maximum over the whole sequence. */
static int waits(const ll_attention *op) { return fixed_rule(op, LL_KEY) || fixed_rule(op, LL_QUERY); }

static ll_status state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    if (waits(op))
        return ll_fail(LL_EINVAL,
                       "attention state: this stabiliser takes its maximum over a whole sequence, which is "
                       "not in one call; use none, or feature_eps = 0 and LL_DEN_SUM, or, if causal, prefix");
    tensor[0] = (ll_state_tensor){"state", LL_F32, 2, {(size_t)op->c.H, ll_carried_floats(op)}, NULL};
    *count = 1;
    return LL_OK;
}

static size_t state_bytes(const ll_attention *op) {
    if (!op->c.causal) return ll_state_floats(op) * sizeof(float);
    return waits(op) ? 0 : ll_recurrent_doubles(op) * sizeof(double);
}

/* A key is added to a state of features x (E + 1), and a query reads it, however long the sequence is. The bytes are
 * those of a stream, or of a source that a stream reads. */
static ll_cost cost(const ll_attention *op, double keys) {
    const double state = (double)ll_linear_map(op)->features * (op->c.E + 1), H = op->c.H;
    (void)keys;
    return (ll_cost){H * (2 * state + 2 * ll_feature_map_cost(ll_linear_map(op))), H * (double)state_bytes(op)};
}

static void state_clear(const ll_attention *op, float *state) {
    for (int h = 0; h < op->c.H; h++) ll_carried_clear(op, state + (size_t)h * ll_carried_floats(op));
}

static ll_status can_stream(const ll_attention *op) {
    static const char *const rule[] = {"prefix", "token", "sequence", "batch", "none"};
    if (fixed_rule(op, LL_KEY))
        return ll_fail(LL_EINVAL,
                       "attention stream: with an eps, a key maximum over the %s needs later tokens; "
                       "use prefix or none",
                       rule[op->c.key_max]);
    if (fixed_rule(op, LL_QUERY))
        return ll_fail(LL_EINVAL, "attention stream: a query maximum over the sequence needs later tokens; use token");
    return LL_OK;
}

const ll_operator_kind ll_operator_linear = {
    .name = "linear",
    .linear = 1,
    .reads = 2,
    .gates = 1,
    .packs = 1,
    .create = create,
    .free = free_map,
    .project = project,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .state = state,
    .state_clear = state_clear,
    .check_counts = ll_carried_check,
    .can_stream = can_stream,
    .cost = cost,
    .recurrence = &ll_recurrence_linear,
    .cross = &ll_cross_linear,
};
