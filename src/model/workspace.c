/* The memory of a network. The sizes are planned first; then one block is allocated and divided. */
#include <limits.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "model/config/mechanism.h"
#include "model/layer/embedding.h"
#include "model/layer/head_layers.h"
#include "model/sequence/chunks.h"
#include "model/sequence/shared_sequence.h"

enum {
    LOGIT_FLOATS = 1 << 20, /* floats of a chunk of logits: large enough for the product, small enough for a cache */
    LOGIT_ROWS = 256        /* fewest rows */
};

static float *take(ll_arena *a, size_t count, size_t width) { return ll_arena_take(a, count * width); }

/* Sequences in a batch: a document in packed rows may have one token. */
static int most_sequences(const ll_workspace *ws) { return ws->model->c->model.separator < 0 ? ws->B : ws->B * ws->T; }

/* The number of copies: training stores every layer, evaluation one. Training that computes blocks again
 * stores every residual between blocks and one of everything else. */
static void plan_layers(ll_workspace *ws, ll_arena *p, size_t rows, size_t chunk) {
    const ll_model *m = ws->model;
    const ll_model_config *c = m->c;
    const size_t layers = (size_t)ws->stack->layers, C = (size_t)c->model.width, values = (size_t)m->values;
    const int train = ws->mode == LL_TRAIN, keep = ws->keeps, gated = c->model.activation == LL_ACT_SWIGLU;
    const int parallel = c->model.norm == LL_NORM_PARALLEL; /* feed-forward reads what attention has read */
    for (int j = 0; j <= ll_sublayers(ws->stack); j++) {
        const int one = train ? j % ws->stack->parts : j & parallel; /* the first of those that share its place */
        ws->residual[j] = keep || j == one || (train && !one) ? take(p, rows, C) : ws->residual[one];
    }
    for (size_t l = 0; l < layers; l++) {
        const int own = keep || l == 0;
        ws->project[l] = own ? take(p, rows, ll_row_width(m)) : ws->project[0];
        ws->gate[l] = !m->gated ? NULL : own ? take(p, rows, (size_t)c->model.heads) : ws->gate[0];
        ws->mixed[l] = own ? take(p, rows, values) : ws->mixed[0];
        ws->hidden[l] = own ? take(p, keep ? rows : chunk, (size_t)c->model.ff) : ws->hidden[0];
        ws->gates[l] = !gated ? NULL : own ? take(p, keep ? rows : chunk, (size_t)c->model.ff) : ws->gates[0];
        const ll_attention *op = m->attention[ll_operator_of(ws->stack, (int)l, 0)];
        const ll_attention_call call = {.B = ws->B, .T = ws->T, .S = ws->T, .segments = most_sequences(ws)};
        ws->saved[l] = !train ? NULL : own ? take(p, ll_attention_saved(op, &call), 1) : ws->saved[0];
    }
}

static void plan_cross(ll_workspace *ws, ll_arena *p, size_t rows) {
    const ll_model *m = ws->model;
    const size_t queries = (size_t)m->queries, values = (size_t)m->values;
    const int S = ws->source ? ws->source->T : 0, keep = ws->keeps, train = ws->mode == LL_TRAIN;
    for (int l = 0; l < ws->stack->layers; l++) {
        const int own = keep || l == 0;
        ws->cross_query[l] = own ? take(p, rows, queries) : ws->cross_query[0];
        ws->cross_mixed[l] = own ? take(p, rows, values) : ws->cross_mixed[0];
        ws->cross_source[l] = !S    ? NULL
                              : own ? take(p, (size_t)ws->B * (size_t)S, queries + values)
                                    : ws->cross_source[0];
        const ll_attention *op = m->attention[ll_operator_of(ws->stack, l, 1)];
        const size_t saved = ll_attention_saved(op, &(ll_attention_call){.B = ws->B, .T = ws->T, .S = S});
        ws->cross_saved[l] = !train ? NULL : own ? take(p, saved, 1) : ws->cross_saved[0];
    }
    if (train) ws->dsource = take(p, (size_t)ws->B * (size_t)S, queries + values);
}

