/* Arrays of a config that do not train (buffers, in PyTorch's word): random draws, and decays. An operator keeps copies
 * of them. A model draws them once, and its file contains them, so that its meaning does not depend on the version of
 * the generator. Operators, models and files go through these lists. */
#ifndef LL_CONSTANT_H
#define LL_CONSTANT_H

#include <stddef.h>

#include "attention/feature/projection.h"
#include "base/safetensors.h"
#include "longline.h"

enum { LL_CONSTANTS = 6 }; /* of an operator, at most */

/* How a model draws the constants of one operator: they are functions of this and of the config. */
typedef struct {
    uint64_t seed;
    int layer;
    int64_t redraw; /* of the projection */
    ll_draw_kind kind;
    ll_row_norms norms;
    int long_cycles;                /* of permutations, else they are random */
    double decay_first, decay_last; /* of head 0 and behind the last one, as logits */
} ll_constant_draw;

typedef struct ll_constant {
    const char *name;    /* in files, after "attention." or "cross." */
    enum ll_dtype dtype; /* LL_F32, or LL_I32: rows are permutations of 0 .. cols - 1 */
    int rows, cols;      /* cols 0: a vector */
    size_t value;        /* offset of its pointer in ll_attention_config */
    /* NULL: the operator draws what is not given. */
    ll_status (*draw)(const ll_attention_config *c, const struct ll_constant *b, const ll_constant_draw *how, void *x);
} ll_constant;

/* The constants of a config's kernel and position: `list`, how many. Its pointers are not read. */
int ll_constants(const ll_attention_config *c, ll_constant list[LL_CONSTANTS]);
/* The one of this name; rows and cols are 0 if there is none. */
ll_constant ll_constant_named(const ll_attention_config *c, const char *name);

size_t ll_constant_bytes(const ll_constant *b);
void *ll_constant_of(const ll_attention_config *c, const ll_constant *b);
void ll_constant_set(ll_attention_config *c, const ll_constant *b, const void *x);

#define LL_CONSTANT_AT(field) offsetof(ll_attention_config, field)

#endif
