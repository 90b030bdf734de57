/* How similar amino acids are to a model of proteins, beside BLOSUM62 (Henikoff and Henikoff 1992), which counts how
 * often one replaces the other in related proteins. Two measures: the cosine between their embeddings; and, as in the
 * Performer paper (Choromanski et al. 2021, C.4, after Vig et al. 2021), the correlation, over all heads, of the share
 * of a head's attention that each of the two letters gets on held-out sequences. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "data/sequence/fasta.h"
#include "study/study.h"

enum { ACIDS = 20, PAIRS = ACIDS * (ACIDS - 1) / 2, EXCERPTS = 8, TOKENS = 128, DRAWS = 1000 };

/* The order groups similar ones: small, acid and amide, basic, hydrophobic, aromatic. */
static const char LETTERS[ACIDS + 1] = "CSTPAGNDEQHRKMILVFYW";
static const signed char BLOSUM62[ACIDS][ACIDS] = {
    {9},
    {-1, 4},
    {-1, 1, 5},
    {-3, -1, -1, 7},
    {0, 1, 0, -1, 4},
    {-3, 0, -2, -2, 0, 6},
    {-3, 1, 0, -2, -2, 0, 6},
    {-3, 0, -1, -1, -2, -1, 1, 6},
    {-4, 0, -1, -1, -1, -2, 0, 2, 5},
    {-3, 0, -1, -1, -1, -2, 0, 0, 2, 5},
    {-3, -1, -2, -2, -2, -2, 1, -1, 0, 0, 8},
    {-3, -1, -1, -2, -1, -2, 0, -2, 0, 1, 0, 5},
    {-3, 0, -1, -1, -1, -2, 0, -1, 1, 1, -1, 2, 5},
    {-1, -1, -1, -2, -1, -3, -2, -3, -2, 0, -2, -1, -1, 5},
    {-1, -2, -1, -3, -1, -4, -3, -3, -3, -3, -3, -3, -3, 1, 4},
    {-1, -2, -1, -3, -1, -4, -3, -4, -3, -2, -3, -2, -2, 2, 2, 4},
    {-1, -2, 0, -2, 0, -3, -3, -3, -2, -2, -3, -3, -2, 1, 3, 1, 4},
    {-2, -2, -2, -4, -2, -3, -3, -3, -3, -3, -1, -3, -3, 0, 0, 0, -1, 6},
    {-2, -2, -2, -3, -2, -3, -2, -3, -2, -1, 2, -2, -2, -1, -1, -1, -1, 3, 7},
    {-2, -3, -2, -4, -3, -2, -4, -4, -3, -2, -2, -3, -3, -1, -3, -2, -3, 1, 2, 11},
};

static int blosum62(int a, int b) { return a > b ? BLOSUM62[a][b] : BLOSUM62[b][a]; }

/* Pearson's correlation of n pairs; NaN if one variable is constant. */
static double correlation(const double *x, const double *y, int n) {
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) mx += x[i] / n, my += y[i] / n;
    for (int i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx), yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

/* ---- Similarity ---- */

typedef struct {
    float cosine[ACIDS][ACIDS], attention[ACIDS][ACIDS], blosum[ACIDS][ACIDS];
    int heads, excerpts;
} alike;

static void compare_embeddings(alike *a, const ll_study *s) {
    const size_t C = (size_t)s->c->model.width;
    const float *table = ll_study_tensor(s, "embedding.weight", NULL);
    for (int i = 0; i < ACIDS; i++)
        for (int j = 0; j < ACIDS; j++) {
            const float *x = table + C * (size_t)ll_fasta_token(LETTERS[i]),
                        *y = table + C * (size_t)ll_fasta_token(LETTERS[j]);
            double xx = 0, yy = 0, xy = 0;
            for (size_t c = 0; c < C; c++) {
                xx += (double)x[c] * (double)x[c], yy += (double)y[c] * (double)y[c];
                xy += (double)x[c] * (double)y[c];
            }
            a->cosine[i][j] = (float)(xy / sqrt(xx * yy));
            a->blosum[i][j] = (float)blosum62(i, j);
        }
}

/* Adds to share (heads of all layers, ACIDS) the attention that each letter gets from each head. */
static ll_status add_shares(const ll_study *s, const int *tokens, int length, float *A, double *share) {
    const int layers = s->c->model.layers, heads = s->c->model.heads, cls_tokens = s->model->cls_tokens,
              n = length + cls_tokens;
    ll_status status = LL_OK;
    for (int l = 0; l < layers && !status; l++) {
        status = ll_model_attention(s->model, tokens, length, l, 0, A);
        for (int h = 0; h < heads && !status; h++)
            for (int i = 0; i < n; i++)
                for (int j = cls_tokens; j < n; j++) {
                    const char *letter = strchr(LETTERS, ll_fasta_letter(tokens[j - cls_tokens]));
                    if (!letter) continue;
                    share[(l * heads + h) * ACIDS + (letter - LETTERS)] +=
                        fabs((double)A[((size_t)h * (size_t)n + (size_t)i) * (size_t)n + (size_t)j]);
                }
    }
    return status;
}