/* Floats of scratch that any call of attention needs, for the present number of threads. */
static size_t scratch_floats(const ll_workspace *ws) {
    static float saved; /* only whether it is NULL matters */
    const int keep = ws->mode == LL_TRAIN;
    size_t most = 0;
    for (int l = 0; l < ws->stack->layers && ws->mode != LL_STREAM; l++)
        for (int cross = 0; cross < ws->stack->parts - 1; cross++) {
            const ll_attention *op = ws->model->attention[ll_operator_of(ws->stack, l, cross)];
            ll_attention_call call = {.B = ws->B, .T = ws->T, .S = ws->T, .saved = keep ? &saved : NULL};
            call.bf16 = keep && ws->model->c->bf16;
            if (cross) call.S = ws->source ? ws->source->T : 0;
            if (!cross) call.segments = most_sequences(ws);
            for (int firsts = 0; firsts < 2; firsts++, call.T = 1) /* with queries of the first tokens alone, too */
                for (int backward = 0; backward <= keep; backward++)
                    most = ll_max_size(most, ll_attention_scratch(op, &call, backward));
        }
    return most;
}

/* chunk: the sequences of a batch, at most LL_CHUNK, or more. */
static void plan_match(ll_workspace *ws, ll_arena *p, size_t chunk) {
    const size_t C = (size_t)ws->model->c->model.width, ff = (size_t)ws->model->c->model.ff, pairs = chunk / 2;
    const int training = ws->mode == LL_TRAIN;
    ws->match.x = take(p, pairs, 4 * C);
    ws->match.u = take(p, pairs, ff);
    ws->match.h = take(p, pairs, ff);
    ws->match.dx = training ? take(p, pairs, 4 * C) : NULL;
    ws->match.dh = training ? take(p, pairs, ff) : NULL;
}

/* Floats of scratch for products of `rows` rows with any weights, and for their gradients, whose sums run over rows. */
static size_t packed_floats(const ll_workspace *ws, int rows) {
    const ll_model *m = ws->model;
    const int C = m->c->model.width,
              patch = m->at.patch < 0 ? 0 : m->param[m->at.patch].rows,
              dims[] = {m->values,  m->c->model.ff, m->c->model.task == LL_TASK_MATCH ? 4 * C : C,
                        patch,      m->queries,     m->keys,
                        ll_head_width(m), m->c->model.heads};
    int deepest = 0, widest = 0; /* the input: queries, keys, gate */
    for (int i = 0; i < 8; i++) {
        if (dims[i] > widest) widest = dims[i];
        if (dims[i] > deepest && i < 4) deepest = dims[i];
    }
    const int most = ll_max_int(widest, rows);
    return ws->mode == LL_TRAIN ? ll_gemm_scratch(most, widest, most) : ll_gemm_scratch(rows, widest, deepest);
}

