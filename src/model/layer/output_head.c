/* The top of the network: final norm, pooling, logits, cross-entropy, and back to ws->d.
 *
 * Language models compute logits, losses and their gradients for a few rows at a time, so (tokens, V) is never in
 * memory. */
#include <assert.h>
#include <string.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "model/layer/head_layers.h"
#include "model/layer/soft_loss.h"
#include "model/stream/stream_rows.h"

enum { COLUMNS = 32 /* of one task of pooling */ };

static int tied(const ll_model *m) {
    return m->at.head < 0;
}

int ll_head_width(const ll_model *m) {
    return ll_task_per_token(m->c->model.task) ? m->c->model.vocab : m->c->model.classes;
}

/* Numbers in a row from which logits are computed. */
static int head_depth(const ll_model *m) {
    return m->c->model.task == LL_TASK_MATCH ? m->c->model.ff : m->c->model.width;
}

const float *ll_head_input(const ll_batch_run *run, ll_rows rows) {
    ll_workspace *ws = run->ws;
    const float *x = ll_sublayer_input(run, ll_sublayers(run->stack), rows, ws->input);
    if (run->stack->at.norm < 0) return x;
    ll_norm(run, rows.n, run->stack->at.norm, x, ws->output);
    return ws->output;
}

void ll_head_input_back(const ll_batch_run *run, ll_rows rows, const float *dx) {
    const size_t C = (size_t)run->c->model.width;
    float *d = run->ws->d + rows.first * C;
    if (run->stack->at.norm < 0) {
        ll_copy_rows(run, rows.n, dx, d);
        return;
    }
    memset(d, 0, (size_t)rows.n * C * sizeof *d);
    ll_norm_back(run, rows.n, run->stack->at.norm, ll_residual(run, ll_sublayers(run->stack), rows), dx, d);
}

/* ---- Logits ---- */

/* For tokens of streams, by the embedding. */
typedef struct {
    const ll_batch_run *run;
    int n;
    const float *x, *W;
    float *out;
} job;

enum { ROWS = 128, FEW_ROWS = 32 /* rows of the embedding that stay in the cache for all n rows of x */ };

static void logits_task(void *arg, size_t i) {
    const job *j = arg;
    const int C = j->run->c->model.width, V = j->run->c->model.vocab, end = ll_min_int((int)(i + 1) * ROWS, V);
    const int some = j->n > 1 ? FEW_ROWS : ROWS;
    for (int first = (int)i * ROWS; first < end; first += some)
        for (size_t r = 0; r < (size_t)j->n; r++)
            j->run->k->gemv_rows(ll_min_int(some, end - first), C, j->W + (size_t)first * (size_t)C, (size_t)C,
                                 j->x + r * (size_t)C, j->out + r * (size_t)V + first, 0);
}

static void add_bias(const ll_batch_run *run, int V, const float *bias, float *logits) {
    if (bias) run->k->add((size_t)V, bias, logits);
}

/* Logits from the output of ll_head_transform. by_token: each row has the bits that a token of a single stream has,
 * whose sums run along the rows of a tied embedding. */
static void logits_of(const ll_batch_run *run, int n, const float *x, int by_token, float *logits) {
    const ll_model *m = run->model;
    const int C = head_depth(m), V = ll_head_width(m), head = tied(m) ? m->at.embedding : m->at.head;
    const float *W = ll_param_at(m, head), *bias = m->at.head_bias < 0 ? NULL : ll_param_at(m, m->at.head_bias);
    if (!tied(m)) {
        ll_linear(run, n, C, V, x, (size_t)C, ll_param_matrix(m, head), bias, logits, (size_t)V);
        return;
    }
    if (by_token) {
        job j = {run, n, x, W, logits};
        ll_parallel_for(ll_ceil_div_size((size_t)V, ROWS), logits_task, &j);
    } else {
        ll_product(run, 0, 1, n, V, C, x, (size_t)C, W, (size_t)C, logits, (size_t)V, 0, NULL);
    }
    for (size_t i = 0; bias && i < (size_t)n; i++) add_bias(run, V, bias, logits + i * (size_t)V);
}

void ll_head_logits(const ll_batch_run *run, int n, const float *x, float *logits) {
    logits_of(run, n, ll_head_transform(run, n, x), 0, logits);
}

