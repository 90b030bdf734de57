/* Attention sublayers: a stack's own attention, and the cross attention of a decoder, whose keys and values come from
 * the output of the encoder. Both are the same work on other rows:
 *
 *   project    q = a W_q, k = x W_k, v = x W_v      x = a, or the encoder's output; u = a W_g + b_g with a gate
 *   mix        y = attention(q, k, v)
 *   finish     F = y W_o                            each head of y may be normalised
 *
 * A recipe may add biases. With model.kv-heads, W_k and W_v make fewer heads; each is copied to all query heads that it
 * serves (grouped heads, Ainslie et al. 2023).
 *
 * If cross attention counts positions from the end of the source, the keys and values of a head are stored in reverse
 * order. Positions count from the first key, and a sum over all keys does not depend on their order. */
#include <string.h>

#include "model/network.h"
#include "model/sequence/shared_sequence.h"
#include "model/stream/stream_rows.h"

/* The projections of one sublayer: queries, keys, values, gate. */
enum { SECTIONS = 4, GATE = 3 };
typedef struct {
    int which;
    int width, head; /* width of all heads that have it (relative-s2: fewer have keys), and of one; 0: none */
    int group;       /* heads that share one head of the projection; 1: each has its own */
    int bias;        /* index of its bias; 0: cross attention has none */
    int source;      /* computed from the encoder's output */
    float *data, *d; /* first column in the workspace, and of its gradient */
    size_t row;      /* distance of rows */
} section;

/* One attention sublayer of one run. */
typedef struct {
    const ll_batch_run *run;
    ll_batch_run from; /* the run whose rows become keys and values */
    int layer, cross, j, op, output;
    section s[SECTIONS];
    float *mixed, *saved;
} attention;

/* Keys and values of cross attention, side by side in rows; d NULL: no gradients. */
static void set_source(attention *x, const ll_model *m, float *p, float *d) {
    const size_t queries = (size_t)m->queries, row = queries + (size_t)m->values;
    const int query = m->queries / m->c->model.heads, value = m->values / m->c->model.heads;
    x->s[1] = (section){LL_CROSS_KEY_WEIGHT, m->queries, query, 1, 0, 1, p, d, row};
    x->s[2] = (section){LL_CROSS_VALUE_WEIGHT,  m->values, value, 1, 0, 1, p ? p + queries : NULL,
                        d ? d + queries : NULL, row};
}

static attention attention_of(const ll_batch_run *run, int layer, int cross) {
    const ll_model *m = run->model;
    const int query = m->queries / m->c->model.heads, value = m->values / m->c->model.heads;
    ll_workspace *ws = run->ws;
    attention x = {.run = run, .layer = layer, .cross = cross, .j = run->stack->parts * layer + cross};
    x.op = ll_operator_of(run->stack, layer, cross);
    x.output = cross ? LL_CROSS_OUTPUT_WEIGHT : LL_OUTPUT_WEIGHT;
    if (!cross) {
        const int width[3] = {m->projections > 0 ? m->queries : 0, m->projections > 1 ? m->keys : 0, m->values};
        float *p = ws->project[layer], *d = ws->dproject;
        x.from = *run;
        for (int i = 0; i < 3; i++) {
            const int group = i ? m->c->model.heads / m->key_heads : 1, head = i < 2 ? query : value;
            x.s[i] = (section){LL_QUERY_WEIGHT + i, width[i], head, group, LL_QUERY_BIAS + i, 0, p, d, ll_row_width(m)};
            p += width[i];
            if (d) d += width[i];
        }
        const size_t H = (size_t)m->c->model.heads;
        if (m->gated)
            x.s[GATE] = (section){LL_GATE_WEIGHT, (int)H, 1, 1, LL_GATE_BIAS, 0, ws->gate[layer], ws->dgate, H};
        x.mixed = ws->mixed[layer], x.saved = ws->saved[layer];
        return x;
    }
    x.from = ws->source ? ll_source_run(run) : *run;
    const size_t row = (size_t)m->queries;
    x.s[0] = (section){LL_CROSS_QUERY_WEIGHT, m->queries, query, 1, 0, 0, ws->cross_query[layer], ws->dproject, row};
    set_source(&x, m, ws->cross_source[layer], ws->dsource);
    x.mixed = ws->cross_mixed[layer], x.saved = ws->cross_saved[layer];
    return x;
}