static void plan_chunk(ll_workspace *ws, ll_arena *p, size_t rows, size_t chunk) {
    const ll_model *m = ws->model;
    const ll_model_config *c = m->c;
    const size_t C = (size_t)c->model.width, V = (size_t)ll_head_width(m), B = (size_t)ws->B;
    const int classify = !ll_task_per_token(c->model.task), top = ws->stack == ll_top_stack(m);
    size_t logits = ll_max_size(LOGIT_FLOATS / V, LOGIT_ROWS);
    if (classify) rows = B;
    if (classify && B > chunk) chunk = ll_min_size(B, LL_CHUNK); /* pooled rows use it, too */
    ws->logit_rows = !top ? 0 : ws->mode == LL_STREAM ? 1 : (int)ll_min_size(logits, ll_min_size(rows, chunk));
    const size_t own = (size_t)ll_max_int(m->queries, m->values); /* at most */
    ws->grouped = c->model.kv_heads ? take(p, chunk, own) : NULL;
    for (int i = 0; i < 4; i++) ws->transform[i] = m->at.transform >= 0 ? take(p, chunk, C) : NULL;
    ws->token_scale = c->model.mask_token >= 0 ? take(p, B, 1) : NULL;
    ws->pixels = c->model.patch ? take(p, chunk, (size_t)ll_embedding_of(c)->numbers(c)) : NULL;
    ws->type = c->model.type_separator >= 0 ? (int *)take(p, B, (size_t)ws->T) : NULL;
    ws->input = take(p, chunk, C);
    ws->output = take(p, chunk, C);
    ws->wide = take(p, chunk, (size_t)c->model.ff);
    ws->heads = ll_config_head_norm(c) ? take(p, chunk, (size_t)m->values) : NULL;
    ws->statistics = take(p, 2, LL_CHUNK);
    ws->logits = take(p, (size_t)ws->logit_rows, V);
    ws->loss = take(p, 2, LL_CHUNK);
    ws->lengths = (int *)take(p, B, 1);
    const int packed = c->model.separator >= 0 && ws->mode != LL_STREAM; /* streams begin anew */
    ws->position = packed ? (int *)take(p, (size_t)ws->B, (size_t)ws->T) : NULL;
    ws->segment = packed ? (ll_segment *)(void *)take(p, (size_t)ws->B * (size_t)ws->T, sizeof(ll_segment) / 4) : NULL;
    ws->wrong = c->model.task == LL_TASK_SEQ2SEQ && top ? (int *)take(p, B, 1) : NULL;
    ws->pool = classify ? (double *)take(p, B, 2 * C) : NULL;
    if (c->model.task == LL_TASK_MATCH) plan_match(ws, p, chunk);
    if (c->position.type == LL_POSITION_SINUSOIDAL) ws->sinus = take(p, (size_t)(ws->T - m->cls_tokens), C);
    if (ws->mode != LL_TRAIN) return;
    ws->dpool = classify ? (double *)take(p, B, 2 * C) : NULL;
    ws->gradient = take(p, chunk, C);
    ws->dwide = take(p, chunk, (size_t)c->model.ff);
    ws->partial = take(p, ll_ceil_div_size(chunk, LL_PIECE), 2 * C);
}

static size_t lay_out(ll_workspace *ws, float *base) {
    const ll_model *m = ws->model;
    const size_t rows = (size_t)ws->B * (size_t)ws->T, values = (size_t)m->values;
    ll_arena p = {.base = base};
    plan_layers(ws, &p, rows, ll_min_size(rows, LL_CHUNK));
    if (ws->stack->parts > 2) plan_cross(ws, &p, rows);
    if (ws->stack != ll_top_stack(m)) ws->top = take(&p, rows, (size_t)m->c->model.width);
    plan_chunk(ws, &p, rows, ll_min_size(rows, LL_CHUNK));
    if (ws->mode == LL_TRAIN) {
        ws->d = take(&p, rows, (size_t)m->c->model.width);
        if (m->c->model.norm == LL_NORM_PARALLEL) ws->dparallel = take(&p, rows, (size_t)m->c->model.width);
        ws->dproject = take(&p, rows, ll_row_width(m));
        ws->dgate = m->gated ? take(&p, rows, (size_t)m->c->model.heads) : NULL;
        ws->dmixed = take(&p, rows, values);
    }
    const size_t source = ws->source ? (size_t)ws->source->B * (size_t)ws->source->T : 0; /* the source uses it, too */
    ws->scratch_floats = scratch_floats(ws);
    ws->scratch = ws->scratch_floats ? take(&p, ws->scratch_floats, 1) : NULL;
    ws->packed = take(&p, packed_floats(ws, (int)ll_min_size(ll_max_size(rows, source), LL_CHUNK)), 1);
    return p.used;
}

