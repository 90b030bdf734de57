/* Ring attention (ring_attention.h). Block b is the keys and values of part b. In step s part p has block p - s, and
 * hands it on to part p + 1:
 *
 *   forward    Each step gives outputs y' and logarithms of sums l' over one block. They are merged with those of the
 *              blocks before: l = ln(e^l + e^l'), y = e^(l_old - l) y + e^(l' - l) y' (Milakov and Gimelshein 2018).
 *   backward   With y and l of the whole row, a block's gradients do not depend on other blocks. Those of keys and
 *              values travel one step behind their block, each part adds its own, and the last one sends them home.
 *
 * Causal parts have two spans of tokens (ring_parts.h): a block is computed span by span, without the keys that come
 * after all queries of a span. Messages of a step are on their way while the step is computed. */
#include "model/sequence/ring_attention.h"

#include <math.h>
#include <string.h>

#include "attention/operator.h"
#include "attention/table.h"
#include "base/memory.h"
#include "model/sequence/ring_parts.h"

/* Messages that may be on their way at a time. */
enum { SEND_BLOCK, TAKE_BLOCK, SEND_GRADIENT, TAKE_GRADIENT, SEND_HOME, TAKE_HOME };

/* Tensors are packed span by span, (B, H, count, n) each. */
struct ll_ring {
    ll_ring_parts parts;
    size_t D, E;
    float *block[2];        /* what goes round: lengths (2, B) as int, keys, values */
    float *gradient[2];     /* of keys, of values */
    float *work;            /* of the keys and values of a step, as gradient */
    float *q, *y, *g, *dq;  /* of this part */
    float *pair;            /* what two spans give: y and l, or gradients of queries, keys and values */
    float *sums;            /* l, where the call does not save it */
    int *lengths, *keys;    /* (2, B) of this part's spans, and of the block's */
};

int ll_ring_serves(const ll_attention *op) { return op->kind == &ll_operator_softmax; }

static size_t rows_of(const ll_ring *r, int tokens) { return (size_t)r->parts.B * r->parts.H * (size_t)tokens; }
static size_t lengths_of(const ll_ring *r) { return 2 * (size_t)r->parts.B; }

/* Makes all buffers; r NULL: they are only counted. Returns their floats; 0: no memory. */
static size_t make_buffers(ll_ring *r, const ll_attention *op, int most, int T, int training) {
    const size_t B = (size_t)most, D = (size_t)op->c.D, E = (size_t)op->c.E, heads = B * (size_t)op->c.H;
    const size_t rows = heads * (size_t)T, half = heads * (size_t)((T + 1) / 2);
    const size_t message = op->c.causal ? B + half * (training ? 2 * D + 3 * E : 2 * D + E) : 0;
    const struct {
        float **at;
        size_t floats;
    } buffer[] = {
        {r ? &r->block[0] : NULL, 2 * B + rows * (D + E)},
        {r ? &r->block[1] : NULL, 2 * B + rows * (D + E)},
        {r ? &r->gradient[0] : NULL, training ? rows * (D + E) : 0},
        {r ? &r->gradient[1] : NULL, training ? rows * (D + E) : 0},
        {r ? &r->work : NULL, training ? rows * (D + E) : 0},
        {r ? &r->q : NULL, rows * D},
        {r ? &r->y : NULL, rows * E},
        {r ? &r->g : NULL, training ? rows * E : 0},
        {r ? &r->dq : NULL, training ? rows * D : 0},
        {r ? &r->pair : NULL, rows * (training ? 2 * D + E + 1 : E + 1)},
        {r ? &r->sums : NULL, rows},
        {r ? &r->parts.message[0] : NULL, message},
        {r ? &r->parts.message[1] : NULL, message},
        {r ? &r->parts.message[2] : NULL, message},
        {r ? &r->parts.message[3] : NULL, message},
    };
    size_t all = 1;
    for (size_t i = 0; i < sizeof buffer / sizeof *buffer; i++) {
        all += buffer[i].floats;
        if (r && buffer[i].floats && !(*buffer[i].at = ll_alloc(buffer[i].floats, sizeof(float)))) return 0;
    }
    return all;
}