void ll_head_stream_logits(const ll_batch_run *run, int n, const float *x, float *logits) {
    logits_of(run, n, ll_head_transform(run, n, x), 1, logits);
}

/* From dlogits (n, V) to the gradients of the output layer and dx (n, C). */
static void logits_back(const ll_batch_run *run, int n, const float *x, const float *dlogits, float *dx) {
    const ll_model *m = run->model;
    const int C = head_depth(m), V = ll_head_width(m), head = tied(m) ? m->at.embedding : m->at.head;
    const size_t width = (size_t)C, row = (size_t)V;
    const float *W = ll_param_at(m, head);
    float *dW = ll_param_in(m, run->grad, head);
    if (m->at.head_bias >= 0) ll_bias_back(n, V, dlogits, ll_param_in(m, run->grad, m->at.head_bias));
    if (tied(m)) {
        ll_product(run, 1, 0, V, C, n, dlogits, row, x, width, dW, width, 1, NULL);
        ll_product(run, 0, 0, n, C, V, dlogits, row, W, width, dx, width, 0, NULL);
        return;
    }
    ll_linear_weight_back(run, n, C, V, x, width, dlogits, row, dW);
    ll_linear_input_back(run, n, C, V, dlogits, row, W, dx, width, 0);
}

/* ---- Cross-entropy ---- */

typedef struct {
    const ll_batch_run *run;
    const int *targets;
    float scale;
    int n, V;
    size_t first; /* row, or sequence of a classifier */
    const float *taught; /* with a teacher: what its logits are computed from, of the row numbered `first` */
} losses;

/* The target of row i, or -1. */
static int target_of(const losses *l, int i) {
    const size_t row = l->first + (size_t)i;
    const ll_batch_run *run = l->run;
    if (!ll_task_per_token(run->c->model.task)) return l->targets[row];
    const size_t b = row / (size_t)run->T;
    return (int)(row % (size_t)run->T) < run->lengths[b] ? l->targets[row] : -1;
}

static void loss_task(void *arg, size_t i) {
    const losses *l = arg;
    const ll_kernels *k = l->run->k;
    const size_t V = (size_t)l->V;
    for (int r = (int)i * LL_PIECE; r < ((int)i + 1) * LL_PIECE && r < l->n; r++) {
        float *x = l->run->ws->logits + (size_t)r * V, *loss = l->run->ws->loss + r;
        const int target = target_of(l, r);
        if (target < 0) {
            memset(x, 0, V * sizeof *x);
            continue;
        }
        const float top = k->max(V, x);
        int best = 0; /* of equal answers the first counts, so that a constant output is not always right */
        while (best < l->V - 1 && x[best] != top) best++;
        loss[LL_CHUNK] = best == target;
        const ll_soft *soft = l->run->soft;
        loss[0] = !soft ? k->softmax_loss(l->V, x, target, l->scale)
                        : (float)ll_soft_loss(k, l->V, x, soft->teacher->ws->logits + (size_t)r * V, target,
                                              soft->weight, soft->temperature, l->scale);
    }
}

/* Losses of n rows whose logits are in ws->logits, which become their gradients. */
static int loss_rows(losses *l, ll_tally *tally) {
    ll_parallel_for(ll_ceil_div_size((size_t)l->n, LL_PIECE), loss_task, l);
    int count = 0;
    for (int r = 0; r < l->n; r++) {
        const int target = target_of(l, r);
        if (target < 0) continue;
        const int right = l->run->ws->loss[LL_CHUNK + r] > 0;
        if (tally->each) tally->each[l->first + (size_t)r] = l->run->ws->loss[r];
        count++;
        tally->loss += l->run->ws->loss[r];
        tally->correct += right;
        if (tally->classes) tally->classes[2 * target]++, tally->classes[2 * target + 1] += right;
        if (l->run->ws->wrong) l->run->ws->wrong[(l->first + (size_t)r) / (size_t)l->run->T] += !right;
    }
    tally->count += count;
    return count;
}

static int any_target(const losses *l) {
    for (int r = 0; r < l->n; r++)
        if (target_of(l, r) >= 0) return 1;
    return 0;
}

