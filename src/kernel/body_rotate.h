/* Permutations in cycle order are rotations: a few contiguous copies a token, in whole vectors, from the last cycle to
 * the first, so that what a vector has before its run is written over. Cycles shorter than a vector are taken together,
 * as many as fit one vector, and moved by one permutation of its lanes. What else has to be done to the numbers is done
 * on the way, for a pass over a tile costs as much as the rotation. */

enum { ALONG_NOTHING = -1 };

/* `along` for one row, in registers. */
typedef struct {
    vf eps, shift, exponent, low;
    const float *factor;
} along_row;

ALWAYS along_row along_at(const int what, const ll_epilogue *along, int i) {
    along_row r = {v_set(0), v_set(0), v_set(0), v_set(0), NULL};
    if (what == LL_EPILOGUE_RELU || what == LL_EPILOGUE_WHERE) r.eps = v_set(along->eps);
    if (what == LL_EPILOGUE_TIMES || what == LL_EPILOGUE_WHERE) r.factor = along->factor + (size_t)i * along->ld;
    if (what == LL_EPILOGUE_EXP) {
        r.shift = v_set(along->shift[i]);
        r.exponent = v_set((float)along->exponent[i]);
        r.low = v_set(exp2_floor(along->exponent[i]));
    }
    return r;
}

/* f of numbers that were loaded together with their factors. */
ALWAYS vf along_map(const int what, const along_row *r, vf x, vf factor) {
    switch (what) {
    case LL_EPILOGUE_RELU: return v_add(v_max(v_set(0), x), r->eps);
    case LL_EPILOGUE_EXP: return exp_scaled(v_max(r->low, v_sub(x, r->shift)), r->exponent);
    case LL_EPILOGUE_TIMES: return v_mul(x, factor);
    case LL_EPILOGUE_WHERE: return v_positive(v_sub(factor, r->eps), x);
    default: return x;
    }
}

ALWAYS int has_factor(const int what) { return what == LL_EPILOGUE_TIMES || what == LL_EPILOGUE_WHERE; }

ALWAYS vf along_whole(const int what, const along_row *r, const float *in, size_t at) {
    return along_map(what, r, v_load(in + at), has_factor(what) ? v_load(r->factor + at) : v_set(0));
}

ALWAYS vf along_part(const int what, const along_row *r, const float *in, size_t at, size_t n) {
    return along_map(what, r, v_load_n(in + at, n), has_factor(what) ? v_load_n(r->factor + at, n) : v_set(0));
}

/* n floats from place `at` of a row. A run that ends in part of a vector stores the whole vector that ends there, if as
 * many floats are its own or come `before` it, here and there: those are still to be written. */
ALWAYS void copy_run(const int what, const along_row *r, size_t n, size_t before, const float *in, size_t at,
                     float *out) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(out + i, along_whole(what, r, in, at + i));
    if (i == n) return;
    if (n + before >= VW) {
        v_store(out + n - VW, along_whole(what, r, in, at + n - VW));
    } else {
        v_store_n(out + i, n - i, along_part(what, r, in, at + i, n - i));
    }
}

/* position mod length for a position that is mostly the previous one, or one more. */
ALWAYS int advance(int shift, int length, int64_t step, int64_t position) {
    if (step == 0) return shift;
    if (step == 1) return shift + 1 == length ? 0 : shift + 1;
    return (int)(position % length);
}

/* The `fixed` numbers after the cycle stay where they are; `before` others of the row come before it. */
ALWAYS void rotate_long(const int what, const ll_epilogue *along, int C, const int64_t *position, ll_cycle cycle,
                        int fixed, int before, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    int shift = (int)(position[0] % cycle.length);
    const size_t start = (size_t)cycle.start, n = (size_t)cycle.length, left = (size_t)before;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        if (i > 0) shift = advance(shift, cycle.length, position[i] - position[i - 1], position[i]);
        const size_t head = back && shift ? n - (size_t)shift : (size_t)shift, rest = n - head;
        const along_row r = along_at(what, along, i);
        if (fixed) copy_run(what, &r, (size_t)fixed, left + n, in, start + n, out + start + n);
        copy_run(what, &r, head, left, in, start, out + start + rest);
        copy_run(what, &r, rest, left, in, start + head, out + start);
    }
}