ll_status ll_ring_create(ll_ring **out, const ll_sharing *how, const ll_attention *op, int B, int T, int training) {
    ll_ring *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->parts = (ll_ring_parts){.how = *how, .causal = op->c.causal, .B = B, .H = (size_t)op->c.H};
    r->D = (size_t)op->c.D, r->E = (size_t)op->c.E;
    r->lengths = ll_alloc(lengths_of(r), sizeof *r->lengths);
    r->keys = ll_alloc(lengths_of(r), sizeof *r->keys);
    if (!r->lengths || !r->keys || !make_buffers(r, op, B, T, training)) {
        ll_ring_free(r);
        return LL_ENOMEM;
    }
    *out = r;
    return LL_OK;
}

size_t ll_ring_bytes(const ll_attention *op, int B, int T) {
    return make_buffers(NULL, op, B, T, 1) * sizeof(float) + 4 * (size_t)B * sizeof(int);
}

void ll_ring_free(ll_ring *r) {
    if (!r) return;
    for (int i = 0; i < 2; i++) {
        ll_free(r->block[i]);
        ll_free(r->gradient[i]);
    }
    for (int i = 0; i < 4; i++) ll_free(r->parts.message[i]);
    ll_free(r->work);
    ll_free(r->q);
    ll_free(r->y);
    ll_free(r->g);
    ll_free(r->dq);
    ll_free(r->pair);
    ll_free(r->sums);
    ll_free(r->lengths);
    ll_free(r->keys);
    ll_free(r);
}

/* ---- Steps ---- */

static ll_status begin(const ll_ring *r, float *x, size_t n, int peer, int message) {
    return r->parts.how.begin(r->parts.how.arg, x, n, peer, message);
}
static ll_status wait(const ll_ring *r, int message) { return r->parts.how.wait(r->parts.how.arg, message); }

static int part_of(const ll_ring *r) { return r->parts.how.part; }
static int parts_of(const ll_ring *r) { return r->parts.how.parts; }
static int next_part(const ll_ring *r) { return (part_of(r) + 1) % parts_of(r); }
static int last_part(const ll_ring *r) { return (part_of(r) + parts_of(r) - 1) % parts_of(r); }
static int block_of(const ll_ring *r, int s) { return (part_of(r) - s + parts_of(r)) % parts_of(r); }
static int is_last(const ll_ring *r, int s) { return s + 1 == parts_of(r); }

/* The block of step s goes on, and that of the next step comes. */
static ll_status begin_step(const ll_ring *r, int T, int s) {
    const size_t n = lengths_of(r) + rows_of(r, T) * (r->D + r->E);
    if (is_last(r, s)) return LL_OK;
    const ll_status status = begin(r, r->block[s % 2], n, next_part(r), SEND_BLOCK);
    return status ? status : begin(r, r->block[(s + 1) % 2], n, last_part(r), TAKE_BLOCK);
}
static ll_status end_step(const ll_ring *r, int s) {
    if (is_last(r, s)) return LL_OK;
    const ll_status sent = wait(r, SEND_BLOCK), taken = wait(r, TAKE_BLOCK);
    return sent ? sent : taken;
}

/* ---- Spans ---- */

/* Queries of a span of this part with keys of a span of a block. */
typedef struct {
    ll_ring_span query, key;
    size_t query_row, key_row; /* the rows before them */
    int i, j;                  /* which spans */
} span_pair;

/* The pairs of a step in which a query sees a key: at most 4. */
static int pairs_of(const ll_ring *r, int T, int block, span_pair pair[4]) {
    ll_ring_span query[2], key[2];
    const int spans = ll_ring_spans(&r->parts, part_of(r), T, query);
    int n = 0;
    ll_ring_spans(&r->parts, block, T, key);
    for (int i = 0; i < spans; i++)
        for (int j = 0; j < spans; j++) {
            if (!query[i].count || !key[j].count || (r->parts.causal && key[j].first > query[i].first)) continue;
            pair[n++] = (span_pair){query[i], key[j], i ? rows_of(r, query[0].count) : 0,
                                    j ? rows_of(r, key[0].count) : 0, i, j};
        }
    return n;
}

