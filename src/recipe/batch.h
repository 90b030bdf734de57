/* A batch of sequences: what data makes and a model reads. */
#ifndef LL_BATCH_H
#define LL_BATCH_H

typedef struct {
    int B, T;
    int *tokens;         /* (B, T) */
    int *targets;        /* (B, T), -1 = not counted; classifiers: (B); match: (B / 2), of sequences 2i and 2i + 1 */
    int *lengths;        /* (B) tokens in use, from the front; NULL: all */
    int S;               /* seq2seq: what the tokens are made from, else 0 and NULL */
    int *source;         /* (B, S) */
    int *source_lengths; /* (B); NULL: all */
} ll_batch;

#endif