static void compare_shares(alike *a, double *share) {
    double *x = share + (size_t)a->heads * ACIDS, *y = x + a->heads; /* columns */
    for (int h = 0; h < a->heads; h++) {
        double sum = 0;
        for (int i = 0; i < ACIDS; i++) sum += share[h * ACIDS + i];
        for (int i = 0; i < ACIDS && sum > 0; i++) share[h * ACIDS + i] /= sum;
    }
    for (int i = 0; i < ACIDS; i++)
        for (int j = 0; j < ACIDS; j++) {
            for (int h = 0; h < a->heads; h++) x[h] = share[h * ACIDS + i], y[h] = share[h * ACIDS + j];
            a->attention[i][j] = (float)correlation(x, y, a->heads);
        }
}

static ll_status compare_attention(alike *a, const ll_study *s) {
    const size_t n = TOKENS + (size_t)s->model->cls_tokens, heads = (size_t)s->c->model.heads;
    const double work = ll_model_cost(s->model, TOKENS).multiply_adds * TOKENS * s->c->model.layers * 8;
    int tokens[TOKENS], length = 0;
    a->heads = s->c->model.layers * s->c->model.heads;
    float *A = ll_alloc(heads * n, n * sizeof *A);
    double *share = ll_alloc((size_t)a->heads, (ACIDS + 2) * sizeof *share);
    ll_status status = A && share ? LL_OK : LL_ENOMEM;
    if (!status) memset(share, 0, (size_t)a->heads * (ACIDS + 2) * sizeof *share);
    const int most = ll_study_bound(work, 1, EXCERPTS);
    for (; a->excerpts < most && !status; a->excerpts++) {
        status = ll_study_excerpt(s, (2.0 * a->excerpts + 1) / (2 * most), tokens, TOKENS, &length);
        if (!status) status = add_shares(s, tokens, length, A, share);
    }
    if (!status) compare_shares(a, share);
    ll_free(A);
    ll_free(share);
    return status;
}

/* ---- On the page ---- */

/* For pairs of different letters: the correlation with BLOSUM62. letter[i]: which letter stands at place i. */
static double agreement(const float *m, const int *letter) {
    double x[PAIRS], y[PAIRS];
    int n = 0;
    for (int i = 0; i < ACIDS; i++)
        for (int j = 0; j < i; j++)
            if (letter[i] != letter[j])
                x[n] = (double)m[letter[i] * ACIDS + letter[j]], y[n++] = blosum62(letter[i], letter[j]);
    return correlation(x, y, n);
}

typedef struct {
    double r, low, high;
} interval;

/* The correlation, and where 95 % of it lie when twenty letters are drawn with replacement (bootstrap): pairs that
 * share a letter are not independent, so that their number says little. */
static interval agree(const float *m) {
    double r[DRAWS];
    int letter[ACIDS], n = 0;
    for (int i = 0; i < ACIDS; i++) letter[i] = i;
    const double all = agreement(m, letter);
    for (uint32_t draw = 0; draw < DRAWS; draw++) {
        for (uint64_t i = 0; i < ACIDS; i++)
            letter[i] = (int)ll_below(ACIDS, 1, ll_stream_id(LL_RANDOM_ANALYSE, 64, draw), i);
        r[n] = agreement(m, letter);
        n += isfinite(r[n]) != 0;
    }
    if (!n) return (interval){all, NAN, NAN};
    qsort(r, (size_t)n, sizeof *r, ll_ascending);
    return (interval){all, r[n / 40], r[n - 1 - n / 40]};
}

/* "r = 0.41, 0.30 to 0.52" */
static const char *agreement_text(char *out, size_t size, const float *m) {
    const interval own = agree(m);
    ll_format_text(out, size, "r = %.2f, %.2f to %.2f", own.r, own.low, own.high);
    return out;
}

static void show(const ll_study *s, const alike *a) {
    char letters[ACIDS][2], caption[700], second[200] = "", r[2][48];
    const char *names[ACIDS];
    for (int i = 0; i < ACIDS; i++) letters[i][0] = LETTERS[i], letters[i][1] = 0, names[i] = letters[i];
    const ll_panel all[3] = {{"BLOSUM62", ACIDS, ACIDS, a->blosum[0]},
                             {"cosine of embeddings", ACIDS, ACIDS, a->cosine[0]},
                             {"attention received", ACIDS, ACIDS, a->attention[0]}};
    const int more = isfinite(a->attention[0][1]); /* a single head correlates with itself */
    if (more)
        ll_format_text(second, sizeof second,
                       " and by the correlation over its %d heads of the attention that they get (%s; %d stretches of "
                       "held-out sequences)",
                       a->heads, agreement_text(r[1], sizeof r[1], a->attention[0]), a->excerpts);
    ll_format_text(caption, sizeof caption,
                   "Amino acids that are alike: in related proteins, by BLOSUM62; to the model, by the cosine between "
                   "their embeddings (%s)%s. r is the correlation with BLOSUM62 over the %d pairs, and 95 %% of it lie "
                   "in the interval for letters drawn with replacement.",
                   agreement_text(r[0], sizeof r[0], a->cosine[0]), second, (int)PAIRS);
    const ll_heat_map map = {
        .title = "Amino acids that are alike", .n = 2 + more, .across = 2 + more, .panels = all, .names = names};
    const ll_html_about about = {"amino-acids", caption};
    const ll_html_maps maps = {.tab = "", .groups = 1, .group = &map};
    ll_html_maps_write(s->h, &about, &maps);
}

ll_status ll_study_acids(const ll_study *s) {
    alike *a = ll_alloc(1, sizeof *a);
    if (!a) return LL_ENOMEM;
    *a = (alike){0};
    compare_embeddings(a, s);
    const ll_status status = compare_attention(a, s);
    if (!status) show(s, a);
    ll_free(a);
    return status;
}