static ll_view packed(const ll_ring *r, float *x, size_t row, int tokens, size_t n) {
    return ll_view_packed(x + row * n, (int)r->parts.H, tokens, (int)n);
}

static ll_attention_call call_with(const ll_ring *r, const ll_attention_call *call, const span_pair *x, float *block) {
    ll_attention_call c = *call;
    float *keys = block + lengths_of(r), *values = keys + rows_of(r, call->T) * r->D;
    memcpy(r->keys, block, lengths_of(r) * sizeof *block);
    c.T = x->query.count, c.S = x->key.count;
    c.query_lengths = r->lengths + x->i * r->parts.B;
    c.lengths = r->keys + x->j * r->parts.B;
    c.query_offset = x->query.first, c.key_offset = x->key.first;
    c.q = packed(r, r->q, x->query_row, c.T, r->D);
    c.k = packed(r, keys, x->key_row, c.S, r->D);
    c.v = packed(r, values, x->key_row, c.S, r->E);
    return c;
}

/* ---- Forward ---- */

/* A row without keys has the sum 0; its logarithm is written as INFINITY, for which backward has weights of 0. */
static float as_log(float l) { return l == INFINITY ? -INFINITY : l; }

/* What one pair gave, (B, H, count): into what the pairs before gave. */
static void merge(const ll_ring *r, const ll_attention_call *c, const float *y, const float *l, float *to,
                  float *sums) {
    const ll_kernels *k = ll_kernel_table();
    for (size_t i = 0; i < (size_t)c->B * r->parts.H; i++) {
        const int n = c->query_lengths[i / r->parts.H];
        for (size_t t = 0; t < (size_t)n; t++) {
            const size_t row = i * (size_t)c->T + t;
            const float a = as_log(sums[row]), b = as_log(l[row]), most = fmaxf(a, b);
            if (b == -INFINITY) continue;
            const float sum = most + logf(expf(a - most) + expf(b - most));
            k->scale(r->E, expf(a - sum), to + row * r->E);
            k->axpy(r->E, expf(b - sum), y + row * r->E, to + row * r->E);
            sums[row] = sum;
        }
    }
}

/* A span's first pair gives its outputs; later ones are merged. */
static ll_status forward_step(const ll_ring *r, const ll_attention *op, const ll_attention_call *call, int s,
                              float *sums, int seen[2]) {
    span_pair pair[4];
    const int n = pairs_of(r, call->T, block_of(r, s), pair);
    ll_status status = LL_OK;
    for (int p = 0; p < n && !status; p++) {
        const span_pair *x = &pair[p];
        const size_t rows = rows_of(r, x->query.count);
        float *y = r->y + x->query_row * r->E, *l = sums + x->query_row, *own = r->pair, *own_l = own + rows * r->E;
        ll_attention_call c = call_with(r, call, x, r->block[s % 2]);
        c.y = packed(r, seen[x->i] ? own : y, 0, c.T, r->E);
        c.saved = seen[x->i] ? own_l : l;
        status = ll_attention_block(op, &c, 0);
        if (seen[x->i] && !status) merge(r, &c, own, own_l, y, l);
        seen[x->i] = 1;
    }
    return status;
}

/* Queries, keys and values (training: y and its gradient, too), keys and values into block 0. */
static ll_status bring(const ll_ring *r, const ll_attention_call *c, int back) {
    float *keys = r->block[0] + lengths_of(r), *values = keys + rows_of(r, c->T) * r->D;
    const ll_ring_tensor tensor[] = {{c->q, r->q, r->D}, {c->k, keys, r->D}, {c->v, values, r->E},
                                     {c->y, r->y, r->E}, {c->g, r->g, r->E}};
    const ll_status status = ll_ring_bring(&r->parts, c, tensor, back ? 5 : 3, r->lengths);
    memcpy(r->block[0], r->lengths, lengths_of(r) * sizeof *r->lengths);
    return status;
}

ll_status ll_ring_forward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call) {
    float *sums = call->saved ? call->saved : r->sums;
    int seen[2] = {0};
    ll_status status = bring(r, call, 0);
    for (int s = 0; s < parts_of(r) && !status; s++) {
        status = begin_step(r, call->T, s);
        if (!status) status = forward_step(r, op, call, s, sums, seen);
        if (!status) status = end_step(r, s);
    }
    const ll_ring_tensor y = {call->y, r->y, r->E};
    return status ? status : ll_ring_return(&r->parts, call, &y, 1);
}

