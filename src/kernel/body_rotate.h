/* Powers of permutations in cycle order. Each cycle is rotated by two contiguous copies of runs of columns. Copies use
 * whole vectors. A vector that begins before its run overwrites columns of the cycles before it, so cycles are copied
 * from the last to the first, and the right numbers are written later. Cycles that together fit one vector are moved by
 * one permutation of its lanes; the last cycles that fit two, by permutations of both, where the tier has such. The
 * epilogue is applied during the copy, because a pass of its own over the tile would cost as much as the rotation. */

enum { NO_EPILOGUE = -1 };

/* The parameters of an epilogue for one row, in registers. low: e^x in units of 2^exponent is 0 below it. */
typedef struct {
    vf eps, shift, exponent, low;
    const float *factor;
} epilogue_row;

ALWAYS epilogue_row epilogue_at(const int kind, const ll_epilogue *epilogue, int i) {
    epilogue_row r = {v_set(0), v_set(0), v_set(0), v_set(0), NULL};
    if (kind == LL_EPILOGUE_RELU || kind == LL_EPILOGUE_WHERE) r.eps = v_set(epilogue->eps);
    if (kind == LL_EPILOGUE_TIMES || kind == LL_EPILOGUE_WHERE) r.factor = epilogue->factor + (size_t)i * epilogue->ld;
    if (kind == LL_EPILOGUE_EXP) {
        r.shift = v_set(epilogue->shift[i]);
        r.exponent = v_set((float)ll_exp2_unit(epilogue->exponent[i]));
        r.low = v_set(exp2_floor(ll_exp2_unit(epilogue->exponent[i])));
    }
    return r;
}

/* f(x) for a vector x and its factors. */
ALWAYS vf epilogue_apply(const int kind, const epilogue_row *r, vf x, vf factor) {
    switch (kind) {
    case LL_EPILOGUE_RELU: return v_add(v_max(v_set(0), x), r->eps);
    case LL_EPILOGUE_EXP: return exp_scaled(v_max(r->low, v_sub(x, r->shift)), r->exponent);
    case LL_EPILOGUE_TIMES: return v_mul(x, factor);
    case LL_EPILOGUE_WHERE: return v_positive(v_sub(factor, r->eps), x);
    default: return x;
    }
}

ALWAYS int has_factor(const int kind) { return kind == LL_EPILOGUE_TIMES || kind == LL_EPILOGUE_WHERE; }

/* f of the VW numbers at column `at` of a row, or of n < VW of them. */
ALWAYS vf epilogue_load(const int kind, const epilogue_row *r, const float *in, size_t at) {
    return epilogue_apply(kind, r, v_load(in + at), has_factor(kind) ? v_load(r->factor + at) : v_set(0));
}

ALWAYS vf epilogue_load_n(const int kind, const epilogue_row *r, const float *in, size_t at, size_t n) {
    return epilogue_apply(kind, r, v_load_n(in + at, n), has_factor(kind) ? v_load_n(r->factor + at, n) : v_set(0));
}

/* Copies the n floats from column `at` of a row to `out`. `before` floats of the cycles lie before the run in both
 * rows; those of the output are still to be written. If the run ends within a vector, the last store is a whole vector
 * that ends where the run ends, provided that n + before floats are enough for it. */
ALWAYS void copy_run(const int kind, const epilogue_row *r, size_t n, size_t before, const float *in, size_t at,
                     float *out) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(out + i, epilogue_load(kind, r, in, at + i));
    if (i == n) return;
    if (n + before >= VW) {
        v_store(out + n - VW, epilogue_load(kind, r, in, at + n - VW));
    } else {
        v_store_n(out + i, n - i, epilogue_load_n(kind, r, in, at + i, n - i));
    }
}

/* position mod length, without a division where the position is the previous one or one more. */
ALWAYS int advance(int shift, int length, int64_t step, int64_t position) {
    if (step == 0) return shift;
    if (step == 1) return shift + 1 == length ? 0 : shift + 1;
    return (int)(position % length);
}

/* A cycle longer than a vector, and the `fixed` columns after it, which are cycles of length 1. `before` columns of
 * other cycles lie before it. */
ALWAYS void rotate_long(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position, ll_cycle cycle,
                        int fixed, int before, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    int shift = (int)(position[0] % cycle.length);
    const size_t start = (size_t)cycle.start, n = (size_t)cycle.length, left = (size_t)before;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        if (i > 0) shift = advance(shift, cycle.length, position[i] - position[i - 1], position[i]);
        const size_t head = back && shift ? n - (size_t)shift : (size_t)shift, rest = n - head;
        const epilogue_row r = epilogue_at(kind, epilogue, i);
        if (fixed) copy_run(kind, &r, (size_t)fixed, left + n, in, start + n, out + start + n);
        copy_run(kind, &r, head, left, in, start, out + start + rest);
        copy_run(kind, &r, rest, left, in, start + head, out + start);
    }
}

/* Indices of columns from `start` on, for the position p: the column that each is copied from. */
ALWAYS void cycle_indices(const ll_cycle *cycle, int cycles, int start, int back, int64_t p, int *index) {
    for (int c = 0; c < cycles; c++) {
        const int length = cycle[c].length, at = cycle[c].start - start, shift = (int)(p % length);
        for (int a = 0, from = back && shift ? length - shift : shift; a < length; a++, from++)
            index[at + a] = at + (from < length ? from : from - length);
    }
}

/* Cycles that fit one vector. If enough columns lie before them, a whole vector that ends with them is loaded and
 * stored; its first lanes stay in place. */
