/* Permutations in cycle order are rotations: a few contiguous copies a token. Cycles shorter than a
 * vector are taken together, as many as fit one vector, and moved by one permutation of its lanes. What else
 * has to be done to the numbers is done on the way, for a pass over a tile costs as much as the rotation. */

enum { ALONG_NOTHING = -1 };

/* `along` for one row, in registers. */
typedef struct {
    vf eps, shift, exponent, low;
    const float *factor;
} along_row;

ALWAYS along_row along_at(const int what, const ll_along *along, int i) {
    along_row r = {v_set(0), v_set(0), v_set(0), v_set(0), NULL};
    if (what == LL_ALONG_RELU || what == LL_ALONG_WHERE) r.eps = v_set(along->eps);
    if (what == LL_ALONG_TIMES || what == LL_ALONG_WHERE) r.factor = along->factor + (size_t)i * along->ld;
    if (what == LL_ALONG_EXP) {
        r.shift = v_set(along->shift[i]);
        r.exponent = v_set((float)along->exponent[i]);
        r.low = v_set(exp2_floor(along->exponent[i]));
    }
    return r;
}

/* f of numbers that were loaded together with their factors. */
ALWAYS vf along_map(const int what, const along_row *r, vf x, vf factor) {
    switch (what) {
    case LL_ALONG_RELU: return v_add(v_max(v_set(0), x), r->eps);
    case LL_ALONG_EXP: return exp_scaled(v_max(r->low, v_sub(x, r->shift)), r->exponent);
    case LL_ALONG_TIMES: return v_mul(x, factor);
    case LL_ALONG_WHERE: return v_positive(v_sub(factor, r->eps), x);
    default: return x;
    }
}

ALWAYS int has_factor(const int what) { return what == LL_ALONG_TIMES || what == LL_ALONG_WHERE; }

ALWAYS vf along_whole(const int what, const along_row *r, const float *in, size_t at) {
    return along_map(what, r, v_load(in + at), has_factor(what) ? v_load(r->factor + at) : v_set(0));
}

ALWAYS vf along_part(const int what, const along_row *r, const float *in, size_t at, size_t n) {
    return along_map(what, r, v_load_n(in + at, n), has_factor(what) ? v_load_n(r->factor + at, n) : v_set(0));
}

/* n floats from place `at` of a row; a run that ends in part of a vector stores its last whole vector again where it
 * can. */
ALWAYS void copy_run(const int what, const along_row *r, size_t n, const float *in, size_t at, float *out) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(out + i, along_whole(what, r, in, at + i));
    if (i == n) return;
    if (n > VW) {
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

/* The `fixed` numbers after the cycle stay where they are. */
ALWAYS void rotate_long(const int what, const ll_along *along, int C, const int64_t *position, ll_cycle cycle,
                        int fixed, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    int shift = (int)(position[0] % cycle.length);
    const size_t start = (size_t)cycle.start, end = start + (size_t)cycle.length;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        if (i > 0) shift = advance(shift, cycle.length, position[i] - position[i - 1], position[i]);
        const size_t head = (size_t)(back && shift ? cycle.length - shift : shift);
        const size_t rest = (size_t)cycle.length - head;
        const along_row r = along_at(what, along, i);
        copy_run(what, &r, rest, in, start + head, out + start);
        copy_run(what, &r, head, in, start, out + start + rest);
        if (fixed) copy_run(what, &r, (size_t)fixed, in, end, out + end);
    }
}

/* Cycles first..last-1 lie in one vector that starts at cycle[first].start. */
ALWAYS void rotate_short(const int what, const ll_along *along, int C, const int64_t *position, const ll_cycle *cycle,
                         int first, int last, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    const int start = cycle[first].start;
    const size_t n = (size_t)(cycle[last - 1].start + cycle[last - 1].length - start);
    int index[VW], next[VW]; /* of the current token; one step of the permutation */
    for (int a = 0; a < VW; a++) index[a] = next[a] = a;
    for (int c = first; c < last; c++)
        for (int a = 0; a < cycle[c].length; a++)
            next[cycle[c].start - start + a] =
                cycle[c].start - start + (a + (back ? cycle[c].length - 1 : 1)) % cycle[c].length;
    const vi step = vi_load(next);
    vi at = step;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        const int64_t moved = i > 0 ? position[i] - position[i - 1] : -1;
        if (moved == 1) {
            at = vi_permute(at, step);
        } else if (moved != 0) {
            for (int c = first; c < last; c++) {
                const int length = cycle[c].length, shift = (int)(position[i] % length);
                for (int a = 0; a < length; a++)
                    index[cycle[c].start - start + a] =
                        cycle[c].start - start + (a + (back ? length - shift : shift)) % length;
            }
            at = vi_load(index);
        }
        const along_row r = along_at(what, along, i);
        v_store_n(out + start, n, v_permute(along_part(what, &r, in, (size_t)start, n), at));
    }
}

ALWAYS void rotate_all(const int what, const ll_along *along, int C, const int64_t *position, int cycles,
                       const ll_cycle *cycle, int back, const float *in, size_t ldi, float *out, size_t ldo) {
    for (int c = 0; c < cycles;) {
        int last = c, start = cycle[c].start; /* a group of neighbours within VW floats */
        while (last < cycles && cycle[last].start + cycle[last].length - start <= VW &&
               (last == c || cycle[last].start == cycle[last - 1].start + cycle[last - 1].length))
            last++;
        if (last == c) {
            const int after = cycle[c].start + cycle[c].length;
            while (++last < cycles && cycle[last].length == 1 && cycle[last].start == after + last - c - 1) continue;
            rotate_long(what, along, C, position, cycle[c], last - c - 1, back, in, ldi, out, ldo);
            c = last;
        } else {
            rotate_short(what, along, C, position, cycle, c, last, back, in, ldi, out, ldo);
            c = last;
        }
    }
}

static void rotate(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back, const ll_along *along,
                   const float *in, size_t ldi, float *out, size_t ldo) {
    if (C <= 0) return;
    switch (along ? (int)along->what : ALONG_NOTHING) {
    case LL_ALONG_RELU: rotate_all(LL_ALONG_RELU, along, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    case LL_ALONG_EXP: rotate_all(LL_ALONG_EXP, along, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    case LL_ALONG_TIMES: rotate_all(LL_ALONG_TIMES, along, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    case LL_ALONG_WHERE: rotate_all(LL_ALONG_WHERE, along, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    default: rotate_all(ALONG_NOTHING, NULL, C, position, cycles, cycle, back, in, ldi, out, ldo); break;
    }
}