/* The first head of this cross attention that counts from the end of the source; the number of heads if none does. */
static int first_reversed(const ll_model_config *c) {
    return c->position.cross == LL_CROSS_END    ? 0
           : c->position.cross == LL_CROSS_BOTH ? c->model.heads / 2
                                                : c->model.heads;
}

static void swap_rows(float *a, float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

/* Reverses the order of the keys and values of those heads, or of their gradients; the same call restores it. */
static void reverse(const attention *x, int gradients) {
    const ll_model_config *c = x->run->c;
    const int first = first_reversed(c);
    if (!x->cross || first == c->model.heads) return;
    for (int i = 1; i < 3; i++) {
        const size_t size = (size_t)x->s[i].head, n = size * (size_t)(c->model.heads - first);
        float *data = (gradients ? x->s[i].d : x->s[i].data) + size * (size_t)first;
        for (size_t b = 0; b < (size_t)x->from.B; b++)
            for (size_t t = b * (size_t)x->from.T, last = t + (size_t)x->from.lengths[b]; t + 1 < last; t++) {
                last--;
                swap_rows(data + t * x->s[i].row, data + last * x->s[i].row, n);
            }
    }
}

/* The rows that section i is computed from. */
static const float *rows_of(const attention *x, int source, ll_rows r, float *buffer) {
    if (source) return x->from.ws->top + r.first * (size_t)x->run->c->model.width;
    return ll_sublayer_input(x->run, x->j, r, buffer);
}

static const float *bias_of(const attention *x, const section *s) {
    return s->bias ? ll_weight(x->run, x->layer, s->bias) : NULL;
}

/* Copies n rows of shared heads to all query heads; for gradients, sums back. */
static void share(const section *s, int n, float *own, float *all, int back) {
    const size_t head = (size_t)s->head, group = (size_t)s->group, heads = (size_t)s->width / head / group;
    for (size_t r = 0; r < (size_t)n; r++)
        for (size_t h = 0; h < heads * group; h++) {
            float *one = own + (r * heads + h / group) * head, *copy = all + r * s->row + h * head;
            if (!back || h % group == 0)
                memcpy(back ? one : copy, back ? copy : one, head * sizeof *one);
            else
                ll_kernel_table()->add(head, copy, one);
        }
}

/* Computes section s of n rows a; `out` is the first of the output rows. */
static void make(const attention *x, const section *s, int n, const float *a, float *out) {
    const int C = x->run->c->model.width, width = s->width / s->group, shared = s->group > 1;
    float *own = shared ? x->run->ws->grouped : out;
    ll_linear(x->run, n, C, width, a, (size_t)C, ll_weight_matrix(x->run, x->layer, s->which), bias_of(x, s), own,
              shared ? (size_t)width : s->row);
    if (shared) share(s, n, own, out, 0);
}

/* Its gradients from d, which has the layout of the section: those of the weights, and da, with or without adding. */
static void make_back(const attention *x, const section *s, int n, const float *a, float *d, float *da, int add) {
    const ll_batch_run *run = x->run;
    const int C = run->c->model.width, width = s->width / s->group, shared = s->group > 1;
    const size_t row = shared ? (size_t)width : s->row;
    float *own = shared ? run->ws->grouped : d;
    if (shared) share(s, n, own, d, 1);
    ll_linear_weight_back(run, n, C, width, a, (size_t)C, own, row, ll_weight_gradient(run, x->layer, s->which));
    if (bias_of(x, s)) ll_bias_back_rows(n, width, own, row, ll_weight_gradient(run, x->layer, s->bias));
    ll_linear_input_back(run, n, C, width, own, row, ll_weight(run, x->layer, s->which), da, (size_t)C, add);
}

/* Of the rows r, the next ones that section i is needed of: of queries, those that are read. */
static int next_rows(const attention *x, int i, ll_rows r, ll_rows *part) {
    const int begins = !part->n;
    if (begins) part->first = r.first;
    if (!i && ll_reads_first(x->run, x->layer))
        return ll_next_read(x->run, x->layer, part) && part->first < r.first + (size_t)r.n;
    *part = r;
    return begins;
}

/* Projects this run's rows, or those of the source. */
static ll_status project(const attention *x, int source) {
    const size_t width = (size_t)x->run->c->model.width;
    ll_status status = LL_OK;
    for (ll_rows r = {0}; !status && ll_next_rows(source ? &x->from : x->run, &r);) {
        const float *a = rows_of(x, source, r, x->run->ws->input);
        for (int i = 0; i < SECTIONS; i++) {
            const section *s = &x->s[i];
            if (s->source != source || !s->width) continue;
            for (ll_rows p = {0}; next_rows(x, i, r, &p);)
                make(x, s, p.n, a + (p.first - r.first) * width, s->data + p.first * s->row);
            if (i == GATE) ll_gate_forward((size_t)r.n * s->row, s->data + r.first * s->row);
        }
        if (!source) status = ll_sublayer_report(x->run, x->j, r, 0, 0.4);
    }
    return status;
}

static void project_back(const attention *x) {
    const ll_batch_run *run = x->run;
    const size_t width = (size_t)run->c->model.width;
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        int add;
        float *d = run->ws->d + r.first * width, *da = ll_sublayer_gradient(run, d, &add);
        const float *a = rows_of(x, 0, r, run->ws->input);
        if (!add && ll_reads_first(run, x->layer)) {
            memset(da, 0, (size_t)r.n * width * sizeof *da);
            add = 1;
        }
        for (int i = 0; i < SECTIONS; i++) {
            const section *s = &x->s[i];
            if (s->source || !s->width) continue;
            if (i == GATE) ll_gate_back((size_t)r.n * s->row, s->data + r.first * s->row, s->d + r.first * s->row);
            for (ll_rows p = {0}; next_rows(x, i, r, &p);) {
                const size_t at = (p.first - r.first) * width;
                make_back(x, s, p.n, a + at, s->d + p.first * s->row, da + at, add);
            }
            add = 1;
        }
        ll_sublayer_through(run, x->j, r, da, d);
    }
}