/* The teacher's logits of the rows of this step, `done` rows after the first. */
static void teach(const losses *l, int done) {
    const ll_batch_run *teacher = l->run->soft ? l->run->soft->teacher : NULL;
    if (!teacher) return;
    assert(l->n <= teacher->ws->logit_rows);
    ll_head_logits(teacher, l->n, l->taught + (size_t)done * (size_t)head_depth(teacher->model), teacher->ws->logits);
}

/* Rows x (n, depth), numbered from l->first, through logits and back: dx (n, depth) if there are gradients. */
static void cross_entropy(losses *l, int n, const float *x, float *dx, ll_tally *tally) {
    const ll_batch_run *run = l->run;
    const size_t C = (size_t)head_depth(run->model), first = l->first;
    for (int done = 0; done < n; done += l->n) {
        const int left = n - done;
        l->n = ll_min_int(left, run->ws->logit_rows);
        l->first = first + (size_t)done;
        const float *in = x + (size_t)done * C;
        float *out = dx ? dx + (size_t)done * C : NULL;
        if (any_target(l)) {
            const float *read = ll_head_transform(run, l->n, in);
            logits_of(run, l->n, read, 0, run->ws->logits);
            teach(l, done);
            loss_rows(l, tally);
            if (out) logits_back(run, l->n, read, run->ws->logits, out);
            if (out) ll_head_transform_back(run, l->n, in, out);
        } else if (out) {
            memset(out, 0, (size_t)l->n * C * sizeof *out);
        }
    }
}

/* ---- Pooling ---- */

/* The tokens of sequence b that are pooled. */
static int pooled(const ll_batch_run *run, size_t b) {
    return run->c->model.pool == LL_POOL_FIRST ? 1 : run->lengths[b];
}

typedef struct {
    const ll_batch_run *run;
    ll_rows rows;
    const float *x;
    float *dx;
} pooling;

/* All rows, some columns. A sum runs in the order of the rows, so that padding cannot change it. */
static void pool_task(void *arg, size_t i) {
    const pooling *p = arg;
    const size_t C = (size_t)p->run->c->model.width, T = (size_t)p->run->T, first = i * COLUMNS;
    const size_t end = ll_min_size(first + COLUMNS, C);
    for (size_t r = 0; r < (size_t)p->rows.n; r++) {
        const size_t b = (p->rows.first + r) / T, t = (p->rows.first + r) % T;
        if (t >= (size_t)pooled(p->run, b)) continue;
        for (size_t c = first; c < end; c++) p->run->ws->pool[b * C + c] += p->x[r * C + c];
    }
}

void ll_head_pool(const ll_batch_run *run) {
    const size_t C = (size_t)run->c->model.width;
    memset(run->ws->pool, 0, (size_t)run->B * C * sizeof(double));
    for (ll_rows r = {0}; ll_next_read(run, run->stack->layers - 1, &r);) {
        pooling p = {.run = run, .rows = r, .x = ll_head_input(run, r)};
        ll_parallel_for(ll_ceil_div_size(C, COLUMNS), pool_task, &p);
    }
}

const float *ll_head_pooled(const ll_batch_run *run, ll_rows sequences) {
    const size_t C = (size_t)run->c->model.width;
    float *x = run->ws->output;
    for (size_t i = 0; i < (size_t)sequences.n; i++) {
        const size_t b = sequences.first + i;
        const int n = pooled(run, b);
        for (size_t c = 0; c < C; c++) x[i * C + c] = (float)(run->ws->pool[b * C + c] / (n > 0 ? n : 1));
    }
    return x;
}

static void unpool_task(void *arg, size_t i) {
    const pooling *p = arg;
    const size_t C = (size_t)p->run->c->model.width, T = (size_t)p->run->T, n = (size_t)p->rows.n;
    for (size_t r = i * LL_PIECE; r < (i + 1) * LL_PIECE && r < n; r++) {
        const size_t b = (p->rows.first + r) / T, t = (p->rows.first + r) % T;
        const int count = pooled(p->run, b), used = t < (size_t)count;
        float *dx = p->dx + r * C;
        if (used && t > 0 && r > i * LL_PIECE) { /* all tokens of a sequence have the same gradient */
            memcpy(dx, dx - C, C * sizeof *dx);
            continue;
        }
        for (size_t c = 0; c < C; c++) dx[c] = used ? (float)(p->run->ws->dpool[b * C + c] / count) : 0;
    }
}

