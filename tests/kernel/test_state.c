/* The kernels of linear attention's recurrent state, in double and in float: every tier of this machine against the
 * recurrence in double. */
#include "guard.h"

/* Eighteen tokens are added to a state and read from it, with n features and E values, in blocks of any size: the
 * recurrence in double, and the same bits as one by one. */
enum { STATES = 18 };
typedef struct {
    size_t n, E, ld, ldv;
    guarded key, query, value, state, sums, num, den;
    double factor[STATES], *S0, *z0;
} state_case;

static double *doubles(guarded g) {
    return (double *)(void *)g.p;
}

/* apart: two calls, for the values and for the weights. */
static void run_states(const ll_kernels *k, state_case *c, int scaled, int apart, const int *cut) {
    memset(c->state.p, 0, 2 * c->n * c->E * sizeof(float));
    memset(c->sums.p, 0, 2 * c->n * sizeof(float));
    for (size_t t = 0; t < STATES; t += (size_t)*cut++) {
        const double *factor = scaled ? c->factor + t : NULL, *v = doubles(c->value) + t * c->ldv;
        const float *key = c->key.p + t * c->ld, *query = c->query.p + t * c->ld;
        double *num = doubles(c->num) + t * c->ldv, *den = doubles(c->den) + t, *z = doubles(c->sums);
        k->state_tokens(*cut, (int)c->n, (int)c->E, factor, key, query, c->ld, v, c->ldv, doubles(c->state),
                        apart ? NULL : z, num, den);
        if (apart) k->state_tokens(*cut, (int)c->n, 0, factor, key, query, c->ld, v, 0, doubles(c->state), z, num, den);
    }
}

static void check_states(const ll_kernels *k, state_case *c, int scaled, uint64_t seed) {
    const double slack = 1e-13 * (double)c->n;
    for (size_t t = 0; t < STATES; t++) {
        const double f = scaled ? c->factor[t] : 1;
        const float *key = c->key.p + t * c->ld, *query = c->query.p + t * c->ld;
        double expect = 0;
        for (size_t i = 0; i < c->n; i++) expect += query[i] * (c->z0[i] = f * c->z0[i] + key[i]);
        near(k->name, "state_tokens weight", c->n, t, seed, doubles(c->den)[t], expect, slack);
        for (size_t e = 0; e < c->ldv; e++) {
            expect = 0;
            for (size_t i = 0; i < c->n && e < c->E; i++) {
                double *s = c->S0 + i * c->E + e;
                expect += query[i] * (*s = f * *s + key[i] * doubles(c->value)[t * c->ldv + e]);
            }
            near(k->name, "state_tokens", c->n, e, seed, doubles(c->num)[t * c->ldv + e], expect, slack);
        }
    }
}

static void states(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    static const int alone[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, blocks[] = {0, 16, 2},
                     odd[] = {0, 5, 3, 10}, *const cuts[] = {blocks, odd};
    static const size_t widths[] = {1, 5, 16, 21};
    uint64_t from = seed;
    state_case c = {.n = n, .E = widths[shift % 4], .ld = n + shift, .ldv = (widths[shift % 4] + 7) / 8 * 8};
    const int scaled = shift != 1;
    c.key = guard_random(STATES * c.ld, shift, &from), c.query = guard_random(STATES * c.ld, 1, &from);
    c.value = guard(2 * STATES * c.ldv, 0), c.state = guard(2 * n * c.E, 2), c.sums = guard(2 * n, 0);
    c.num = guard(2 * STATES * c.ldv, 0), c.den = guard((size_t)2 * STATES, 0);
    c.S0 = calloc(n * c.E + 1, sizeof(double)), c.z0 = calloc(n + 1, sizeof(double));
    for (size_t t = 0; t < STATES; t++) {
        c.factor[t] = t % 3 ? 0.9 : t % 2 ? 1 : 0.25;
        for (size_t e = 0; e < c.ldv; e++) doubles(c.value)[t * c.ldv + e] = e < c.E ? signed_one(&from) : 0;
    }
    run_states(k, &c, scaled, 0, alone);
    check_states(k, &c, scaled, seed);
    const size_t floats[] = {2 * n * c.E, 2 * n, 2 * STATES * c.ldv, (size_t)2 * STATES};
    const guarded results[] = {c.state, c.sums, c.num, c.den};
    float *first[4];
    for (int i = 0; i < 4; i++) {
        first[i] = calloc(floats[i] + 1, sizeof(float));
        memcpy(first[i], results[i].p, floats[i] * sizeof(float));
    }
    for (int way = 0; way < 4; way++) {
        run_states(k, &c, scaled, way / 2, cuts[way % 2]);
        for (int i = 0; i < 4; i++)
            if (memcmp(first[i], results[i].p, floats[i] * sizeof(float)))
                fail_msg("%s state_tokens: %zu features, seed %llx: cut or parted otherwise, other bits", k->name, n,
                         (unsigned long long)seed);
    }
    for (int i = 0; i < 4; i++) free(first[i]);
    free(c.S0), free(c.z0);
    guarded all[] = {c.key, c.query, c.value, c.state, c.sums, c.num, c.den};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "state", k->name);
}

