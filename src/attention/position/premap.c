/* A position that acts on queries and keys before the feature map makes of the operator a shell: q and k of the whole
 * call are encoded first, an operator without position runs on the result, and gradients go back the same way. That
 * costs B H (T + S) more rows of memory, and leaves the engines as they are: no kernel knows these positions.
 *
 * Encoding is cut into tasks by shape alone, some TASKS of them: a head and a run of tokens. Each task keeps its own
 * sums for the gradients of parameters; they are added up in order afterwards, in double. */
#include <math.h>
#include <string.h>

#include "attention/table.h"
#include "attention/keyless/relative_s2.h"
#include "attention/position/premap.h"
#include "base/memory.h"
#include "base/parallel.h"

enum { TASKS = 32 };

/* ---- The operator ---- */

static const ll_premap_kind *kind_of(ll_position position) {
    switch (position) {
    case LL_POSITION_ROPE: return &ll_premap_rope;
    case LL_POSITION_SINE_SPE: return &ll_premap_sine;
    case LL_POSITION_CONV_SPE: return &ll_premap_conv;
    case LL_POSITION_RELATIVE_S1: return &ll_premap_s1;
    default: return NULL;
    }
}

int ll_attention_width(const ll_attention_config *c) {
    const ll_premap_kind *kind = kind_of(c->position);
    return kind ? kind->width(c) : c->D;
}

static ll_status check(const ll_attention_config *c, const ll_premap_kind *kind) {
    if (!ll_method_of(c->kernel)->reads)
        return ll_fail(LL_EINVAL, "attention: value has no queries and keys that a position could act on; use none");
    if (ll_method_of(c->kernel)->reads == 1 && c->position != LL_POSITION_ROPE)
        return ll_fail(LL_EINVAL, "attention: reformer's queries are its keys, and this position tells them apart; use "
                                  "rope");
    return kind->check(c);
}

/* Around the sums of features that are turned and of features that are not. */
static ll_status create_divided(ll_attention *op, ll_attention_config c) {
    const int features = ll_feature_count(&c);
    if (!ll_method_of(c.kernel)->linear)
        return ll_fail(LL_EINVAL, "attention: %s has no features that rope-linear could turn; use rope",
                       ll_method_of(c.kernel)->name);
    if (features % 2) return ll_fail(LL_EINVAL, "attention: rope turns pairs, %d features are odd", features);
    if (c.den == LL_DEN_EPS_PHI)
        return ll_fail(LL_EINVAL, "attention: rope-linear has no divisor with the query's features; use another one");
    if (ll_scale_cancels(&c)) { /* then any stabiliser is exact: the one that sees no later token */
        c.query_max = LL_MAX_TOKEN;
        c.key_max = c.causal ? LL_MAX_PREFIX : LL_MAX_SEQUENCE;
        c.max_of_u = c.max_gradient = 0;
    } else if (c.kernel == LL_KERNEL_FAVOR && c.causal && c.key_max == LL_MAX_PREFIX && c.feature_eps > 0) {
        return ll_fail(LL_EINVAL, "attention: rope-linear would turn the eps of features under a running maximum; "
                                  "use eps 0");
    }
    c.position = LL_POSITION_NONE;
    c.den = LL_DEN_NONE;
    ll_status status = ll_attention_create(&op->inner, &c);
    if (!status) status = ll_theta_create(&op->inner->turn, c.where.theta, features);
    c.E = 1;
    if (!status) status = ll_attention_create(&op->sums, &c);
    return status;
}

static int clipped(const ll_attention *op) {
    return op->c.position == LL_POSITION_RELATIVE_S2;
}