ll_status ll_check_reach(const ll_model *m, int T) {
    const ll_model_config *c = m->c;
    const int64_t tokens = T / ll_embedding_of(c)->numbers(c), rows = tokens + m->cls_tokens;
    if (tokens > ll_position_limit(&c->position))
        return ll_fail(LL_EINVAL, "%lld tokens, but the model has learned positions for %d (position.max-length)",
                       (long long)tokens, (int)ll_position_limit(&c->position));
    if (ll_kernel_row(c->attention.kernel)->about.length == LL_LENGTH_TABLE && rows > c->attention.linformer_length)
        return ll_fail(LL_EINVAL, "%lld tokens, but the model's linformer ends at %d (attention.max-length)",
                       (long long)rows, c->attention.linformer_length);
    return LL_OK;
}

/* Refuses sizes that no memory holds, before any size can overflow. */
static ll_status check(const ll_model *m, int B, int T) {
    const ll_model_config *c = m->c;
    if (B < 1 || T < 1) return ll_fail(LL_EINVAL, "a batch of %d x %d tokens; both must be at least 1", B, T);
    if (c->model.patch && T != ll_config_image_numbers(c))
        return ll_fail(LL_EINVAL, "%d numbers, and the model reads images of %d x %d pixels with %d channels", T,
                       c->position.width, c->position.height, c->model.channels);
    const int64_t rows = (int64_t)T / ll_embedding_of(c)->numbers(c) + m->cls_tokens;
    const double row = 3.0 * c->model.width + 2.0 * m->queries + 2.0 * m->values + c->model.ff;
    if (T == INT_MAX || (double)B * (double)rows * row * (m->operators + 1.0) > 1e15)
        return ll_fail(LL_ENOMEM, "a batch of %d x %d tokens is larger than any memory", B, T);
    if (c->model.separator >= 0 && (int64_t)B * rows > INT_MAX) /* each token may be a document */
        return ll_fail(LL_EINVAL, "a batch of %d x %d tokens; with model.separator it may have %d", B, T, INT_MAX);
    return LL_OK;
}

/* First the arrays of pointers, then the arrays they point to. */
static ll_status take_lists(ll_workspace *ws) {
    const size_t layers = (size_t)ws->stack->layers, residuals = (size_t)ll_sublayers(ws->stack) + 1;
    float ***const lists[] = {&ws->project, &ws->gate,        &ws->mixed,        &ws->hidden,      &ws->gates,
                              &ws->saved,   &ws->cross_query, &ws->cross_source, &ws->cross_mixed, &ws->cross_saved};
    const size_t count = sizeof lists / sizeof *lists;
    ws->layers = ll_alloc(residuals + count * layers, sizeof *ws->layers);
    if (!ws->layers) return LL_ENOMEM;
    ws->residual = ws->layers;
    for (size_t i = 0; i < count; i++) *lists[i] = ws->layers + residuals + i * layers;
    return LL_OK;
}

/* Everything but the memory that it plans. */
static ll_status plan(ll_workspace **out, const ll_model *m, const ll_stack *stack, int B, int T, int S, int mode) {
    ll_status status = check(m, B, T);
    if (status) return status;
    ll_workspace *ws = ll_alloc(1, sizeof *ws);
    if (!ws) return LL_ENOMEM;
    *ws = (ll_workspace){.model = m, .stack = stack, .mode = mode, .B = B, .T = ll_model_rows(m, T)};
    ws->keeps = mode == LL_TRAIN && !m->c->recompute;
    status = take_lists(ws);
    if (!status && S) status = plan(&ws->source, m, &m->stack[0], B, S, 0, mode);
    if (status) {
        ll_workspace_free(ws);
        return status;
    }
    ws->bytes = lay_out(ws, NULL) * sizeof(float);
    ll_workspace_part(ws, 0, 1);
    *out = ws;
    return LL_OK;
}

/* What the memory has before the first batch. */
static void fill(ll_workspace *ws) {
    if (ws->sinus && ws->mode != LL_STREAM) ll_sinus(ws->model, ws->sinus, ws->T - ws->model->cls_tokens, 0);
}