static void test_states(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 33, 64};
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t shift = 0; shift < 4; shift++) states(k, sizes[i], shift, 1000 * i + shift);
}

/* ---- scan and scan_weights ---- */

/* Features of keys and queries, values, and what the tokens read, in order or reversed. */
typedef struct {
    size_t m, n, ldk, ldv, lds;
    guarded k, q, v, y, S, sum;
} scan_case;

/* A scan of all tokens. apart: with `sum`, which is S itself or not. */
static void run_scan(const ll_kernels *k, const scan_case *c, int back, int apart, int reads, float carry,
                     float after) {
    const size_t last = back ? STATES - 1 : 0;
    const ptrdiff_t sign = back ? -1 : 1;
    const ll_scan x = {(int)c->m, (int)c->n, c->k.p + last * c->ldk, c->q.p + last * c->ldk, c->v.p + last * c->ldv,
                       reads ? c->y.p + last * c->ldv : NULL, sign * (ptrdiff_t)c->ldk, sign * (ptrdiff_t)c->ldv,
                       carry, after, c->S.p, apart == 2 ? c->sum.p : apart ? c->S.p : NULL, c->lds};
    ll_prefetch next = {0};
    ll_prefetch_rows(&next, c->v.p, c->ldv, STATES, (int)c->n);
    k->scan(STATES, &x, &next);
}

/* Takes column e of token t into S, and returns what the token reads there. */
static double take_column(const scan_case *c, double *S, size_t t, size_t e) {
    double read = 0;
    for (size_t a = 0; a < c->m; a++) {
        double *s = S + a * c->lds + e;
        *s += (double)c->k.p[t * c->ldk + a] * (double)c->v.p[t * c->ldv + e];
        read += (double)c->q.p[t * c->ldk + a] * *s;
    }
    return read;
}

static void check_scan(const ll_kernels *k, const scan_case *c, int back, int apart, uint64_t seed) {
    const double slack = 1e-6 * (double)(c->m + STATES);
    const float carry = apart == 2 ? 1 : 0.5f, after = apart == 2 ? 1 : 0.25f;
    const size_t floats = c->m * c->lds;
    double *S = calloc(floats + 1, sizeof *S);
    float *before = calloc(floats + 1, sizeof *before), *moved = calloc(floats + 1, sizeof *moved);
    memcpy(before, c->S.p, floats * sizeof *before);
    for (size_t i = 0; i < floats; i++) S[i] = (double)carry * (double)c->S.p[i];
    memset(c->sum.p, 0, floats * sizeof(float));
    run_scan(k, c, back, apart, 1, carry, after);
    const float *result = apart == 2 ? c->sum.p : c->S.p;
    memcpy(moved, result, floats * sizeof *moved);
    for (size_t i = 0; i < STATES; i++) {
        const size_t t = back ? STATES - 1 - i : i;
        for (size_t e = 0; e < c->n; e++)
            near(k->name, "scan", c->m, e, seed, (double)c->y.p[t * c->ldv + e], take_column(c, S, t, e), slack);
    }
    for (size_t a = 0; a < c->m; a++)
        for (size_t e = 0; e < c->n; e++) {
            const size_t i = a * c->lds + e;
            const double expect = apart == 2 ? S[i] - (double)before[i] : (double)after * S[i];
            near(k->name, "scan state", c->m, i, seed, (double)result[i], expect, slack);
        }
    if (apart == 2) assert_memory_equal(before, c->S.p, floats * sizeof *before);
    memcpy(c->S.p, before, floats * sizeof *before);
    memset(c->sum.p, 0, floats * sizeof(float));
    run_scan(k, c, back, apart, 0, carry, after); /* that it is read changes no bit of the state */
    assert_memory_equal(moved, result, floats * sizeof *moved);
    memcpy(c->S.p, before, floats * sizeof *before);
    free(S), free(before), free(moved);
}