/* The same for the encoder's output; its gradient is summed in its ws->d. */
static void source_back(const attention *x) {
    const ll_batch_run *run = x->run;
    const size_t width = (size_t)run->c->model.width;
    for (ll_rows r = {0}; ll_next_rows(&x->from, &r);) {
        const float *a = rows_of(x, 1, r, NULL);
        for (int i = 1; i < 3; i++) {
            const section *s = &x->s[i];
            make_back(x, s, r.n, a, s->d + r.first * s->row, x->from.ws->d + r.first * width, 1);
        }
    }
}

static ll_view view_of(const ll_batch_run *of, const section *s, float *data) {
    if (!s->width) return (ll_view){0};
    return (ll_view){data, (size_t)of->T * s->row, (size_t)s->head, s->row};
}

static ll_view mixed_view(const attention *x, float *data) {
    const size_t values = (size_t)x->run->model->values, heads = (size_t)x->run->c->model.heads;
    return (ll_view){data, (size_t)x->run->T * values, values / heads, values};
}

static ll_attention_call call_of(const attention *x) {
    const ll_batch_run *run = x->run;
    ll_attention_call call = {.B = run->B, .T = run->T, .S = x->from.T, .lengths = x->from.lengths};
    if (x->cross) call.query_lengths = run->lengths;
    if (ll_reads_first(run, x->layer)) call.T = 1;
    if (run->ws->segment) {
        call.lengths = NULL;
        call.segment = run->ws->segment, call.segments = run->segments;
    }
    call.q = view_of(run, &x->s[0], x->s[0].data);
    call.k = view_of(&x->from, &x->s[1], x->s[1].data);
    call.v = view_of(&x->from, &x->s[2], x->s[2].data);
    call.gate = ll_gate_view(run, x->s[GATE].data);
    call.y = mixed_view(x, x->mixed);
    call.saved = x->saved;
    call.bf16 = run->grad && run->c->bf16;
    call.scratch = run->ws->scratch, call.scratch_floats = run->ws->scratch_floats;
    return run->ws->carry ? ll_carry_call(run->ws->carry, x->op, &call) : call;
}

static ll_status mix(const attention *x) {
    const ll_batch_run *run = x->run;
    ll_operator_noise(run, x->op);
    const ll_attention_call call = call_of(x);
    if (run->streams) return ll_attend_streams(run, x->layer, x->cross, &call);
    if (run->ws->shared) return ll_shared_forward(run->ws->shared, x->layer, &call, run->again);
    return ll_attention_forward(run->model->attention[x->op], &call);
}

