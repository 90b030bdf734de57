/* The ablation of PermuteFormer's permutation: a random orthogonal matrix P in its place (Chen 2021, "w/o Property 3").
 * P^i phi keeps inner products, and products depend on the distance. But features have both signs, so weights may be
 * negative.
 *
 * In some basis B an orthogonal matrix rotates planes by angles (if the number of features is odd, one axis stays): P =
 * B^T R B. So P^i = B^T R(i) B, where R(i) rotates by i times the angles. In <P^i a, P^j b> = <R(i) B a, R(j) B b> the
 * outer B^T cancels. So features change their basis, which is one m x m product a token, and are rotated. No power of P
 * is computed. */
#include <string.h>

#include "attention/position/postmap.h"
#include "attention/position/rotation.h"
#include "base/memory.h"

enum { MOST = 2048 };

typedef struct {
    ll_rotation_table rotations; /* of each head */
    const float *basis;          /* (H, features, features), the caller's */
    float *basis_t;              /* (H, features, ld): its transpose */
} bases;

static ll_status check(const ll_attention_config *c) {
    const int m = ll_feature_count(c);
    if (m < 2 || m > MOST)
        return ll_fail(LL_EINVAL, "attention: orthogonal rotates 2 to %d features by a whole matrix, not %d", MOST, m);
    if (!c->encoding.theta || !c->encoding.basis)
        return ll_fail(LL_EINVAL, "attention: orthogonal needs its angles and their basis");
    return ll_rotation_check(c, "orthogonal");
}

/* Bases and angles of all heads. */
static ll_status draw_bases(const ll_attention_config *c, const ll_constant *b, const ll_constant_draw *how, void *x) {
    const size_t size = (size_t)b->cols * (size_t)b->cols;
    ll_status status = LL_OK;
    for (int h = 0; h < c->H && !status; h++)
        status = ll_draw_basis((float *)x + (size_t)h * size, b->cols, how->seed, how->layer, h);
    return status;
}

static ll_status draw_angles(const ll_attention_config *c, const ll_constant *b, const ll_constant_draw *how, void *x) {
    const int m = ll_feature_count(c);
    ll_status status = LL_OK;
    for (int h = 0; h < c->H && !status; h++)
        status = ll_draw_angles((float *)x + (size_t)h * (size_t)b->cols, m, how->seed, how->layer, h);
    return status;
}

static int constants(const ll_attention_config *c, ll_constant *list) {
    const int m = ll_feature_count(c);
    list[0] = (ll_constant){"basis", LL_F32, c->H * m, m, LL_CONSTANT_AT(encoding.basis), draw_bases};
    list[1] = (ll_constant){"angles", LL_F32, c->H, m / 2, LL_CONSTANT_AT(encoding.theta), draw_angles};
    return 2;
}

static ll_status create(ll_feature_map *map) {
    const size_t H = (size_t)map->c.H, m = (size_t)map->features, ld = (size_t)map->ld, pairs = m / 2;
    bases *p = map->own = ll_alloc(1, sizeof *p);
    if (!p) return LL_ENOMEM;
    p->basis = map->c.encoding.basis;
    p->basis_t = ll_alloc(H * m * ld, sizeof *p->basis_t);
    double *angles = ll_alloc(H * pairs, sizeof *angles);
    for (size_t t = 0; t < H * pairs && angles; t++) angles[t] = (double)map->c.encoding.theta[t];
    const ll_status status =
        p->basis_t && angles ? ll_rotation_table_create(&p->rotations, H, pairs, angles) : LL_ENOMEM;
    ll_free(angles);
    if (status) return status;
    for (size_t h = 0; h < H; h++)
        ll_kernel_table()->transpose((int)m, (int)m, p->basis + h * m * m, m, p->basis_t + h * m * ld, ld);
    return LL_OK;
}

static void free_bases(void *own) {
    bases *p = own;
    ll_rotation_table_free(&p->rotations);
    ll_free(p->basis_t);
    ll_free(p);
}

static void forward(const ll_feature_tile *t, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out,
                    size_t ldo) {
    const bases *p = t->map->own;
    const int m = t->map->features;
    const size_t ld = (size_t)t->map->ld;
    (void)epilogue;
    t->k->gemm(t->C, m, m, in, ldi, 1, p->basis_t + (size_t)t->head * (size_t)m * ld, ld, out, ldo, 0);
    ll_rotation_table_apply(&p->rotations, t->head, 0, t->C, t->x, out, ldo, out, ldo);
}

static void back(const ll_feature_tile *t, const ll_epilogue *epilogue, float *in, size_t ldi, float *out, size_t ldo) {
    const bases *p = t->map->own;
    const size_t m = (size_t)t->map->features;
    (void)epilogue;
    ll_rotation_table_apply(&p->rotations, t->head, 1, t->C, t->x, in, ldi, in, ldi);
    t->k->gemm(t->C, (int)m, (int)m, in, ldi, 1, p->basis + (size_t)t->head * m * m, m, out, ldo, 0);
}

/* A product with the basis, and the rotations. */
static double cost(const ll_feature_map *map) {
    const double m = map->features;
    return m * m + 2 * m;
}

const ll_postmap_kind ll_postmap_orthogonal = {.check = check,
                                               .constants = constants,
                                               .create = create,
                                               .free = free_bases,
                                               .cost = cost,
                                               .forward = forward,
                                               .back = back};
