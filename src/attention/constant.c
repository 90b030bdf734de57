/* Sizes of constants, and their pointers in a config. */
#include "attention/constant.h"

#include <string.h>

size_t ll_constant_bytes(const ll_constant *b) {
    return (size_t)b->rows * (size_t)(b->cols ? b->cols : 1) * 4; /* of both types */
}

void *ll_constant_of(const ll_attention_config *c, const ll_constant *b) {
    void *x;
    memcpy(&x, (const char *)c + b->value, sizeof x);
    return x;
}

void ll_constant_set(ll_attention_config *c, const ll_constant *b, const void *x) {
    memcpy((char *)c + b->value, &x, sizeof x);
}
