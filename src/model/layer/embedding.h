/* How the numbers of a batch become the vectors that enter a stack. Positions, a CLS token and a norm are the same for
 * all kinds (embed.c). A kind is one file and one line of ll_embedding_of. */
#ifndef LL_EMBEDDING_H
#define LL_EMBEDDING_H

#include "model/network.h"

typedef struct {
    /* Adds its tensors to the table (params.c). */
    void (*plan)(ll_model *model);
    /* How many numbers of the batch make one vector. */
    int (*numbers)(const ll_model_config *c);
    /* What it finds out about a batch before its rows; NULL: nothing. */
    void (*prepare)(const ll_batch_run *run);
    /* Vectors of some rows, out (n, C). Rows of CLS tokens and past a length may have anything. */
    void (*vectors)(const ll_batch_run *run, ll_rows rows, float *out);
    /* From ws->d, which it may overwrite, to the gradients of its tensors. */
    void (*back)(const ll_batch_run *run);
} ll_embedding;

extern const ll_embedding ll_embed_tokens, ll_embed_patches;

const ll_embedding *ll_embedding_of(const ll_model_config *c);

/* The sequence of a row, its number there without the CLS token (-1: the CLS token), and whether it is in use. */
typedef struct {
    size_t b;
    int t, used;
} ll_row;

static inline ll_row ll_row_at(const ll_batch_run *run, size_t row) {
    const int t = (int)(row % (size_t)run->T);
    const size_t b = row / (size_t)run->T;
    return (ll_row){b, t - run->model->cls_tokens, t < run->lengths[b]};
}

#endif
