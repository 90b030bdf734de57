/* PermuteFormer's positions (Chen 2021): the i-th power of a permutation acts on the features of token i. In cycle
 * order each cycle of the permutation is a contiguous block, and its i-th power is a rotation by i modulo the cycle's
 * length. So no table grows with the sequence, and sequences may have any length. In two dimensions the first half of
 * the features moves by the column, the second half by the row. The two commute, because they move different
 * features. */
#include <stdlib.h>
#include <string.h>

#include "attention/position/postmap.h"
#include "base/memory.h"

typedef struct {
    ll_cycle *cycle; /* (H, features), of which count[h][0] + count[h][1] are used */
    int (*count)[2]; /* (H): cycles that move by x (or by the token number), then those that move by y */
} cycles;

static int longer(const void *a, const void *b) {
    const ll_cycle *x = a, *y = b;
    return x->length != y->length ? (x->length < y->length) - (x->length > y->length) : x->start - y->start;
}

/* Cycles of pi (0..n-1) as {first feature, length}; seen (n) is scratch. */
static int find_cycles(const int32_t *pi, int n, ll_cycle *cycle, char *seen) {
    int count = 0;
    for (int a = 0; a < n; a++) seen[a] = 0;
    for (int a = 0; a < n; a++) {
        if (seen[a]) continue;
        int length = 0;
        for (int b = a; !seen[b]; b = pi[b]) seen[b] = 1, length++;
        cycle[count++] = (ll_cycle){a, length};
    }
    return count;
}

/* Are the cycles contiguous already, a -> a+1? Then the order is the identity. */
static int contiguous(const int32_t *pi, const ll_cycle *cycle, int count) {
    for (int c = 0; c < count; c++)
        for (int a = 0; a < cycle[c].length; a++)
            if (pi[cycle[c].start + a] != cycle[c].start + (a + 1) % cycle[c].length) return 0;
    return 1;
}

/* Orders one permutation of n features, which begins at `offset`. Long cycles come first, so that the short ones are
 * neighbours and can move in one vector. Returns the number of cycles, or -1 if pi is not a permutation. */
static int place(const int32_t *pi, int n, int offset, int *order, ll_cycle *cycle, char *seen, int *moved) {
    memset(seen, 0, (size_t)n);
    for (int a = 0; a < n; a++) {
        if (pi[a] < 0 || pi[a] >= n || seen[pi[a]]) return -1;
        seen[pi[a]] = 1;
    }
    const int count = find_cycles(pi, n, cycle, seen);
    if (!contiguous(pi, cycle, count)) {
        *moved = 1;
        qsort(cycle, (size_t)count, sizeof *cycle, longer);
    }
    int at = offset;
    for (int c = 0; c < count; c++) {
        int b = cycle[c].start;
        cycle[c].start = at;
        for (int a = 0; a < cycle[c].length; a++, b = pi[b]) order[at++] = offset + b;
    }
    return count;
}

/* Places the permutations of a head, one for each axis. */
static ll_status place_head(ll_feature_map *map, int h, char *seen) {
    const cycles *p = map->own;
    const int axes = map->stage->axes, n = map->features / axes;
    const size_t at = (size_t)h * (size_t)map->features;
    for (int axis = 0; axis < axes; axis++) {
        const int count = place(map->c.permutation + (size_t)h * (size_t)n, n, axis * n, map->order + at,
                                p->cycle + at + (axis ? p->count[h][0] : 0), seen, &map->reorder);
        if (count < 0) return ll_fail(LL_EINVAL, "permutation of head %d: not each of 0..%d once", h, n - 1);
        p->count[h][axis] = count;
    }
    return LL_OK;
}

