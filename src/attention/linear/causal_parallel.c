/* Causal linear attention, forward, with intra-head parallelism: all threads compute one head. Calls with fewer heads
 * than threads use it. The tiles of one chunk at a time go through their four steps. Threads share the first and the
 * last step by tiles. They share the third step, which moves the state, by columns of values. Nothing is computed
 * twice. Every number is the sum that one thread would make, in the same order, so the bits are the same. */
#include "attention/linear/causal.h"
#include "base/parallel.h"

enum { LINE = 16 };

typedef struct {
    ll_head *j;
    ll_causal_tile *tile;
    ll_causal_buffers *buffers; /* (threads) */
    ll_causal_state state;
    int tiles, width; /* of the chunk; columns of a piece of the state */
    int threads;
} walk;

static int least(int a, int b) { return a < b ? a : b; }

/* Takes memory for a struct from a block of floats. */
static size_t floats_of(size_t bytes) { return (bytes / sizeof(float) + LINE) / LINE * LINE; }

size_t ll_intra_head_forward_floats(const ll_attention *op, int tile, int chunk, int threads) {
    const size_t C = (size_t)tile, ld = (size_t)ll_linear_map(op)->ld, E = (size_t)op->c.E,
                 m = (size_t)ll_linear_map(op)->features;
    const size_t ldv = (E + 16) / 16 * 16 + 16, tiles = (size_t)(chunk / tile);
    const size_t of_tile = 2 * C * ld + 3 * C * ldv + C * E + 3 * C + 9 * LINE;
    const size_t of_buffers = C * ld + LINE;
    return tiles * of_tile + (size_t)threads * of_buffers + 3 * m * (E + 1) + 2 * E + 8 * LINE +
           floats_of(tiles * sizeof(ll_causal_tile)) + floats_of((size_t)threads * sizeof(ll_causal_buffers));
}

static void features_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    ll_causal_tile_features(w->j, &w->buffers[worker], &w->tile[i]);
}

static void state_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    const int first = (int)i * w->width, cols = least(w->width, w->j->op->c.E - first);
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
    const int end = least(j->n, t0 + j->chunk), pieces = (j->op->c.E + w->width - 1) / w->width;
    for (w->tiles = 0; t0 < end; t0 += j->tile) {
        ll_causal_tile *tile = &w->tile[w->tiles++];
        tile->t0 = t0, tile->n = least(j->tile, end - t0);
    }
    ll_parallel_among(w->threads, (size_t)w->tiles, features_task, w);
    for (int t = 0; t < w->tiles; t++) ll_causal_tile_scales(j, &w->state, &w->tile[t]);
    ll_parallel_among(w->threads, (size_t)pieces, state_task, w);
    ll_parallel_among(w->threads, (size_t)w->tiles, finish_task, w);
}

void ll_intra_head_forward(ll_head *j, int threads, float *shared) {
    const int tiles = j->chunk / j->tile;
    walk w = {.j = j, .width = j->op->c.E % (32 * threads) ? 16 : 32, .threads = threads};
    w.tile = (ll_causal_tile *)(void *)ll_take(&shared, floats_of((size_t)tiles * sizeof *w.tile));
    w.buffers = (ll_causal_buffers *)(void *)ll_take(&shared, floats_of((size_t)threads * sizeof *w.buffers));
    for (int t = 0; t < tiles; t++) w.tile[t] = ll_causal_tile_take(j, &shared);
    for (int i = 0; i < threads; i++) w.buffers[i] = ll_causal_buffers_take(j, &shared);
    w.state = ll_causal_state_take(j->op, &shared);
    ll_causal_begin(j, &w.state);
    for (int t0 = 0; t0 < j->n; t0 += j->chunk) {
        ll_causal_keep(j, &w.state, t0);
        chunk(&w, t0);
    }
    ll_causal_end(j, &w.state);
}
