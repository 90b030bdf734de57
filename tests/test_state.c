/* The kernel of linear attention's recurrent state: every tier of this machine against the recurrence in double. */
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

static void run_states(const ll_kernels *k, state_case *c, int scaled, const int *cut) {
    memset(c->state.p, 0, 2 * c->n * c->E * sizeof(float));
    memset(c->sums.p, 0, 2 * c->n * sizeof(float));
    for (size_t t = 0; t < STATES; t += (size_t)*cut++)
        k->state_tokens(*cut, (int)c->n, (int)c->E, scaled ? c->factor + t : NULL, c->key.p + t * c->ld,
                        c->query.p + t * c->ld, c->ld, doubles(c->value) + t * c->ldv, c->ldv, doubles(c->state),
                        doubles(c->sums), doubles(c->num) + t * c->ldv, doubles(c->den) + t);
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
    run_states(k, &c, scaled, alone);
    check_states(k, &c, scaled, seed);
    const size_t floats[] = {2 * n * c.E, 2 * n, 2 * STATES * c.ldv, (size_t)2 * STATES};
    const guarded results[] = {c.state, c.sums, c.num, c.den};
    float *first[4];
    for (int i = 0; i < 4; i++) {
        first[i] = calloc(floats[i] + 1, sizeof(float));
        memcpy(first[i], results[i].p, floats[i] * sizeof(float));
    }
    for (int way = 0; way < 2; way++) {
        run_states(k, &c, scaled, cuts[way]);
        for (int i = 0; i < 4; i++)
            if (memcmp(first[i], results[i].p, floats[i] * sizeof(float)))
                fail_msg("%s state_tokens: %zu features, seed %llx: cut otherwise, other bits", k->name, n,
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
