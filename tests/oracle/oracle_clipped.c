/* Heads without keys: every weight of every pair of tokens, by the vector of its distance. */
#include "oracle_clipped.h"

#include <stdlib.h>
#include <string.h>

/* |dx| + |dy| of the pixels of query i and key j, or |i - j|; clip for what is far by definition. */
static int distance(const ll_attention_config *c, int i, int j) {
    const int clip = c->encoding.clip, W = c->width, pixels = c->width * c->height;
    const int p = i - c->before, at = j - c->before;
    int away;
    if (at < 0) return clip;
    if (c->encoding.axes == 1) {
        if (p < 0) return clip;
        away = abs(p - at);
    } else {
        const int pixel = p >= 0 && (p < pixels || c->causal), x = pixel ? p % W : 0, y = pixel ? p / W : c->height;
        if (at >= pixels && !c->causal) return clip;
        away = abs(x - at % W) + abs(y - at / W);
    }
    return away < clip ? away : clip;
}

/* One head of one sequence as a case of its own. */
static oracle_case part(const oracle_case *o, int b, int h) {
    oracle_case one = *o;
    const size_t head = (size_t)(b * o->c.H + h), T = (size_t)o->T, S = (size_t)o->S;
    one.c.H = one.B = 1;
    one.c.position = LL_POSITION_NONE;
    one.q += head * T * (size_t)o->c.D, one.k += head * S * (size_t)o->c.D;
    one.v += head * S * (size_t)o->c.E, one.g += head * T * (size_t)o->c.E;
    if (o->lengths) one.lengths += b;
    if (o->mask) one.mask += (size_t)b * S;
    return one;
}

/* The keys that query i sees, each with the vector of its distance. all: every vector once, for stabilisers. */
static oracle_case row_case(const ll_attention_config *c, const double *rpe, const oracle_case *one, int i, int all,
                            double *k, double *v) {
    oracle_case row = *one;
    row.c.causal = 0;
    if (row.c.key_max != LL_MAX_NONE) row.c.key_max = LL_MAX_SEQUENCE;
    row.lengths = NULL, row.mask = NULL;
    row.T = 1, row.S = 0;
    row.q = one->q + i * c->D, row.k = k, row.v = v;
    const int n = all ? c->encoding.clip + 1 : one->S;
    for (int j = 0; j < n; j++) {
        if (!all && !oracle_sees(one, 0, i, j)) continue;
        memcpy(k + row.S * c->D, rpe + (all ? j : distance(c, i, j)) * c->D, (size_t)c->D * sizeof *k);
        if (!all) memcpy(v + row.S * c->E, one->v + j * c->E, (size_t)c->E * sizeof *v);
        row.S++;
    }
    return row;
}

void oracle_clipped(const ll_attention_config *c, const double *rpe, const oracle_case *o, oracle_top *tops,
                    double *y) {
    const int rows = o->S + c->encoding.clip + 1, first = c->H - c->encoding.keyless;
    const size_t all = (size_t)(o->B * o->c.H * o->T), E = (size_t)o->c.E;
    double *k = calloc((size_t)(rows * o->c.D) + 1, sizeof *k), *v = calloc((size_t)(rows * o->c.E) + 1, sizeof *v);
    if (!k || !v) abort();
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->c.H; h++) {
            oracle_case one = part(o, b, h);
            const size_t at = (size_t)(b * o->c.H + h) * (size_t)o->T;
            oracle_top *query = tops + at, *key = tops + all + at;
            if (h < first && y) oracle_forward(&one, query, key, y + at * E);
            if (h < first && !y) oracle_tops(&one, query, key);
            if (h < first) continue;
            const int used = o->lengths && o->S == o->T ? o->lengths[b] : o->T;
            for (int i = 0; i < o->T; i++) {
                const oracle_case row = row_case(c, rpe, &one, i, !y, k, v);
                if (y) memset(y + (at + (size_t)i) * E, 0, E * sizeof *y);
                if (!y) oracle_tops(&row, query + i, key + i);
                if (y && i < used) oracle_forward(&row, query + i, key + i, y + (at + (size_t)i) * E);
            }
        }
    free(k), free(v);
}