/* ---- Backward ---- */

/* Waits until what add_gradient sent in step s has left. */
static ll_status gradient_left(const ll_ring *r, int s) { return s < 0 ? LL_OK : wait(r, SEND_GRADIENT); }

/* The gradient of the block of step s: what came, and what this part adds, goes on; after the last step home. */
static ll_status add_gradient(const ll_ring *r, int T, int s) {
    const size_t n = rows_of(r, T) * (r->D + r->E);
    float *sum = r->gradient[s % 2];
    ll_status status = s ? wait(r, TAKE_GRADIENT) : LL_OK;
    if (status) return status;
    if (s)
        ll_kernel_table()->add(n, r->work, sum);
    else
        memcpy(sum, r->work, n * sizeof *sum);
    status = gradient_left(r, s - 1);
    if (status) return status;
    return is_last(r, s) ? begin(r, sum, n, block_of(r, s), SEND_HOME) : begin(r, sum, n, next_part(r), SEND_GRADIENT);
}

/* Adds what the pairs of a step give to dq and work. */
static ll_status back_pairs(const ll_ring *r, const ll_attention *op, const ll_attention_call *call, int s,
                            float *sums) {
    const ll_kernels *k = ll_kernel_table();
    const size_t rows = rows_of(r, call->T);
    float *keys = r->work, *values = keys + rows * r->D;
    span_pair pair[4];
    const int n = pairs_of(r, call->T, block_of(r, s), pair);
    ll_status status = LL_OK;
    memset(r->work, 0, rows * (r->D + r->E) * sizeof *r->work);
    for (int p = 0; p < n && !status; p++) {
        const span_pair *x = &pair[p];
        const size_t queries = rows_of(r, x->query.count) * r->D, seen = rows_of(r, x->key.count);
        float *dq = r->pair, *dk = dq + queries, *dv = dk + seen * r->D;
        ll_attention_call c = call_with(r, call, x, r->block[s % 2]);
        c.y = packed(r, r->y, x->query_row, c.T, r->E);
        c.g = packed(r, r->g, x->query_row, c.T, r->E);
        c.saved = sums + x->query_row;
        c.dq = packed(r, dq, 0, c.T, r->D);
        c.dk = packed(r, dk, 0, c.S, r->D);
        c.dv = packed(r, dv, 0, c.S, r->E);
        status = ll_attention_block(op, &c, 1);
        k->add(queries, dq, r->dq + x->query_row * r->D);
        k->add(seen * r->D, dk, keys + x->key_row * r->D);
        k->add(seen * r->E, dv, values + x->key_row * r->E);
    }
    return status;
}

static ll_status back_step(const ll_ring *r, const ll_attention *op, const ll_attention_call *call, int s) {
    const size_t n = rows_of(r, call->T) * (r->D + r->E);
    ll_status status = LL_OK;
    if (s) status = begin(r, r->gradient[s % 2], n, last_part(r), TAKE_GRADIENT);
    if (!status) status = begin_step(r, call->T, s);
    if (!status) status = back_pairs(r, op, call, s, call->saved);
    if (!status) status = end_step(r, s);
    return status ? status : add_gradient(r, call->T, s);
}

ll_status ll_ring_backward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call) {
    const size_t rows = rows_of(r, call->T), n = rows * (r->D + r->E);
    float *home = r->block[0];
    ll_status status = bring(r, call, 1);
    memset(r->dq, 0, rows * r->D * sizeof *r->dq);
    for (int s = 0; s < parts_of(r) && !status; s++) status = back_step(r, op, call, s);
    if (!status) status = begin(r, home, n, last_part(r), TAKE_HOME);
    if (!status) status = wait(r, TAKE_HOME);
    if (!status) status = wait(r, SEND_HOME);
    const ll_ring_tensor back[] = {
        {call->dq, r->dq, r->D}, {call->dk, home, r->D}, {call->dv, home + rows * r->D, r->E}};
    return status ? status : ll_ring_return(&r->parts, call, back, 3);
}