static ll_status create(ll_feature_map *map) {
    const size_t H = (size_t)map->c.H, total = H * (size_t)map->features;
    cycles *p = map->own = ll_alloc(1, sizeof *p);
    if (!p) return LL_ENOMEM;
    map->order = ll_alloc(total, sizeof *map->order);
    p->cycle = ll_alloc(total, sizeof *p->cycle);
    p->count = ll_alloc(H, sizeof *p->count);
    char *seen = ll_alloc((size_t)map->features, 1);
    ll_status status = map->order && p->cycle && p->count && seen ? LL_OK : LL_ENOMEM;
    for (int h = 0; h < map->c.H && !status; h++) status = place_head(map, h, seen);
    ll_free(seen);
    return status;
}

static void free_cycles(void *own) {
    cycles *p = own;
    ll_free(p->cycle);
    ll_free(p->count);
    ll_free(p);
}

static void apply(const ll_feature_tile *t, int back, const ll_epilogue *epilogue, const float *in, size_t ldi,
                  float *out, size_t ldo) {
    const cycles *p = t->map->own;
    const ll_cycle *cycle = p->cycle + (size_t)t->head * (size_t)t->map->features;
    const int *count = p->count[t->head];
    t->k->rotate_cycles(t->C, t->x, count[0], cycle, back, epilogue, in, ldi, out, ldo);
    if (t->map->stage->axes == 2)
        t->k->rotate_cycles(t->C, t->y, count[1], cycle + count[0], back, epilogue, in, ldi, out, ldo);
}

static void forward(const ll_feature_tile *t, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out,
                    size_t ldo) {
    apply(t, 0, epilogue, in, ldi, out, ldo);
}

static void back(const ll_feature_tile *t, const ll_epilogue *epilogue, float *in, size_t ldi, float *out, size_t ldo) {
    apply(t, 1, epilogue, in, ldi, out, ldo);
}

/* ---- The two stages ---- */

static ll_status draw(const ll_attention_config *c, const ll_constant *b, const ll_constant_draw *how, void *x) {
    const int n = b->cols;
    for (int h = 0; h < c->H; h++) {
        int32_t *permutation = (int32_t *)x + (size_t)h * (size_t)n;
        if (how->long_cycles) {
            ll_permutation_long(permutation, n, how->layer * c->H + h);
        } else {
            ll_permutation_random(permutation, n, how->seed, how->layer, h);
        }
    }
    return LL_OK;
}

/* A permutation for each head, of the features that one axis moves. */
static int permutations(const ll_attention_config *c, int axes, ll_constant *list) {
    list[0] = (ll_constant){"permutation", LL_I32, c->H, ll_feature_count(c) / axes, LL_CONSTANT_AT(permutation), draw};
    return 1;
}

static int constants(const ll_attention_config *c, ll_constant *list) { return permutations(c, 1, list); }
static int constants_image(const ll_attention_config *c, ll_constant *list) { return permutations(c, 2, list); }

static ll_status check(const ll_attention_config *c) {
    if (!c->permutation) return ll_fail(LL_EINVAL, "attention: permuted positions but no permutation given");
    return LL_OK;
}

static ll_status check_image(const ll_attention_config *c) {
    const ll_status status = check(c);
    if (status) return status;
    if (c->causal) return ll_fail(LL_EINVAL, "attention: permute2d is for whole images, not causal attention");
    if (ll_feature_count(c) % 2)
        return ll_fail(LL_EINVAL, "attention: permute2d halves the features, %d is odd", ll_feature_count(c));
    if (c->width < 1 || c->height < 1 || c->before < 0)
        return ll_fail(LL_EINVAL, "attention: permute2d needs the image size, got %d x %d", c->width, c->height);
    return LL_OK;
}

const ll_postmap_kind ll_postmap_permute = {.axes = 1,
                                            .check = check,
                                            .constants = constants,
                                            .create = create,
                                            .free = free_cycles,
                                            .forward = forward,
                                            .back = back};
const ll_postmap_kind ll_postmap_permute2d = {.axes = 2,
                                              .check = check_image,
                                              .constants = constants_image,
                                              .create = create,
                                              .free = free_cycles,
                                              .forward = forward,
                                              .back = back};
