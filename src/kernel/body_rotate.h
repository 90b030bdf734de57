/* Permutations in cycle order are rotations: a few contiguous copies a token. Cycles shorter than a
 * vector are taken together, as many as fit one vector, and moved by one permutation of its lanes. */

ALWAYS vf rotate_map(const int map, vf eps, vf a) { return map ? v_add(v_max(v_set(0), a), eps) : a; }

/* n floats; a run that ends in part of a vector stores its last whole vector again where it can. */
ALWAYS void copy_run(const int map, vf eps, size_t n, const float *in, float *out) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(out + i, rotate_map(map, eps, v_load(in + i)));
    if (i == n) return;
    if (n > VW) {
        v_store(out + n - VW, rotate_map(map, eps, v_load(in + n - VW)));
    } else {
        v_store_n(out + i, n - i, rotate_map(map, eps, v_load_n(in + i, n - i)));
    }
}

/* position mod length for a position that is mostly the previous one, or one more. */
ALWAYS int advance(int shift, int length, int64_t step, int64_t position) {
    if (step == 0) return shift;
    if (step == 1) return shift + 1 == length ? 0 : shift + 1;
    return (int)(position % length);
}

ALWAYS void rotate_long(const int map, vf eps, int C, const int64_t *position, ll_cycle cycle, int back,
                        const float *in, size_t ldi, float *out, size_t ldo) {
    int shift = (int)(position[0] % cycle.length);
    in += cycle.start, out += cycle.start;
    for (int i = 0; i < C; i++, in += ldi, out += ldo) {
        if (i > 0) shift = advance(shift, cycle.length, position[i] - position[i - 1], position[i]);
        const size_t head = (size_t)(back && shift ? cycle.length - shift : shift);
        const size_t rest = (size_t)cycle.length - head;
        copy_run(map, eps, rest, in + head, out);
        copy_run(map, eps, head, in, out + rest);
    }
}

/* Cycles first..last-1 lie in one vector that starts at cycle[first].start. */
ALWAYS void rotate_short(const int map, vf eps, int C, const int64_t *position, const ll_cycle *cycle, int first,
                         int last, int back, const float *in, size_t ldi, float *out, size_t ldo) {
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
    in += start, out += start;
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
        v_store_n(out, n, rotate_map(map, eps, v_permute(v_load_n(in, n), at)));
    }
}

ALWAYS void rotate_all(const int map, float eps, int C, const int64_t *position, int cycles, const ll_cycle *cycle,
                       int back, const float *in, size_t ldi, float *out, size_t ldo) {
    const vf ve = v_set(eps);
    for (int c = 0; c < cycles;) {
        int last = c, start = cycle[c].start; /* a group of neighbours within VW - 1 floats */
        while (last < cycles && cycle[last].start + cycle[last].length - start < VW &&
               (last == c || cycle[last].start == cycle[last - 1].start + cycle[last - 1].length))
            last++;
        if (last == c) {
            rotate_long(map, ve, C, position, cycle[c++], back, in, ldi, out, ldo);
        } else {
            rotate_short(map, ve, C, position, cycle, c, last, back, in, ldi, out, ldo);
            c = last;
        }
    }
}

static void rotate(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back, float eps,
                   const float *in, size_t ldi, float *out, size_t ldo) {
    if (C <= 0) return;
    if (eps >= 0) {
        rotate_all(1, eps, C, position, cycles, cycle, back, in, ldi, out, ldo);
    } else {
        rotate_all(0, 0, C, position, cycles, cycle, back, in, ldi, out, ldo);
    }
}