static ll_status allocate(ll_workspace *ws) {
    const ll_status status = ws->source ? allocate(ws->source) : LL_OK;
    if (status) return status;
    ws->block = ll_alloc(ws->bytes / sizeof(float), sizeof(float));
    if (!ws->block) return LL_ENOMEM;
    lay_out(ws, ws->block);
    fill(ws);
    return LL_OK;
}

ll_status ll_workspace_make(ll_workspace **out, const ll_model *m, const ll_stack *stack, int B, int T, int S,
                            int mode) {
    LL_FLOAT_MODE;
    ll_workspace *ws = NULL;
    ll_status status = plan(&ws, m, stack, B, T, S, mode);
    if (!status) status = allocate(ws);
    if (status) {
        ll_workspace_free(ws);
        return status;
    }
    *out = ws;
    return LL_OK;
}

ll_status ll_workspace_measure(size_t *bytes, const ll_model *m, int B, int T, int training, int parts) {
    ll_workspace *ws = NULL;
    const int chunked = ll_chunks_wanted(m, T), length = chunked ? m->c->chunk : T;
    const int S = m->stacks > 1 ? T : 0, mode = training ? LL_TRAIN : LL_EVALUATE;
    ll_status status = ll_check_reach(m, T);
    if (!status) status = plan(&ws, m, ll_top_stack(m), chunked ? 1 : B, length, S, mode);
    if (!status) *bytes = ll_workspace_bytes(ws);
    if (!status && chunked) status = ll_chunks_measure(bytes, m, T, training);
    if (!status && parts > 1) status = ll_shared_measure(ws, bytes);
    ll_workspace_free(ws);
    return status;
}

ll_status ll_workspace_measure_reading(size_t *bytes, const ll_model *m, int B, int T) {
    ll_workspace *ws = NULL;
    ll_status status = ll_check_reach(m, T);
    if (!status) status = plan(&ws, m, ll_top_stack(m), B, T, m->stacks > 1 ? T : 0, LL_EVALUATE);
    if (!status) *bytes = ll_workspace_bytes(ws);
    ll_workspace_free(ws);
    return status;
}

ll_status ll_workspace_create(ll_workspace **ws, const ll_model *model, int B, int T, int training) {
    const int S = model->stacks > 1 ? T : 0, mode = training ? LL_TRAIN : LL_EVALUATE;
    ll_status status = ll_check_reach(model, T);
    if (status) return status;
    if (!ll_chunks_wanted(model, T)) return ll_workspace_make(ws, model, ll_top_stack(model), B, T, S, mode);
    ll_chunks *chunks = NULL;
    status = ll_chunks_create(&chunks, model, T, training);
    if (!status) status = ll_workspace_make(ws, model, ll_top_stack(model), 1, model->c->chunk, 0, mode);
    if (status) {
        ll_chunks_free(chunks);
        return status;
    }
    (*ws)->chunks = chunks;
    return LL_OK;
}

void ll_workspace_rest(ll_workspace *ws) {
    if (ws->source) ll_workspace_rest(ws->source);
    ll_memory_rest(ws->block, ws->bytes);
    fill(ws);
}

void ll_workspace_on_gradient(ll_workspace *ws, ll_ready_fn *ready, void *arg) {
    ws->ready = ready;
    ws->ready_arg = arg;
    if (ws->source) ll_workspace_on_gradient(ws->source, ready, arg);
}

void ll_workspace_part(ll_workspace *ws, int64_t part, int64_t parts) {
    ws->part = part;
    ws->parts = parts;
    ws->span = 1;
    if (ws->source) ll_workspace_part(ws->source, part, parts);
}

void ll_workspace_free(ll_workspace *ws) {
    if (!ws) return;
    ll_workspace_free(ws->source);
    ll_shared_free(ws->shared);
    ll_chunks_free(ws->chunks);
    ll_free(ws->block);
    ll_free(ws->layers);
    ll_free(ws);
}

size_t ll_workspace_bytes(const ll_workspace *ws) {
    return ws->bytes + (ws->source ? ws->source->bytes : 0) + (ws->chunks ? ws->chunks->bytes : 0);
}
