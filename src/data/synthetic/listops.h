/* ListOps (Nangia and Bowman 2018): nested lists of digits, each with an operation. */
#ifndef LL_LISTOPS_H
#define LL_LISTOPS_H

#include "base/file.h"

enum { LL_LISTOPS_MIN = 10, LL_LISTOPS_MAX, LL_LISTOPS_MED, LL_LISTOPS_SM, LL_LISTOPS_END, LL_LISTOPS_VOCAB };

/* The tokens of an expression overwrite its text: digits are 0..9; then come the operations in the order above, and the
 * closing bracket. Round brackets only group and are left out. Returns the number of tokens; 0 if the text contains
 * anything else. */
size_t ll_listops_tokens(uint8_t *text, size_t size);
/* The text of one token; "" if there is no such token. */
const char *ll_listops_word(int token);
/* Its value, 0..9; -1: not an expression, or one that is nested deeper. O(n). */
enum { LL_LISTOPS_DEEPEST = 256 };
int ll_listops_value(const uint8_t *tokens, size_t n);

/* Parameters of the Long-Range Arena: depth 10, arguments 10, length 500 to 2000. */
typedef struct {
    int depth, arguments, least, most; /* most nesting, most arguments; least < tokens < most */
} ll_listops;

/* Draws expression number i of a seed: at most `most` tokens into `out`. Returns their number. */
int ll_listops_draw(uint8_t *out, const ll_listops *how, uint64_t seed, int64_t i);
/* The same as text in the form of the published files, "( ( ( [MAX 1 ) 2 ) ] )", without a zero at its end. Returns its
 * size. out NULL: only computes the size. */
size_t ll_listops_text(char *out, const uint8_t *tokens, size_t n);
/* Writes `count` expressions as TSV with the columns Source and Target. */
LL_MUST_USE ll_status ll_listops_write(const char *path, const ll_listops *how, int64_t count, uint64_t seed,
                                       ll_done_fn *progress, void *arg);

#endif
