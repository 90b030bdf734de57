/* Convolutional stochastic encodings: their noise (conv_spe_noise.c), and two ways of filtering it (conv_spe_bands.c,
 * conv_spe_rows.c), which conv_spe.c uses. */
#ifndef LL_CONV_SPE_H
#define LL_CONV_SPE_H

#include "attention/position/spe.h"

/* A way of filtering, with its scratch in floats. forward: out (n, R) += codes, which are filtered noise, times the
 * gate's code and `in`. back: code (n, D) = products of filtered noise and dout; filter (D, taps) += the gradient. */
typedef struct {
    size_t (*floats)(const ll_premap *b);
    void (*forward)(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo);
    void (*back)(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *code, double *filter);
} ll_conv_way;
extern const ll_conv_way ll_conv_bands, ll_conv_rows;

int ll_conv_is_image(const ll_attention_config *c);
/* Taps of a feature; lines of its filter, which are 1 but for images; taps of a line. */
size_t ll_conv_taps(const ll_premap *b);
int ll_conv_lines(const ll_premap *b);
size_t ll_conv_run(const ll_premap *b);
/* Rows of noise that one feature keeps: all, if noise was given or is an image; 0: noise is drawn when it is needed. */
size_t ll_conv_kept_rows(const ll_premap *b);
/* Floats of gates and noise at the beginning of a tile's scratch, which `prepare` fills. */
size_t ll_conv_noise_floats(const ll_premap *b);
void ll_conv_prepare(const ll_premap_tile *t);
/* The gates of all features; the scratch of the way. */
const ll_gate *ll_conv_gates(const ll_premap_tile *t);
float *ll_conv_work(const ll_premap_tile *t);
/* Where the noise of token t0 + i and feature c starts; *line: how far its rows of taps are apart. */
const float *ll_conv_noise(const ll_premap_tile *t, int i, size_t c, size_t *line);
const float *ll_conv_filter(const ll_premap_tile *t, int side, size_t c);
/* Tokens first[g] .. first[g + 1] - 1 of a tile's n, at most `most`, have noise that begins at rows one after the
 * other. Returns the number of such groups. */
int ll_conv_groups(const ll_premap_tile *t, int n, int most, int first[LL_PREMAP_TILE + 1]);

#endif
