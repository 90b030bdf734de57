/* States that consecutive windows of a document hand on in training (train.carry-state). */
#ifndef LL_CARRY_H
#define LL_CARRY_H

#include "model/model_internal.h"

/* What consecutive windows hand on: of every operator and each of B rows of at most T tokens. Before a batch goes
 * through the workspace, ll_carry_begin clears the rows whose document begins: where no token of the text came before,
 * or with a separator. before (B): tokens of its text that came before each row. After the batch, ll_carry_advance
 * makes what the windows left the state of the next ones. LL_EINVAL with the reason where attention has no state of
 * constant size. A step of several batches needs a third block, because a step that fails begins again with the states
 * that it began with. */
typedef struct {
    const ll_model *model;
    int B;
    int64_t *offset;         /* (B) tokens of its document that came before each row */
    int64_t *segment_offset; /* (B T) and before each document of a batch with separators */
    size_t floats;   /* of a state */
    size_t count;    /* of all states */
    float *in, *out; /* (operators, B, floats) */
    float *third;    /* the same; NULL where a step has one batch */
    float *first;    /* which of these the step began with, */
    int64_t *first_offset; /* and its offsets (B) */
    float *dout, *din; /* NULL, or the gradients at these */
    int within; /* all states are of one pass (chunks.c) */
    float *block; /* has all of these, but for gradients */
} ll_carry;
LL_MUST_USE ll_status ll_carry_create(ll_carry **carry, const ll_model *model, int B, int T, int batches);
/* Bytes of it. Nothing is made. */
LL_MUST_USE ll_status ll_carry_measure(size_t *bytes, const ll_model *model, int B, int T, int batches);
void ll_carry_free(ll_carry *carry);
void ll_carry_clear(ll_carry *carry, int row);
/* LL_EFORMAT if a state that was filled in is not one that a window can leave. */
LL_MUST_USE ll_status ll_carry_check(const ll_carry *carry);
void ll_carry_begin(ll_carry *carry, const ll_batch *batch, const int64_t *before);
void ll_carry_advance(ll_carry *carry, const ll_batch *batch);
/* A step begins; and it is thrown away, after any number of its batches: the states are again those of its beginning.
 */
void ll_carry_begin_step(ll_carry *carry);
void ll_carry_undo_step(ll_carry *carry);
/* Copies the state that a row takes, or sets the one that it leaves: of all operators, one after the other. */
void ll_carry_take(const ll_carry *carry, int row, float *state);
void ll_carry_give(ll_carry *carry, int row, const float *state);
/* Tokens of its document that come before the token after these n; `before` came before them. */
int64_t ll_carry_after(const ll_carry *carry, const int *tokens, int n, int64_t before);
/* Batches that go through it from now on take and leave these states; NULL: none. */
void ll_workspace_carry(ll_workspace *ws, ll_carry *carry);
/* The call of operator `op` whose rows take and leave states; before a batch, for document i: where it begins. */
ll_attention_call ll_carry_call(const ll_carry *carry, int op, const ll_attention_call *call);
void ll_carry_segment(ll_carry *carry, int i, const ll_segment *document);

#endif
