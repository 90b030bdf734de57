/* Rotations of cycles in every tier of this machine, equal to the index formula of kernel.h: cycles of random
 * permutations (many short, some long), jumps in positions, and rotations back. */
#include "guard.h"

enum { MOST = 300, TOKENS = 9 };

/* Draws cycle lengths. kind 0: those of a uniformly random permutation of m features, where the first is uniform in
 * 1..m, the next in 1..(the rest). 1: all short. 2: one cycle. 3: fixed points. 4: one cycle and as many fixed points
 * as possible. */
static int draw_cycles(uint64_t *seed, int kind, int start, int m, ll_cycle *cycle) {
    int count = 0;
    for (int left = m; left > 0;) {
        const int short_one = left < 5 ? left : 5;
        const int one = kind == 3 || (kind == 4 && count > 0);
        const int n = one ? 1 : kind == 2 ? left : 1 + below(seed, kind == 1 ? short_one : left);
        cycle[count++] = (ll_cycle){start, n};
        start += n, left -= n;
    }
    return count;
}

/* kind 0: consecutive; 1: anywhere in 2^62; 2: repetitions and steps back; 3: distant, in order. */
static void draw_positions(uint64_t *seed, int kind, int C, int64_t *position) {
    for (int i = 0; i < C; i++) {
        position[i] = kind == 3 ? ((int64_t)1 << 50) + i : i;
        if (kind == 1) position[i] = (int64_t)(next64(seed) >> 2);
        if (kind == 2) position[i] = 1000 + below(seed, 4);
    }
}

/* Element a of the row's cycle, in double, in row i of the tile. */
static double expected(const float *row, ll_cycle c, int a, int64_t p, int back, const ll_epilogue *epilogue, int i) {
    const int64_t shift = p % c.length, from = c.start + (a + (back ? c.length - shift : shift)) % c.length;
    const double x = (double)row[from],
                 f = epilogue && epilogue->factor ? (double)epilogue->factor[i * epilogue->ld + from] : 0;
    if (!epilogue) return x;
    switch (epilogue->kind) {
    case LL_EPILOGUE_RELU: return (double)(float)((x > 0 ? x : 0) + (double)epilogue->eps);
    case LL_EPILOGUE_EXP: return ldexp(exp((double)(row[from] - epilogue->shift[i])), -epilogue->exponent[i]);
    case LL_EPILOGUE_TIMES: return (double)(float)(x * f);
    case LL_EPILOGUE_WHERE: return f > (double)epilogue->eps ? x : 0;
    }
    return x;
}

static void rotate_once(const ll_kernels *k, int m, int round, uint64_t seed) {
    uint64_t from = seed;
    const int start = below(&from, 3) * 8, C = below(&from, TOKENS + 1), back = round & 1;
    const size_t ldi = (size_t)(start + m + below(&from, 4)), ldo = (size_t)(start + m + below(&from, 4));
    ll_cycle cycle[MOST];
    int64_t position[TOKENS];
    const int cycles = draw_cycles(&from, (round >> 2) % 5, start, m, cycle);
    draw_positions(&from, below(&from, 4), C, position);
    guarded in = guard_random((size_t)C * ldi, (size_t)below(&from, 4), &from);
    guarded out = guard_random((size_t)C * ldo, (size_t)below(&from, 4), &from), was = guard((size_t)C * ldo, 0);
    memcpy(was.p, out.p, was.n * sizeof(float));
    guarded factor = guard_random((size_t)C * ldi, (size_t)below(&from, 4), &from);
    float shift[TOKENS];
    int exponent[TOKENS];
    for (int i = 0; i < C; i++) shift[i] = (float)below(&from, 5), exponent[i] = below(&from, 7) - 3;
    const ll_epilogue maps = {round / 2 % 5 - 1, 1e-3f, shift, exponent, factor.p, ldi};
    const ll_epilogue *epilogue = round / 2 % 5 ? &maps : NULL; /* four maps, and none */
    const double slack = epilogue && epilogue->kind == LL_EPILOGUE_EXP ? 4e-7 : 0;
    k->rotate_cycles(C, position, cycles, cycle, back, epilogue, in.p, ldi, out.p, ldo);
    for (int i = 0; i < C; i++) {
        float *row = was.p + (size_t)i * ldo; /* numbers outside the cycles stay */
        for (int c = 0; c < cycles; c++)
            for (int a = 0; a < cycle[c].length; a++)
                row[cycle[c].start + a] =
                    (float)expected(in.p + (size_t)i * ldi, cycle[c], a, position[i], back, epilogue, i);
        for (size_t j = 0; j < ldo; j++)
            near(k->name, "rotate", (size_t)m, (size_t)i * ldo + j, seed, out.p[(size_t)i * ldo + j], row[j],
                 slack * fabs((double)row[j]));
    }
    guarded again = guard((size_t)C * ldi, 1);
    k->rotate_cycles(C, position, cycles, cycle, back, NULL, in.p, ldi, out.p, ldo);
    k->rotate_cycles(C, position, cycles, cycle, !back, NULL, out.p, ldo, again.p, ldi);
    for (int i = 0; i < C; i++)
        if (m && memcmp(again.p + (size_t)i * ldi + start, in.p + (size_t)i * ldi + start, (size_t)m * sizeof(float)))
            fail_msg("%s rotate: there and back differs, size %d, seed %llx", k->name, m, (unsigned long long)seed);
    guarded all[] = {in, out, was, again, factor};
    for (int i = 0; i < 5; i++) guard_end(all[i], "rotate", k->name);
}

static void test_rotate(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64, 97, 128, 256, 300};
    uint64_t seed = 3;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int round = 0; round < 160; round++) rotate_once(k, sizes[s], round, next64(&seed));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rotate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
