/* ListOps (Nangia and Bowman 2018): nested lists of digits with an operation each. */
#ifndef LL_LISTOPS_H
#define LL_LISTOPS_H

#include "base/file.h"

enum { LL_LISTOPS_MIN = 10, LL_LISTOPS_MAX, LL_LISTOPS_MED, LL_LISTOPS_SM, LL_LISTOPS_END, LL_LISTOPS_VOCAB };

/* Tokens of an expression, written over its own text: digits are 0..9, then the operations in the order above, and the
 * bracket that closes. Round brackets, which only group, are left out. Returns how many tokens, 0: something else is in
 * it. */
size_t ll_listops_tokens(uint8_t *text, size_t size);
/* How one token is written; "" for what is none. */
const char *ll_listops_word(int token);
/* Its value, 0..9; -1: not an expression. O(n). */
int ll_listops_value(const uint8_t *tokens, size_t n);

/* Long-Range Arena's parameters: depth 10, arguments 10, length 500 to 2000. */
typedef struct {
    int depth, arguments, least, most; /* nesting; of an operation; tokens: more than least, fewer than most */
} ll_listops;

/* Expression number i of a seed: up to `most` tokens into `out`; returns how many. */
int ll_listops_draw(uint8_t *out, const ll_listops *how, uint64_t seed, int64_t i);
/* The same as text in the form of the published files, "( ( ( [MAX 1 ) 2 ) ] )", without a zero at its end; NULL out:
 * measures. Returns its size. */
size_t ll_listops_text(char *out, const uint8_t *tokens, size_t n);
/* Writes `count` of them as TSV with the names Source and Target. */
LL_MUST_USE ll_status ll_listops_write(const char *path, const ll_listops *how, int64_t count, uint64_t seed,
                                       ll_done_fn *progress, void *arg);

#endif