/* Cycles that fit one vector, n floats: the last of a whole one if so many come before them, too. */
ALWAYS void rotate_short(const int what, const ll_epilogue *along, int C, const int64_t *position,
                         const ll_cycle *cycle, int cycles, int before, int back, const float *in, size_t ldi,
                         float *out, size_t ldo) {
    const int n = cycle[cycles - 1].start + cycle[cycles - 1].length - cycle->start, whole = n + before >= VW;
    const int start = whole ? cycle->start + n - VW : cycle->start;
    int index[VW], next[VW]; /* of the current token; one step of the permutation */
    for (int a = 0; a < VW; a++) index[a] = next[a] = a;
    for (int c = 0; c < cycles; c++)
        for (int a = 0, at = cycle[c].start - start, last = cycle[c].length - 1; a <= last; a++)
            next[at + a] = at + (back ? (a ? a - 1 : last) : a < last ? a + 1 : 0);
    const vi step = vi_load(next);
    vi at = step;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        const int64_t moved = i > 0 ? position[i] - position[i - 1] : -1;
        if (moved == 1) {
            at = vi_permute(at, step);
        } else if (moved != 0) {
            for (int c = 0; c < cycles; c++) {
                const int length = cycle[c].length, shift = (int)(position[i] % length);
                for (int a = 0, from = back && shift ? length - shift : shift; a < length; a++, from++)
                    index[cycle[c].start - start + a] = cycle[c].start - start + (from < length ? from : from - length);
            }
            at = vi_load(index);
        }
        const along_row r = along_at(what, along, i);
        if (whole) {
            v_store(out + start, v_permute(along_whole(what, &r, in, (size_t)start), at));
        } else {
            v_store_n(out + start, (size_t)n, v_permute(along_part(what, &r, in, (size_t)start, (size_t)n), at));
        }
    }
}

/* From the last cycle to the first. */
ALWAYS void rotate_all(const int what, const ll_epilogue *along, int C, const int64_t *position, int cycles,
                       const ll_cycle *cycle, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    while (cycles > 0) {
        const int end = cycle[cycles - 1].start + cycle[cycles - 1].length;
        int first = cycles - 1;
        while (first > 0 && cycle[first].length == 1) first--;
        const int alone = cycle[first].length > VW; /* but for fixed points after it */
        if (!alone)
            for (first = cycles; first > 0 && end - cycle[first - 1].start <= VW;) first--;
        const int before = cycle[first].start - cycle[0].start, n = cycles - first;
        if (alone) {
            rotate_long(what, along, C, position, cycle[first], n - 1, before, back, in, ldi, out, ldo);
        } else {
            rotate_short(what, along, C, position, cycle + first, n, before, back, in, ldi, out, ldo);
        }
        cycles = first;
    }
}

static void rotate(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back,
                   const ll_epilogue *along, const float *in, size_t ldi, float *out, size_t ldo) {
    if (C <= 0) return;
    switch (along ? (int)along->what : ALONG_NOTHING) {
    case LL_EPILOGUE_RELU:
        rotate_all(LL_EPILOGUE_RELU, along, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_EXP:
        rotate_all(LL_EPILOGUE_EXP, along, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_TIMES:
        rotate_all(LL_EPILOGUE_TIMES, along, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    case LL_EPILOGUE_WHERE:
        rotate_all(LL_EPILOGUE_WHERE, along, C, position, cycles, cycle, back, in, ldi, out, ldo);
        break;
    default: rotate_all(ALONG_NOTHING, NULL, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    }
}