ll_status ll_shell_create(ll_attention *op, const ll_attention_config *config) {
    op->method = clipped(op)                                   ? &ll_method_clipped
                 : config->position == LL_POSITION_ROPE_LINEAR ? &ll_method_divided
                                                               : &ll_method_shell;
    if (clipped(op)) return ll_clipped_create(op, config);
    if (op->method == &ll_method_divided) return create_divided(op, *config);
    const ll_premap_kind *kind = kind_of(config->position);
    ll_status status = check(config, kind);
    if (status) return status;
    ll_premap *b = op->before = ll_alloc(1, sizeof *b);
    if (!b) return LL_ENOMEM;
    b->kind = kind;
    b->c = *config;
    b->R = kind->width(config);
    b->given = config->where.noise || config->where.gate_noise;
    status = kind->create ? kind->create(b) : LL_OK;
    if (status) return status;
    b->c.projection = b->c.decay = b->c.where.theta = b->c.where.noise = b->c.where.gate_noise = NULL;
    ll_attention_config c = *config;
    c.position = LL_POSITION_NONE;
    c.D = b->R;
    return ll_attention_create(&op->inner, &c);
}

void ll_shell_free(ll_attention *op) {
    if (op->before) {
        ll_free(op->before->noise);
        ll_free(op->before->gate_noise);
        ll_free(op->before->theta);
        ll_free(op->before);
    }
    ll_attention_free(op->inner);
    ll_attention_free(op->sums);
}

void ll_attention_set_noise(ll_attention *op, uint64_t seed) {
    if (!op->before || op->before->given || op->before->c.where.seed == seed) return;
    op->before->c.where.seed = seed;
    if (op->before->kind->draw) op->before->kind->draw(op->before);
}

ll_status ll_premap_reaches(const ll_premap *b, int64_t tokens) {
    const int64_t most = b->kind->longest ? b->kind->longest(b) : INT64_MAX;
    if (tokens <= most) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: %lld tokens, but the noise that was given ends after %lld", (long long)tokens,
                   (long long)most);
}

double ll_sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* ---- Encoding ---- */

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    ll_view in[2], out[2]; /* out: encoded, or their gradients */
    ll_view din[2];
    int backward, stripes, most, length; /* tokens of a sequence at most; of a stripe */
    size_t scratch, parameters;
    float *pool;  /* (workers, scratch) */
    double *sums; /* (H, stripes, parameters) */
} encoding;

static void encode_tile(const encoding *x, const ll_premap_tile *t, double *sum) {
    const ll_premap *b = t->b;
    for (int i = 0; i < ll_sequence_count(x->c); i++)
        for (int side = LL_QUERY; side <= LL_KEY; side++) {
            const ll_span s = ll_sequence_at(x->c, i);
            const int t0 = (int)t->t0, all = side == LL_QUERY ? s.query_room : s.key_room;
            const int left = (side == LL_QUERY ? s.queries : s.keys) - t0, n = left < 0 ? 0 : left < t->C ? left : t->C;
            const int token0 = (side == LL_QUERY ? s.query : s.key) + t0;
            const size_t token = x->in[side].token, ldo = x->out[side].token;
            if (t0 >= all || !x->in[side].data) continue; /* some kernels read no keys */
            const float *in = ll_element(&x->in[side], s.row, t->head, token0);
            float *out = ll_element(&x->out[side], s.row, t->head, token0);
            if (!x->backward) {
                b->kind->forward(t, side, n, in, token, out, ldo);
                continue;
            }
            float *din = ll_element(&x->din[side], s.row, t->head, token0);
            b->kind->back(t, side, n, in, token, out, ldo, din, x->din[side].token, sum);
            for (int r = n; r < t->C && t0 + r < all; r++)
                memset(din + (size_t)r * x->din[side].token, 0, (size_t)b->c.D * sizeof *din);
        }
}

static void encode_stripe(void *arg, size_t index, int worker) {
    const encoding *x = arg;
    const int h = (int)(index / (size_t)x->stripes), stripe = (int)(index % (size_t)x->stripes);
    const int most = x->most, from = stripe * x->length;
    const int to = most - from < x->length ? most : from + x->length;
    ll_premap_tile t = {.b = x->op->before, .k = ll_kernel_table(), .head = h};
    t.work = x->pool + (size_t)worker * x->scratch;
    memset(t.work, 0, x->scratch * sizeof *t.work);
    for (int t0 = from; t0 < to; t0 += LL_PREMAP_TILE) {
        t.t0 = t0;
        t.C = to - t0 < LL_PREMAP_TILE ? to - t0 : LL_PREMAP_TILE;
        t.b->kind->prepare(&t);
        encode_tile(x, &t, x->sums + index * x->parameters);
    }
}

