/* A batch of sequences. The data room makes it, a model reads it. */
#ifndef LL_BATCH_H
#define LL_BATCH_H

/* The tasks. */
enum { LL_TASK_LM, LL_TASK_CLASSIFY, LL_TASK_MLM, LL_TASK_MATCH, LL_TASK_SEQ2SEQ };

/* Does every token have a target of its own? Then targets are (B, T), else (B). */
static inline int ll_task_per_token(int task) {
    return task == LL_TASK_LM || task == LL_TASK_MLM || task == LL_TASK_SEQ2SEQ;
}

/* Does a token see only earlier ones? True for language models and decoders. */
static inline int ll_task_causal(int task) {
    return task == LL_TASK_LM || task == LL_TASK_SEQ2SEQ;
}
/* The number of sequences of an example. */
static inline int ll_task_sequences(int task) {
    return task == LL_TASK_MATCH ? 2 : 1;
}

typedef struct {
    int B, T;
    int *tokens;         /* (B, T) */
    int *targets;        /* (B, T), -1 = not counted; classifiers: (B); match: (B / 2), for sequences 2i and 2i + 1 */
    int *lengths;        /* (B) used tokens, from the front; NULL: all */
    int S;               /* seq2seq: length of the source, else 0 and NULL */
    int *source;         /* (B, S) */
    int *source_lengths; /* (B); NULL: all */
    int first;           /* if this is a part of a batch: the number of its first sequence; else 0 */
} ll_batch;

#endif