static ll_status mix_back(const attention *x) {
    const ll_batch_run *run = x->run;
    ll_attention_call call = call_of(x);
    call.dq = view_of(run, &x->s[0], x->s[0].d);
    call.dk = view_of(&x->from, &x->s[1], x->s[1].d);
    call.dv = view_of(&x->from, &x->s[2], x->s[2].d);
    call.dgate = ll_gate_view(run, x->s[GATE].d);
    call.g = mixed_view(x, run->ws->dmixed);
    ll_operator_params_gradients(run->model, x->op, run->grad, &call);
    if (run->ws->shared) return ll_shared_backward(run->ws->shared, x->layer, &call);
    return ll_attention_backward(run->model->attention[x->op], &call);
}

static ll_status finish(const attention *x) {
    const ll_batch_run *run = x->run;
    const int C = run->c->model.width, values = run->model->values;
    ll_status status = LL_OK;
    for (ll_rows r = {0}; !status && ll_next_read(run, x->layer, &r);) {
        const float *y = ll_head_norm(run, r.n, x->mixed + r.first * (size_t)values);
        ll_linear(run, r.n, values, C, y, (size_t)values, ll_weight_matrix(run, x->layer, x->output),
                  x->cross ? NULL : ll_weight(run, x->layer, LL_OUTPUT_BIAS), run->ws->output, (size_t)C);
        if (run->attended) ll_copy_rows(run, r.n, run->ws->output, run->attended + r.first * (size_t)C);
        ll_sublayer_add(run, x->j, r, run->ws->output);
        status = ll_sublayer_report(run, x->j, r, 0.8, 1);
    }
    return status;
}

static void finish_back(const attention *x) {
    const ll_batch_run *run = x->run;
    const int C = run->c->model.width, values = run->model->values;
    const size_t width = (size_t)C, row = (size_t)values;
    float *dbias = x->cross ? NULL : ll_weight_gradient(run, x->layer, LL_OUTPUT_BIAS);
    for (ll_rows r = {0}; ll_next_read(run, x->layer, &r);) {
        const float *df = run->attended ? run->attended + r.first * width
                                        : ll_sublayer_back(run, x->j, r, run->ws->d + r.first * width);
        const float *y = x->mixed + r.first * row;
        float *d = run->ws->dmixed + r.first * row;
        ll_linear_weight_back(run, r.n, values, C, ll_head_norm(run, r.n, y), row, df, width,
                              ll_weight_gradient(run, x->layer, x->output));
        if (dbias) ll_bias_back(r.n, C, df, dbias);
        ll_linear_input_back(run, r.n, values, C, df, width, ll_weight(run, x->layer, x->output), d, row, 0);
        ll_head_norm_back(run, r.n, y, d);
    }
}

ll_status ll_attend(const ll_batch_run *run, int layer, int cross) {
    const attention x = attention_of(run, layer, cross);
    ll_status status = project(&x, 0);
    if (!status && cross && !run->streams) {
        status = project(&x, 1);
        reverse(&x, 0);
    }
    if (!status) status = mix(&x);
    return status ? status : finish(&x);
}

ll_status ll_attend_back(const ll_batch_run *run, int layer, int cross) {
    const attention x = attention_of(run, layer, cross);
    finish_back(&x);
    const ll_status status = mix_back(&x);
    if (status) return status;
    reverse(&x, 1);
    project_back(&x);
    if (cross) source_back(&x);
    return LL_OK;
}

ll_status ll_attend_remember(const ll_batch_run *source, const ll_stack *stack, int layer, float *buffer,
                             ll_cross_cache *cache) {
    ll_batch_run reader = *source; /* its weights are the decoder's */
    reader.stack = stack;
    attention x = {.run = &reader, .from = *source, .layer = layer, .cross = 1};
    set_source(&x, source->model, buffer, NULL);
    const ll_status status = project(&x, 1);
    if (status) return status;
    reverse(&x, 0);
    ll_operator_noise(source, ll_operator_of(stack, layer, 1));
    return ll_cross_cache_fill(cache, source->T, view_of(source, &x.s[1], x.s[1].data),
                               view_of(source, &x.s[2], x.s[2].data));
}