static ll_status encode(encoding *x) {
    const ll_premap *b = x->op->before;
    int queries, keys;
    ll_sequence_longest(x->c, &queries, &keys);
    const int most = x->most = queries > keys ? queries : keys, H = b->c.H;
    const int tiles = (most + LL_PREMAP_TILE - 1) / LL_PREMAP_TILE, most_stripes = (TASKS + H - 1) / H;
    x->length = (tiles + most_stripes - 1) / most_stripes * LL_PREMAP_TILE;
    if (!most || !x->c->B) return LL_OK;
    x->stripes = (most + x->length - 1) / x->length;
    x->parameters = x->backward ? b->kind->parameters(b) : 0;
    x->scratch = (b->kind->scratch(b) + 15) / 16 * 16;
    const int threads = ll_threads();
    x->pool = ll_alloc((size_t)threads * x->scratch, sizeof *x->pool);
    x->sums = ll_alloc((size_t)H * (size_t)x->stripes * x->parameters, sizeof *x->sums);
    const ll_status status = x->pool && x->sums ? LL_OK : LL_ENOMEM;
    if (!status) ll_parallel_among(threads, (size_t)H * (size_t)x->stripes, encode_stripe, x);
    for (int i = 0; !status && x->parameters && i < H * x->stripes; i++)
        b->kind->collect(b, i / x->stripes, x->sums + (size_t)i * x->parameters, &x->c->dposition);
    ll_free(x->pool);
    ll_free(x->sums);
    return status;
}

/* ---- Calls ---- */

static size_t floats(const ll_attention *op, int B, int T) {
    return ((size_t)B * (size_t)op->c.H * (size_t)T * (size_t)op->before->R + 15) / 16 * 16;
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    return floats(op, B, T) + floats(op, B, S) + ll_attention_saved_packed(op->inner, B, T, S, segments);
}

static ll_view packed(const ll_attention *op, float *data, int n) {
    const size_t token = (size_t)op->before->R, head = token * (size_t)n;
    return (ll_view){data, head * (size_t)op->c.H, head, token};
}

/* The inner call on encoded queries and keys that lie in `encoded`. */
static ll_attention_call inner_call(const ll_attention *op, const ll_attention_call *call, float *encoded) {
    ll_attention_call c = *call;
    c.q = packed(op, encoded, c.T);
    c.k = packed(op, encoded + floats(op, c.B, c.T), c.S);
    if (c.saved) c.saved += floats(op, c.B, c.T) + floats(op, c.B, c.S);
    return c;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *call) {
    int queries, keys;
    ll_sequence_longest(call, &queries, &keys);
    ll_status status = ll_premap_reaches(op->before, queries > keys ? queries : keys);
    if (status) return status;
    float *own = NULL;
    if (!call->saved) own = ll_alloc(floats(op, call->B, call->T) + floats(op, call->B, call->S), sizeof *own);
    if (!call->saved && !own) return LL_ENOMEM;
    const ll_attention_call c = inner_call(op, call, own ? own : call->saved);
    encoding x = {.op = op, .c = call, .in = {call->q, call->k}, .out = {c.q, c.k}};
    status = encode(&x);
    if (!status) status = ll_attention_forward(op->inner, &c);
    ll_free(own);
    return status;
}

static ll_status backward(const ll_attention *op, const ll_attention_call *call) {
    const size_t queries = floats(op, call->B, call->T);
    float *gradient = ll_alloc(queries + floats(op, call->B, call->S), sizeof *gradient);
    if (!gradient) return LL_ENOMEM;
    ll_attention_call c = inner_call(op, call, call->saved);
    c.dq = packed(op, gradient, c.T);
    c.dk = packed(op, gradient + queries, c.S);
    encoding x = {.op = op, .c = call, .in = {call->q, call->k}, .out = {c.dq, c.dk}, .din = {call->dq, call->dk}};
    x.backward = 1;
    ll_status status = ll_attention_backward(op->inner, &c);
    if (!status) status = encode(&x);
    ll_free(gradient);
    return status;
}

const ll_method ll_method_shell = {.reads = 2, .packs = 1, .saved = saved, .forward = forward, .backward = backward};
