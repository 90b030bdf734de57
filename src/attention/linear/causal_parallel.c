/* Causal linear attention, forward, with intra-head parallelism: all threads compute one head. Calls with fewer heads
 * than threads use it. The tiles of one chunk at a time go through their four steps. Threads share the first and the
 * last step by tiles. They share the third step, which moves the state, by columns of values. Nothing is computed
 * twice. Every number is the sum that one thread would make, in the same order, so the bits are the same. */
#include "attention/linear/causal.h"
#include "base/integer.h"
#include "base/parallel.h"

typedef struct {
    ll_head *j;
    ll_causal_tile *tile;
    ll_causal_buffers *buffers; /* (threads) */
    ll_causal_state state;
    int tiles, width; /* of the chunk; columns of a piece of the state */
    int threads;
} walk;

static void features_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    ll_causal_tile_features(w->j, &w->buffers[worker], &w->tile[i]);
}

static void state_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    const int first = (int)i * w->width, cols = ll_min_int(w->width, w->j->op->c.E - first);
    (void)worker;
    for (int t = 0; t < w->tiles; t++) ll_causal_tile_state(w->j, &w->state, &w->tile[t], first, cols);
}

static void finish_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    (void)worker;
    ll_causal_tile_finish(w->j, &w->tile[i]);
}

static void chunk(walk *w, int t0) {
    ll_head *j = w->j;
    const int end = ll_min_int(j->n, t0 + j->chunk), pieces = (j->op->c.E + w->width - 1) / w->width;
    for (w->tiles = 0; t0 < end; t0 += j->tile) {
        ll_causal_tile *tile = &w->tile[w->tiles++];
        tile->t0 = t0, tile->n = ll_min_int(j->tile, end - t0);
    }
    ll_parallel_among(w->threads, (size_t)w->tiles, features_task, w);
    for (int t = 0; t < w->tiles; t++) ll_causal_tile_scales(j, &w->state, &w->tile[t]);
    ll_parallel_among(w->threads, (size_t)pieces, state_task, w);
    ll_parallel_among(w->threads, (size_t)w->tiles, finish_task, w);
}

/* Takes what the threads share. An arena without memory counts it. */
static walk walk_of(ll_head *j, int threads, ll_arena *shared) {
    const int tiles = j->chunk / j->tile;
    walk w = {.j = j, .width = j->op->c.E % (32 * threads) ? 16 : 32, .threads = threads};
    w.tile = ll_arena_bytes(shared, (size_t)tiles, sizeof *w.tile);
    w.buffers = ll_arena_bytes(shared, (size_t)threads, sizeof *w.buffers);
    for (int t = 0; t < tiles; t++) {
        const ll_causal_tile tile = ll_causal_tile_take(j, shared);
        if (w.tile) w.tile[t] = tile;
    }
    for (int i = 0; i < threads; i++) {
        const ll_causal_buffers buffers = ll_causal_buffers_take(j, shared);
        if (w.buffers) w.buffers[i] = buffers;
    }
    w.state = ll_causal_state_take(j->op, shared);
    return w;
}

size_t ll_intra_head_forward_floats(ll_head *j, int threads) {
    ll_arena shared = {0};
    (void)walk_of(j, threads, &shared);
    return shared.used;
}

void ll_intra_head_forward(ll_head *j, int threads, float *shared) {
    ll_arena a = {.base = shared};
    walk w = walk_of(j, threads, &a);
    ll_causal_begin(j, &w.state);
    for (int t0 = 0; t0 < j->n; t0 += j->chunk) {
        ll_causal_keep(j, &w.state, t0);
        chunk(&w, t0);
    }
    ll_causal_end(j, &w.state);
}