ALWAYS void rotate_short(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position,
                         const ll_cycle *cycle, int cycles, int before, int back, const float *in, size_t ldi,
                         float *out, size_t ldo) {
    const int n = cycle[cycles - 1].start + cycle[cycles - 1].length - cycle->start, whole = n + before >= VW;
    const int start = whole ? cycle->start + n - VW : cycle->start;
    int index[VW], next[VW]; /* lanes for the current token; one step of the permutation */
    for (int a = 0; a < VW; a++) index[a] = next[a] = a;
    cycle_indices(cycle, cycles, start, back, 1, next);
    const vi step = vi_load(next);
    vi at = step;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        const int64_t moved = i > 0 ? position[i] - position[i - 1] : -1;
        if (moved == 1) {
            at = vi_permute(at, step);
        } else if (moved != 0) {
            cycle_indices(cycle, cycles, start, back, position[i], index);
            at = vi_load(index);
        }
        const epilogue_row r = epilogue_at(kind, epilogue, i);
        if (whole) {
            v_store(out + start, v_permute(epilogue_load(kind, &r, in, (size_t)start), at));
        } else {
            v_store_n(out + start, (size_t)n, v_permute(epilogue_load_n(kind, &r, in, (size_t)start, (size_t)n), at));
        }
    }
}

/* The first of the last cycles that `width` columns have room for. */
ALWAYS int first_within(const ll_cycle *cycle, int cycles, int width) {
    const int end = cycle[cycles - 1].start + cycle[cycles - 1].length;
    int first = cycles;
    while (first > 0 && end - cycle[first - 1].start <= width) first--;
    return first;
}

#ifdef HAS_PERMUTE_PAIR
/* Cycles of more columns than one vector has, and at most two. */
ALWAYS void rotate_pair(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position,
                        const ll_cycle *cycle, int cycles, int back, const float *in, size_t ldi, float *out,
                        size_t ldo) {
    const int start = cycle->start;
    const size_t upper = (size_t)start + VW;
    const size_t left = (size_t)(cycle[cycles - 1].start + cycle[cycles - 1].length) - upper;
    int index[2 * VW], next[2 * VW];
    for (int a = 0; a < 2 * VW; a++) index[a] = next[a] = a;
    cycle_indices(cycle, cycles, start, back, 1, next);
    const vi step0 = vi_load(next), step1 = vi_load(next + VW);
    vi at0 = step0, at1 = step1;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        const int64_t moved = i > 0 ? position[i] - position[i - 1] : -1;
        if (moved == 1) {
            const vi first = vi_permute_pair(at0, at1, step0);
            at1 = vi_permute_pair(at0, at1, step1);
            at0 = first;
        } else if (moved != 0) {
            cycle_indices(cycle, cycles, start, back, position[i], index);
            at0 = vi_load(index), at1 = vi_load(index + VW);
        }
        const epilogue_row r = epilogue_at(kind, epilogue, i);
        const vf a = epilogue_load(kind, &r, in, (size_t)start);
        if (left == VW) {
            const vf b = epilogue_load(kind, &r, in, upper);
            v_store(out + start, v_permute_pair(a, b, at0));
            v_store(out + upper, v_permute_pair(a, b, at1));
        } else {
            const vf b = epilogue_load_n(kind, &r, in, upper, left);
            v_store(out + start, v_permute_pair(a, b, at0));
            v_store_n(out + upper, left, v_permute_pair(a, b, at1));
        }
    }
}

/* The last cycles, if they take more than one vector and at most two. Returns how many cycles are left. */
ALWAYS int rotate_last(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position, int cycles,
                       const ll_cycle *cycle, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    if (!cycles || cycle->length > 2 * VW) return cycles;
    const int first = first_within(cycle, cycles, 2 * VW), n = cycles - first;
    if (!n || cycle[cycles - 1].start + cycle[cycles - 1].length - cycle[first].start <= VW) return cycles;
    rotate_pair(kind, epilogue, C, position, cycle + first, n, back, in, ldi, out, ldo);
    return first;
}
#else
ALWAYS int rotate_last(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position, int cycles,
                       const ll_cycle *cycle, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    (void)kind, (void)epilogue, (void)C, (void)position, (void)cycle, (void)back;
    (void)in, (void)ldi, (void)out, (void)ldo;
    return cycles;
}
#endif

/* All cycles, from the last to the first. */
ALWAYS void rotate_all(const int kind, const ll_epilogue *epilogue, int C, const int64_t *position, int cycles,
                       const ll_cycle *cycle, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    cycles = rotate_last(kind, epilogue, C, position, cycles, cycle, back, in, ldi, out, ldo);
    while (cycles > 0) {
        int first = cycles - 1;
        while (first > 0 && cycle[first].length == 1) first--;
        const int alone = cycle[first].length > VW; /* apart from the cycles of length 1 after it */
        if (!alone) first = first_within(cycle, cycles, VW);
        const int before = cycle[first].start - cycle[0].start, n = cycles - first;
        if (alone) {
            rotate_long(kind, epilogue, C, position, cycle[first], n - 1, before, back, in, ldi, out, ldo);
        } else {
            rotate_short(kind, epilogue, C, position, cycle + first, n, before, back, in, ldi, out, ldo);
        }
        cycles = first;
    }
}

static void rotate_cycles(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back,
                          const ll_epilogue *epilogue, const float *in, size_t ldi, float *out, size_t ldo) {
    if (C <= 0) return;
    switch (epilogue ? (int)epilogue->kind : NO_EPILOGUE) {
    case LL_EPILOGUE_RELU:
        rotate_all(LL_EPILOGUE_RELU, epilogue, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_EXP:
        rotate_all(LL_EPILOGUE_EXP, epilogue, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_TIMES:
        rotate_all(LL_EPILOGUE_TIMES, epilogue, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_WHERE:
        rotate_all(LL_EPILOGUE_WHERE, epilogue, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    default: rotate_all(NO_EPILOGUE, NULL, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    }
}