/* Two scans in one: y and the state are those of `scan`, and dk reads the state along its other side. */
static void check_gradients(const ll_kernels *k, const scan_case *c, int back, int apart, uint64_t seed) {
    const double slack = 1e-6 * (double)(c->m + c->n + STATES);
    const size_t last = back ? STATES - 1 : 0, floats = c->m * c->lds;
    const ptrdiff_t sign = back ? -1 : 1;
    uint64_t from = seed;
    guarded w = guard_random(STATES * c->ldv, 1, &from), dk = guard_random(STATES * c->ldk, 2, &from);
    guarded S = guard(floats, 1);
    double *state = calloc(floats, sizeof *state), *expect = calloc(STATES * c->ldk, sizeof *expect);
    memcpy(S.p, c->S.p, floats * sizeof(float));
    for (size_t i = 0; i < floats; i++) state[i] = 0.5 * (double)c->S.p[i];
    for (size_t i = 0; i < STATES * c->ldk; i++) expect[i] = (double)dk.p[i];
    const ll_scan x = {(int)c->m, (int)c->n, c->k.p + last * c->ldk, c->q.p + last * c->ldk, c->v.p + last * c->ldv,
                       c->y.p + last * c->ldv, sign * (ptrdiff_t)c->ldk, sign * (ptrdiff_t)c->ldv, 0.5f, 0.25f, S.p,
                       apart ? S.p : NULL, c->lds};
    ll_prefetch next = {0};
    ll_prefetch_rows(&next, c->v.p, c->ldv, STATES, (int)c->n);
    k->scan_gradients(STATES, &x, w.p + last * c->ldv, dk.p + last * c->ldk, &next);
    for (size_t i = 0; i < STATES; i++) {
        const size_t t = back ? STATES - 1 - i : i;
        for (size_t e = 0; e < c->n; e++) {
            const double read = take_column(c, state, t, e);
            for (size_t a = 0; a < c->m; a++)
                expect[t * c->ldk + a] += state[a * c->lds + e] * (double)w.p[t * c->ldv + e];
            near(k->name, "scan_gradients y", c->m, e, seed, (double)c->y.p[t * c->ldv + e], read, slack);
        }
    }
    for (size_t i = 0; i < STATES * c->ldk; i++)
        near(k->name, "scan_gradients dk", c->m, i, seed, (double)dk.p[i], expect[i], slack);
    for (size_t a = 0; a < c->m; a++)
        for (size_t e = 0; e < c->n; e++) {
            const size_t i = a * c->lds + e;
            near(k->name, "scan_gradients state", c->m, i, seed, (double)S.p[i], 0.25 * state[i], slack);
        }
    guard_end(w, "scan_gradients", k->name), guard_end(dk, "scan_gradients", k->name);
    guard_end(S, "scan_gradients", k->name);
    free(state), free(expect);
}

static void check_weights(const ll_kernels *k, const scan_case *c, int apart, uint64_t seed) {
    float factor[STATES], den[STATES];
    double R[128] = {0};
    guarded z = guard_random(c->m, 1, &seed), sum = guard(c->m, 0);
    for (size_t a = 0; a < c->m; a++) sum.p[a] = 0.5f;
    for (size_t t = 0; t < STATES; t++) factor[t] = signed_one(&seed);
    float before[128];
    memcpy(before, z.p, c->m * sizeof *before);
    k->scan_weights(STATES, (int)c->m, factor, c->k.p, c->q.p, c->ldk, z.p, apart ? sum.p : z.p, den);
    for (size_t t = 0; t < STATES; t++) {
        double expect = 0;
        for (size_t a = 0; a < c->m; a++) {
            R[a] += (double)factor[t] * (double)c->k.p[t * c->ldk + a];
            expect += (double)c->q.p[t * c->ldk + a] * ((double)before[a] + R[a]);
        }
        near(k->name, "scan_weights", c->m, t, seed, (double)den[t], expect, 1e-6 * (double)(c->m + STATES));
    }
    for (size_t a = 0; a < c->m; a++)
        near(k->name, "scan_weights sum", c->m, a, seed, (double)(apart ? sum : z).p[a],
             (apart ? 0.5 : (double)before[a]) + R[a], 1e-5);
    if (apart) assert_memory_equal(before, z.p, c->m * sizeof *before);
    guard_end(z, "scan_weights", k->name), guard_end(sum, "scan_weights", k->name);
}

static void scans(const ll_kernels *k, size_t m, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    scan_case c = {.m = m, .n = n, .ldk = m + shift, .ldv = n + 3 * shift, .lds = n + shift};
    c.k = guard_random(STATES * c.ldk, shift, &from), c.q = guard_random(STATES * c.ldk, 1, &from);
    c.v = guard_random(STATES * c.ldv, 0, &from), c.S = guard_random(m * c.lds, 2, &from);
    c.y = guard(STATES * c.ldv, shift), c.sum = guard(m * c.lds, 0);
    for (int way = 0; way < 6; way++) check_scan(k, &c, way % 2, way / 2, seed);
    for (int apart = 0; apart < 2; apart++) check_weights(k, &c, apart, seed);
    for (int way = 0; way < 4 && k->scan_gradients && n % LL_GRADIENT_COLUMNS == 0; way++)
        check_gradients(k, &c, way % 2, way / 2, seed);
    guarded all[] = {c.k, c.q, c.v, c.y, c.S, c.sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "scan", k->name);
}

static void test_scans(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 4, 5, 8, 11, 16, 17, 33, 64, 65, 128};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t i = 0; i < SIZES; i++)
            for (size_t j = 0; j < SIZES; j++) scans(k, sizes[i], sizes[j], (i + j) % 3, 1000 * i + j);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states), cmocka_unit_test(test_scans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