static void pool_back(const ll_batch_run *run) {
    const int last = run->stack->layers - 1;
    if (ll_reads_first(run, last)) memset(run->ws->d, 0, run->rows * (size_t)run->c->model.width * sizeof(float));
    for (ll_rows r = {0}; ll_next_read(run, last, &r);) {
        ll_head_input(run, r); /* recomputed for its statistics */
        pooling p = {.run = run, .rows = r, .dx = run->ws->gradient};
        ll_parallel_for(ll_ceil_div_size((size_t)r.n, LL_PIECE), unpool_task, &p);
        ll_head_input_back(run, r, run->ws->gradient);
    }
}

/* ---- Loss ---- */

static const ll_batch_run *teacher_of(const ll_batch_run *run) { return run->soft ? run->soft->teacher : NULL; }

static void classify_loss(losses *l, ll_tally *tally) {
    const ll_batch_run *run = l->run, *teacher = teacher_of(run);
    const size_t C = (size_t)run->c->model.width;
    ll_head_pool(run);
    if (teacher) ll_head_pool(teacher);
    for (ll_rows s = {0}; ll_next_chunk(&s, (size_t)run->B);) {
        float *dx = run->grad ? run->ws->gradient : NULL;
        l->first = s.first;
        if (teacher) l->taught = ll_head_pooled(teacher, s);
        cross_entropy(l, s.n, ll_head_pooled(run, s), dx, tally);
        for (size_t i = 0; dx && i < (size_t)s.n * C; i++) run->ws->dpool[s.first * C + i] = dx[i];
    }
    if (run->grad) pool_back(run);
}

/* Greedy decoding of a sequence gives exactly its targets if each target is the most likely token after those before
 * it. */
static void count_sequence(const ll_batch_run *run, const int *targets, int b, ll_tally *tally) {
    const int *of = targets + (size_t)b * (size_t)run->T;
    int any = 0;
    for (int t = 0; t < run->lengths[b]; t++) any |= of[t] >= 0;
    tally->sequences += any;
    tally->exact += any && !run->ws->wrong[b];
}

/* As classify_loss, for pairs: chunks have an even number of rows. */
static void match_loss(losses *l, ll_tally *tally) {
    const ll_batch_run *run = l->run, *teacher = teacher_of(run);
    ll_head_pool(run);
    if (teacher) ll_head_pool(teacher);
    for (ll_rows s = {0}; ll_next_chunk(&s, (size_t)run->B);) {
        const int n = s.n / 2;
        l->first = s.first / 2;
        if (teacher) l->taught = ll_match_forward(teacher, n, ll_head_pooled(teacher, s));
        cross_entropy(l, n, ll_match_forward(run, n, ll_head_pooled(run, s)), run->grad ? run->ws->match.dh : NULL,
                      tally);
        if (run->grad) ll_match_back(run, n, s.first / 2);
    }
    if (run->grad) pool_back(run);
}

void ll_head_loss(const ll_batch_run *run, const int *targets, float scale, ll_tally *tally) {
    losses l = {.run = run, .targets = targets, .scale = scale, .V = ll_head_width(run->model)};
    if (run->c->model.task == LL_TASK_CLASSIFY) {
        classify_loss(&l, tally);
        return;
    }
    if (run->c->model.task == LL_TASK_MATCH) {
        match_loss(&l, tally);
        return;
    }
    if (run->ws->wrong) memset(run->ws->wrong, 0, (size_t)run->B * sizeof *run->ws->wrong);
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        const float *x = ll_head_input(run, r);
        l.first = r.first;
        if (run->soft) l.taught = ll_head_input(run->soft->teacher, r);
        cross_entropy(&l, r.n, x, run->grad ? run->ws->gradient : NULL, tally);
        if (run->grad && run->model->at.transform >= 0) ll_head_input(run, r); /* recomputed for its statistics */
        if (run->grad) ll_head_input_back(run, r, run->ws->gradient);
    }
    for (int b = 0; run->ws->wrong && b < run->B; b++) count_sequence(run, targets, b, tally);
}
