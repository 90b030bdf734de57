/* A batch of sequences: what data makes and a model reads. */
#ifndef LL_BATCH_H
#define LL_BATCH_H

/* What a batch is for. */
enum { LL_TASK_LM, LL_TASK_CLASSIFY, LL_TASK_MLM, LL_TASK_MATCH, LL_TASK_SEQ2SEQ };

/* Has every token a target of its own? Then targets are (B, T), else (B). */
static inline int ll_task_per_token(int task) {
    return task == LL_TASK_LM || task == LL_TASK_MLM || task == LL_TASK_SEQ2SEQ;
}

/* Do tokens see earlier ones alone: language models, and what decodes? */
static inline int ll_task_causal(int task) {
    return task == LL_TASK_LM || task == LL_TASK_SEQ2SEQ;
}
/* Sequences for an example. */
static inline int ll_task_sequences(int task) {
    return task == LL_TASK_MATCH ? 2 : 1;
}

typedef struct {
    int B, T;
    int *tokens;         /* (B, T) */
    int *targets;        /* (B, T), -1 = not counted; classifiers: (B); match: (B / 2), of sequences 2i and 2i + 1 */
    int *lengths;        /* (B) tokens in use, from the front; NULL: all */
    int S;               /* seq2seq: what the tokens are made from, else 0 and NULL */
    int *source;         /* (B, S) */
    int *source_lengths; /* (B); NULL: all */
    int first;           /* number of its first sequence, where it is a part of a batch: else 0 */
} ll_batch;

#endif
